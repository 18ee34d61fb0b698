import math
from collections.abc import Sequence

import numpy as np
import pytest

from soulsgui.gui.plotting.rows import UNKNOWN, Axis, Mark
from soulsgui.gui.plotting.series import Series, exponential_mean, fitting_weight, memory
from soulsgui.wire.control import History
from soulsgui.wire.messages.metrics import ResourceRow
from tests.gui.plotting.curves import RUN, START, attempt_row, drawn, episodes, history, update


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
    assert np.array_equal(smoothed(values, 0.0), values), "without weight nothing is smoothed"


def test_a_value_counts_as_the_rows_it_stands_for_and_a_missing_one_is_a_gap() -> None:
    values, counts = noise(300), np.random.default_rng(1).integers(1, 200, 300)
    rows = smoothed(np.repeat(values, counts), 0.99)
    assert smoothed(values, 0.99, counts) == pytest.approx(rows[counts.cumsum() - 1], abs=1e-9)
    values[50:60] = np.nan
    smooth = smoothed(values, 0.9)
    assert np.isnan(smooth[50:60]).all()
    assert np.isfinite(smooth[60:]).all()
    assert smooth[49] == pytest.approx(smoothed(values[:50], 0.9)[-1])


def test_memory_names_the_rows_that_matter_a_small_part_of_the_curve() -> None:
    values = noise(20_000)
    for weight in (0.9, 0.999):
        short = smoothed(values[-2 * memory(weight) :], weight)[-1]
        assert short == pytest.approx(smoothed(values, weight)[-1], abs=1e-3)
    counts = (0, 39, 40, 79, 80, 639, 640, 1280, 10**7)
    windows = [1 / (1 - fitting_weight(0.98, count)) for count in counts]
    assert windows == pytest.approx([1, 1, 2, 2, 4, 16, 32, 50, 50]), "a short one is left as it is"


@pytest.fixture
def series() -> Series:
    return Series(RUN, weight=0.0)


def xs(series: Series, overwritten: bool = False) -> list[float]:
    return [x for x, _ in drawn(series, overwritten)]


def test_a_live_tail_joins_a_queried_history_without_gap_or_double(series: Series) -> None:
    series.load(history([]))
    assert series.x_range() is None
    assert series.nearest(3.0) is None
    series.append([episodes([1])])
    assert not series.missed_rows
    series.append([episodes([1, 2]), episodes([1], run="another"), update(1, loss=1.0)])
    assert xs(series) == [1, 2]
    series.load(history(range(1, 6)))
    # Those that came while the answer was on its way.
    series.append([episodes([3, 4, 5]), episodes([5, 6, 7])])
    series.append([episodes([7, 8])])
    assert xs(series) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not series.missed_rows
    series.append([episodes([12, 13])])
    assert series.missed_rows
    series.load(history(range(1, 14)))
    assert not series.missed_rows
    assert xs(series) == list(range(1, 14))


def test_an_updates_value_is_a_curve_without_doubles_and_a_late_evaluation_is_no_old_row() -> None:
    series = Series(RUN, "entropy", weight=0.0)
    series.append([update(1, entropy=0.7), update(2, loss=3.0), update(3, entropy=0.5)])
    series.append([update(3, entropy=0.5), update(1, attempt=2, entropy=0.6)])
    assert drawn(series) == [(10, pytest.approx(0.7)), (30, 0.5), (10, pytest.approx(0.6))]
    series = Series(RUN, "evaluation_return", weight=0.0)
    stored = history([]).model_copy(update={"metric": "evaluation_return", "last_update": (1, 2)})
    series.load(stored)
    evaluated = update(4, evaluation_return=9.0).model_copy(update={"kind": "evaluation"})
    series.append([update(6, loss=1.0), evaluated, evaluated])
    assert drawn(series) == [(40, 9.0)]


def test_x_can_be_episode_env_step_or_wall_time(series: Series) -> None:
    series.append([episodes([1, 2, 3])])
    for axis, start, step in ((Axis.EPISODE, 0, 1), (Axis.ENV_STEP, 0, 10), (Axis.TIME, START, 1)):
        series.show_along(axis)
        assert xs(series) == pytest.approx([start + step * n for n in (1, 2, 3)])
    series.append([episodes([4], values=[float("nan")])])
    assert len(drawn(series)) == 4
    assert np.isnan(drawn(series)[-1][1]), "what is no number is a gap"


def test_rows_that_come_late_find_their_place() -> None:
    series = Series(RUN, axis=Axis.ENV_STEP, weight=0.0)
    series.append([episodes([1, 2, 3], env_steps=[100, 300, 400])])
    series.append([episodes([4, 5], env_steps=[200, 500]), episodes([20], env_steps=[50])])
    assert drawn(series) == [(50, 20), (100, 1), (200, 4), (300, 2), (400, 3), (500, 5)]


def test_what_was_drawn_stays_where_it_was_while_rows_are_appended() -> None:
    series = Series(RUN, weight=0.5)
    rng = np.random.default_rng(0)
    series.append([episodes(range(1, 50), values=rng.normal(size=49).tolist())])
    seen: dict[float, float] = {}
    for first in range(50, 400, 7):
        numbers = list(range(first, first + 7))
        series.append([episodes(numbers, values=rng.normal(size=7).tolist())])
        for x, y in drawn(series, smooth=True):
            assert seen.setdefault(x, y) == pytest.approx(y, abs=1e-5)


@pytest.mark.parametrize("axis", [axis for axis in Axis if axis is not Axis.UPDATE])
def test_a_resumed_run_goes_on_from_its_checkpoint_along_every_axis(series: Series, axis: Axis) -> None:
    series.append([episodes(range(1, 11)), attempt_row(2, episodes_before=6)])
    series.append([episodes([11, 12], attempt=2, episode=[7, 8], env_steps=[70, 80])])
    readings = [series.nearest(x) for x in (7.0, 8.0, 10.0)]
    assert [reading.value for reading in readings if reading] == [11, 12, 12], "none that was overwritten"
    series.show_along(axis)
    assert sorted(y for _, y in drawn(series, overwritten=True)) == [7, 8, 9, 10]
    assert sorted(y for _, y in drawn(series)) == [1, 2, 3, 4, 5, 6, 11, 12]
    if axis is Axis.EPISODE:
        assert drawn(series)[6:] == [(7, 11), (8, 12)]


def test_smoothing_goes_on_over_a_resume_as_if_the_overwritten_part_were_not() -> None:
    values = np.random.default_rng(0).normal(size=80).tolist()
    straight, resumed = (Series(RUN, weight=0.7) for _ in range(2))
    straight.append([episodes(range(1, 81), values=values)])
    resumed.append([episodes(range(1, 61), values=[*values[:40], *[9.0] * 20]), attempt_row(2, 40)])
    again, steps = range(41, 81), [10 * n for n in range(41, 81)]
    resumed.append([episodes(range(61, 101), attempt=2, values=values[40:], episode=again, env_steps=steps)])
    expected = drawn(straight, smooth=True)
    assert expected != drawn(straight)
    assert drawn(resumed, smooth=True) == [(x, pytest.approx(y, abs=1e-3)) for x, y in expected]


def test_a_short_curve_is_left_as_it_is_and_a_growing_one_ends_as_if_it_had_been_long_at_once() -> None:
    values = np.random.default_rng(0).normal(size=300).tolist()
    grown, at_once = (Series(RUN, weight=0.95) for _ in range(2))
    grown.append([episodes(range(1, 30), values=values[:29])])
    assert not grown.smooths
    assert drawn(grown, smooth=True) == drawn(grown)
    for first in range(30, 301):
        grown.append([episodes([first], values=[values[first - 1]])])
    at_once.append([episodes(range(1, 301), values=values)])
    assert grown.smooths
    expected = [(x, pytest.approx(y, abs=1e-5)) for x, y in drawn(at_once, smooth=True)]
    assert drawn(grown, smooth=True) == expected
    grown.smooth_with(0.0)
    assert drawn(grown, smooth=True) == drawn(grown)


def test_the_crosshair_reads_the_nearest_row(series: Series) -> None:
    series.append([episodes(range(1, 30))])
    for x, episode in ((-5.0, 1), (7.4, 7), (7.6, 8), (28.9, 29), (1e9, 29)):
        reading = series.nearest(x)
        assert reading is not None
        assert (reading.episode, reading.value, reading.env_steps) == (episode, episode, 10 * episode)
        assert reading.time == pytest.approx(START + episode, abs=0.01)


def test_a_hundred_thousand_live_rows_in_one_tail_are_drawn_thinly(series: Series) -> None:
    count = 100_000
    series.append([episodes(range(1, count + 1), step_s=1e-5)])
    points = sum(piece.raw[0].size for piece in series.pieces(0, count, 1000))
    assert points <= 2 * 2 * 1002


@pytest.fixture
def long_run() -> Series:
    """A run of 10,000 episodes in buckets of 100 whose mean is 100 below its last episode's number."""
    series = Series(RUN, weight=0.0)
    series.load(bucketed(range(100, 10_001, 100), 100))
    return series


def bucketed(numbers: Sequence[int], count: int, last_row: int = 10_000) -> History:
    """Answer with buckets of so many rows; each ends with a row of these numbers, and is as wide as high."""
    rows = history(numbers)
    return rows.model_copy(
        update={
            "last_row": last_row,
            "value": [n - count / 2 for n in numbers],
            "low": [n - count + 1.0 for n in numbers],
            "high": [float(n) for n in numbers],
            "count": [count] * len(numbers),
        }
    )


def test_a_bucket_is_drawn_from_its_least_to_its_greatest_value(long_run: Series) -> None:
    assert drawn(long_run)[:4] == [(100, 1), (100, 100), (200, 101), (200, 200)]
    assert len(long_run) == 10_000
    reading = long_run.nearest(149.0)
    assert reading is not None
    assert (reading.episode, reading.value, reading.count) == (100, 50.0, 100)


def test_a_part_in_view_is_to_be_refined_once_with_half_a_view_around_it(long_run: Series) -> None:
    assert long_run.to_refine(0, 10_000) is None, "the whole run is as fine as it can be"
    assert long_run.to_refine(2000, 3000) == (1500, 3500)
    long_run.refine(bucketed(range(1510, 3501, 10), 10), 1500, 3500)
    assert long_run.to_refine(2000, 3000) is None
    assert long_run.to_refine(1600, 2500) is None
    assert long_run.to_refine(1400, 2400) == (900, 2900)
    assert long_run.to_refine(2000, 2100) == (1950, 2150)
    long_run.refine(bucketed(range(1950, 2151), 1), 1950, 2150)
    assert long_run.to_refine(2000, 2010) is None, "every row is drawn"


def test_a_finer_part_takes_the_place_of_the_coarse_one(long_run: Series) -> None:
    coarse = drawn(long_run)
    long_run.refine(bucketed(range(1991, 3001), 1), 1990.5, 3000.5)
    first, last = ([one for one in coarse if one[0] <= 1990], [one for one in coarse if one[0] >= 3001])
    assert drawn(long_run) == [*first, *((n, n) for n in range(1991, 3001) for _ in range(2)), *last]
    assert len(long_run) == 10_000
    long_run.show_along(Axis.ENV_STEP)
    assert len(drawn(long_run)) == 200, "along another axis there is no finer part"


def test_live_rows_that_a_finer_part_holds_already_are_drawn_once(long_run: Series) -> None:
    long_run.append([episodes(range(10_001, 10_021))])
    long_run.refine(bucketed(range(9901, 10_011), 1, last_row=10_010), 9900.5, 10_100)
    assert [y for x, y in drawn(long_run) if x > 9901][::2] == list(range(9902, 10_021))
    long_run.append([episodes([10_021, 10_022])])
    assert xs(long_run)[-1] == 10_022
    assert not long_run.missed_rows


def test_along_steps_the_update_after_which_an_episode_ended_is_not_guessed() -> None:
    series = Series(RUN, axis=Axis.ENV_STEP)
    series.load(history([1]).model_copy(update={"of_episodes": True, "last_update": (1, 33)}))
    series.append([episodes([2, 3])])
    assert [one.update for _, one, _ in series.readings(0, 100)] == [UNKNOWN] * 3


def test_along_updates_episodes_stand_at_the_newest_update_and_what_was_overwritten_is_known() -> None:
    series = Series(RUN, axis=Axis.UPDATE, weight=0.0)
    for number in (1, 2, 3):
        series.append([episodes([2 * number - 1, 2 * number]), update(number)])
    series.append([attempt_row(2, episodes_before=2).model_copy(update={"update": 1})])
    series.append([update(2, attempt=2), episodes([7], attempt=2, episode=[3], env_steps=[30])])
    assert drawn(series) == [(0, 1), (0, 2), (1, 3), (1, 4), (2, 7)]
    assert drawn(series, overwritten=True) == [(2, 5), (2, 6)]


def test_training_time_leaves_out_what_lies_between_two_attempts() -> None:
    series = Series(RUN, axis=Axis.TRAINING, weight=0.0)
    again = attempt_row(2, episodes_before=3).model_copy(update={"time": START + 100.0})
    first = attempt_row(1, episodes_before=0)
    series.append([first, episodes([1, 2, 3]), again])
    late = episodes([4, 5], attempt=2, step_s=26.0)  # 104 and 130 s after the start
    series.append([late])
    assert drawn(series) == [(1, 1), (2, 2), (3, 3), (7, 4), (33, 5)]
    assert series.stored_range(2.0, 7.0) == (START + 2.0, START + 104.0)
    (mark,) = series.placed([Mark(math.nan, math.nan, START + 104.0, "crashed")])
    assert (mark.trained, mark.episode, mark.env_steps) == (7.0, 4, 40)


def test_resources_come_live_each_moment_once() -> None:
    series = Series(RUN, "resource_memory", axis=Axis.TIME)
    place = {"attempt": 1, "update": 1, "env_steps": 10, "episodes": 1, "model_id": 1}
    rows = [
        ResourceRow(run_id=RUN, time=START + n, values={"resource_memory": 5.0 + n}, **place) for n in (1, 2)
    ]
    series.append([*rows, rows[1], rows[0]])
    assert drawn(series) == [(START + 1, 6.0), (START + 2, 7.0)]


def test_a_series_of_a_client_has_its_episodes_alone() -> None:
    series = Series(RUN, client="b", weight=0.0)
    series.append([episodes([1, 2], client="a"), episodes([3], client="b")])
    assert drawn(series) == [(3, 3)]
    assert not series.missed_rows
