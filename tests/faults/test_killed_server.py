"""Redis killed (-9) in mid-run (R4): no entry is lost that it had accepted, and training goes on."""

import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from soulsgui.runner.services.outcome import RestartLimits
from tests.end_to_end.server import RunningServer, wait_for
from tests.faults.report import Report

STEPS, ENVS, CLIENTS = 256, 4, 2
WITHIN_S = 5.0
IN_A_ROW = RestartLimits().max_failures - 1


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    made = RunningServer(tmp_path)
    yield made
    made.close()


def _kill_redis(server: RunningServer, report: Report) -> float:
    """Kill it, wait until training goes on; return the seconds from its return to the next update."""
    old = server.pid("redis")
    assert old is not None
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: server.pid("redis") not in (None, old) and server.status().server.reachable, "redis")
    back, updates = time.monotonic(), server.status().run.updates
    wait_for(lambda: server.status().run.updates > updates, "training goes on")
    seconds = time.monotonic() - back
    report.injected("SIGKILL of Redis in mid-run")
    report.recovered(seconds)
    return seconds


def _kill_again_and_again(server: RunningServer, kills: int, report: Report) -> list[float]:
    rng = random.Random(3)
    overrides = {
        "stop.mean_return": None,
        "ppo.n_steps": STEPS,
        "env.num_envs": ENVS,
        "clients.local": CLIENTS,
    }
    server.start_run(overrides=overrides)
    server.wait_updates(3)
    before = server.status().run
    seconds = []
    for number in range(kills):
        if number and number % IN_A_ROW == 0:
            time.sleep(RestartLimits().healthy_s + 2)  # more in a row, and the runner rightly gives it up
        time.sleep(rng.uniform(0, 1.0))  # a kill comes at any moment
        seconds.append(_kill_redis(server, report))
    server.wait_updates(3)
    after = server.status().run
    report.lost(after.lost_chunks, "chunks by their numbers")
    assert after.attempt == before.attempt, "the trainer went through it"
    assert after.lost_chunks == 0
    # Nothing came twice, and no round was trained on without a step that one of its members had made.
    assert after.rejected == {}
    rounds, odd = divmod(after.env_steps, STEPS * ENVS * CLIENTS)
    assert odd == 0
    assert rounds in (after.updates, after.updates + 1), "the steps of an update are told before it"
    assert all(service.restarts == 0 for service in server.status().services if service.name != "redis")
    return seconds


def test_what_a_killed_server_had_accepted_is_trained_on(server: RunningServer, report: Report) -> None:
    _kill_again_and_again(server, 2, report)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_20_kills_of_the_server_lose_nothing(server: RunningServer, report: Report) -> None:
    seconds = _kill_again_and_again(server, 20, report)
    assert max(seconds) <= WITHIN_S
