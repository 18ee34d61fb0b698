"""Attempts on the axes."""

import math

from soulsgui.telemetry.curve import Curve, Limits, Place
from soulsgui.wire.control import AttemptStart


def _start(attempt: int, env_steps: int, episodes: int, update: int = 0) -> AttemptStart:
    return AttemptStart(attempt=attempt, update=update, env_steps=env_steps, episodes=episodes, time=0.0)


def test_a_first_attempt_begins_at_zero() -> None:
    curve = Curve([], {})
    assert curve.attempt == 0
    assert curve.advance(1, 25) == Place(25, 1)
    assert curve.advance(1, 5) == Place(30, 2)


def test_an_attempt_goes_on_at_its_checkpoint() -> None:
    curve = Curve([_start(1, 0, 0)], {1: Place(900, 90)})
    assert curve.begin(_start(2, 500, 50))
    assert curve.place(2) == Place(500, 50)
    assert curve.advance(2, 7) == Place(507, 51)
    assert curve.attempt == 2


def test_stragglers_go_on_with_their_own_attempt() -> None:
    curve = Curve([_start(1, 0, 0), _start(2, 500, 50)], {1: Place(900, 90)})
    assert curve.advance(1, 10) == Place(910, 91)
    assert curve.place(2) == Place(500, 50)


def test_an_attempt_is_begun_once() -> None:
    curve = Curve([], {})
    assert curve.begin(_start(1, 0, 0))
    assert not curve.begin(_start(1, 40, 4))
    assert curve.place(1) == Place(0, 0)


def test_an_attempt_nobody_told_of_goes_on_where_the_newest_stands() -> None:
    curve = Curve([_start(1, 0, 0)], {1: Place(300, 30)})
    assert curve.advance(4, 1) == Place(301, 31)


def test_the_limit_of_an_attempt_is_the_earliest_place_any_later_one_began_at() -> None:
    limits = Limits([_start(1, 0, 0), _start(2, 500, 50, 5), _start(3, 200, 20, 2), _start(4, 400, 40, 4)])
    assert limits.of(1) == limits.of(2) == (200, 20, 2)
    assert limits.of(3) == (400, 40, 4)
    assert limits.of(4) == (math.inf, math.inf, math.inf)


def test_an_episode_beyond_either_axis_is_overwritten_and_one_at_the_limit_is_not() -> None:
    limit = Limits([_start(2, 500, 50)]).of(1)
    assert not limit.overwrites_episode(env_steps=500, episode=50)
    assert limit.overwrites_episode(env_steps=501, episode=50)
    assert limit.overwrites_episode(env_steps=500, episode=51)
