import numpy as np
import pytest

from soulsgui.gui.plotting.scale import Scale, ScaleKind

VALUES = np.asarray([-1000.0, -1.0, 0.0, 0.5, 1.0, 10.0, 1e6])


@pytest.mark.parametrize("kind", ScaleKind)
def test_what_is_drawn_at_a_place_is_the_value_that_stands_there(kind: ScaleKind) -> None:
    scale = Scale(kind, 0.1)
    for value, place in zip(VALUES, scale.place(VALUES), strict=True):
        if kind is ScaleKind.LOG and value <= 0:
            assert np.isnan(place)
        else:
            assert scale.value(float(place)) == pytest.approx(value)


def test_symlog_is_the_same_below_zero_and_rises_everywhere() -> None:
    scale = Scale(ScaleKind.SYMLOG, 2.0)
    assert scale.place(np.asarray([0.0, 18.0, 198.0])).tolist() == pytest.approx([0.0, 1.0, 2.0])
    assert scale.place(-VALUES).tolist() == pytest.approx((-scale.place(VALUES)).tolist())
    assert (np.diff(scale.place(VALUES)) > 0).all()


def test_the_linear_part_of_symlog_follows_the_size_of_the_values() -> None:
    assert Scale.for_values(ScaleKind.SYMLOG, 475.0).unit == pytest.approx(1.0)
    assert Scale.for_values(ScaleKind.SYMLOG, 0.03).unit == pytest.approx(1e-4)
    assert Scale.for_values(ScaleKind.SYMLOG, 0.0) == Scale(ScaleKind.SYMLOG)


@pytest.mark.parametrize(
    ("scale", "low", "high", "ticks"),
    [
        (Scale(ScaleKind.LOG), 0.5, 500.0, [1, 10, 100]),
        (Scale(ScaleKind.LOG), 3.0, 60.0, [5, 10, 20, 50]),
        (Scale(ScaleKind.SYMLOG), -200.0, 2000.0, [-100, -10, -1, 0, 1, 10, 100, 1000]),
        (Scale(ScaleKind.SYMLOG), 20.0, 600.0, [20, 50, 100, 200, 500]),
        (Scale(), 0.0, 10.0, []),
    ],
)
def test_ticks_are_powers_of_ten(scale: Scale, low: float, high: float, ticks: list[float]) -> None:
    ends = scale.place(np.asarray([low, high]))
    least, most = ends.tolist()
    assert scale.ticks(least - 1e-9, most + 1e-9) == pytest.approx(ticks)


def test_of_many_decades_some_have_no_tick() -> None:
    assert len(Scale(ScaleKind.LOG).ticks(-30.0, 30.0)) <= 8


def test_ticks_end_where_numbers_do() -> None:
    scale = Scale.for_values(ScaleKind.SYMLOG, 1e308)
    assert max(scale.ticks(-50.0, 50.0)) <= 1e308
