"""Clocks that are wrong by an hour, or stepped while everything runs (R20): no effect."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import redis

from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from tests.faults.proxy import Proxy
from tests.faults.report import Report
from tests.faults.server import faulty_server
from tests.faults.waiting import until
from tests.sampling.free_trainer import playing_client
from tests.training.nodes import dqn_settings, running_node, settings_of

HOUR = 3600.0


@pytest.fixture
def step_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the wall clock of this process forward or back, by seconds from the true time."""
    true_time = time.time
    return lambda seconds: monkeypatch.setattr(time, "time", lambda: true_time() + seconds)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_stepped_clocks_of_trainer_and_client_change_nothing(
    redis_address: Address,
    redis_client: redis.Redis,
    keys: Keys,
    tmp_path: Path,
    step_clock: Callable[[float], None],
    report: Report,
    algorithm: str,
) -> None:
    step_clock(HOUR)
    redis_client.hset(keys.clients, "c", "{}")
    settings = settings_of(algorithm, client__segment_seconds=0.01)
    with playing_client(redis_address) as client, running_node(redis_address, tmp_path, settings) as node:
        sessions = set()
        for stepped_to in (0.0, -HOUR, HOUR):
            updates = node.wait_for_updates(1).updates
            sessions.add(client.progress.session)
            redis_client.delete(keys.beat("c"))
            step_clock(stepped_to)
            node.wait_for_updates(updates + 3)
            until(lambda: redis_client.exists(keys.beat("c")), "it beats on")
        missing = node.node.attempt.intake.sessions.refusals().missing
        assert sessions == {client.progress.session}
        assert (node.node.state().rejected, client.progress.dropped, missing) == ({}, 0, 0)
    report.injected("the clocks of trainer and client wrong by an hour, stepped three times")
    report.lost(0, "steps or chunks")


@pytest.mark.allow_warnings
def test_clients_play_on_when_a_server_without_its_data_comes_back_an_hour_earlier(
    tmp_path: Path, report: Report
) -> None:
    """Entry ids begin with the server's clock: those of the new session are smaller than the older ones."""
    with faulty_server(tmp_path) as server:
        connection = connect(server.address)
        keys = Keys(server.address.prefix)
        ahead = int((time.time() + HOUR) * 1000)
        connection.xadd(keys.chunks("c"), {"x": "the server's clock is an hour ahead"}, id=f"{ahead}-0")
        connection.hset(keys.clients, "c", "{}")
        with (
            closing(Proxy(server.address)) as trainers_way,
            running_node(trainers_way.address, tmp_path, dqn_settings()) as node,
            playing_client(server.address) as client,
        ):
            node.wait_for(lambda state: state.env_steps > 100, "samples")
            older = client.progress.session
            assert older.startswith(f"{ahead}-")
            trainers_way.stall()  # it would make the stream, and the client's hello begin that where it was
            server.restart()
            back = time.monotonic()
            until(lambda: client.progress.session not in ("", older), "another session")
            connection.hset(keys.clients, "c", "{}")
            trainers_way.flow()
            assert int(client.progress.session.partition("-")[0]) < ahead
            taken = node.wait_for(lambda state: True, "its state").env_steps
            state = node.wait_for(lambda now: now.env_steps > taken + 200, "samples of the new session")
            report.injected("the server's data lost, its clock stepped back by an hour")
            report.recovered(time.monotonic() - back)
            assert client.failure is None
            assert state.rejected == {}, "the entry above was there before the trainer"
        connection.close()
