"""Of what owner and server want, the stricter is done."""

import pytest

from soulsgui.sampling.wishes import Plan, Stepping, plan_of
from soulsgui.wire.messages.owner import OwnerState
from soulsgui.wire.messages.session import Wish

GO_ON = Plan()
END_THEN_WAIT = Plan(Stepping.TO_THE_END)
END_THEN_STOP = Plan(Stepping.TO_THE_END, stop=True)
WAIT = Plan(Stepping.NONE)
STOP = Plan(Stepping.NONE, stop=True)


@pytest.mark.parametrize(
    ("owner", "server", "plan"),
    [
        ("run", None, GO_ON),
        ("run", "run", GO_ON),
        ("run", "pause", WAIT),
        ("run", "finish", END_THEN_STOP),
        ("run", "stop", STOP),
        ("pause_after_episode", None, END_THEN_WAIT),
        ("pause_after_episode", "run", END_THEN_WAIT),
        ("pause_after_episode", "pause", WAIT),
        ("pause_after_episode", "finish", END_THEN_STOP),
        ("pause_after_episode", "stop", STOP),
        ("pause", None, WAIT),
        ("pause", "run", WAIT),
        ("pause", "pause", WAIT),
        ("pause", "finish", STOP),
        ("pause", "stop", STOP),
        ("stop_after_episode", "run", END_THEN_STOP),
        ("stop_after_episode", "pause", STOP),
        ("stop", "run", STOP),
        ("stop", "pause", STOP),
    ],
)
def test_the_stricter_wish_wins(owner: OwnerState, server: str | None, plan: Plan) -> None:
    wish = None if server is None else Wish.model_validate({"command_id": "x", "state": server})
    assert plan_of(owner, wish) == plan
