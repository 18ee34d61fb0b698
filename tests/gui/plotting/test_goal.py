import pyqtgraph as pg
import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui.plotting.drawing import with_goal
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.plotting.rows import Axis
from soulsgui.gui.plotting.series import Series
from soulsgui.gui.theme import Theme
from tests.gui.plotting.curves import RUN, episodes


@pytest.mark.parametrize(
    ("low", "high", "goal", "shown"),
    [
        (0.0, 100.0, None, (0.0, 100.0)),
        (0.0, 100.0, 475.0, (0.0, 475.0)),
        (-50.0, 10.0, -200.0, (-200.0, 10.0)),
        (0.0, 100.0, 50.0, (0.0, 100.0)),
        (20.0, 20.0, 475.0, (20.0, 475.0)),
        # The curve would be a line at the bottom.
        (0.0, 1.0, 475.0, (0.0, 1.0)),
    ],
)
def test_the_goal_is_in_view_unless_the_curve_would_become_flat(
    low: float, high: float, goal: float | None, shown: tuple[float, float]
) -> None:
    assert with_goal(low, high, goal) == shown


def test_a_plot_shows_its_goal_until_it_is_taken_away(qtbot: QtBot, theme: Theme) -> None:
    plot = Plot()
    qtbot.addWidget(plot)
    plot.resize(600, 300)
    plot.show()
    series = Series(RUN)
    series.append([episodes(range(1, 101))])
    plot.show_series([(series, "return", 0)])
    plot.show_goal(475.0, "goal 475")
    qtbot.waitUntil(lambda: plot.y_view()[1] > 475)
    plot.show_goal(None)
    qtbot.waitUntil(lambda: plot.y_view()[1] < 120)


@pytest.mark.parametrize("x_title", [True, False])
def test_x_is_named_in_the_plot_only_when_nobody_else_does(qtbot: QtBot, theme: Theme, x_title: bool) -> None:
    plot = Plot(x_title=x_title)
    qtbot.addWidget(plot)
    plot.resize(600, 300)
    plot.show()
    series = Series(RUN)
    series.append([episodes(range(1, 101))])
    plot.show_series([(series, "return", 0)])
    for axis in (Axis.EPISODE, Axis.TIME):
        plot.show_along(axis)
        qtbot.waitUntil(lambda: not plot.drawing_waits)
        canvas = plot.findChild(pg.PlotWidget)
        assert canvas is not None
        assert canvas.getAxis("bottom").label.isVisible() is x_title


def test_the_words_of_the_goal_lie_over_the_curves(qtbot: QtBot, theme: Theme) -> None:
    plot = Plot()
    qtbot.addWidget(plot)
    plot.resize(600, 300)
    plot.show()
    series = Series(RUN, weight=0.0)
    series.append([episodes(range(1, 2001), values=[float(n % 500) for n in range(2000)])])
    plot.show_series([(series, "return", 0)])
    plot.show_goal(200.0, "goal 200")
    qtbot.waitUntil(lambda: not plot.drawing_waits and not plot.is_empty)
    canvas = plot.findChild(pg.PlotWidget)
    assert canvas is not None
    scene = canvas.scene()
    words = next(item for item in scene.items() if isinstance(item, pg.InfLineLabel))
    there = scene.items(words.mapRectToScene(words.boundingRect()).center())
    over = there[: there.index(words)]
    assert any(isinstance(item, pg.PlotCurveItem) for item in there)
    assert not any(isinstance(item, pg.PlotCurveItem) for item in over)
