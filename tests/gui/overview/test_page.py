from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QGraphicsView, QLabel, QMessageBox, QSplitter, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.gui.overview.page import OverviewPage
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.plotting.rows import Axis
from soulsgui.gui.shell.pages import PageArea
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.boxes import NO_MARGINS, column
from soulsgui.gui.widgets.labels import Heading
from soulsgui.wire.control import CheckpointInfo, ErrorCode, LogLine, RunStatus, Status
from tests.gui.fake_feed import LIVE, LOST, FakeFeed, FakeShell, refusal
from tests.gui.plotting.curves import drawn, episodes, history, update
from tests.gui.reading import choose, part_of, shown, words_of
from tests.states import RUN, checkpoint_row, client, service

TRAINS: dict[str, Any] = {"id": RUN, "name": "cart", "env_id": "CartPole-v1", "algorithm": "ppo"}
RUNNING = RunStatus(state="running", mean_return=312.4, goal_return=475.0, checkpoint_age_s=61.0, **TRAINS)
SERVICES = [
    service("telemetry", uptime_s=30.0),
    service("client-1"),
    service("redis", pid=4121, port=6379, uptime_s=60.0, cpu_percent=0.4, memory_bytes=12_000_000),
    service("trainer", phase="updating", uptime_s=40.0),
    service("client-2"),
]


@pytest.fixture
def server(fake: FakeFeed) -> FakeFeed:
    clients = [client("gamer-1"), client("gamer-2", "lost")]
    fake.status = Status(run=RUNNING, services=SERVICES, clients=clients)
    fake.answers |= {
        "history.query": history(range(1, 11)),
        "checkpoint.list": {"checkpoints": []},
        "history.logs": {"lines": [], "first": 1},
    }
    return fake


@pytest.fixture
def page(qtbot: QtBot, server: FakeFeed, shell: FakeShell) -> OverviewPage:
    """The page on the screen; time stands still for its cards."""
    made = shown(qtbot, OverviewPage(server, shell, clock=lambda: 100.0), 1120, 710)
    qtbot.waitUntil(lambda: made.plot.curve.is_loaded and made.clients.model.rowCount() > 0)
    return made


def plot(qtbot: QtBot, page: OverviewPage) -> Plot:
    qtbot.waitUntil(lambda: page.plot.host.plot is not None)
    assert page.plot.host.plot is not None
    return page.plot.host.plot


def change(server: FakeFeed, **fields: Any) -> None:
    server.change_run(RUNNING.model_copy(update=fields))


@pytest.fixture
def again(qtbot: QtBot, page: OverviewPage, server: FakeFeed, shell: FakeShell) -> Callable[[], OverviewPage]:
    """Makes the page once more, as the next start of the window does."""

    def make() -> OverviewPage:
        made = OverviewPage(server, shell)
        qtbot.addWidget(made)
        return made

    return make


def test_services_have_a_card_that_leads_to_their_log(page: OverviewPage, shell: FakeShell) -> None:
    assert list(page.services.cards) == ["redis", "trainer", "telemetry"]
    assert words_of(page.services.cards["redis"]) == (
        "Redis\nRunning · port 6379 · CPU 0.4 % · 12.0 MB"
        "\nRunning on port 6379\npid 4121 · 00:01:00\nCPU 0.4 % · 12.0 MB"
    )
    assert words_of(page.services.clients).startswith("Local clients 2/2\nRunning")
    for log in (page.services.cards["redis"].log, page.services.clients.log, page.log.open_logs):
        log.click()
    assert shell.shown == [("logs", {"service": name}) for name in ("redis", "client-1", "")]


def test_a_card_is_one_line_while_all_is_well_and_open_when_it_is_not(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed
) -> None:
    card = page.services.cards["trainer"]
    line = card.height()
    assert not card.stop.isVisible()
    card.details.click()
    qtbot.waitUntil(lambda: card.stop.isVisible() and card.height() > 2 * line)
    card.details.click()
    qtbot.waitUntil(lambda: card.height() == line)
    server.change_services([service("trainer", "backoff", restart_in_s=8.0, outcome="killed by signal 9")])
    qtbot.waitUntil(lambda: card.stop.isVisible() and card.height() > 2 * line)
    assert not card.details.isVisible(), "what is wrong can't be folded away"


def test_the_plot_has_the_most_room_and_the_log_is_one_line(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed, again: Callable[[], OverviewPage]
) -> None:
    page.resize(1166, 692)  # what a window that fills a screen of 1280 × 800 leaves
    more = [service("gateway", port=6380), service("evaluator", phase="waiting", detail="no claim")]
    server.change_services([*SERVICES, *more])
    cards = page.services.cards
    heads = [(card, part_of(card, Heading)) for card in (*cards.values(), page.services.clients)]
    qtbot.waitUntil(lambda: len({card.mapTo(page, QPoint()).y() for card, _ in heads}) == 1)
    qtbot.waitUntil(lambda: all(title.width() >= title.sizeHint().width() for _, title in heads))
    for name, word in (("trainer", "Updating"), ("evaluator", "Waiting")):
        said = next(label for label in cards[name].findChildren(QLabel) if label.text().startswith(word))
        assert said.width() > said.fontMetrics().horizontalAdvance(word), "what it does is not cut"
    made = plot(qtbot, page)
    qtbot.waitUntil(lambda: made.height() >= 350)
    assert not page.log.pane.isVisible()
    page.log.unfold.click()
    qtbot.waitUntil(page.log.pane.isVisible)
    assert again().log.unfold.isChecked()


def test_the_plot_leads_to_the_page_of_plots(page: OverviewPage, shell: FakeShell) -> None:
    page.plot.controls.all.click()
    run = page.plot.curve.series.run_id
    assert shell.shown == [("plots", {"metric": page.plot.controls.wanted, "run": run})]


def test_local_clients_become_more_and_fewer(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    clients = page.services.clients
    server.answers |= {"service.local_clients": {"count": 3}, "service.stop": {}}
    for button in (clients.more, clients.fewer):
        button.click()
        qtbot.waitUntil(lambda: server.sent[-1].call.over)
    assert [sent.params for sent in server.sent_of("service.local_clients")] == [{"count": 3}, {"count": 1}]
    clients.each.click()
    card = page.services.cards["client-2"]
    qtbot.waitUntil(card.isVisible)
    card.stop.click()
    qtbot.waitUntil(lambda: server.sent[-1].call.over)
    assert server.sent[-1].params == {"name": "client-2"}
    clients.each.click()
    assert "client-2" not in page.services.cards


def test_stopping_the_trainer_asks_first_and_a_refusal_is_told_with_its_remedy(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed, shell: FakeShell
) -> None:
    server.answers["service.stop"] = refusal("It is not ready.", "Look at its log.")
    page.services.cards["trainer"].stop.click()
    box = part_of(page, QMessageBox)
    assert "Clients will wait" in box.informativeText()
    assert server.sent_of("service.stop") == []
    next(button for button in box.buttons() if button.text().replace("&", "") == "Stop trainer").click()
    assert server.sent_of("service.stop")[-1].params == {"name": "trainer"}
    qtbot.waitUntil(lambda: bool(shell.told))
    assert (shell.told[0].level, shell.told[0].detail) == ("error", "Look at its log.")


def test_what_cant_be_done_is_off_and_says_why(page: OverviewPage, server: FakeFeed) -> None:
    needs_redis = {"service.stop": "Everything needs Redis."}
    no_run = {"service.start": "No run is active."}
    server.change_services([service("redis", allowed=needs_redis)])
    stop, more = page.services.cards["redis"].stop, page.services.clients.more
    assert (stop.isEnabled(), stop.toolTip()) == (False, "Everything needs Redis.")
    assert page.services.cards["redis"].restart.isEnabled()
    assert more.isEnabled()
    server.change_services([service("redis"), service("trainer", "stopped", allowed=no_run)])
    server.change_allowed(service_local_clients="No run is active.")
    assert list(page.services.cards) == ["redis", "trainer"]
    start = page.services.cards["trainer"].start
    assert stop.isEnabled()
    assert not start.isEnabled()
    for button in (start, more):
        assert "No run is active" in button.toolTip()


def test_key_figures_follow_the_run_and_the_width(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    in_one_line = page.figures.height()
    page.resize(600, 710)
    qtbot.waitUntil(lambda: page.figures.height() > 1.5 * in_one_line)
    page.resize(1400, 710)
    qtbot.waitUntil(lambda: page.figures.height() == in_one_line)

    def says(*words: str) -> bool:
        return all(word in page.figures.words for word in words)

    assert says("Mean return: 312.4 of 475")
    change(server, mean_return=400.0, rejected={"late": 2})
    assert says("Mean return: 400.0 of 475", "Rejected: 2")
    change(server, state="paused", env_steps_per_s=0.0)
    assert says("Steps/s: —")
    assert not says("Rejected")
    change(server, env_steps_per_s=12_200.0)
    assert says("Steps/s: 12.2 k")
    server.change_services(SERVICES)
    assert says("Steps/s: 12.2 k")
    change(server, goal_judged_by="evaluation", evaluation_return=99.0)
    words = page.figures.words
    assert words.index("Evaluation: 99.0 of 475") < words.index("Mean return: 312.4\n"), "judged first"
    server.change_clients([client("gamer-2"), client("gamer-3", "paused")])
    qtbot.waitUntil(lambda: says("Running: rounds of 2 of 3 clients (gamer-3 paused)"))
    server.change_clients([client("gamer-3")])
    qtbot.waitUntil(lambda: not says("rounds"))


def test_the_weights_of_a_run_that_goes_on_are_watched(
    page: OverviewPage, server: FakeFeed, shell: FakeShell
) -> None:
    page.watch.click()
    assert shell.opened == [("player", {"run": RUN, "checkpoint": "newest"})]
    change(server, state="stopped")
    assert not page.watch.isVisible()


@pytest.mark.parametrize("by_key", [False, True])
def test_a_click_on_the_curve_offers_the_checkpoint_that_is_nearest(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed, shell: FakeShell, by_key: bool
) -> None:
    info = CheckpointInfo(
        id="history/8", kind="history", path="/d", model_id=8, env_steps=1000, updates=8, episodes=5,
        created=1e9, size_bytes=1, valid=True,
    )  # fmt: skip
    server.answers["checkpoint.list"] = {"checkpoints": [info.model_dump(mode="json")]}
    server.bring_rows(checkpoint_row(8))  # as one is saved
    qtbot.waitUntil(lambda: page.plot.checkpoints == [info])
    asked = len(server.sent_of("checkpoint.list"))
    curve = plot(qtbot, page)
    viewport = part_of(curve, QGraphicsView).viewport()
    qtbot.waitUntil(lambda: not curve.drawing_waits)
    if by_key:
        qtbot.keyClick(curve, Qt.Key.Key_Return)
    else:
        QTest.mouseClick(viewport, Qt.MouseButton.LeftButton, pos=viewport.rect().center())
    qtbot.waitUntil(lambda: bool(shell.told))
    assert shell.told[-1].text.startswith("Nearest checkpoint: update 8, ")
    assert len(server.sent_of("checkpoint.list")) == asked
    shell.told[-1].action.act()
    assert shell.opened == [("player", {"run": RUN, "checkpoint": "history/8"})]


def test_without_a_run_one_is_begun(page: OverviewPage, server: FakeFeed, shell: FakeShell) -> None:
    server.change_run(RunStatus())
    assert page.empty.isVisible()
    assert not page.plot.isVisible()
    page.empty.button.click()
    assert shell.opened[0][0] == "new_run"


def test_a_run_that_was_asked_for_is_told_until_it_begins_or_is_refused(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed
) -> None:
    call = server.call("run.start", {})
    server.change_run(RunStatus())
    assert words_of(page.empty).startswith("Starting …")
    assert not page.empty.button.isVisible()
    call.refuse(refusal("The disk is full."))
    qtbot.waitUntil(lambda: words_of(page.empty).startswith("No run yet"))
    assert page.empty.button.isVisible()


def test_the_curve_goes_on_by_rows_and_snapshots(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    server.bring_rows(episodes([10, 11, 12]))
    assert [y for _, y in drawn(page.plot.curve.series)] == list(range(1, 13))
    canvas = plot(qtbot, page)
    qtbot.waitUntil(lambda: not canvas.drawing_waits and not canvas.is_empty)
    assert canvas.x_view()[1] >= 12
    server.answers["history.query"] = history(range(1, 31))
    server.take_snapshot(server.status)
    qtbot.waitUntil(lambda: page.plot.curve.complete)
    assert len(page.plot.curve.series) == 30


def test_another_run_is_another_curve_seen_whole(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    canvas = plot(qtbot, page)
    canvas.show_x(2.0, 5.0)
    assert not page.plot.controls.follow.isChecked()
    server.answers["history.query"] = history(range(1, 4)).model_copy(update={"run_id": "later"})
    change(server, id="later")
    assert canvas.follow
    assert page.plot.controls.follow.isChecked()
    qtbot.waitUntil(lambda: page.plot.curve.complete)
    assert len(page.plot.curve.series) == 3
    assert server.sent_of("history.query")[-1].params == {"run": "later", "x": "env_step", "missing_ok": True}
    del server.answers["history.query"]
    change(server, id="another")
    qtbot.waitUntil(lambda: not canvas.drawing_waits)
    assert "Loading …" in words_of(canvas)
    server.connect_as(LOST)
    assert "The curve is read as soon as the connection is back." in words_of(canvas)


def test_another_metric_is_asked_for_and_remembered(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed, again: Callable[[], OverviewPage]
) -> None:
    server.bring_rows(update(1, entropy=0.6), episodes([11], values=[400.0]))
    canvas, box = plot(qtbot, page), page.plot.controls.metric_box
    qtbot.waitUntil(lambda: canvas.y_view()[1] > 475)
    titles = [box.itemText(place) for place in range(box.count())]
    assert titles == ["Return", "Episode length", "Mean return", "Entropy"]
    none = {"metric": "entropy", "last_update": (1, 0)}
    server.answers["history.query"] = history([]).model_copy(update=none)
    choose(box, "entropy")
    assert canvas.goal is None, "the goal is drawn where it belongs"
    qtbot.waitUntil(lambda: page.plot.curve.is_loaded)
    server.bring_rows(update(1, entropy=0.6), update(2, entropy=0.5))
    assert len(page.plot.curve.series) == 2
    assert again().plot.controls.wanted == "entropy"


def test_x_smoothing_and_follow_act_on_the_plot(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed, again: Callable[[], OverviewPage]
) -> None:
    canvas, controls = plot(qtbot, page), page.plot.controls
    assert page.plot.curve.series.axis is Axis.ENV_STEP
    choose(controls.axis_box, Axis.TIME)
    assert page.plot.curve.series.axis is Axis.TIME
    assert again().plot.curve.series.axis is Axis.TIME
    server.bring_rows(episodes(range(11, 61)))
    assert page.plot.curve.series.smooths
    smooth = drawn(page.plot.curve.series, smooth=True)
    controls.smoothing.setValue(0)
    qtbot.waitUntil(lambda: not page.plot.curve.series.smooths)
    assert drawn(page.plot.curve.series, smooth=True) != smooth
    controls.follow.click()
    assert not canvas.follow
    canvas.fit()
    assert controls.follow.isChecked()


def test_what_is_zoomed_into_is_drawn_finer(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    def notes() -> set[str]:
        return {label.text() for label in page.plot.controls.findChildren(QLabel)}

    whole = history(range(100, 10_001, 100))
    server.answers["history.query"] = whole.model_copy(update={"count": [100] * 100})
    page.refresh()
    qtbot.waitUntil(lambda: len(page.plot.curve.series) == 10_000)
    del server.answers["history.query"]
    canvas = plot(qtbot, page)
    canvas.show_x(10_000, 12_000)
    qtbot.waitUntil(lambda: "Loading …" in notes())
    asked = server.sent_of("history.query")[-1]
    around = {"start": 9000.0, "end": 13_000.0}
    assert asked.params == {"run": RUN, "x": "env_step", "missing_ok": True, **around}
    asked.call.answer(history(range(900, 1301)).model_copy(update={"last_row": 10_000}).model_dump())
    assert "Loading …" not in notes()
    assert len([x for x, _ in drawn(page.plot.curve.series) if 10_000 <= x <= 12_000]) >= 201


def test_where_evaluations_judge_their_curve_opens_beside_that_of_training(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed, again: Callable[[], OverviewPage]
) -> None:
    canvas, curves = plot(qtbot, page), (page.plot.curve, page.plot.beside)
    assert (page.plot.curve.series.metric, canvas.goal) == ("return", 475.0)
    stored = {
        metric: history([]).model_copy(update={"metric": metric, "last_update": (1, 1)})
        for metric in ("evaluation_return", "return")
    }
    server.answers["history.query"] = lambda params: stored[str(params.get("metric", "return"))]
    judged = RUNNING.model_copy(update={"goal_judged_by": "evaluation"})
    server.change_run(judged)
    assert [curve.series.metric for curve in curves] == ["evaluation_return", "return"]
    assert canvas.goal == 475.0
    # Before the first evaluation, too.
    qtbot.waitUntil(lambda: canvas.is_empty and canvas.y_view()[0] < 475 < canvas.y_view()[1])
    qtbot.waitUntil(lambda: all(curve.is_loaded for curve in curves))
    names = {label.text() for label in canvas.findChildren(QLabel)}
    assert {"Evaluation return: none yet", "Training return"} <= names
    evaluated = update(2, evaluation_return=99.0).model_copy(update={"kind": "evaluation"})
    server.bring_rows(episodes([1, 2, 3]), evaluated)
    assert [len(curve.series) for curve in curves] == [1, 3]
    assert "Evaluation return" in {label.text() for label in canvas.findChildren(QLabel)}
    choose(page.plot.controls.metric_box, "return")
    assert (page.plot.curve.series.metric, page.plot.beside.series.run_id) == ("return", "")
    assert canvas.goal is None
    next_start = again()
    next_start.plot.show_run(judged)
    assert next_start.plot.curve.series.metric == "return", "what the user chose stays"


def test_a_curve_that_cant_be_read_is_told_once_and_asked_for_again(
    qtbot: QtBot, page: OverviewPage, server: FakeFeed, shell: FakeShell
) -> None:
    server.answers["history.query"] = refusal("The store is damaged.", code=ErrorCode.FAILED)
    asked = len(server.sent_of("history.query"))
    page.refresh()
    qtbot.waitUntil(lambda: len(server.sent_of("history.query")) >= asked + 2)
    server.answers["history.query"] = history(range(1, 21))
    qtbot.waitUntil(lambda: len(page.plot.curve.series) == 20)
    assert [told.text for told in shell.told] == ["The store is damaged."]


def test_the_chosen_clients_are_asked_each(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    server.answers |= {"clients.forget": {}, "clients.pause": {}}
    page.clients.choose("gamer-1", "gamer-2")
    page.clients.buttons["pause"].click()
    names = [sent.params["client"] for sent in server.sent_of("clients.pause")]
    assert names == ["gamer-1", "gamer-2"]
    qtbot.waitUntil(lambda: all(sent.call.over for sent in server.sent))
    page.clients.choose("gamer-2")
    menu = page.clients.table.make_menu()
    titles = {action.text(): action for action in menu.actions()}
    own = ["Pause", "Resume", "Finish episode, then stop", "Stop", "Forget"]
    assert [title for title in titles if title] == [*own, "Copy as text"]
    assert not titles["Resume"].isEnabled()
    titles["Forget"].trigger()
    assert server.sent_of("clients.forget")[-1].params == {"client": "gamer-2"}
    menu.deleteLater()
    server.change_clients([client("gamer-3", "late")], ["gamer-2"])
    qtbot.waitUntil(lambda: page.clients.model.row_of("gamer-3") is not None)
    assert page.clients.model.row_of("gamer-2") is None


def test_without_connection_values_stay_and_nothing_is_pressed(page: OverviewPage, server: FakeFeed) -> None:
    page.clients.choose("gamer-1")
    change(server, checkpoint_env_steps=16_400)
    assert "Checkpoint: 1 min ago" in page.figures.words
    server.connect_as(LOST)
    assert "Mean return: 312.4 of 475" in page.figures.words
    assert "Checkpoint: at 16.4 k" in page.figures.words, "its age is told only while it grows"
    assert not page.figures.isEnabled()
    assert not page.clients.table.isEnabled()
    for button in (page.services.cards["trainer"].stop, page.clients.buttons["pause"]):
        assert not button.isEnabled()
        assert button.toolTip() == "Not connected to my-server."
    server.connect_as(LIVE)
    assert page.services.cards["trainer"].stop.isEnabled()
    assert page.clients.buttons["pause"].isEnabled()
    assert "Checkpoint: 1 min ago" in page.figures.words
    change(server, checkpoint_env_steps=16_400, state="stopped")
    assert "Checkpoint: at 16.4 k" in page.figures.words


def test_nothing_is_asked_or_shown_while_hidden(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    page.hide()
    asked = len(server.sent)
    change(server, updates=7)
    server.take_snapshot(server.status)
    server.change_services([service("trainer", "failed")])
    qtbot.wait(600)
    assert len(server.sent) == asked
    assert "Updates: 0" in page.figures.words
    assert "Failed" not in words_of(page.services.cards["trainer"])
    page.show()
    assert "Updates: 7" in page.figures.words
    assert "Failed" in words_of(page.services.cards["trainer"])
    qtbot.waitUntil(lambda: page.plot.curve.complete)


def test_the_last_log_lines_go_on_live(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    def line(number: int) -> LogLine:
        return LogLine(service="trainer", number=number, level="info", text=f"line {number}")

    server.answers["history.logs"] = {"lines": [line(1).model_dump(), line(2).model_dump()], "first": 1}
    page.refresh()
    server.bring_log(line(2), line(3))
    qtbot.waitUntil(lambda: page.log.newest.text() == "trainer: line 3")
    page.log.unfold.click()
    qtbot.waitUntil(lambda: "line 3" in page.log.pane.text)
    assert page.log.pane.text.count("line 2") == 1


def test_the_arrangement_is_remembered(page: OverviewPage, again: Callable[[], OverviewPage]) -> None:
    def splitter(shown: OverviewPage) -> QSplitter:
        return shown.findChildren(QSplitter, "overviewSplitter")[0]

    def shares(shown: OverviewPage) -> list[float]:
        return [size / sum(splitter(shown).sizes()) for size in splitter(shown).sizes()]

    page.log.unfold.click()
    splitter(page).setSizes([330, 220, 100])
    before = shares(page)
    page.hide()
    next_start = again()
    next_start.resize(page.size())
    next_start.show()
    # The heights of the windows may differ by a few pixels.
    assert shares(next_start) == pytest.approx(before, abs=0.04)


def test_only_the_last_parts_make_room_for_what_comes_and_goes(
    qtbot: QtBot, server: FakeFeed, shell: FakeShell
) -> None:
    window, message = QWidget(), QLabel("It is saved.")
    message.setFixedHeight(40)
    message.hide()
    page = OverviewPage(server, shell, window)
    column((page, 1), message, on=window, margins=NO_MARGINS, gap_px=0)
    shown(qtbot, window, 1166, 900)
    qtbot.waitUntil(lambda: page.clients.model.rowCount() > 0)
    splitter = part_of(page, QSplitter)
    before = splitter.sizes()
    for is_there in (True, False):
        message.setVisible(is_there)
        window.layout().activate()
        assert splitter.sizes()[0] == before[0], "the curve stays under the mouse"
    assert splitter.sizes() == before


def test_a_dimmed_curve_is_drawn_anew_cleanly(qtbot: QtBot, page: OverviewPage, server: FakeFeed) -> None:
    made = plot(qtbot, page)
    qtbot.waitUntil(lambda: not made.drawing_waits)
    server.connect_as(LOST)
    assert made.is_dimmed
    made.show_x(2.0, 5.0)
    qtbot.waitUntil(lambda: not made.drawing_waits)
    page.resize(1120, 640)
    qtbot.waitUntil(lambda: not made.drawing_waits)
    page.repaint()
    on_screen = page.screen().grabWindow(page.winId()).toImage()
    fresh = page.grab().toImage().convertToFormat(on_screen.format())
    place = made.mapTo(page, made.rect().topLeft())
    area = (place.x(), place.y(), made.width(), made.height())
    assert on_screen.copy(*area) == fresh.copy(*area)
    server.connect_as(LIVE)
    assert not made.is_dimmed


def test_with_large_letters_the_curve_is_high(qtbot: QtBot, page: OverviewPage, both_themes: Theme) -> None:
    made = plot(qtbot, page)
    page.services.clients.each.setChecked(True)
    both_themes.set_font_scale(150)
    qtbot.waitUntil(lambda: made.minimumSizeHint().height() > 8 * made.fontMetrics().height())
    area = shown(qtbot, PageArea(page), 1120, 460)
    qtbot.waitUntil(lambda: area.verticalScrollBar().maximum() > 0)
    qtbot.waitUntil(lambda: made.height() >= made.minimumSizeHint().height())
    both_themes.set_font_scale(100)
    page.services.clients.each.setChecked(False)
    area.resize(1120, 1000)
    qtbot.waitUntil(lambda: area.verticalScrollBar().maximum() == 0)
    page.setParent(None)  # it is not to be deleted with the area


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("percent", [100, 150, 200])
def test_nothing_has_to_be_scrolled_sideways_with_large_letters(
    qtbot: QtBot, server: FakeFeed, shell: FakeShell, both_themes: Theme, percent: int, ended: bool
) -> None:
    both_themes.set_font_scale(percent)
    solved = {"state": "finished", "reached": "mean_return"} if ended else {}
    change(server, rejected={"late": 3}, seconds=40_000.0, **solved)
    server.change_clients([client("gamer-2", "paused")])
    page = OverviewPage(server, shell, clock=lambda: 100.0)
    area = PageArea(page)
    qtbot.addWidget(area)
    # What a window of 1280x800 leaves for a page beside navigation and toolbar of that size.
    area.resize({100: 1166, 150: 1123, 200: 1080}[percent], 690)
    area.show()
    qtbot.waitUntil(lambda: page.plot.host.plot is not None)
    qtbot.waitUntil(lambda: page.minimumSizeHint().width() <= area.viewport().width())
    assert area.horizontalScrollBar().maximum() == 0
    for box in page.figures.findChildren(QWidget):
        right = box.mapTo(page.figures, box.rect().topRight()).x()
        assert right < page.figures.width(), box.accessibleName()
    if not ended:
        assert "rounds of 1 of 2 clients (gamer-2 paused)" in page.figures.words
