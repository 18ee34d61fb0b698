from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import DARK, LIGHT
from soulsgui.gui.plotting.drawing import Cursors, DrawnCurve, Readout, short_number, with_goal
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.plotting.rows import Axis, Mark
from soulsgui.gui.plotting.scale import Scale
from soulsgui.gui.plotting.series import Series
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.wire.messages.metrics import Row
from tests.gui.plotting.curves import RUN, START, attempt_row, episodes, history, points_drawn, update
from tests.gui.reading import part_of, shown, words_of
from tests.gui.wheel import turn_wheel


@pytest.fixture
def plot(qtbot: QtBot, theme: Theme) -> Plot:
    return shown(qtbot, Plot(), 900, 400)


def canvas(plot: Plot) -> pg.PlotWidget:
    return part_of(plot, pg.PlotWidget)


def settle(qtbot: QtBot, plot: Plot) -> None:
    qtbot.waitUntil(lambda: not plot.drawing_waits)


def grow(qtbot: QtBot, plot: Plot, series: Series, *rows: Row) -> None:
    series.append(rows)
    plot.changed()
    settle(qtbot, plot)


def show(qtbot: QtBot, plot: Plot, series: Series) -> None:
    plot.show_series([(series, "return", 0)])
    settle(qtbot, plot)


def straight(numbers: Sequence[int] = range(1, 101), values: Sequence[float] | None = None) -> Series:
    series = Series(RUN, weight=0.0)
    series.append([episodes(numbers, values=values)])
    return series


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
    show(qtbot, plot, series)
    assert "Start a run." in words_of(plot)
    grow(qtbot, plot, series, episodes([1, 2, 3]))
    assert "Start a run." not in words_of(plot)


def test_the_newest_row_is_followed_until_the_wheel_zooms_and_after_space(qtbot: QtBot, plot: Plot) -> None:
    series = curve(100)
    show(qtbot, plot, series)
    assert plot.x_view()[1] >= 100
    grow(qtbot, plot, series, episodes(range(101, 1001)))
    assert plot.x_view()[1] >= 1000
    with qtbot.waitSignal(plot.follow_changed) as signal:
        turn_wheel(canvas(plot).viewport(), 480)
    assert signal.args == [False]
    settle(qtbot, plot)
    left, right = plot.x_view()
    assert right - left < 900
    grow(qtbot, plot, series, episodes(range(1001, 1101)))
    assert plot.x_view() == (left, right)
    for _ in range(2):
        qtbot.keyClick(plot, Qt.Key.Key_Space)
        settle(qtbot, plot)
        assert plot.follow, "also when it was followed before"
    assert plot.x_view()[1] >= 1100


def test_traces_of_rounding_are_drawn_as_a_flat_line(qtbot: QtBot, plot: Plot) -> None:
    series = Series(RUN)
    series.append([episodes(range(1, 41), values=[500.0 + 1e-7 * number for number in range(40)])])
    show(qtbot, plot, series)
    low, high = plot.y_view()
    assert high - low >= 1


def test_a_curve_that_comes_late_is_in_view_though_nothing_is_followed(qtbot: QtBot, plot: Plot) -> None:
    plot.set_follow(False)
    settle(qtbot, plot)
    show(qtbot, plot, straight())
    left, right = plot.x_view()
    assert left <= 1
    assert right >= 100
    assert not plot.follow


def test_a_click_gives_it_the_keyboard_and_keys_move_it(qtbot: QtBot, plot: Plot) -> None:
    show(qtbot, plot, curve(1000))
    plot.clearFocus()
    viewport = canvas(plot).viewport()
    QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=viewport.rect().center())
    assert plot.hasFocus()
    plot.show_x(400, 500)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert plot.x_view() == pytest.approx((410, 510))
    qtbot.keyClick(plot, Qt.Key.Key_Minus)
    assert plot.x_view() == pytest.approx((385, 535))
    qtbot.keyClick(plot, Qt.Key.Key_Home)
    settle(qtbot, plot)
    assert plot.follow
    assert plot.x_view()[0] <= 1


def test_y_fits_what_is_seen_and_can_be_drawn(qtbot: QtBot, plot: Plot) -> None:
    show(qtbot, plot, straight(values=[1000.0 if n < 50 else float(n) for n in range(1, 101)]))
    plot.show_x(60, 100)
    settle(qtbot, plot)
    low, high = plot.y_view()
    assert 50 < low < 61
    assert 100 < high < 110
    plot.fit()
    show(qtbot, plot, straight([1, 2, 3, 4], values=[1.0, float("inf"), float("nan"), 2.0]))
    low, high = plot.y_view()
    assert 0.9 < low < 1 < 2 < high < 2.1


def test_nothing_is_drawn_while_hidden_and_a_long_curve_thinly(qtbot: QtBot, plot: Plot) -> None:
    series = curve(100)
    show(qtbot, plot, series)
    plot.hide()
    drawn = points_drawn(plot)
    series.append([episodes(range(101, 50_001))])
    plot.changed()
    qtbot.wait(150)
    assert points_drawn(plot) == drawn
    plot.show()
    qtbot.waitUntil(lambda: points_drawn(plot) > drawn)
    assert points_drawn(plot) <= 2 * 3 * plot.width()


def test_the_crosshair_reads_values_that_can_be_copied(qtbot: QtBot, plot: Plot) -> None:
    show(qtbot, plot, straight())
    plot.move_crosshair(41.8)
    assert plot.reading.startswith("episode 42 · 42.0 · ")
    qtbot.keyClick(plot, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == plot.reading
    plot.move_crosshair(None)
    assert plot.reading == ""
    buckets = Series(RUN, weight=0.0)
    buckets.load(history(range(100, 1001, 100)).model_copy(update={"count": [100] * 10}))
    show(qtbot, plot, buckets)
    plot.move_crosshair(310)
    assert plot.reading.startswith("episode 300 · mean of 100: 300.0 · ")


def test_keys_move_the_crosshair_and_enter_is_a_click_there(qtbot: QtBot, plot: Plot) -> None:
    clicks: list[tuple[float, str]] = []
    plot.clicked.connect(lambda *what: clicks.append(what))
    for key in (Qt.Key.Key_Period, Qt.Key.Key_Return):
        qtbot.keyClick(plot, key)
    assert (plot.reading, clicks) == ("", []), "there is nothing yet"
    show(qtbot, plot, straight())
    qtbot.keyClick(plot, Qt.Key.Key_Return)
    assert clicks == [(100.0, RUN)], "the newest"
    pointed: list[float] = []
    plot.pointed.connect(pointed.append)
    plot.show_x(0, 200)
    for _ in range(4):
        qtbot.keyClick(plot, Qt.Key.Key_Comma)
    qtbot.keyClick(plot, Qt.Key.Key_Period)
    assert pointed == pytest.approx([98, 96, 94, 92, 94])
    assert plot.reading.startswith("episode 94 · ")
    qtbot.keyClick(plot, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == plot.reading
    qtbot.keyClick(plot, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
    assert clicks[1:] == [(94.0, RUN)]
    plot.show_x(20, 40)
    qtbot.keyClick(plot, Qt.Key.Key_Period)
    assert plot.reading.startswith("episode 40 · "), "it stays in view"
    assert not plot.follow


def test_the_values_of_a_curve_have_all_the_room_beside_its_name(qtbot: QtBot, plot: Plot) -> None:
    plot.show_series([(curve(100), "a", 0)])
    settle(qtbot, plot)
    plot.move_crosshair(50)
    read = next(label for label in plot.findChildren(QLabel) if label.text() == plot.reading)
    plot.resize(read.fontMetrics().horizontalAdvance(plot.reading) + 80, 300)
    # The name is written anew for another width, and makes its room a moment later.
    qtbot.waitUntil(lambda: read.width() < 800 and not read.toolTip())


def test_values_of_two_curves_that_do_not_fit_above_the_plot_stand_beside_the_crosshair(
    qtbot: QtBot, plot: Plot
) -> None:
    readout = part_of(plot, Readout)
    plot.show_series([(curve(100), "a", 0), (straight(), "b" * 20, 1)])
    for width, beside in ((1200, False), (360, True)):
        plot.resize(width, 300)
        settle(qtbot, plot)
        plot.move_crosshair(50.2)
        assert readout.isVisible() == beside
    plot.resize(640, 300)
    plot.show_series([(straight(), "a" * 20, 0), (straight(range(1, 41)), "b" * 20, 1)])
    settle(qtbot, plot)
    plot.move_crosshair(90)
    lines = [words for _, words in readout.lines]
    assert lines == ["episode 90", f"90.0  {'a' * 20}", f"40.0  {'b' * 20} at episode 40"]
    # Of a long name the end is cut, not where the value is.
    plot.show_series([(straight(), "a", 0), (straight(range(1, 41)), "b" * 99, 1)])
    settle(qtbot, plot)
    plot.move_crosshair(90.2)
    _, _, (_, words) = readout.lines
    assert words.endswith("… at episode 40")
    assert readout.fontMetrics().horizontalAdvance(words) < readout.width()
    plot.move_crosshair(None)
    assert not readout.isVisible()


@pytest.mark.parametrize("names", [["W" * 200], ["a", "W" * 200], ["W" * 200, "V" * 200]])
def test_long_names_make_no_plot_wider_and_leave_room_for_what_is_read(
    qtbot: QtBot, plot: Plot, names: list[str]
) -> None:
    plot.show_series([(straight(), name, 0) for name in names])
    settle(qtbot, plot)
    assert plot.minimumSizeHint().width() < 400
    plot.resize(600, 300)

    def told() -> dict[str, str]:
        return {one.text(): one.toolTip() for one in plot.findChildren(QLabel) if 0 < one.width() < 400}

    qtbot.waitUntil(lambda: told().get(names[-1]) == names[-1])
    assert set(names) <= told().keys()


def test_the_crosshair_names_every_curve_and_a_mark_nearby(qtbot: QtBot, plot: Plot) -> None:
    legend = next(label for label in plot.findChildren(QLabel) if label.text() == "checkpoint or resume")
    assert not legend.isVisible()
    plot.show_series([(curve(100), "a", 0), (straight(), "b", 1)])
    plot.show_marks([Mark(50, 500, START + 50, "quicksave")])
    assert legend.isVisible()
    settle(qtbot, plot)
    plot.move_crosshair(50.2)
    assert " · b: 50.0 · " in plot.reading
    assert plot.reading.endswith("quicksave")
    plot.move_crosshair(80)
    assert "quicksave" not in plot.reading
    plot.show_marks([])
    assert not legend.isVisible()
    # A curve with fewer rows says where it has its own.
    plot.show_series([(evaluations(1, 9), "judged", 0), (straight(), "trained", 1)])
    plot.show_along(Axis.ENV_STEP)
    settle(qtbot, plot)
    plot.move_crosshair(252)
    assert plot.reading.startswith("step 250 · trained: 25.0 · judged: 1.00 at step 100 · ")


def test_lines_stand_where_the_curve_that_is_nearest_has_a_value(plot: Plot) -> None:
    cursors = Cursors(canvas(plot), lambda: None)
    cursors.show((60.0, 90.0))
    short, long = straight(range(1, 21)), straight()
    curves = [DrawnCurve(canvas(plot), one, name, 0) for one, name in ((short, "a"), (long, "b"))]
    words = cursors.words(curves, Axis.EPISODE, reach=2.0)
    assert words.startswith("A episode 60 → B episode 90: 30 episodes\na: no values there\nb: 60.0 → 90.0 ")
    # One that ends between them says where its last value is.
    cursors.show((10.0, 90.0))
    assert "\na: 10.0 → 20.0 at episode 20 (+" in cursors.words(curves, Axis.EPISODE, reach=2.0)


def test_a_trace_of_rounding_between_the_lines_is_no_change(plot: Plot) -> None:
    cursors = Cursors(canvas(plot), lambda: None)
    cursors.show((60.0, 90.0))
    series = Series(RUN, weight=0.0)
    series.append([episodes([60, 90], values=[500.0, 500.0 - 6e-14])])
    words = cursors.words([DrawnCurve(canvas(plot), series, "a", 0)], Axis.EPISODE, reach=2.0)
    assert words.endswith("a: 500.0 → 500.0 (+0)")


def test_values_of_evaluations_and_of_short_curves_are_marked(qtbot: QtBot, plot: Plot) -> None:
    judged, trained, begun = evaluations(*range(1, 31)), curve(100), curve(1)
    drawings = [DrawnCurve(canvas(plot), series, "", 0) for series in (judged, trained, begun)]

    def dots(drawing: DrawnCurve, width_px: int) -> int:
        drawing.draw(0, 400, width_px, LIGHT, Scale())
        return sum(len(items.dots.points()) for items in drawing.items)

    assert [dots(drawing, 900) for drawing in drawings] == [30, 0, 1]
    assert dots(drawings[0], 100) == 0, "no room between them"


def test_a_resumed_curve_is_drawn_with_its_overwritten_part(qtbot: QtBot, plot: Plot) -> None:
    series = curve(100)
    show(qtbot, plot, series)
    before = points_drawn(plot)
    resumed = episodes(range(101, 131), attempt=2, episode=range(61, 91))
    grow(qtbot, plot, series, attempt_row(2, 60), resumed)
    assert points_drawn(plot) > before


def test_the_plot_takes_on_the_colours_of_the_theme(qtbot: QtBot, plot: Plot, both_themes: Theme) -> None:
    show(qtbot, plot, curve(100))
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
        assert not host.grab().isNull()
        assert host.plot is None, "its empty place is seen first"
    assert made == [host.plot]
    qtbot.waitUntil(lambda: "Loading …" not in {label.text() for label in host.findChildren(QLabel)})
    host.when_ready(made.append)
    assert made == [host.plot, host.plot]


def test_ticks_are_short() -> None:
    for value, spacing, largest, word in (
        (0, 500, 2000, "0"),
        (1500, 500, 2000, "1,500"),
        (200_000, 50_000, 400_000, "200 k"),
        (1_250_000, 250_000, 2_000_000, "1.25 M"),
        (0.3, 0.1, 1, "0.3"),
        (-50, 50, 200, "-50"),
        (3e-7, 1e-7, 1e-6, "3e-07"),
    ):
        assert short_number(value, spacing, largest) == word


def test_the_goal_is_in_view_unless_the_curve_would_become_flat() -> None:
    for low, high, goal, seen in (
        (0.0, 100.0, None, (0.0, 100.0)),
        (0.0, 100.0, 475.0, (0.0, 475.0)),
        (-50.0, 10.0, -200.0, (-200.0, 10.0)),
        (0.0, 100.0, 50.0, (0.0, 100.0)),
        (20.0, 20.0, 475.0, (20.0, 475.0)),
        (0.0, 1.0, 475.0, (0.0, 1.0)),  # the curve would be a line at the bottom
    ):
        assert with_goal(low, high, goal) == seen


def test_a_plot_shows_its_goal_over_the_curves_until_it_is_taken_away(qtbot: QtBot, plot: Plot) -> None:
    show(qtbot, plot, straight(range(1, 2001), values=[float(n % 500) for n in range(2000)]))
    plot.show_goal(800.0, "goal 800")
    qtbot.waitUntil(lambda: plot.y_view()[1] > 800)
    plot.show_goal(200.0, "goal 200")
    qtbot.waitUntil(lambda: not plot.drawing_waits and plot.y_view()[1] < 600)
    scene = canvas(plot).scene()
    words = next(item for item in scene.items() if isinstance(item, pg.InfLineLabel))
    there = scene.items(words.mapRectToScene(words.boundingRect()).center())
    over = there[: there.index(words)]
    assert any(isinstance(item, pg.PlotCurveItem) for item in there)
    assert not any(isinstance(item, pg.PlotCurveItem) for item in over)
    right = words.mapRectToScene(words.boundingRect()).right()
    assert right < canvas(plot).width() / 2, "they hide none of the newest values"
    plot.show_goal(None)
    settle(qtbot, plot)
    assert plot.goal is None
    plot.show_goal(200.0, "goal 200")
    settle(qtbot, plot)
    assert words.toPlainText() == "goal 200", "it says so again where it stood before"


def test_a_goal_of_nothing_has_its_words(qtbot: QtBot, plot: Plot) -> None:
    plot.show_goal(0.0, "goal 0")
    show(qtbot, plot, straight())
    words = next(item for item in canvas(plot).scene().items() if isinstance(item, pg.InfLineLabel))
    assert words.toPlainText() == "goal 0"


@pytest.mark.parametrize("x_title", [True, False])
def test_x_can_be_changed_and_is_named_once(qtbot: QtBot, theme: Theme, x_title: bool) -> None:
    plot, series = Plot(x_title=x_title), curve(100)
    qtbot.addWidget(plot)
    plot.resize(600, 300)
    plot.show()
    show(qtbot, plot, series)
    titles = {Axis.EPISODE: "Episode", Axis.ENV_STEP: "Environment steps", Axis.TIME: "Wall time"}
    for axis, title in titles.items():
        plot.show_along(axis)
        settle(qtbot, plot)
        bounds = series.x_range()
        assert bounds is not None
        left, right = plot.x_view()
        assert left <= bounds[0] <= bounds[1] <= right
        bottom = canvas(plot).getAxis("bottom")
        assert (bottom.labelText, bottom.label.isVisible()) == (title, x_title)
