"""Schedules over a run: closed forms, and what they do at their ends."""

import pytest

from soulsgui.policies.schedules import START, Moment

GOAL = 1000


def values(scheduled: object, *steps: int, goal: int | None = GOAL) -> list[float]:
    return [Moment(at, goal).value(scheduled) for at in steps]  # type: ignore[arg-type]


def test_a_number_stays() -> None:
    assert values(0.3, 0, 500, 10**9, goal=None) == [0.3] * 3


def test_linear_goes_evenly_and_stays_at_its_end_to_the_bit() -> None:
    ramp = {"schedule": "linear", "from": 0.3, "to": 0.1}
    assert values(ramp, 0, 250, GOAL, 10 * GOAL) == [0.3, pytest.approx(0.25), 0.1, 0.1]
    assert values(ramp | {"over": 100}, 50, 100) == [pytest.approx(0.2), 0.1]


def test_exponential_goes_by_equal_factors() -> None:
    ramp = {"schedule": "exponential", "from": 1.0, "to": 0.01, "over": 400}
    assert values(ramp, 0, 100, 200, 400, 800) == pytest.approx([1, 10**-0.5, 0.1, 0.01, 0.01])


def test_piecewise_goes_evenly_from_point_to_point() -> None:
    points = {"schedule": "piecewise", "points": [[100, 1.0], [200, 0.5], [1000, 0.1]]}
    assert values(points, 0, 100, 150, 200, 600, 5000) == pytest.approx([1, 1, 0.75, 0.5, 0.3, 0.1])


def test_a_ramp_over_a_run_of_unknown_length_stands_at_its_start() -> None:
    assert START.value({"schedule": "linear", "from": 2.0, "to": 0.0}) == 2.0
    assert values({"schedule": "linear", "from": 2.0, "to": 0.0}, 10**6, goal=None) == [2.0]
