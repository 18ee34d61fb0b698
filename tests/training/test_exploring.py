"""How clients are told to explore: by grant, each on its rung, and again when it has changed."""

import pytest

from soulsgui.training.exploring import Exploration, Orders
from soulsgui.wire.messages.session import Grant, Ladder
from tests.training.test_sessions import _admitted, _sessions


@pytest.mark.parametrize(
    ("new", "told", "worth"),
    [
        (Orders(0.5), None, True),
        (Orders(0.5), Orders(0.504), False),
        (Orders(0.5), Orders(0.505), True),
        (Orders(0.0), Orders(None), True),
        (Orders(temperature=1.0), Orders(0.5), True),
        (Orders(temperature=0.101), Orders(temperature=0.1), False),
        (Orders(temperature=0.097), Orders(temperature=0.1), True),
        (Orders(0.5, ladder=Ladder(first=0, count=4, exponent=7)), Orders(0.5), True),
        (
            Orders(0.5, ladder=Ladder(first=0, count=4, exponent=7)),
            Orders(0.5, ladder=Ladder(first=0, count=6, exponent=7)),
            True,
        ),
    ],
)
def test_what_differs_enough_is_told(new: Orders, told: Orders | None, worth: bool) -> None:
    assert new.worth_telling(told) is worth


def test_on_a_ladder_every_environment_that_plays_has_a_rung_of_its_own() -> None:
    sessions = _sessions()
    sessions.steps_ahead, sessions.exploration = 100, Exploration(0.4, ladder=7.0)
    for client in ("a", "b", "c"):
        _admitted(sessions, client)
    sessions.set_playing({"a", "b", "c"})
    envs = sessions.by_client["a"].num_envs
    rungs = {client: grant.ladder for client, grant in sessions.grants_due().items()}
    assert rungs == {
        client: Ladder(first=place * envs, count=3 * envs, exponent=7) for place, client in enumerate("abc")
    }
    assert sessions.grants_due() == {}
    sessions.set_playing({"a", "c"})
    moved = {client: grant.ladder for client, grant in sessions.grants_due().items()}
    assert moved["c"] == Ladder(first=envs, count=2 * envs, exponent=7)
    assert moved["a"] == Ladder(first=0, count=2 * envs, exponent=7)


def test_a_temperature_is_granted_and_shown() -> None:
    sessions = _sessions()
    sessions.exploration = Exploration(temperature=0.3)
    _admitted(sessions, "a")
    grant = sessions.grants()["a"]
    assert (grant.temperature, grant.epsilon, grant.ladder) == (0.3, None, None)
    assert Grant.read(grant.to_json()) == grant
    assert sessions.exploration.figures() == {"temperature": 0.3}
    assert Exploration(0.0).figures() == {"epsilon": 0.0}
