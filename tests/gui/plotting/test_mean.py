import numpy as np
import pytest

from soulsgui.gui.plotting.drawing import reading_text
from soulsgui.gui.plotting.mean import MeanSeries
from soulsgui.gui.plotting.rows import RETURN, Axis
from soulsgui.gui.plotting.series import Series
from tests.gui.plotting.curves import attempt_row, episodes, history
from tests.states import RUN


def flat(value: float, first: int, last: int) -> Series:
    """A run whose episodes have all the same return."""
    series = Series(RUN, RETURN, Axis.ENV_STEP, weight=0.0)
    series.load(history([]))
    numbers = range(first, last + 1)
    series.append([episodes(numbers, values=[value] * len(numbers))])
    return series


def test_it_is_the_mean_with_a_band_as_far_as_all_runs_reach() -> None:
    mean = MeanSeries([flat(10.0, 1, 100), flat(20.0, 3, 60), flat(60.0, 2, 80)])
    assert mean.x_range() == (30.0, 600.0)
    (piece,) = mean.pieces(0, 1000, 100)
    y, band = piece.smooth[1], piece.raw[1]
    assert y == pytest.approx(np.full(y.shape, 30.0))
    assert y.size > 57, "more than one place a pixel, so that the band is closed"
    assert (band[0::2].tolist(), band[1::2].tolist()) == ([10.0] * y.size, [60.0] * y.size)
    found = mean.nearest(310.0)
    assert found is not None
    assert (found.x, found.value, found.low, found.high) == (310.0, pytest.approx(30.0), 10.0, 60.0)
    between = mean.nearest(314.0)
    assert between is not None
    assert (between.x, between.env_steps) == (314.0, 314), "it is not the row of one of its runs"
    far = mean.nearest(5000.0)
    assert far is not None
    assert far.x == 600.0
    assert list(mean.pieces(700, 1000, 100)) == []


def test_runs_that_share_no_part_of_x_and_runs_without_rows_have_no_mean() -> None:
    apart = MeanSeries([flat(1.0, 1, 10), flat(2.0, 20, 30)])
    assert (apart.x_range(), len(apart), apart.nearest(50.0), list(apart.pieces(0, 300, 50))) == (
        None,
        0,
        None,
        [],
    )
    empty = Series(RUN, RETURN, Axis.ENV_STEP)
    assert np.isnan(empty.at(np.asarray([1.0]))).all()
    assert MeanSeries([flat(1.0, 1, 10), empty]).x_range() == (10.0, 100.0)


def test_what_a_resume_overwrote_is_left_out() -> None:
    series = flat(10.0, 1, 50)
    series.append(
        [
            attempt_row(2, 30),
            episodes(
                range(51, 61),
                attempt=2,
                values=[90.0] * 10,
                env_steps=[300 + 10 * n for n in range(1, 11)],
                episode=list(range(31, 41)),
            ),
        ]
    )
    assert series.at(np.asarray([300.0, 350.0, 500.0]))[:2].tolist() == [10.0, 90.0]
    assert np.isnan(series.at(np.asarray([500.0]))).all()


def test_the_crosshair_says_which_number_is_which() -> None:
    found = MeanSeries([flat(10.0, 1, 100), flat(20.0, 3, 60), flat(60.0, 2, 80)]).nearest(310.0)
    assert found is not None
    one = [("wide (mean of 3)", found)]
    alone, beside = (reading_text(shown, Axis.ENV_STEP, None) for shown in (one, one * 2))
    assert alone.split(" · ")[1:-1] == ["mean 30.0, lowest 10.0, highest 60.0"]
    assert beside.split(" · ")[1:-1] == ["wide (mean of 3): 30.0, lowest 10.0, highest 60.0"] * 2
