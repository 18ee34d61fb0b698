"""The trainer's view of the clients: who is silent, and who only could not be heard."""

from types import SimpleNamespace

import pytest
import redis

from soulsgui.training import roster
from soulsgui.training.session import Session
from soulsgui.wire.fleet import LATE_S
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat

KEYS = Keys("souls:")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The roster's clock: stands still until `now` is set."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(roster, "time", clock)
    return clock


def test_only_a_client_that_could_have_been_heard_is_silent(
    redis_client: redis.Redis, clock: SimpleNamespace
) -> None:
    beat = Heartbeat(client="c", instance=Instance(), counter=1, session="1-0", phase="sampling")
    redis_client.hset(KEYS.clients, "c", "{}")
    redis_client.set(KEYS.beat("c"), beat.to_json(), px=int(EXPIRY_S * 1000))
    session, seen = Session("c", "1-0", 1, began_at=clock.now), roster.Roster(KEYS)
    seen.read(redis_client)
    clock.now += LATE_S - 1
    seen.read(redis_client)

    clock.now += 60  # the server was away
    seen.start_over()
    seen.read(redis_client)
    assert seen.why_not(session) == ""
    clock.now += 2  # since it is back, it could have been heard
    seen.read(redis_client)
    assert seen.why_not(session) == "silent"
