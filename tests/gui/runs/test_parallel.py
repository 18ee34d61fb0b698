import math
from typing import Any

import numpy as np
import pytest
from pyqtgraph import GraphicsView, TextItem
from PySide6.QtCore import QPoint, QPointF, Qt
from pytestqt.qtbot import QtBot

from soulsgui.gui.colours import DARK
from soulsgui.gui.runs.experiments import SweepPart
from soulsgui.gui.runs.parallel import ParallelAxis, ParallelPlot, axes_of
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.wire.control import SweepStatus, SweepTrial
from tests.gui.fake_feed import FakeFeed, FakeShell
from tests.gui.reading import shown

SPACE = {
    "ppo.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True, "step": None},
    "network.activation": ["tanh", "relu"],
}


def trial(number: int, state: str, score: float | None, rate: float, activation: str) -> SweepTrial:
    values = {"ppo.learning_rate": rate, "network.activation": activation}
    told = {"number": number, "state": state, "score": score, "values": values, "run_id": f"r{number}"}
    return SweepTrial.model_validate(told)


TRIALS = [
    trial(0, "complete", 100.0, 1e-4, "tanh"),
    trial(1, "complete", 500.0, 1e-3, "relu"),
    trial(2, "pruned", 300.0, 1e-2, "tanh"),
    trial(3, "failed", None, 1e-2, "relu"),
]
SWEEP = SweepStatus(id="2026_lr", state="running", wanted=4, space=SPACE, trials=TRIALS, best=TRIALS[1])


def lines(item: object) -> list[list[float]]:
    """The heights of the lines that an item draws, axis by axis."""
    _, ys = item.getData()  # type: ignore[attr-defined]
    return [] if ys is None else np.reshape(ys, (-1, 4))[:, :3].tolist()


def test_a_value_stands_where_its_scale_puts_it() -> None:
    rate, activation, score = axes_of(SWEEP)
    assert [rate.place(one) for one in (1e-4, 1e-3, 1e-2)] == pytest.approx([0.0, 0.5, 1.0])
    assert [activation.place(one) for one in ("tanh", "relu")] == [0.0, 1.0]
    assert (score.name, score.low, score.high, score.place(300.0)) == ("last mean return", 100.0, 500.0, 0.5)
    for axis, value in ((rate, 0.0), (rate, None), (activation, "gelu"), (score, None)):
        assert math.isnan(axis.place(value))
    assert [words for _, words in rate.ticks] == ["0.0001", "0.001", "0.01"]
    assert ParallelAxis("x", 3.0, 3.0).ticks == [(0.5, "3")]
    assert axes_of(SWEEP.model_copy(update={"trials": []}))[-1].ticks == [], "no score yet"


def test_settings_of_which_only_the_values_are_known_are_choices() -> None:
    told = SWEEP.model_copy(update={"space": {"ppo.learning_rate": "1e-4..1e-2:log"}})
    assert axes_of(told)[0].choices == ("0.0001", "0.001", "0.01")


@pytest.mark.parametrize(
    "space", [{"low": 1, "high": -5, "log": True}, {"low": "x"}, {}, {"low": 10**400, "high": 1}]
)
def test_a_range_that_is_none_is_no_mistake_of_the_window(space: dict[str, Any]) -> None:
    axis = axes_of(SWEEP.model_copy(update={"space": {"ppo.gamma": space}}))[0]
    assert all(math.isfinite(place) for place, _ in axis.ticks)
    assert math.isnan(axis.place(10**400))


def test_a_line_for_each_trial_the_stronger_the_better(qtbot: QtBot, both_themes: Theme) -> None:
    plot = shown(qtbot, ParallelPlot(), 600, 300)
    plot.show_sweep(SWEEP)
    assert lines(plot.shades[0]) == [pytest.approx([0.0, 0.0, 0.0])]
    assert lines(plot.shades[-1]) == [pytest.approx([0.5, 1.0, 1.0])]
    assert len(lines(plot.quiet)) == 2, "what is not complete is not among them"
    plot.mark(1)
    assert lines(plot.mark_line) == lines(plot.shades[-1])
    plot.show_sweep(SWEEP.model_copy(update={"trials": []}))
    assert lines(plot.mark_line) == lines(plot.quiet) == []
    both_themes.choose(ThemeChoice.DARK)
    qtbot.waitUntil(lambda: plot.mark_line.opts["pen"].color().name() == DARK.text)


def test_names_and_values_are_whole_also_where_there_is_little_room(qtbot: QtBot) -> None:
    plot = shown(qtbot, ParallelPlot(), 600, 120)
    plot.show_sweep(SWEEP)
    plot.grab()
    canvas = plot.findChild(GraphicsView)
    written = [item.textItem for item in canvas.scene().items() if isinstance(item, TextItem)]
    margin = written[0].document().documentMargin()
    places = [item.mapRectToScene(item.boundingRect()).adjusted(0, margin, 0, -margin) for item in written]
    assert len(places) == 11
    assert [place for place in places if not canvas.viewRect().contains(place)] == []


def test_a_trial_of_the_table_is_marked_and_a_line_that_is_clicked_is_chosen(
    qtbot: QtBot, fake: FakeFeed, shell: FakeShell
) -> None:
    fake.answers["sweep.status"] = SWEEP
    part = shown(qtbot, SweepPart(fake, shell), 1000, 400)  # type: ignore[arg-type]
    part.show_sweep("2026_lr")
    qtbot.waitUntil(lambda: part.parallel is not None)
    plot = part.parallel
    assert plot is not None
    part.table.selectRow(0)
    assert plot.marked == 1, "the best stands on top"
    part.table.entered.emit(part.table.model().index(3, 0))
    assert plot.marked == 3
    part.table.viewportEntered.emit()
    assert plot.marked == 1
    places: list[QPoint] = []

    def stands_still() -> bool:  # it is laid out some turns of the loop after it is visible
        places.append(plot._view.mapViewToScene(QPointF(0.0, 0.02)).toPoint())
        return plot.isVisible() and places[-5:] == [places[-1]] * 5

    qtbot.waitUntil(stands_still)
    qtbot.mouseClick(plot._canvas.viewport(), Qt.MouseButton.LeftButton, pos=places[-1])
    qtbot.waitUntil(lambda: plot.marked == 0)
