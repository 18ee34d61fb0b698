"""Clocks that are wrong by an hour, or stepped while everything runs (R20): no effect."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from soulsgui.sampling import heartbeat as identity
from soulsgui.sampling.heartbeat import ensure_name_is_free
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from tests.faults.report import Report
from tests.faults.server import faulty_server
from tests.faults.waiting import until
from tests.sampling.free_trainer import beat_of, playing_client
from tests.training.nodes import dqn_settings, running_node, settings_of

HOUR = 3600.0


@pytest.fixture
def step_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the wall clock of this process forward or back, by seconds from the true time."""
    true_time = time.time
    wrong_by = [0.0]
    monkeypatch.setattr(time, "time", lambda: true_time() + wrong_by[0])

    def step(seconds: float) -> None:
        wrong_by[0] = seconds

    return step


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
            beat = beat_of(redis_client, keys)
            step_clock(stepped_to)
            node.wait_for_updates(updates + 3)

            def beats(seen: int = beat.counter if beat is not None else 0) -> bool:
                now = beat_of(redis_client, keys)
                return now is not None and now.counter > seen

            until(beats, "it beats on")
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
            running_node(server.address, tmp_path, dqn_settings()) as node,
            playing_client(server.address) as client,
        ):
            node.wait_for(lambda state: state.env_steps > 100, "samples")
            older = client.progress.session
            assert older.startswith(f"{ahead}-")
            server.restart()
            back = time.monotonic()
            connection.hset(keys.clients, "c", "{}")
            until(lambda: client.progress.session not in ("", older), "another session")
            assert int(client.progress.session.partition("-")[0]) < ahead
            taken = node.wait_for(lambda state: True, "its state").env_steps
            state = node.wait_for(lambda now: now.env_steps > taken + 200, "samples of the new session")
            report.injected("the server's data lost, its clock stepped back by an hour")
            report.recovered(time.monotonic() - back)
            assert client.failure is None
            assert state.rejected == {}, "the entry above was there before the trainer"
        connection.close()


@pytest.mark.parametrize("ahead_s", [HOUR, -HOUR, 0.0], ids=["ahead", "behind", "right"])
def test_the_age_of_a_beat_is_believed_only_where_the_beat_stands_still(
    redis_client: redis.Redis,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
    ahead_s: float,
    report: Report,
) -> None:
    """The server's clock was stepped since the beat was written: its expiry tells a wrong age."""
    monkeypatch.setattr(identity, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(identity, "_WATCH_S", 0.1)
    other = own_instance().model_copy(update={"host": f"pc-{random.randrange(10**6)}"})
    beat = Heartbeat(client="c", instance=other, counter=1)
    redis_client.set(keys.beat("c"), beat.to_json(), px=round((EXPIRY_S + min(ahead_s, EXPIRY_S - 1)) * 1000))
    ensure_name_is_free(redis_client, keys, "c", own_instance(), threading.Event())
    report.injected(f"a beat whose age the server tells wrong by {ahead_s:g} s")
