"""Reading many beats at once: each under its client, whatever stands in the place of some."""

from typing import Any

import pytest
import redis

from soulsgui.wire.beats import (
    LATE_S,
    LOST_S,
    STALLED_S,
    BeatClock,
    BeatReader,
    ClientState,
    client_state,
    clients_of,
)
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import MAX_BYTES, Heartbeat
from soulsgui.wire.messages.session import Grant, Wish


def test_beats_are_read_in_order_whatever_stands_in_the_place_of_some(
    redis_client: redis.Redis, keys: Keys
) -> None:
    reader = BeatReader(keys)
    redis_client.set(keys.beat("a"), b"one")
    redis_client.lpush(keys.beat("b"), b"a list")
    redis_client.set(keys.beat("d"), bytes(5 * MAX_BYTES))
    names = ["a", "b", "c", "d"]
    for _ in range(2):
        assert reader.read(redis_client, names) == [b"one", b"", b"", bytes(MAX_BYTES + 1)]
    redis_client.set(keys.beat("c"), b"two")
    assert reader.read(redis_client, ["c", "a"]) == [b"two", b"one"]
    assert reader.read(redis_client, []) == []
    assert redis_client.ping()


def test_after_a_broken_connection_no_answer_is_taken_for_another(
    redis_client: redis.Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = BeatReader(keys)
    for name in "abc":
        redis_client.set(keys.beat(name), name)
    link = redis_client.connection_pool.get_connection()
    redis_client.connection_pool.release(link)
    answers = iter([b"a"])

    def broken() -> bytes:
        try:
            return next(answers)
        except StopIteration:
            raise redis.ConnectionError("gone") from None

    with monkeypatch.context() as patched:
        patched.setattr(link, "read_response", broken)
        with pytest.raises(redis.ConnectionError):
            reader.read(redis_client, ["a", "b", "c"])
    assert reader.read(redis_client, ["c", "b"]) == [b"c", b"b"]


@pytest.mark.parametrize(("supervised", "expected"), [("1", ["listed"]), ("", ["beats", "listed"])])
def test_without_a_runner_everybody_who_beats_is_there(
    supervised: str,
    expected: list[str],
    redis_client: redis.Redis,
    keys: Keys,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOULSGUI_SUPERVISED", supervised)
    redis_client.hset(keys.clients, "listed", "{}")
    for name in ("beats", "no name", "con"):
        redis_client.set(keys.beat(name), "{}")
    redis_client.set(keys.grant("another"), "{}")
    assert clients_of(redis_client, keys) == expected


HOUR = 3600.0


def _beat(counter: int = 1, **fields: Any) -> Heartbeat:
    return Heartbeat(client="c", instance=Instance(), counter=counter, **fields)


@pytest.mark.parametrize(
    ("age_s", "state"),
    [
        (0, ClientState.ONLINE),
        (LATE_S, ClientState.ONLINE),
        (LATE_S + 0.1, ClientState.LATE),
        (LOST_S, ClientState.LATE),
        (LOST_S + 0.1, ClientState.LOST),
    ],
)
def test_silent_clients_are_late_then_lost_but_for_a_goodbye(age_s: float, state: ClientState) -> None:
    assert client_state(_beat(phase="sampling"), age_s) == state
    assert client_state(_beat(leaving=True), age_s) == ClientState.LEFT


@pytest.mark.parametrize(
    ("fields", "grant", "wish", "state"),
    [
        ({"phase": "joining"}, None, None, ClientState.JOINING),
        ({"phase": "waiting"}, None, None, ClientState.WAITING),
        ({"phase": "paused"}, None, None, ClientState.PAUSED),
        ({"phase": "finishing"}, None, None, ClientState.DRAINING),
        ({"phase": "stopping"}, None, None, ClientState.DRAINING),
        ({"phase": "sampling"}, None, "stop", ClientState.DRAINING),
        ({"phase": "sampling"}, None, "pause", ClientState.ONLINE),
        ({"phase": "restarting"}, None, "finish", ClientState.DRAINING),
        ({"phase": "paused"}, None, "stop", ClientState.PAUSED),
        ({"phase": "sampling", "session": "1-0"}, "quarantined", None, ClientState.QUARANTINED),
        ({"phase": "sampling", "session": "1-0"}, "refused", None, ClientState.REFUSED),
        ({"phase": "sampling", "session": "2-0"}, "refused", None, ClientState.ONLINE),
        ({"phase": "sampling", "leaving": True}, "quarantined", None, ClientState.LEFT),
    ],
)
def test_state_follows_from_beat_grant_and_wish(
    fields: dict[str, Any], grant: Any, wish: Any, state: ClientState
) -> None:
    granted = Grant(session="1-0", status=grant) if grant else None
    wanted = Wish(command_id="x", state=wish) if wish else None
    assert client_state(_beat(**fields), 0, granted, wanted) == state


@pytest.mark.parametrize("step_s", [HOUR, -HOUR], ids=["forward", "back"])
def test_stepped_clock_of_the_server_changes_nothing(step_s: float) -> None:
    clock = BeatClock()
    clock.observe(_beat(1), 0.4, now=100)
    for second in range(1, 5):
        # The server's clock was stepped: the ages it tells are an hour wrong from now on.
        clock.observe(_beat(1 + second), 0.4 + step_s, now=100 + second)
        assert clock.age_s("c", 100 + second) == 0
    clock.observe(_beat(5), 0.4 + step_s, now=111)
    assert clock.age_s("c", 111) == 7


def test_age_at_first_sight_is_the_servers_and_never_negative() -> None:
    clock = BeatClock()
    clock.observe(_beat(1), 12, now=50)
    assert clock.age_s("c", 50) == 12
    clock.observe(_beat(2), HOUR, now=51)
    assert clock.age_s("c", 51) == 0, "from the next beat on it is our own clock's"
    clock.forget("c")
    assert clock.age_s("c", 50) is None
    clock.observe(_beat(1), -HOUR, now=50)
    assert clock.age_s("c", 50) == 0


def test_clients_that_beat_but_do_not_step_are_stalled() -> None:
    clock = BeatClock()
    for second in range(40):
        clock.observe(_beat(second, env_steps=min(second, 10)), 0, now=second)
        assert clock.stalled("c", second) == (second > 10 + STALLED_S)
    assert not clock.stalled("unknown", 0)


def test_time_in_which_nobody_could_be_heard_is_left_out() -> None:
    clock = BeatClock()
    clock.observe(_beat(1, env_steps=1), 2, now=100)
    clock.leave_out(60)
    assert clock.age_s("c", 163) == 5
    assert [clock.stalled("c", 160 + STALLED_S + more) for more in (0, 1)] == [False, True]
