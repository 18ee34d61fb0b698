"""Closed forms of the statistics over runs."""

from math import comb

import numpy as np
import pytest

from soulsgui.telemetry.statistics import bootstrap_interval, interquartile_mean, probability_of_improvement

Array = np.ndarray


def of(*scores: float) -> Array:
    return np.array(scores, float)


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([of(7)], 7.0),
        ([of(3, 1, 2)], 2.0),  # a quarter of three, rounded down, is none
        ([of(100, 1, 2, -50)], 1.5),
        ([of(0, 1, 2, 3, 4, 5, 6, 700)], 3.5),
        ([of(0, 1, 2, 3), of(4, 5, 6, 700)], 3.5),  # all tasks are pooled
    ],
)
def test_the_interquartile_mean_is_that_of_the_middle_half(scores: list[Array], mean: float) -> None:
    assert interquartile_mean(scores) == mean


@pytest.mark.parametrize(
    ("scores", "others", "chance"),
    [
        ([of(2, 3)], [of(0, 1)], 1.0),
        ([of(0, 1)], [of(2, 3)], 0.0),
        ([of(1, 1)], [of(1, 1)], 0.5),
        ([of(1, 3)], [of(2, 3)], 0.375),  # of four pairs one is won and one is even
        ([of(2), of(0)], [of(1), of(1)], 0.5),  # each task counts alike
        ([of(1, 2, 3)], [of(2)], 0.5),
    ],
)
def test_probability_of_improvement(scores: list[Array], others: list[Array], chance: float) -> None:
    assert probability_of_improvement(scores, others) == chance
    assert probability_of_improvement(others, scores) == 1 - chance


def test_an_interval_covers_what_drawing_with_replacement_can_give() -> None:
    mean = lambda scores: float(np.mean(np.concatenate(scores)))  # noqa: E731
    # Of n scores 0 and 1, half of each, the mean of n drawn is binomial: its quantiles are known.
    n = 20
    chances = np.cumsum([comb(n, k) / 2**n for k in range(n + 1)])
    low, high = (np.searchsorted(chances, at) / n for at in (0.025, 0.975))
    found = bootstrap_interval(mean, [of(*[0, 1] * (n // 2))], resamples=20_000)
    assert found == pytest.approx((low, high), abs=1 / n)
    assert found == bootstrap_interval(mean, [of(*[0, 1] * (n // 2))], resamples=20_000), "it is repeatable"
    assert bootstrap_interval(mean, [of(5)]) == (5.0, 5.0)


def test_runs_are_drawn_within_their_task() -> None:
    apart = [of(0, 0, 0), of(100, 100, 100)]
    assert bootstrap_interval(lambda scores: float(np.mean(np.concatenate(scores))), apart) == (50.0, 50.0)
    better = bootstrap_interval(probability_of_improvement, [of(2, 3)], [of(0, 1)])
    assert better == (1.0, 1.0)
