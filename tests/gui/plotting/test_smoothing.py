from collections.abc import Callable

import numpy as np
import pytest

from soulsgui.gui.plotting.smoothing import ExponentialMean, Smoother, fitting_weight

MAKERS: list[Callable[[], Smoother]] = [
    lambda: ExponentialMean(0.9),
    lambda: ExponentialMean(0.999),
]


def noise(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def test_exponential_mean_follows_its_definition() -> None:
    values, weight = noise(1000), 0.95
    expected, total, norm = [], 0.0, 0.0
    for value in values:
        total = weight * total + value
        norm = weight * norm + 1
        expected.append(total / norm)
    assert ExponentialMean(weight).extend(values) == pytest.approx(expected, abs=1e-5)


def test_exponential_mean_of_a_constant_is_that_constant_from_the_first_value() -> None:
    assert ExponentialMean(0.99).extend(np.full(10, 7, np.float32)) == pytest.approx(7)


def test_without_weight_nothing_is_smoothed() -> None:
    values = noise(20)
    assert np.array_equal(ExponentialMean(0).extend(values), values)


@pytest.mark.parametrize("make", MAKERS)
def test_piece_by_piece_gives_what_all_at_once_gives(make: Callable[[], Smoother]) -> None:
    values, smoother = noise(2000), make()
    pieces = [smoother.extend(part) for part in np.split(values, [1, 5, 300, 301, 1500])]
    assert np.concatenate(pieces) == pytest.approx(make().extend(values), abs=1e-5)


@pytest.mark.parametrize("make", MAKERS)
def test_missing_values_stay_gaps_and_do_not_count(make: Callable[[], Smoother]) -> None:
    values = noise(200)
    values[50:60] = np.nan
    smooth = make().extend(values)
    assert np.isnan(smooth[50:60]).all()
    known = np.delete(values, np.s_[50:60])
    assert np.isfinite(smooth[60:]).all()
    assert smooth[49] == pytest.approx(make().extend(known[:50])[-1], abs=1e-5)


@pytest.mark.parametrize("make", MAKERS)
def test_a_copy_goes_on_by_itself(make: Callable[[], Smoother]) -> None:
    smoother = make()
    smoother.extend(noise(100))
    expected = smoother.copy().extend(noise(10, seed=1))
    smoother.copy().extend(np.full(10, 1e6, np.float32))
    assert np.array_equal(smoother.extend(noise(10, seed=1)), expected)


@pytest.mark.parametrize("make", MAKERS)
def test_memory_names_the_rows_that_matter(make: Callable[[], Smoother]) -> None:
    values = noise(20_000)
    whole, short = make(), make()
    expected = whole.extend(values)[-1]
    assert short.extend(values[-2 * whole.memory :])[-1] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(
    ("count", "window"),
    [(0, 1), (39, 1), (40, 2), (79, 2), (80, 4), (639, 16), (640, 32), (1280, 50), (10**7, 50)],
)
def test_a_mean_is_over_a_small_part_of_the_curve_and_a_short_one_is_left_as_it_is(
    count: int, window: int
) -> None:
    assert 1 / (1 - fitting_weight(0.98, count)) == pytest.approx(window)
