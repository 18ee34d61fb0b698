import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from soulsgui.gui.plotting.column import Column, Floats
from soulsgui.gui.plotting.pyramid import MinMaxPyramid


def pyramid(x: ArrayLike, y: ArrayLike, whole: bool = True) -> MinMaxPyramid:
    column, floats = Column(whole), Floats()
    made = MinMaxPyramid(column, floats)
    column.append(x)
    floats.append(y)
    made.grow()
    return made


def test_few_points_are_given_as_they_are() -> None:
    x, y = pyramid([0, 1, 2, 3], [5, 6, 7, 8]).points(0, 3, 100)
    assert x.tolist() == [0, 1, 2, 3]
    assert y.tolist() == [5, 6, 7, 8]


def test_one_point_beyond_each_edge_lets_lines_run_out_of_the_picture() -> None:
    x, _ = pyramid(range(100), range(100)).points(10, 20, 100)
    assert (x[0], x[-1]) == (9, 21)


@settings(deadline=None, max_examples=60)
@given(
    count=st.integers(1, 6000),
    width=st.integers(4, 200),
    left=st.floats(-0.5, 1.0),
    span=st.floats(0.01, 1.5),
    seed=st.integers(0, 2**16),
)
def test_extremes_in_view_survive_at_every_zoom(
    count: int, width: int, left: float, span: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.integers(0, 3, count))
    y = rng.normal(size=count).astype(np.float32)
    begin = left * float(x[-1] + 1)
    end = begin + span * float(x[-1] + 1)
    drawn_x, drawn_y = pyramid(x, y).points(begin, end, width)
    seen = y[(x >= begin) & (x <= end)]
    if seen.size:
        assert drawn_y.min() <= seen.min()
        assert drawn_y.max() >= seen.max()
    assert np.all(np.diff(drawn_x) >= 0)
    inside = (drawn_x >= begin) & (drawn_x <= end)
    assert inside.sum() <= 2 * (width + 1)


def test_a_peak_is_drawn_within_a_pixel_of_its_place() -> None:
    count, width = 1_000_000, 1000
    y = np.zeros(count)
    y[654_321] = 9
    x, drawn = pyramid(np.arange(count), y).points(0, count, width)
    assert abs(x[np.argmax(drawn)] - 654_321) <= count / width


def test_sparse_regions_keep_their_resolution() -> None:
    # A slow night after a quick day: one row in a thousand lies in the right half.
    x = np.concatenate((np.linspace(0, 1, 1_000_000), np.linspace(1, 2, 1000)))
    y = np.sin(x * 50)
    drawn_x, drawn_y = pyramid(x, y, whole=False).points(0, 2, 1000)
    right = drawn_x > 1
    assert right.sum() >= 400
    assert np.abs(np.sin(drawn_x[right] * 50) - drawn_y[right]).max() < 0.2


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=30))
def test_growing_piece_by_piece_gives_the_same_picture(sizes: list[int]) -> None:
    rng = np.random.default_rng(1)
    total = sum(sizes)
    x, y = np.arange(total), rng.normal(size=total)
    column, floats = Column(True), Floats()
    grown = MinMaxPyramid(column, floats)
    start = 0
    for size in sizes:
        column.append(x[start : start + size])
        floats.append(y[start : start + size])
        grown.grow()
        start += size
    for ours, whole in zip(grown.points(0, total, 16), pyramid(x, y).points(0, total, 16), strict=True):
        assert np.array_equal(ours, whole)


def test_a_smooth_curve_is_drawn_through_the_middle_of_each_pixel() -> None:
    y = np.sin(np.arange(100_000) / 10_000)
    x, drawn = pyramid(np.arange(100_000), y).points(0, 100_000, 500, middle=True)
    assert x.size <= 502
    assert np.abs(np.sin(x / 10_000) - drawn).max() < 0.02


def test_missing_values_do_not_hide_their_neighbours() -> None:
    y = np.full(4096, np.nan)
    y[100], y[3000] = 1.0, -1.0
    _, drawn = pyramid(np.arange(4096), y).points(0, 4096, 64)
    assert np.nanmax(drawn) == 1.0
    assert np.nanmin(drawn) == -1.0


@pytest.mark.parametrize("right", [1e7, 1e6, 2e5])
def test_ten_million_points_answer_much_sooner_than_a_scan(right: float) -> None:
    y = np.zeros(10_000_000)
    made = pyramid(np.arange(10_000_000), y)
    visible = y[: int(right)]

    def best_s(work: Callable[[], object]) -> float:
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        return min(times)

    answer_s = best_s(lambda: made.points(0, right, 1200))
    scan_s = best_s(lambda: (visible.min(), visible.max(), visible.cumsum()))
    assert answer_s < scan_s
