import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import DARK, LIGHT
from soulsgui.gui.plotting.drawing import DrawnCurve, short_number
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.plotting.rows import Axis, Mark
from soulsgui.gui.plotting.series import Series
from soulsgui.gui.theme import Theme, ThemeChoice
from tests.gui.plotting.curves import RUN, START, attempt_row, episodes, history, update
from tests.gui.wheel import turn_wheel


@pytest.fixture
def plot(qtbot: QtBot, theme: Theme) -> Plot:
    made = Plot()
    qtbot.addWidget(made)
    made.resize(900, 400)
    made.show()
    qtbot.waitExposed(made)
    return made


def canvas(plot: Plot) -> pg.PlotWidget:
    found = plot.findChild(pg.PlotWidget)
    assert found is not None
    return found


def settle(qtbot: QtBot, plot: Plot) -> None:
    qtbot.waitUntil(lambda: not plot.drawing_waits)


def shown(qtbot: QtBot, plot: Plot, series: Series) -> None:
    plot.show_series([(series, "return", 0)])
    settle(qtbot, plot)


def curve(count: int) -> Series:
    series = Series(RUN, weight=0.9)
    values = np.random.default_rng(0).normal(size=count).cumsum()
    series.append([episodes(range(1, count + 1), values=values.tolist())])
    return series


def evaluations(*numbers: int) -> Series:
    series = Series(RUN, "evaluation_return", weight=0.0)
    rows = [update(number, evaluation_return=float(number)) for number in numbers]
    series.append([row.model_copy(update={"kind": "evaluation"}) for row in rows])
    return series


def test_an_empty_plot_says_what_to_do_and_a_full_one_does_not(qtbot: QtBot, plot: Plot) -> None:
    series = Series(RUN)
    plot.show_empty_text("Start a run.")
    shown(qtbot, plot, series)
    assert plot.empty_text == "Start a run."
    series.append([episodes([1, 2, 3])])
    plot.changed()
    settle(qtbot, plot)
    assert plot.empty_text == ""


def test_following_keeps_the_newest_row_in_view(qtbot: QtBot, plot: Plot) -> None:
    series = curve(100)
    shown(qtbot, plot, series)
    assert plot.x_view()[1] >= 100
    series.append([episodes(range(101, 501))])
    plot.changed()
    settle(qtbot, plot)
    assert plot.x_view()[1] >= 500


def test_zooming_by_wheel_stops_following_and_space_brings_it_back(qtbot: QtBot, plot: Plot) -> None:
    series = curve(1000)
    shown(qtbot, plot, series)
    with qtbot.waitSignal(plot.follow_changed) as signal:
        turn_wheel(canvas(plot).viewport(), 480)
    assert signal.args == [False]
    settle(qtbot, plot)
    left, right = plot.x_view()
    assert right - left < 900
    series.append([episodes(range(1001, 1101))])
    plot.changed()
    settle(qtbot, plot)
    assert plot.x_view() == (left, right)
    qtbot.keyClick(plot, Qt.Key.Key_Space)
    settle(qtbot, plot)
    assert plot.follow
    assert plot.x_view()[1] >= 1100


def test_arrows_move_and_home_shows_everything(qtbot: QtBot, plot: Plot) -> None:
    shown(qtbot, plot, curve(1000))
    plot.show_x(400, 500)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert plot.x_view() == pytest.approx((410, 510))
    qtbot.keyClick(plot, Qt.Key.Key_Minus)
    assert plot.x_view() == pytest.approx((385, 535))
    qtbot.keyClick(plot, Qt.Key.Key_Home)
    settle(qtbot, plot)
    assert plot.follow
    assert plot.x_view()[0] <= 1


def test_y_fits_what_is_seen(qtbot: QtBot, plot: Plot) -> None:
    series = Series(RUN, weight=0.0)
    series.append([episodes(range(1, 101), values=[1000.0 if n < 50 else float(n) for n in range(1, 101)])])
    shown(qtbot, plot, series)
    plot.show_x(60, 100)
    settle(qtbot, plot)
    low, high = plot.y_view()
    assert 50 < low < 61
    assert 100 < high < 110


def test_at_most_two_points_per_pixel_are_drawn_of_a_long_curve(qtbot: QtBot, plot: Plot) -> None:
    shown(qtbot, plot, curve(50_000))
    assert 0 < plot.points_drawn <= 2 * 3 * plot.width()


def test_nothing_is_drawn_while_hidden(qtbot: QtBot, plot: Plot) -> None:
    series = curve(100)
    shown(qtbot, plot, series)
    plot.hide()
    drawn = plot.points_drawn
    series.append([episodes(range(101, 501))])
    plot.changed()
    qtbot.wait(150)
    assert plot.points_drawn == drawn
    plot.show()
    qtbot.waitUntil(lambda: plot.points_drawn > drawn)


def test_the_crosshair_reads_values_that_can_be_copied(qtbot: QtBot, plot: Plot) -> None:
    series = Series(RUN, weight=0.0)
    series.append([episodes(range(1, 101))])
    shown(qtbot, plot, series)
    plot.move_crosshair(41.8)
    assert plot.reading.startswith("episode 42 · 42.0 · ")
    qtbot.keyClick(plot, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == plot.reading
    plot.move_crosshair(None)
    assert plot.reading == ""


def test_the_crosshair_says_of_how_many_rows_a_value_is_the_mean(qtbot: QtBot, plot: Plot) -> None:
    series = Series(RUN, weight=0.0)
    answer = history(range(100, 1001, 100))
    series.load(answer.model_copy(update={"count": [100] * 10}))
    shown(qtbot, plot, series)
    plot.move_crosshair(310)
    assert plot.reading.startswith("episode 300 · mean of 100: 300.0 · ")


def test_the_crosshair_names_every_curve_and_a_mark_nearby(qtbot: QtBot, plot: Plot) -> None:
    first, second = curve(100), Series(RUN, weight=0.0)
    second.append([episodes(range(1, 101))])
    plot.show_series([(first, "a", 0), (second, "b", 1)])
    plot.show_marks([Mark(50, 500, START + 50, "quicksave")])
    settle(qtbot, plot)
    plot.move_crosshair(50.2)
    assert " · b 50.0 · " in plot.reading
    assert plot.reading.endswith("quicksave")
    plot.move_crosshair(80)
    assert "quicksave" not in plot.reading


def test_the_crosshair_says_where_a_curve_with_fewer_rows_has_its_own(qtbot: QtBot, plot: Plot) -> None:
    often, seldom = Series(RUN, weight=0.0), evaluations(1, 9)
    often.append([episodes(range(1, 101))])
    plot.show_series([(seldom, "judged", 0), (often, "trained", 1)])
    plot.show_along(Axis.ENV_STEP)
    settle(qtbot, plot)
    plot.move_crosshair(252)
    assert plot.reading.startswith("step 250 · trained 25.0 · judged 1.00 at step 100 · ")


def test_values_of_evaluations_and_of_short_curves_are_marked(qtbot: QtBot, plot: Plot) -> None:
    judged, trained, begun = evaluations(*range(1, 31)), curve(100), curve(1)
    drawings = [DrawnCurve(canvas(plot), series, "", 0) for series in (judged, trained, begun)]
    for drawing in drawings:
        drawing.draw(0, 400, 900, LIGHT)
    assert [drawing.dots for drawing in drawings] == [30, 0, 1]
    drawings[0].draw(0, 400, 100, LIGHT)
    assert drawings[0].dots == 0, "no room between them"


def test_a_click_gives_the_keyboard_to_the_plot(qtbot: QtBot, plot: Plot) -> None:
    shown(qtbot, plot, curve(100))
    plot.clearFocus()
    viewport = canvas(plot).viewport()
    QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=viewport.rect().center())
    assert plot.hasFocus()


@pytest.mark.parametrize("axis", list(Axis))
def test_x_can_be_changed_while_it_is_shown(qtbot: QtBot, plot: Plot, axis: Axis) -> None:
    series = curve(100)
    shown(qtbot, plot, series)
    plot.show_along(axis)
    settle(qtbot, plot)
    bounds = series.x_range()
    assert bounds is not None
    left, right = plot.x_view()
    assert left <= bounds[0] <= bounds[1] <= right
    assert plot.x_title in {"Episode", "Environment steps", "Wall time"}


def test_a_resumed_curve_is_drawn_with_its_overwritten_part(qtbot: QtBot, plot: Plot) -> None:
    series = curve(100)
    shown(qtbot, plot, series)
    before = plot.points_drawn
    series.append([attempt_row(2, 60), episodes(range(101, 131), attempt=2, episode=range(61, 91))])
    plot.changed()
    settle(qtbot, plot)
    assert plot.points_drawn > before


def test_values_that_are_not_numbers_do_not_break_the_picture(qtbot: QtBot, plot: Plot) -> None:
    series = Series(RUN, weight=0.0)
    series.append([episodes([1, 2, 3, 4], values=[1.0, float("inf"), float("nan"), 2.0])])
    shown(qtbot, plot, series)
    low, high = plot.y_view()
    assert 0.9 < low < 1 < 2 < high < 2.1


def test_the_plot_takes_on_the_colours_of_the_theme(qtbot: QtBot, plot: Plot, both_themes: Theme) -> None:
    shown(qtbot, plot, curve(100))
    corner = (canvas(plot).width() - 3, 3)
    assert canvas(plot).grab().toImage().pixelColor(*corner).name() == LIGHT.base
    both_themes.choose(ThemeChoice.DARK)
    settle(qtbot, plot)
    assert canvas(plot).grab().toImage().pixelColor(*corner).name() == DARK.base


def test_the_host_makes_its_plot_after_it_was_painted(qtbot: QtBot, theme: Theme) -> None:
    host = PlotHost()
    qtbot.addWidget(host)
    host.resize(400, 300)
    made: list[Plot] = []
    host.when_ready(made.append)
    assert host.plot is None
    assert [label.text() for label in host.findChildren(QLabel)] == ["Loading …"]
    with qtbot.waitSignal(host.ready):
        host.show()
    assert made == [host.plot]
    qtbot.waitUntil(lambda: "Loading …" not in {label.text() for label in host.findChildren(QLabel)})
    host.when_ready(made.append)
    assert made == [host.plot, host.plot]


@pytest.mark.parametrize(
    ("value", "spacing", "largest", "word"),
    [
        (0, 500, 2000, "0"),
        (1500, 500, 2000, "1,500"),
        (200_000, 50_000, 400_000, "200 k"),
        (1_250_000, 250_000, 2_000_000, "1.25 M"),
        (0.3, 0.1, 1, "0.3"),
        (-50, 50, 200, "-50"),
        (3e-7, 1e-7, 1e-6, "3e-07"),
    ],
)
def test_ticks_are_short(value: float, spacing: float, largest: float, word: str) -> None:
    assert short_number(value, spacing, largest) == word


def test_the_legend_says_what_upright_lines_are_while_there_are_some(qtbot: QtBot, plot: Plot) -> None:
    words = next(label for label in plot.findChildren(QLabel) if label.text() == "checkpoint or resume")
    assert not words.isVisible()
    plot.show_marks([Mark(5, 50, START, "Best checkpoint, update 5")])
    assert words.isVisible()
    plot.show_marks([])
    assert not words.isVisible()
