import json
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from soulsgui.gui.plots.choices import Choices
from soulsgui.gui.plots.layout import PlotLayout, give_colour, kept_layout
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.plotting.plot import Plot
from soulsgui.wire.control import History, RunStatus, RunSummary, Status
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell
from tests.gui.plotting.curves import drawn, episodes, history
from tests.gui.reading import shown

ACTIVE, OLDER, OLDEST = "run-c", "run-b", "run-a"
METRICS = ["return", "length", "loss"]


def answer(params: dict[str, Any]) -> History:
    metric = params.get("metric", "return")
    place = {"run_id": params["run"], "metric": metric, "metrics": METRICS, "clients": ["a", "b"]}
    if metric == "loss":
        place |= {"last_row": 0, "last_update": (1, 50)}
    return history(range(1, 51)).model_copy(update=place)


@pytest.fixture
def feed(fake: FakeFeed) -> FakeFeed:
    fake.status = Status(run=RunStatus(id=ACTIVE, name="newest", state="running"))
    runs = [
        RunSummary(id=ACTIVE, name="newest", state="running"),
        RunSummary(id=OLDER),
        RunSummary(id=OLDEST),
    ]
    fake.answers |= {
        "runs.list": {"runs": [run.model_dump(mode="json") for run in runs]},
        "history.query": answer,
        "history.events": {"events": []},
        "checkpoint.list": {"checkpoints": []},
    }
    return fake


@pytest.fixture
def page(qtbot: QtBot, feed: FakeFeed, shell: FakeShell) -> PlotsPage:
    return opened(qtbot, feed, shell)


def opened(qtbot: QtBot, feed: FakeFeed, shell: FakeShell) -> PlotsPage:
    made = shown(qtbot, PlotsPage(feed, shell), 1100, 700)
    settle(qtbot, made)
    return made


def settle(qtbot: QtBot, page: PlotsPage) -> None:
    """Wait until everything that is to be drawn was read and drawn."""
    qtbot.waitUntil(
        lambda: (
            bool(page.cells)
            and len(page.plots) == len(page.cells)
            and all(curve.is_loaded for cell in page.cells.values() for curve, _ in cell.curves)
            and not any(plot.drawing_waits for plot in page.plots)
            and page.runs.list.count() == 3
        )
    )


def tick(choices: Choices, *names: str) -> None:
    """Tick or untick entries, as a click on their boxes does."""
    for name in names:
        rows = [choices.list.item(row) for row in range(choices.list.count())]
        item = next(item for item in rows if item.data(Qt.ItemDataRole.UserRole) == name)
        ticked = item.checkState() is Qt.CheckState.Checked
        item.setCheckState(Qt.CheckState.Unchecked if ticked else Qt.CheckState.Checked)


def curves(page: PlotsPage, metric: str) -> list[str]:
    return [shown.name for _, shown in page.cells[metric].curves]


def plot(page: PlotsPage, metric: str = "return") -> Plot:
    made = page.cells[metric].view.host.plot
    assert made is not None
    return made


def test_the_page_opens_with_the_return_of_the_run_that_goes_on(qtbot: QtBot, page: PlotsPage) -> None:
    assert (list(page.cells), curves(page, "return")) == (["return"], ["newest"])
    ((curve, _),) = page.cells["return"].curves
    page._feed.bring_rows(episodes([51, 52], run=ACTIVE))
    qtbot.waitUntil(lambda: len(curve.series) == 52)
    assert [y for _, y in drawn(curve.series)][-2:] == [51, 52]


def test_several_runs_stand_over_each_other_and_several_metrics_side_by_side(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed
) -> None:
    kept = page.cells["return"].curves[0][0]
    tick(page.runs, OLDER, OLDEST)
    tick(page.metrics, "loss")
    settle(qtbot, page)
    assert curves(page, "return") == curves(page, "loss") == ["newest", OLDER, OLDEST]
    assert page.cells["return"].curves[0][0] is kept, "what is drawn already is not read again"
    numbers = [shown.colour for _, shown in page.cells["loss"].curves]
    assert len(set(numbers)) == 3
    assert numbers == [shown.colour for _, shown in page.cells["return"].curves]
    asked = {
        (sent.params["run"], sent.params.get("metric", "return")) for sent in feed.sent_of("history.query")
    }
    assert asked == {(run, metric) for run in (ACTIVE, OLDER, OLDEST) for metric in ("return", "loss")}
    tick(page.runs, ACTIVE)
    tick(page.metrics, "return")
    settle(qtbot, page)
    assert (list(page.cells), curves(page, "loss")) == (["loss"], [OLDER, OLDEST])
    assert [shown.colour for _, shown in page.cells["loss"].curves] == numbers[1:], "colours stay"


def test_what_is_shown_is_remembered(qtbot: QtBot, page: PlotsPage, feed: FakeFeed, shell: FakeShell) -> None:
    tick(page.runs, OLDER)
    tick(page.metrics, "loss")
    settle(qtbot, page)
    again = opened(qtbot, feed, shell)
    assert curves(again, "loss") == curves(page, "loss") == ["newest", OLDER]


def test_plots_move_and_point_together(qtbot: QtBot, page: PlotsPage) -> None:
    tick(page.metrics, "loss")
    settle(qtbot, page)
    returns, losses = plot(page), plot(page, "loss")
    qtbot.keyClick(returns, Qt.Key.Key_Plus)
    settle(qtbot, page)
    assert losses.x_view() == returns.x_view()
    assert not page.controls.follow.isChecked()
    returns.pointed.emit(200.0)
    assert losses.reading.startswith("step 200")
    qtbot.keyClick(losses, Qt.Key.Key_Space)
    settle(qtbot, page)
    assert returns.follow
    assert losses.x_view() == returns.x_view()


def test_another_page_asks_for_a_metric_of_a_run(qtbot: QtBot, page: PlotsPage) -> None:
    page.show_where(metric="loss", run=ACTIVE)
    settle(qtbot, page)
    assert (list(page.cells), curves(page, "loss")) == (["loss", "return"], ["newest"])
    tick(page.runs, OLDER)
    page.show_where(metric="loss", run=OLDEST)
    settle(qtbot, page)
    assert curves(page, "loss") == ["newest", OLDER, OLDEST]


def test_without_a_connection_it_is_faded_and_afterwards_it_goes_on(qtbot: QtBot, page: PlotsPage) -> None:
    page._feed.connect_as(LOST)
    assert plot(page).is_dimmed
    page._feed.connect_as(LIVE)
    assert not plot(page).is_dimmed


def test_damaged_settings_open_the_usual_page(tmp_path: Path) -> None:
    shell = FakeShell(tmp_path)
    for broken in ("{", "[]", json.dumps({"smoothing": 1000}), "null"):
        shell.settings().setValue("plots/layout", broken)
        assert kept_layout(shell.settings()) == PlotLayout()


def test_a_colour_stays_with_its_run_unless_one_beside_it_has_it() -> None:
    assert give_colour("a", {}, []) == 0
    assert give_colour("b", {"a": 0}, ["a", "b"]) == 1
    assert give_colour("a", {"a": 7}, ["b"]) == 7
    assert give_colour("a", {"a": 7, "b": 7}, ["b"]) == 0
    full = {f"run-{number}": number for number in range(10)}
    assert give_colour("c", full, full) == give_colour("c", full, full)
    assert give_colour("run-3", full | {"d": 3}, [*full, "d"]) == 3
