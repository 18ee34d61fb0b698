import numpy as np
import pytest

from soulsgui.gui.plotting.smoothing import exponential_mean, fitting_weight, memory


def noise(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=count)


def smoothed(values: np.ndarray, weight: float, counts: np.ndarray | None = None) -> np.ndarray:
    return exponential_mean(values, np.ones(values.size, np.int64) if counts is None else counts, weight)


@pytest.mark.parametrize("weight", [0.5, 0.95, 0.999])
def test_exponential_mean_follows_its_definition(weight: float) -> None:
    values = noise(5000)
    expected, total, norm = [], 0.0, 0.0
    for value in values:
        total = weight * total + value
        norm = weight * norm + 1
        expected.append(total / norm)
    assert smoothed(values, weight) == pytest.approx(expected, abs=1e-9)


def test_a_value_that_stands_for_many_rows_counts_as_so_many() -> None:
    values, counts = noise(300), np.random.default_rng(1).integers(1, 200, 300)
    rows = smoothed(np.repeat(values, counts), 0.99)
    assert smoothed(values, 0.99, counts) == pytest.approx(rows[counts.cumsum() - 1], abs=1e-9)


def test_exponential_mean_of_a_constant_is_that_constant_from_the_first_value() -> None:
    assert smoothed(np.full(10, 7.0), 0.99) == pytest.approx(7)


def test_without_weight_nothing_is_smoothed() -> None:
    assert np.array_equal(smoothed(noise(20), 0.0), noise(20))


def test_missing_values_stay_gaps_and_do_not_count() -> None:
    values = noise(200)
    values[50:60] = np.nan
    smooth = smoothed(values, 0.9)
    assert np.isnan(smooth[50:60]).all()
    assert np.isfinite(smooth[60:]).all()
    assert smooth[49] == pytest.approx(smoothed(values[:50], 0.9)[-1])


@pytest.mark.parametrize("weight", [0.9, 0.999])
def test_memory_names_the_rows_that_matter(weight: float) -> None:
    values = noise(20_000)
    short = smoothed(values[-2 * memory(weight) :], weight)[-1]
    assert short == pytest.approx(smoothed(values, weight)[-1], abs=1e-3)


@pytest.mark.parametrize(
    ("count", "window"),
    [(0, 1), (39, 1), (40, 2), (79, 2), (80, 4), (639, 16), (640, 32), (1280, 50), (10**7, 50)],
)
def test_a_mean_is_over_a_small_part_of_the_curve_and_a_short_one_is_left_as_it_is(
    count: int, window: int
) -> None:
    assert 1 / (1 - fitting_weight(0.98, count)) == pytest.approx(window)
