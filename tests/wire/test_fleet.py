"""The state of each client, told from its beats; no clock but the reader's own has a say."""

from typing import Any

import pytest

from soulsgui.wire.fleet import LATE_S, LOST_S, STALLED_S, BeatClock, ClientState, client_state
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.session import Grant, Wish

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
def test_silent_clients_are_late_then_lost(age_s: float, state: ClientState) -> None:
    assert client_state(_beat(phase="sampling"), age_s) == state


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


def test_a_goodbye_makes_left_however_long_ago() -> None:
    assert client_state(_beat(leaving=True), 10 * HOUR) == ClientState.LEFT


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


def test_wrong_age_at_first_sight_lasts_until_the_next_beat() -> None:
    clock = BeatClock()
    clock.observe(_beat(1), HOUR, now=0)
    assert clock.age_s("c", 0) == HOUR
    clock.observe(_beat(2), HOUR, now=1)
    assert clock.age_s("c", 1) == 0


def test_age_at_first_sight_is_the_servers_and_never_negative() -> None:
    clock = BeatClock()
    clock.observe(_beat(1), 12, now=50)
    assert clock.age_s("c", 50) == 12
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
    assert not clock.stalled("c", 100 + 60 + STALLED_S)
    assert clock.stalled("c", 100 + 60 + STALLED_S + 1)
