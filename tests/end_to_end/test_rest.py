"""Between two runs clients rest, also those that wait for nobody while one goes on; nobody restarts them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from soulsgui.wire.control import ClientStatus
from tests.end_to_end.server import RunningServer, wait_for

OVERRIDES = {"stop.mean_return": None, "client.when_full": "drop_oldest"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    made = RunningServer(tmp_path)
    yield made
    made.close()


def _guest(server: RunningServer) -> ClientStatus:
    return next(client for client in server.status().clients if client.id == "guest")


def _plays(server: RunningServer) -> bool:
    found = [client for client in server.status().clients if client.id == "guest"]
    return bool(found) and found[0].state == "online" and found[0].env_steps > 0


@pytest.mark.slow  # `test_round_shares` tells the same of a client alone
def test_a_client_that_drops_rests_after_the_run_and_plays_when_it_goes_on(server: RunningServer) -> None:
    server.start_run(preset="cartpole_dqn", overrides={**OVERRIDES, "clients.local": 1})
    process = server.spawn("client", "--name", "guest")
    wait_for(lambda: _plays(server), "it plays")
    server.api.command("run.stop")
    wait_for(lambda: _guest(server).state == "waiting", "it waits for a run")
    made = _guest(server).env_steps
    connection = server.redis()
    beat = connection.get("souls:beat:guest")
    wait_for(lambda: connection.get("souls:beat:guest") != beat, "it beats")
    beat = connection.get("souls:beat:guest")
    wait_for(lambda: connection.get("souls:beat:guest") != beat, "it goes on beating")
    connection.close()
    assert _guest(server).env_steps == made, "it makes no steps for nobody"
    server.api.command("run.resume", {})
    wait_for(lambda: _plays(server) and _guest(server).env_steps > made, "it plays on")
    server.api.command("run.stop")
    wait_for(lambda: _guest(server).state == "waiting", "it waits again")
    made = _guest(server).env_steps
    server.start_run(preset="cartpole_dqn", overrides={**OVERRIDES, "clients.local": 1})
    wait_for(lambda: _plays(server) and _guest(server).env_steps > made, "it plays for another run, too")
    assert process.poll() is None, "all in one process"
