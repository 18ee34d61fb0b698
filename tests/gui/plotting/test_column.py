import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from soulsgui.gui.plotting.column import Column, Floats


def test_whole_numbers_are_kept_exactly_beyond_four_bytes() -> None:
    column = Column(whole=True)
    column.append([7_000_000_000, 7_000_000_001])
    column.append([7_000_000_000 + 5 * 2**31])
    assert column.slice(0, 3).tolist() == [7_000_000_000, 7_000_000_001, 7_000_000_000 + 5 * 2**31]
    assert column.at(-1) == 7_000_000_000 + 5 * 2**31


def test_times_are_kept_to_a_tenth_of_a_second_for_a_week() -> None:
    column = Column(whole=False)
    start = 1_790_000_000.25
    column.append([start, start + 0.5, start + 600_000.33])
    assert column.at(1) == pytest.approx(start + 0.5, abs=1e-6)
    assert column.at(2) == pytest.approx(start + 600_000.33, abs=0.1)


def test_an_index_beyond_the_end_is_an_error() -> None:
    with pytest.raises(IndexError):
        Column(whole=True).at(-1)


def test_many_small_appends_keep_every_number() -> None:
    column, floats = Column(whole=True), Floats()
    for start in range(0, 3000, 7):
        column.append(np.arange(start, start + 7))
        floats.append(np.arange(start, start + 7))
    assert np.array_equal(column.slice(0, len(column)), np.arange(len(column)))
    assert np.array_equal(floats.view, np.arange(len(floats), dtype=np.float32))


@given(
    st.lists(st.integers(-1000, 1000), min_size=1, max_size=40),
    st.floats(-1100, 1100),
    st.booleans(),
)
@example([-1, 0], 1e-100, False)
@example([-1, 0], -1e-100, True)
def test_search_finds_the_place_numpy_finds(numbers: list[int], value: float, after: bool) -> None:
    numbers.sort()
    column = Column(whole=True)
    column.append(numbers)
    side = "right" if after else "left"
    assert column.search(value, after) == np.searchsorted(np.asarray(numbers, float), value, side)


def test_search_far_outside_answers_an_end() -> None:
    column = Column(whole=True)
    column.append([0, 1, 2])
    assert column.search(-1e18) == 0
    assert column.search(float("inf")) == 3


def test_reordering_puts_numbers_where_asked() -> None:
    column = Column(whole=False)
    column.append([3.0, 1.0, 2.0])
    assert not column.is_rising()
    column.reorder(np.argsort(column.slice(0, 3)))
    assert column.slice(0, 3).tolist() == [1.0, 2.0, 3.0]
    assert column.is_rising()
