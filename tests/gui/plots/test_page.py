import csv
import io
import json
import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QGraphicsView, QLabel
from pytestqt.qtbot import QtBot

from soulsgui.gui.plots.choices import Choices
from soulsgui.gui.plots.layout import Layouts, PlotLayout, give_colour
from soulsgui.gui.plots.page import PlotsPage
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.plotting.rows import Axis
from soulsgui.gui.plotting.scale import ScaleKind
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.widgets.dialog import NameDialog
from soulsgui.wire.control import Event, History, RunStatus, RunSummary, Status
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell
from tests.gui.plotting.curves import START, drawn, episodes, history
from tests.gui.reading import choose, part_of, shown, words_of
from tests.states import checkpoint

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
            bool(page.grid.cells)
            and len(page.grid.plots) == len(page.grid.cells)
            and all(curve.is_loaded for cell in page.grid.cells.values() for curve, _ in cell.curves)
            and not any(plot.drawing_waits for plot in page.grid.plots)
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
    return [shown.name for _, shown in page.grid.cells[metric].curves]


def plot(page: PlotsPage, metric: str = "return") -> Plot:
    made = page.grid.cells[metric].view.host.plot
    assert made is not None
    return made


def test_the_page_opens_with_the_return_of_the_run_that_goes_on(qtbot: QtBot, page: PlotsPage) -> None:
    assert (list(page.grid.cells), curves(page, "return")) == (["return"], ["newest"])
    ((curve, _),) = page.grid.cells["return"].curves
    page._feed.bring_rows(episodes([51, 52], run=ACTIVE))
    qtbot.waitUntil(lambda: len(curve.series) == 52)
    assert [y for _, y in drawn(curve.series)][-2:] == [51, 52]


def test_several_runs_stand_over_each_other_and_several_metrics_side_by_side(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed
) -> None:
    kept = page.grid.cells["return"].curves[0][0]
    tick(page.runs, OLDER, OLDEST)
    tick(page.metrics, "loss")
    settle(qtbot, page)
    assert curves(page, "return") == curves(page, "loss") == ["newest", OLDER, OLDEST]
    assert page.grid.cells["return"].curves[0][0] is kept, "what is drawn already is not read again"
    numbers = [shown.colour for _, shown in page.grid.cells["loss"].curves]
    assert len(set(numbers)) == 3
    assert numbers == [shown.colour for _, shown in page.grid.cells["return"].curves]
    asked = {
        (sent.params["run"], sent.params.get("metric", "return")) for sent in feed.sent_of("history.query")
    }
    assert asked == {(run, metric) for run in (ACTIVE, OLDER, OLDEST) for metric in ("return", "loss")}
    tick(page.runs, ACTIVE)
    tick(page.metrics, "return")
    settle(qtbot, page)
    assert (list(page.grid.cells), curves(page, "loss")) == (["loss"], [OLDER, OLDEST])
    assert [shown.colour for _, shown in page.grid.cells["loss"].curves] == numbers[1:], "colours stay"


def test_without_a_metric_it_says_what_to_do(qtbot: QtBot, page: PlotsPage) -> None:
    assert not page.no_metric.isVisible()
    tick(page.metrics, "return")
    qtbot.waitUntil(page.no_metric.isVisible)
    tick(page.metrics, "return")
    qtbot.waitUntil(page.grid.isVisible)
    assert not page.no_metric.isVisible()


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
    assert (list(page.grid.cells), curves(page, "loss")) == (["loss", "return"], ["newest"])
    tick(page.runs, OLDER)
    page.show_where(metric="loss", run=OLDEST)
    settle(qtbot, page)
    assert curves(page, "loss") == ["newest", OLDER, OLDEST]
    page.show_where(runs=[OLDEST, ACTIVE])
    settle(qtbot, page)
    assert curves(page, "loss") == curves(page, "return") == [OLDEST, "newest"], "these alone"


def test_a_click_offers_the_nearest_checkpoint_of_the_run_whose_curve_is_clicked(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed, shell: FakeShell
) -> None:
    def far_above(params: dict[str, Any]) -> History:
        return answer(params).model_copy(update={"value": [1000.0 + n for n in range(50)]})

    feed.answers["history.query"] = far_above
    saved = {"checkpoints": [checkpoint(id="history/8", updates=8).model_dump(mode="json")]}
    feed.answers["checkpoint.list"] = saved
    tick(page.runs, OLDER)
    settle(qtbot, page)
    viewport = part_of(plot(page), QGraphicsView).viewport()
    for height, run, title in ((0.2, OLDER, OLDER), (0.7, ACTIVE, "newest")):
        place = QPoint(viewport.width() // 2, round(height * viewport.height()))
        qtbot.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=place)
        qtbot.waitUntil(lambda title=title: bool(shell.told) and shell.told[-1].text.startswith(title))
        assert shell.told[-1].text.startswith(f"{title}: Nearest checkpoint: update 8, ")
        shell.told[-1].action.act()
        assert shell.opened[-1] == ("player", {"run": run, "checkpoint": "history/8"})


def test_without_a_connection_it_is_faded_and_afterwards_it_goes_on(qtbot: QtBot, page: PlotsPage) -> None:
    page._feed.connect_as(LOST)
    assert plot(page).is_dimmed
    page._feed.connect_as(LIVE)
    assert not plot(page).is_dimmed


def test_damaged_settings_open_the_usual_page(tmp_path: Path) -> None:
    shell = FakeShell(tmp_path)
    for broken in ("{", "[]", json.dumps({"smoothing": 1000}), "null"):
        shell.settings().setValue("plots/layout", broken)
        assert Layouts(shell.settings()).shown == PlotLayout()
    shell.settings().setValue("plots/layouts", "[" * 20_000)
    assert Layouts(shell.settings()).named == {}


def test_layouts_that_another_window_has_saved_are_kept(tmp_path: Path) -> None:
    settings = FakeShell(tmp_path).settings()
    layouts = Layouts(settings)
    layouts.save("mine")
    settings.sync()
    path = Path(settings.fileName())
    path.write_text(path.read_text().replace("mine", "theirs"))
    layouts.save("another")
    assert list(layouts.named) == ["theirs", "another"]


def test_a_colour_stays_with_its_run_unless_one_beside_it_has_it() -> None:
    assert give_colour("a", {}, []) == 0
    assert give_colour("b", {"a": 0}, ["a", "b"]) == 1
    assert give_colour("a", {"a": 7}, ["b"]) == 7
    assert give_colour("a", {"a": 7, "b": 7}, ["b"]) == 0
    full = {f"run-{number}": number for number in range(10)}
    assert give_colour("c", full, full) == give_colour("c", full, full)
    assert give_colour("run-3", full | {"d": 3}, [*full, "d"]) == 3


def test_scale_and_the_followed_part_act_on_all_plots_and_are_remembered(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed, shell: FakeShell
) -> None:
    tick(page.metrics, "loss")
    choose(page.controls.scale_box, ScaleKind.LOG)
    choose(page.controls.last_box, 100.0)
    settle(qtbot, page)
    for name in ("return", "loss"):
        assert plot(page, name).y_view()[1] == pytest.approx(math.log10(50), abs=0.2)
        left, right = plot(page, name).x_view()
        assert left >= 390, "the last 100 of 500 steps"
        assert right >= 500
    again = opened(qtbot, feed, shell)
    assert (again.layouts.shown.scale, again.layouts.shown.last) == (ScaleKind.LOG, 100.0)
    choose(again.controls.axis_box, Axis.EPISODE)
    assert again.layouts.shown.last == 0.0, "a width of another axis means nothing here"


def test_a_logarithm_that_draws_nothing_says_so(qtbot: QtBot, page: PlotsPage, feed: FakeFeed) -> None:
    below = history(range(1, 51)).model_copy(
        update={"run_id": ACTIVE, "value": [-1.0] * 50, "low": [-1.0] * 50, "high": [-1.0] * 50}
    )
    feed.answers["history.query"] = below
    page.refresh()
    choose(page.controls.scale_box, ScaleKind.LOG)
    qtbot.waitUntil(lambda: "choose symlog" in words_of(page.grid.cells["return"]))
    choose(page.controls.scale_box, ScaleKind.SYMLOG)
    qtbot.waitUntil(lambda: "choose symlog" not in words_of(page.grid.cells["return"]))


def test_each_client_has_its_curve_where_the_metric_is_one_of_episodes(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed
) -> None:
    tick(page.metrics, "loss")
    settle(qtbot, page)
    page.controls.each_client.setChecked(True)
    settle(qtbot, page)
    assert (curves(page, "return"), curves(page, "loss")) == (["a", "b"], ["newest"])
    assert {sent.params.get("client", "") for sent in feed.sent_of("history.query")} == {"", "a", "b"}
    numbers = [shown.colour for _, shown in page.grid.cells["return"].curves]
    assert len(set(numbers)) == 2


def test_moments_of_the_runs_are_marked_as_far_as_they_are_wanted(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed
) -> None:
    crashed = Event(number=1, time=START + 20.5, level="error", what="trainer failed", run_id=ACTIVE)
    feed.answers["history.events"] = {"events": [crashed.model_dump(mode="json")]}
    feed.answers["checkpoint.list"] = {
        "checkpoints": [checkpoint(env_steps=300, updates=30, episodes=30).model_dump(mode="json")]
    }
    tick(page.runs, OLDER)
    page.refresh()
    for action in page.controls.marks.menu().actions():
        action.setChecked(action.text() == "Crashes and warnings")
    place = plot(page)

    def reads(x: float) -> str:
        place.move_crosshair(x)
        return place.reading

    qtbot.waitUntil(lambda: "newest: trainer failed" in reads(200.0))
    assert "Quicksave" not in reads(300.0)
    page.controls.marks.menu().actions()[0].setChecked(True)
    qtbot.waitUntil(lambda: "Quicksave, update 30" in reads(300.0))


def test_two_cursors_tell_what_lies_between_them_in_every_plot(qtbot: QtBot, page: PlotsPage) -> None:
    tick(page.metrics, "loss")
    settle(qtbot, page)
    page.activateWindow()
    qtbot.waitUntil(page.isActiveWindow)
    page.controls.cursors.click()
    assert plot(page).hasFocus(), "so that its keys move them"
    plot(page).show_cursors((100.0, 300.0))
    plot(page).dragged.emit(100.0, 300.0)
    for name in ("return", "loss"):
        qtbot.waitUntil(
            lambda name=name: "A step 100 → B step 300: 200 steps" in words_of(page.grid.cells[name])
        )
    before = plot(page).x_view()
    for modifier in (Qt.KeyboardModifier.ShiftModifier, Qt.KeyboardModifier.ControlModifier):
        qtbot.keyClick(plot(page), Qt.Key.Key_Left, modifier)
    step = (before[1] - before[0]) / 100
    for one in page.grid.plots:
        assert one.cursors == pytest.approx((100.0 - step, 300.0 - step)), "all move together, by keys, too"
    assert plot(page).x_view() == before
    cell = page.grid.cells["loss"]
    note = next(one for one in cell.findChildren(QLabel) if one.text().startswith("A step"))
    note.setFixedWidth(200)
    qtbot.waitUntil(lambda: 0 < note.heightForWidth(note.width()) <= note.height())
    page.controls.cursors.setChecked(False)
    qtbot.waitUntil(lambda: "A step" not in words_of(page.grid.cells["loss"]))


def test_what_is_in_view_is_saved_and_copied(
    qtbot: QtBot, page: PlotsPage, shell: FakeShell, tmp_path: Path
) -> None:
    _, copy_values, copy_picture = page.controls.export.menu().actions()[2:]
    plot(page).show_x(95.0, 205.0)
    settle(qtbot, page)
    page.saving.save_to(str(tmp_path / "view.csv"))
    rows = (tmp_path / "view.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 1 + len(range(100, 201, 10))
    assert rows[1].startswith(f"{ACTIVE},return,,1,10,100,")
    copy_values.trigger()
    copied = QGuiApplication.clipboard().text().splitlines()
    assert [line.split("\t") for line in copied] == [row.split(",") for row in rows]
    copy_picture.trigger()
    assert not QGuiApplication.clipboard().pixmap().isNull()
    for suffix, begins in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        page.saving.save_to(str(tmp_path / f"view.{suffix}"))
        assert (tmp_path / f"view.{suffix}").read_bytes().startswith(begins)
    page.saving.save_to(str(tmp_path / "missing" / "view.png"))
    assert [told.level for told in shell.told] == ["success", "info", "info", "success", "success", "error"]


def test_a_picture_says_which_curve_is_whose_and_what_x_is(
    qtbot: QtBot, page: PlotsPage, tmp_path: Path
) -> None:
    tick(page.runs, OLDER, OLDEST)
    settle(qtbot, page)
    page.saving.save_to(str(tmp_path / "view.svg"))
    root = ElementTree.parse(tmp_path / "view.svg").getroot()
    words = ["".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("text")]
    assert words[-4:] == ["Environment steps", "newest", OLDER, OLDEST]


def test_layouts_are_saved_shown_again_and_removed(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed, shell: FakeShell
) -> None:
    tick(page.metrics, "loss")
    tick(page.runs, OLDER)
    choose(page.controls.axis_box, Axis.TIME)
    page.controls.save_wanted.emit()
    dialog = part_of(page, NameDialog)
    assert not dialog.save.isEnabled(), "it needs a name"
    dialog.name.setText(" losses & returns ")
    dialog.save.click()
    tick(page.metrics, "loss")
    choose(page.controls.axis_box, Axis.EPISODE)
    again = opened(qtbot, feed, shell)
    menu = again.controls.layouts.menu()
    menu.actions()[2].trigger()
    settle(qtbot, again)
    assert (list(again.grid.cells), again.drawable.shown) == (["return", "loss"], (ACTIVE, OLDER))
    assert again.controls.chosen_axis is Axis.TIME
    again.controls.remove_wanted.emit("losses & returns")
    assert len(again.controls.layouts.menu().actions()) == 1


def test_a_pinned_run_stands_on_top_and_stays_drawn(qtbot: QtBot, page: PlotsPage) -> None:
    assert "Choose a run" in page.pin.toolTip(), "what is off says why"
    page.runs.list.setCurrentRow(2)
    assert "Choose a run" not in page.pin.toolTip()
    page.pin.click()
    assert page.runs.list.item(0).text() == OLDEST
    page.runs.list.setCurrentRow(2)
    page.only.click()
    settle(qtbot, page)
    assert curves(page, "return") == [OLDER, OLDEST]


def test_no_more_is_drawn_than_can_be_looked_at(qtbot: QtBot, page: PlotsPage, feed: FakeFeed) -> None:
    many = [RunSummary(id=f"run-{number:02}").model_dump(mode="json") for number in range(40)]
    feed.answers["runs.list"] = {"runs": many}
    page.refresh()
    qtbot.waitUntil(lambda: page.runs.list.count() == 40)
    tick(page.runs, *[str(run["id"]) for run in many])
    assert len(page.grid.cells["return"].curves) == 20
    assert "20 of 40 curves" in words_of(page)


def experiment_runs(*runs: RunSummary) -> dict[str, Any]:
    return {"runs": [run.model_dump(mode="json") for run in runs]}


def test_an_experiment_is_drawn_as_the_mean_of_its_runs_that_are_over(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed
) -> None:
    runs = [
        RunSummary(id=ACTIVE, state="running", experiment="2026_10_wide"),
        RunSummary(id=OLDER, state="finished", experiment="2026_10_wide"),
        RunSummary(id=OLDEST, state="finished", experiment="2026_10_wide"),
    ]
    feed.answers["runs.list"] = experiment_runs(*runs)
    page.refresh()
    qtbot.waitUntil(lambda: page.runs.list.count() == 4)
    tick(page.runs, "experiment/2026_10_wide", ACTIVE)
    qtbot.waitUntil(lambda: all(curve.is_loaded for curve, _ in page.grid.cells["return"].curves))
    assert curves(page, "return") == ["wide (mean of 2)"] * 2
    assert {curve.series.run_id for curve, _ in page.grid.cells["return"].curves} == {OLDER, OLDEST}
    qtbot.waitUntil(lambda: [one.name for one in plot(page).curves] == ["wide (mean of 2)"])
    assert not [sent for sent in feed.sent if "experiment" in str(sent.params.get("run"))]

    def exported() -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(page.grid.values_in_view())))

    qtbot.waitUntil(lambda: exported() != [])  # once it is drawn
    assert {row["run"] for row in exported()} == {"experiment/2026_10_wide"}
    assert all(row["mean"] and row["low"] and row["high"] and not row["value"] for row in exported())

    tick(page.runs, OLDER)
    assert len(plot(page).curves) == 2
    assert len({curve for curve, _ in page.grid.cells["return"].curves}) == 2, (
        "a run that is drawn alone, too, is read once"
    )
    choose(page.controls.axis_box, Axis.TIME)
    names = {shown.name for _, shown in page.grid.cells["return"].curves}
    assert names == {OLDER, OLDEST}, "runs that follow one another have no mean by wall time"
    page.show_where(experiments=["2026_10_wide"])
    assert page.drawable.shown == ("experiment/2026_10_wide",)


def test_runs_of_different_environments_are_warned_of(qtbot: QtBot, page: PlotsPage, feed: FakeFeed) -> None:
    assert page.warning.isHidden()
    runs = [RunSummary(id=ACTIVE, env_id="CartPole-v1"), RunSummary(id=OLDER, env_id="LunarLander-v3")]
    feed.answers["runs.list"] = experiment_runs(*runs, RunSummary(id=OLDEST, env_id="CartPole-v1"))
    page.refresh()
    tick(page.runs, OLDEST)
    qtbot.waitUntil(lambda: page.drawable.runs[OLDER].env_id != "")
    assert page.warning.isHidden()
    tick(page.runs, OLDER)
    assert "can't be compared: CartPole-v1, LunarLander-v3." in page.warning.text()
    assert page.warning.isVisible()


def test_runs_whose_rewards_may_be_of_other_scales_are_warned_of(
    qtbot: QtBot, page: PlotsPage, feed: FakeFeed
) -> None:
    differing = {"env.wrappers": [[], ["NormalizeReward"]], "ppo.gamma": [0.9, 0.99]}
    feed.answers["runs.compare"] = {"runs": [], "settings": differing}
    tick(page.runs, ACTIVE)
    assert page.warning.isHidden()
    tick(page.runs, OLDER)
    qtbot.waitUntil(page.warning.isVisible)
    assert page.warning.text().startswith("The runs differ in env.wrappers: their returns may")
    assert feed.sent_of("runs.compare")[-1].params == {"runs": sorted([ACTIVE, OLDER])}
    feed.answers["runs.compare"] = {"runs": [], "settings": {"ppo.gamma": [0.9, 0.99]}}
    tick(page.runs, ACTIVE)
    assert page.warning.isHidden()


def test_without_a_run_it_says_what_to_do(qtbot: QtBot, fake: FakeFeed, shell: FakeShell) -> None:
    fake.answers["runs.list"] = {"runs": []}
    page = shown(qtbot, PlotsPage(fake, shell), 1100, 700)
    qtbot.waitUntil(lambda: "No run yet" in words_of(page.empty))
    page.empty.button.click()
    assert shell.opened[0][0] == "new_run"


def test_the_plots_are_as_high_as_the_page_whatever_was_measured_and_chosen(
    qtbot: QtBot, page: PlotsPage, both_themes: Theme
) -> None:
    tick(page.metrics, "length")
    settle(qtbot, page)
    for measures in (True, False):
        page.grid.show_cursors(measures)
        settle(qtbot, page)
    for theme in (ThemeChoice.DARK, ThemeChoice.LIGHT):
        both_themes.choose(theme)
        settle(qtbot, page)
    page.resize(page.width(), page.height() - 60)
    settle(qtbot, page)
    qtbot.wait(50)  # what asks for more room than there is asks a moment later
    assert page.grid.verticalScrollBar().maximum() == 0
