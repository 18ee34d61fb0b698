"""The node as the process it is: started, killed at any moment, started again, asked to stop."""

import json
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.recorder import Recorder
from soulsgui.telemetry.store import query_history
from soulsgui.wire.connection import Address
from soulsgui.wire.control import HistoryQueryParams
from tests.faults.waiting import LIMIT_S
from tests.telemetry.helpers import (
    RUN_ID,
    Stage,
    arrivals,
    attempt_row,
    episode,
    eventually,
    make_run,
    update_row,
)

_START = """
import sys
from pathlib import Path
from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.node import run_telemetry
from soulsgui.wire.connection import Address
{before}
sys.exit(run_telemetry(RunFolder(Path(sys.argv[1])), Address.read(Path(sys.argv[2]))))
"""

_NO_FIGURE = """
from soulsgui.telemetry import node
from tests.telemetry.helpers import NoDrawing
node.Drawing = NoDrawing
"""

_DIE_IN = """
import psutil
from soulsgui.telemetry.{module} import {owner}
def die(*_):
    psutil.Process().kill()
{owner}.{method} = die
"""


@contextmanager
def _process(run: RunFolder, address: Address, before: str = "") -> "Iterator[subprocess.Popen[bytes]]":
    file = run.root / "address.json"
    address.write(file)
    command = [sys.executable, "-c", _START.format(before=before), str(run.root), str(file)]
    process = subprocess.Popen(command)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _last_row(run: RunFolder) -> int:
    return query_history(run.store, HistoryQueryParams(points=1)).last_row


def _rows(run: RunFolder) -> list[int]:
    return query_history(run.store, HistoryQueryParams(points=200_000)).row


@pytest.mark.parametrize(
    ("module", "owner", "method"),
    [("streams", "EpisodeStreams", "acknowledge"), ("streams", "MetricsStream", "publish")],
    ids=["between storing and acknowledging", "between acknowledging and telling the windows"],
)
def test_a_kill_between_two_steps_neither_loses_nor_doubles(
    run: RunFolder, redis_address: Address, stage: Stage, module: str, owner: str, method: str
) -> None:
    stage.join("a")
    stage.tell(attempt_row(1, env_steps=100, episodes=10))
    stage.play("a", *(episode(float(n)) for n in range(50)))
    with _process(run, redis_address, _DIE_IN.format(module=module, owner=owner, method=method)) as process:
        assert process.wait(LIMIT_S) != 0
    assert _rows(run) == list(range(1, 51))
    assert stage.live_numbers() == []
    stage.play("a", *(episode(float(n)) for n in range(50, 60)))
    with _process(run, redis_address):
        eventually(lambda: stage.live_numbers() == list(range(1, 61)), "every row told once")
    history = query_history(run.store, HistoryQueryParams(points=200_000))
    assert history.value == [float(n) for n in range(60)]
    assert history.episode == list(range(11, 71))


def test_kills_at_random_moments_neither_lose_nor_double(
    run: RunFolder, redis_address: Address, stage: Stage
) -> None:
    rng = random.Random(7)
    clients = ["a", "b", "c"]
    stage.join(*clients)
    sent = dict.fromkeys(clients, 0)
    stop = threading.Event()

    def play() -> None:
        while not stop.wait(0.01):
            for client in clients:
                number = rng.randint(1, 40)
                returns = range(sent[client], sent[client] + number)
                stage.play(client, *(episode(float(n), n % 9 + 1) for n in returns))
                sent[client] += number

    players = threading.Thread(target=play)
    players.start()
    try:
        for kills in range(2):
            before = _last_row(run)
            with _process(run, redis_address):
                eventually(lambda least=before: _last_row(run) > least, f"progress after {kills} kills")
                threading.Event().wait(rng.uniform(0.0, 0.1))
    finally:
        stop.set()
        players.join()
    total = sum(sent.values())
    with _process(run, redis_address):
        eventually(lambda: stage.live_numbers()[-1:] == [total], "everything told")
    assert stage.live_numbers() == list(range(1, total + 1))
    for client in clients:
        values = query_history(run.store, HistoryQueryParams(client=client, points=200_000)).value
        assert values == [float(n) for n in range(sent[client])]
    _assert_as_if_never_killed(run)


def _assert_as_if_never_killed(run: RunFolder) -> None:
    """Axes, means and the best are those of one uninterrupted recorder given the same episodes."""
    history = query_history(run.store, HistoryQueryParams(points=200_000))
    again = run.root / "again.sqlite"
    recorder = Recorder(again, RUN_ID, 20, None)
    episodes = (episode(value, int(value) % 9 + 1) for value in history.value)
    recorder.record([], arrivals(*episodes), recorder.cursor, 0.0)
    recorder.close()
    expected = query_history(again, HistoryQueryParams(metric="mean_return", points=200_000))
    found = query_history(run.store, HistoryQueryParams(metric="mean_return", points=200_000))
    assert (found.value, found.env_steps, found.episode) == (
        expected.value,
        expected.env_steps,
        expected.episode,
    )


def test_asked_to_stop_it_drains_draws_and_says_goodbye(
    tmp_path: Path, redis_address: Address, stage: Stage
) -> None:
    run = make_run(tmp_path, evaluation={"every_updates": 0}, stop={"mean_return": 5.0, "window": 2})
    stage.join("a")
    with _process(run, redis_address) as process:
        stage.wait_state(lambda state: state.phase == "collecting", "at work")
        stage.play("a", *(episode(float(n)) for n in range(30)))
        assert psutil.Process(process.pid).memory_info().rss < 90e6
        stage.wait_state(lambda state: bool(state.verdict and state.verdict.reached), "the goal")
        stage.play("a", episode(99.0))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert _rows(run) == list(range(1, 32))
    state = stage.state()
    assert state is not None
    assert state.farewell == "31 episodes stored"
    series = json.loads(run.series.read_text())
    assert series["episodes"]["columns"]["return"][-1] == 99.0
    assert run.figure.read_bytes().startswith(b"\x89PNG")


def test_a_kill_when_a_claim_is_answered_asks_again(
    tmp_path: Path, redis_address: Address, stage: Stage
) -> None:
    run = make_run(tmp_path, stop={"mean_return": 5.0, "window": 2})
    stage.join("a")

    def answer(claim: int) -> None:
        confirmed = update_row(claim, evaluation_return=6.0)
        stage.tell(confirmed.model_copy(update={"kind": "evaluation", "confirms": claim}))

    def asked(claim: int) -> None:
        stage.wait_state(
            lambda state: state.verdict is not None and state.verdict.to_confirm == claim, f"it asks {claim}"
        )

    die = _DIE_IN.format(module="recorder", owner="Recorder", method="_judge")
    with _process(run, redis_address, die) as process:
        stage.play("a", episode(5.0), episode(5.0))
        asked(2)
        answer(2)
        assert process.wait(LIMIT_S) != 0
    with _process(run, redis_address):
        stage.play("a", episode(5.0))
        asked(3)
        answer(3)
        stage.wait_state(lambda state: state.verdict is not None and state.verdict.reached, "the goal")


def test_it_waits_for_a_server_that_is_not_there_and_ends_when_asked(
    run: RunFolder, redis_address: Address
) -> None:
    nowhere = Address(redis_address.host, 1)
    with _process(run, nowhere, _NO_FIGURE) as process:
        eventually(run.store.exists, "the store")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
