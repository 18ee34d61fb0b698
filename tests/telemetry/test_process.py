"""The node as the process it is: started, killed at any moment, started again, asked to stop."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.store import query_history
from soulsgui.wire.connection import Address
from soulsgui.wire.control import History, HistoryQueryParams
from tests.faults.waiting import LIMIT_S, until
from tests.telemetry.helpers import Stage, attempt_row, episode, make_run

_START = """
import sys
from pathlib import Path
from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.node import run_telemetry
from soulsgui.wire.connection import Address
{before}
sys.exit(run_telemetry(RunFolder(Path(sys.argv[1])), Address.read(Path(sys.argv[2]))))
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


def _history(run: RunFolder, **asked: str) -> History:
    return query_history(run.store, HistoryQueryParams(points=200_000, **asked))


def test_kills_between_two_steps_neither_lose_nor_double(run: RunFolder, stage: Stage) -> None:
    stage.join("a")
    stage.tell(attempt_row(1, env_steps=100, episodes=10))
    stage.play("a", *(episode(float(n)) for n in range(50)))
    # Between storing and acknowledging; then between acknowledging and telling the windows.
    for owner, method, left in (("EpisodeStreams", "acknowledge", 50), ("MetricsStream", "publish", 0)):
        die = _DIE_IN.format(module="streams", owner=owner, method=method)
        with _process(run, stage.address, die) as process:
            assert process.wait(LIMIT_S) != 0
        assert _history(run).row == list(range(1, 51))
        assert (stage.left("a"), stage.live_numbers()) == (left, [])
    stage.play("a", *(episode(float(n)) for n in range(50, 60)))
    with _process(run, stage.address):
        until(lambda: stage.live_numbers() == list(range(1, 61)), "every row told once")
    history = _history(run)
    assert history.value == [float(n) for n in range(60)]
    assert history.episode == list(range(11, 71))


def test_asked_to_stop_it_drains_draws_and_says_goodbye(tmp_path: Path, stage: Stage) -> None:
    run = make_run(tmp_path, evaluation={"every_updates": 0}, stop={"mean_return": 5.0, "window": 2})
    stage.join("a")
    with _process(run, stage.address) as process:
        stage.wait_state(lambda state: state.phase == "collecting", "at work")
        stage.play("a", *(episode(float(n)) for n in range(30)))
        assert psutil.Process(process.pid).memory_info().rss < 90e6
        stage.wait_state(lambda state: bool(state.verdict and state.verdict.reached), "the goal")
        stage.play("a", *(episode(99.0) for _ in range(2000)))
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    assert _history(run).row == list(range(1, 2031))
    assert stage.state().farewell == "2030 episodes stored"
    series = json.loads(run.series.read_text())
    assert series["episodes"]["columns"]["return"][-1] == 99.0
    assert run.figure.read_bytes().startswith(b"\x89PNG")
