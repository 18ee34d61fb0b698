"""Environments that raise, hang, slow down or leak, in a client of its own process (R28)."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

import soulsgui
from soulsgui.process import SUPERVISED_ENV
from soulsgui.wire.connection import Address
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
        self.node, self.process, self.log = node, process, log

    @property
    def beat(self) -> Heartbeat:
        data = self.node.connection.get(self.node.keys.beat("c"))
        beat = Heartbeat.read(data if isinstance(data, bytes) else None)
        assert beat is not None
        return beat

    def until_failed(self, words: str) -> Heartbeat:
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
def play(redis_address: Address, tmp_path: Path) -> Iterator[Play]:
    """Starts a trainer and a client, whose process is killed at the end."""
    log, file = tmp_path / "client.log", tmp_path / "redis.json"
    redis_address.write(file)
    env = os.environ | {"PYTHONPATH": str(ROOT), HOOKED: str(tmp_path / "hooked")}
    with ExitStack() as running:

        def start(game: str, supervised: bool = False, **changed: Any) -> Playing:
            settings = small_settings(
                env__id=f"tests.faults.bad_games:{game}-v0",
                env__kwargs={"wrong_at": 50, "once": str(tmp_path / "was_wrong")},
                env__num_envs=1,
                ppo__round_timeout=1.0,
                **changed,
            )
            node = running.enter_context(running_node(redis_address, tmp_path / "run", settings))
            node.connection.hset(node.keys.clients, "c", "{}")
            output = running.enter_context(log.open("ab"))
            words = [sys.executable, "-m", "soulsgui", "client", "--server-file", str(file), "--name", "c"]
            told = env | (SUPERVISED_ENV if supervised else {})
            process = running.enter_context(subprocess.Popen(words, env=told, stderr=output))
            running.callback(process.kill)
            return Playing(node, process, log)

        yield start


LIMIT = 400 * 2**20
HANGS, LEAKS = {"client__hang_seconds": 3.0}, {"client__max_memory": LIMIT}
SLOW = {"client__min_steps_per_s": 20.0, "client__hang_seconds": 2.0}
HOOK = {"client__restart_hook": "tests.faults.bad_games:start_the_game"}
WORKER = {"client__workers": 1}
CRASHED = 'RuntimeError("the game has crashed")'


@pytest.mark.parametrize(
    ("game", "changed", "words", "told"),
    [
        ("BadRaises", HOOK, "The environment raised in a step: RuntimeError: the game has crashed", CRASHED),
        ("BadHangs", HANGS, "The environment hangs: a step takes longer than 3 s.", "time.sleep(100_000)"),
        ("BadLeaks", LEAKS, "The environment uses too much memory", "more than the 400 of client.max_memory"),
        ("BadSlow", SLOW, "The environment is too slow", "below the 20 of client.min_steps_per_s"),
        ("BadHangs", WORKER | HANGS, "a step takes longer than 3 s", "time.sleep(100_000)"),
        pytest.param("BadQuits", {}, "SystemExit: 3", "raise SystemExit(3)", marks=pytest.mark.slow),
        pytest.param("BadRaises", WORKER, "the game has crashed", CRASHED, marks=pytest.mark.slow),
        pytest.param("BadLeaks", WORKER | LEAKS, "uses too much memory", "", marks=pytest.mark.slow),
    ],
)
def test_a_game_that_goes_wrong_is_made_anew_and_what_happened_is_told(
    play: Play, report: Report, tmp_path: Path, game: str, changed: dict[str, Any], words: str, told: str
) -> None:
    report.injected(
        f"an environment{' in a process of its own' if WORKER.items() <= changed.items() else ''}: {words}"
    )
    playing = play(game, **changed)
    failed = playing.until_failed(words)
    assert told in failed.error + failed.error_details
    assert failed.env_restarts == 1
    playing.until_it_plays_on(playing.node.node.agent.updates, report)
    if changed in (HANGS, LEAKS):  # only another process mends it
        until(lambda: playing.beat.session > failed.session, "a new session of a new process")
        assert words in playing.log.read_text()
    else:
        assert (playing.beat.session, playing.beat.instance) == (failed.session, failed.instance)
    # What happened is still told, also by a process that came after.
    assert (playing.beat.error, playing.beat.env_restarts) == (failed.error, 1)
    process = psutil.Process(playing.process.pid)
    assert process.memory_info().rss < LIMIT / 2
    assert len(process.children()) == changed.get("client__workers", 0), "the bad one is gone"
    hooked = tmp_path / "hooked"
    assert (hooked.read_text() if hooked.exists() else "") == ("started\n" if changed == HOOK else "")


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


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("tests.faults.bad_games:start_the_gam", "The nearest known name is start_the_game"),
        ("faulthandler:disable", "faulthandler:disable is not marked as a hook, so it is not called."),
        ("unittest.mock:call", "unittest.mock:call is not marked as a hook, so it is not called."),
    ],
)
def test_a_restart_hook_that_is_none_is_told_at_once(play: Play, hook: str, said: str) -> None:
    playing = play("BadRaises", client__restart_hook=hook)
    assert playing.process.wait(LIMIT_S) == 2
    assert said in playing.log.read_text()
