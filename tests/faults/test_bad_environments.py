"""Environments that raise, hang, slow down or leak, in a client of its own process (R28)."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

import soulsgui
from soulsgui.process import SUPERVISED_ENV
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from tests.faults.bad_games import HOOKED
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S, until
from tests.training.nodes import RunningNode, running_node, small_settings

ROOT = Path(soulsgui.__file__).parents[1]

Play = Callable[..., "Playing"]

pytestmark = pytest.mark.allow_warnings


class Playing:
    """A trainer, and a client that plays a bad game."""

    def __init__(self, node: RunningNode, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.node = node
        self.process = process
        self.log = log

    @property
    def beat(self) -> Heartbeat:
        """The client's newest beat."""
        data = self.node.connection.get(self.node.keys.beat("c"))
        beat = Heartbeat.read(data if isinstance(data, bytes) else None)
        assert beat is not None
        return beat

    def until_failed(self, words: str) -> Heartbeat:
        """Wait until a beat tells of a failure, and return it."""
        self.node.wait_for_updates(1)
        until(lambda: words in self.beat.error, f"{words}: {self.log}")
        return self.beat

    def until_it_plays_on(self, updates: int, report: Report) -> None:
        """Wait until the run goes on with what the client plays; note how long that took."""
        began, before = time.monotonic(), self.node.told()
        until(lambda: self.beat.phase in ("sampling", "waiting"), f"it plays: {self.log}")
        self.node.wait_for_updates(updates + 1)
        report.recovered(time.monotonic() - began)
        self.node.wait_for_updates(updates + 3)
        # Whoever is being mended is out of the round: what it had made for it may come late, nothing else.
        rejected = self.node.told().rejected
        assert set(rejected) <= {"late"}
        report.lost(rejected.get("late", 0) - before.rejected.get("late", 0), "segments that came late")


@pytest.fixture
def play(
    redis_address: Address, redis_client: redis.Redis, keys: Keys, tmp_path: Path
) -> Iterator[Callable[..., Any]]:
    """Starts a trainer and a client; what is still running at the end is killed."""
    processes: list[subprocess.Popen[bytes]] = []
    contexts = []
    log = tmp_path / "client.log"

    def start(game: str, supervised: bool = False, wrong_at: int = 50, **changed: Any) -> Playing:
        redis_client.hset(keys.clients, "c", "{}")
        redis_address.write(tmp_path / "redis.json")
        once = str(tmp_path / "was_wrong")
        settings = small_settings(
            env__id=f"tests.faults.bad_games:{game}-v0",
            env__kwargs={"wrong_at": wrong_at, "once": once},
            env__num_envs=1,
            ppo__round_timeout=1.0,
            **changed,
        )
        context = running_node(redis_address, tmp_path / "run", settings)
        contexts.append(context)
        node = context.__enter__()
        places = ["--server-file", str(tmp_path / "redis.json"), "--name", "c"]
        env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", HOOKED: str(tmp_path / "hooked")}
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "soulsgui", "client", *places],
                env=env | (SUPERVISED_ENV if supervised else {}),
                stderr=output,
            )
        processes.append(process)
        return Playing(node, process, log)

    yield start
    for process in processes:
        process.kill()
        process.wait()
    for context in contexts:
        context.__exit__(None, None, None)


HOOK = "tests.faults.bad_games:start_the_game"


@pytest.mark.parametrize(
    ("game", "words", "line", "hook"),
    [
        ("BadRaises", "RuntimeError: the game has crashed", 'RuntimeError("the game has crashed")', HOOK),
        ("BadQuits", "SystemExit: 3", "raise SystemExit(3)", ""),
    ],
)
def test_a_game_that_raises_is_made_anew_by_the_restart_hook_and_its_traceback_told(
    play: Play, report: Report, tmp_path: Path, game: str, words: str, line: str, hook: str
) -> None:
    report.injected(f"an environment that raises{', with a restart hook' if hook else ''}: {words}")
    playing = play(game, client__restart_hook=hook)
    failed = playing.until_failed(f"The environment raised in a step: {words}")
    assert "bad_games.py" in failed.error_details
    assert line in failed.error_details
    assert failed.env_restarts == 1
    playing.until_it_plays_on(playing.node.node.agent.updates, report)
    after = playing.beat
    assert (after.session, after.instance) == (failed.session, failed.instance)  # the process lived on
    assert after.env_restarts == 1
    hooked = tmp_path / "hooked"
    assert (hooked.read_text() if hooked.exists() else "") == ("started\n" if hook else "")


def test_a_game_that_hangs_is_killed_with_its_process_and_played_anew(play: Play, report: Report) -> None:
    report.injected("an environment that hangs, found after 1 s")
    playing = play("BadHangs", client__hang_seconds=1.0)
    failed = playing.until_failed("The environment hangs: a step takes longer than 1 s.")
    assert "time.sleep(100_000)" in failed.error_details
    updates = playing.node.node.agent.updates
    playing.until_it_plays_on(updates, report)
    until(lambda: playing.beat.session > failed.session, "a new session of a new process")
    # What happened is still told, by the process that came after.
    assert (playing.beat.error, playing.beat.env_restarts) == (failed.error, 1)
    assert "hangs" in playing.log.read_text()


def test_a_supervised_client_ends_with_an_error_for_its_runner_to_start_it_again(
    play: Play, report: Report
) -> None:
    report.injected("an environment that hangs in a client that a runner started")
    playing = play("BadHangs", supervised=True, client__hang_seconds=1.0)
    playing.until_failed("The environment hangs")
    assert playing.process.wait(LIMIT_S) == 1
    beat = playing.beat
    assert (beat.phase, beat.leaving) == ("restarting", False)
    assert "time.sleep(100_000)" in beat.error_details


def test_a_game_that_leaks_is_ended_with_its_process_and_played_anew(play: Play, report: Report) -> None:
    report.injected("an environment that loses 16 MB at each step, found at 400 MB")
    limit = 400 * 2**20
    playing = play("BadLeaks", client__max_memory=limit)
    failed = playing.until_failed("The environment uses too much memory")
    assert "more than the 400 of client.max_memory" in failed.error
    updates = playing.node.node.agent.updates
    playing.until_it_plays_on(updates, report)
    until(lambda: playing.beat.session > failed.session, "a new session of a new process")
    assert psutil.Process(playing.process.pid).memory_info().rss < limit / 2


def test_a_game_that_gets_slow_is_made_anew(play: Play, report: Report) -> None:
    report.injected("an environment that becomes slow")
    playing = play("BadSlow", client__min_steps_per_s=20.0, client__hang_seconds=2.0)
    failed = playing.until_failed("The environment is too slow")
    assert "below the 20 of client.min_steps_per_s" in failed.error
    playing.until_it_plays_on(playing.node.node.agent.updates, report)
    assert playing.beat.env_restarts == 1


def test_a_restart_hook_that_is_not_there_is_told_at_once(play: Play) -> None:
    playing = play("BadRaises", client__restart_hook="tests.faults.bad_games:start_the_gam")
    assert playing.process.wait(LIMIT_S) == 2
    assert "The nearest known name is start_the_game" in playing.log.read_text()


def test_steps_that_miss_the_clock_are_counted_in_the_beat(play: Play) -> None:
    playing = play("BadSlow", wrong_at=20, client__step_seconds=0.05)
    playing.node.wait_for_updates(1)
    until(lambda: playing.beat.late_steps >= 3, "late steps")
    assert playing.beat.late_steps < playing.beat.env_steps
    assert (playing.beat.step_ms or 0) > 1


@pytest.mark.parametrize(
    ("game", "words", "line", "changed"),
    [
        ("BadRaises", "RuntimeError: the game has crashed", "the game has crashed", {}),
        ("BadHangs", "a step takes longer than 1 s", "time.sleep(100_000)", {"client__hang_seconds": 1.0}),
        ("BadLeaks", "uses too much memory", "", {"client__max_memory": 500 * 2**20}),
    ],
)
def test_workers_are_mended_without_an_end_of_the_client(
    play: Play, report: Report, game: str, words: str, line: str, changed: dict[str, Any]
) -> None:
    report.injected(f"an environment in a process of its own: {words}")
    playing = play(game, client__workers=1, **changed)
    failed = playing.until_failed(words)
    assert line in failed.error_details
    playing.until_it_plays_on(playing.node.node.agent.updates, report)
    after = playing.beat
    assert (after.session, after.instance, after.env_restarts) == (failed.session, failed.instance, 1)
    assert len(psutil.Process(playing.process.pid).children()) == 1, "the bad one is gone"
