"""Central inference, whole: its parts are killed or hang in mid-run."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.wire.control import ServiceStatus
from tests.end_to_end.server import RunningServer, wait_for
from tests.faults.report import Report

ENDLESS = {
    "stop.mean_return": None,
    "stop.judged_by": "training",
    "evaluation.every_updates": 0,
    "checkpoint.every_updates": 100,
    "checkpoint.with_buffer": True,
    "env.wrappers": ["tests.environments.toys:Unseeded"],
    "client.step_seconds": 0.02,  # leaves the cores to others
}


def _wait_steps(server: RunningServer, more: int) -> None:
    start = server.status().run.env_steps
    wait_for(lambda: server.status().run.env_steps > start + more, "steps of the next one")


def _served(server: RunningServer) -> ServiceStatus:
    return next(one for one in server.status().services if one.name == "inference-1")


def _made(server: RunningServer) -> int:
    clients = server.status().clients
    return sum(client.env_steps for client in clients if not client.id.startswith("inference"))


def _check_nothing_was_counted_twice(server: RunningServer) -> None:
    """Save all transitions that the trainer has, and check that they were made in different states."""
    told = server.api.command("checkpoint.save", {"buffer": True})["checkpoint"]
    memory = read_checkpoint(Path(told["path"])).memory
    assert memory["counters"][0] == told["env_steps"], "what is counted is in the memory"
    ends = memory["ends"]
    states = memory["obs"][np.arange(len(ends)) + np.cumsum(ends) - ends]  # behind an end there is one more
    assert len(np.unique(states, axis=0)) == len(states) == told["env_steps"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a run that goes on; every test leaves it so."""
    with closing(RunningServer(tmp_path_factory.mktemp("server"))) as running:
        running.start_run(preset="cartpole_seed", overrides=ENDLESS)
        yield running


def test_an_inference_server_that_hangs_is_waited_for_or_replaced(
    server: RunningServer, report: Report
) -> None:
    server.wait_updates(20)
    hanging = server.pid("inference-1")
    assert hanging is not None
    report.injected("SIGSTOP of the inference server for some seconds")
    os.kill(hanging, signal.SIGSTOP)
    wait_for(lambda: server.client_state("client-1") == "waiting", "a client that waits")
    os.kill(hanging, signal.SIGCONT)
    _wait_steps(server, 500)
    assert server.pid("inference-1") == hanging
    report.injected("SIGSTOP of the inference server for ever")
    stopped = time.monotonic()
    os.kill(hanging, signal.SIGSTOP)
    wait_for(lambda: _served(server).detail.startswith("no sign of life"), "a service that is told to hang")
    wait_for(lambda: server.pid("inference-1") not in (None, hanging), "another process in its place")
    _wait_steps(server, 500)
    report.recovered(time.monotonic() - stopped)
    assert "no sign of life" in _served(server).outcome
    assert set(server.status().run.rejected) <= {"late"}


def test_a_run_goes_on_when_any_part_is_killed_and_nothing_is_counted_twice(
    server: RunningServer, report: Report
) -> None:
    for _ in range(2):
        server.wait_updates(20)
        report.injected("SIGKILL of the inference server in mid-run")
        killed = time.monotonic()
        server.kill("inference-1")
        _wait_steps(server, 500)
        report.recovered(time.monotonic() - killed)
        _check_nothing_was_counted_twice(server)
    server.api.command("run.pause", {})
    wait_for(lambda: _made(server) >= server.status().run.env_steps, "beats that tell of every step")
    status = server.status().run
    assert set(status.rejected) <= {"late"}
    report.lost(lost := _made(server) - status.env_steps, "steps, of those that clients made")
    assert 0 <= lost < 500
    server.api.command("run.continue", {})
    for part in ("client-1", "redis", "trainer"):
        report.injected(f"SIGKILL of {part} in mid-run")
        killed = time.monotonic()
        server.kill(part)
        wait_for(lambda: server.status().server.reachable, "redis")
        server.wait_updates(20)
        report.recovered(time.monotonic() - killed)
        _check_nothing_was_counted_twice(server)
    # A trainer that was killed does not know all weights of the one before.
    assert set(server.status().run.rejected) <= {"late"}
