from collections.abc import Callable
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QDialog,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QStyle,
    QWidget,
)
from pytestqt.qtbot import QtBot

from soulsgui import __version__
from soulsgui.config.paths import Folders
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.config.mending import MendConfigDialog
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.models.connection import Connection, ConnectionState, RemoteServer
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.preferences import AtClosing, Mode, Preferences
from soulsgui.gui.shell.about import AboutDialog
from soulsgui.gui.shell.manual import ManualDialog
from soulsgui.gui.shell.menu import SettingsDialog
from soulsgui.gui.shell.pages import PageEntry, page_entries
from soulsgui.gui.shell.server_selector import AddServerDialog
from soulsgui.gui.shell.update import UpdateDialog, UpdateSteps
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.welcome.page import WelcomePage
from soulsgui.gui.widgets.agree import AgreeDialog
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.message_bar import Notice
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import (
    ApiError,
    ErrorCode,
    Event,
    RunStatus,
    RunSummary,
    ServerStatus,
    Snapshot,
    Status,
)
from soulsgui.wire.messages.server_config import LONGEST_EXECUTION, Execution
from tests.gui.fake_feed import HELLO, NOTHING_YET, FakeFeed, refusal
from tests.gui.questions import answer
from tests.gui.reading import part_of, shown, words_of
from tests.gui.shell.conftest import Make
from tests.gui.shell.stub_pages import StubPage, stub_pages
from tests.states import checkpoint, client, invitation, service

NOW = 1_790_000_000.0
S = ConnectionState
UP = ServerStatus(reachable=True, disk_free_bytes=61_000_000_000)
NEED_A_RUN = ("run.stop", "run.pause", "checkpoint.save")
IDLE = Status(server=UP, allowed=dict.fromkeys(NEED_A_RUN, "No run is active."))
RUN = RunStatus(id="r1", name="lunar-2", state="running", env_id="CartPole-v1", goal_return=475.0)
RUNNING = Status(run=RUN, server=UP)
SOLVED = RUN.model_copy(update={"state": "finished", "reached": "mean_return", "seconds": 31.0})
NO_RUN, CONNECTED, SHUT_DOWN = (
    Connection(state, "my-server") for state in (S.NO_RUN, S.CONNECTED, S.SHUT_DOWN)
)
pytestmark = pytest.mark.usefixtures("stubs")
REAL_PAGES = page_entries()


@pytest.fixture(autouse=True)
def feed(fake: FakeFeed) -> FakeFeed:
    """No run is active."""
    fake.status, fake.connection, fake.hello = IDLE, NO_RUN, HELLO
    fake.answers = NOTHING_YET | {"server.shutdown": {}}
    return fake


@pytest.fixture
def running(make: Make, feed: FakeFeed) -> MainWindow:
    window = make()
    feed.connect_as(CONNECTED)
    feed.take_snapshot(RUNNING)
    return window


@pytest.fixture
def solved(make: Make, feed: FakeFeed) -> MainWindow:
    """A window on another page than the overview, whose run has just reached its goal."""
    values = {"env.id": "LunarLander-v3"}
    preset = {"name": "lunarlander_ppo", "title": "LunarLander", "values": values}
    feed.answers["config.presets"] = {"presets": [preset]}
    window = make("config")
    feed.take_snapshot(RUNNING)
    feed.change_run(SOLVED)
    return window


def page_of(window: MainWindow, name: str) -> StubPage:
    page = window.pages.made(name)
    assert isinstance(page, StubPage)
    return page


def button(window: QWidget, name: str) -> QPushButton:
    found = window.findChild(QPushButton, name)
    assert isinstance(found, QPushButton)
    return found


def newest(window: MainWindow) -> Notice:
    return window.messages.rows[-1].notice


def test_the_first_start_shows_the_welcome_page_until_one_is_chosen(qtbot: QtBot, make: Make) -> None:
    window = make()
    assert window.navigation.currentRow() == -1
    window.navigation.clearFocus()
    window.navigation.setFocus()
    assert window.pages.shown == "welcome"
    assert [name for name in page_entries() if window.pages.made(name)] == ["welcome"]
    for name in ("overview", "clients"):
        qtbot.keyClick(window.navigation, Qt.Key.Key_Down)
        assert window.pages.shown == name


def test_a_window_that_is_hidden_before_it_was_shown_begins_once(qtbot: QtBot, make: Make) -> None:
    window = make(show=False)
    begun: list[int] = []
    window.first_shown.connect(lambda: begun.append(1))
    window.show()
    window.hide()
    window.show()
    qtbot.waitUntil(lambda: bool(begun))
    qtbot.wait(0)
    assert begun == [1]


def test_the_welcome_page_does_not_move_for_a_banner(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make()

    def places() -> list[QPoint]:
        window.layout().activate()
        QApplication.sendPostedEvents()
        page = window.pages.page
        assert isinstance(page, WelcomePage)
        return [part.mapTo(window, QPoint()) for part in (*page.tiles, window.navigation)]

    before = places()
    for state in (S.STARTING, S.NO_RUN, S.RECONNECTING, S.CONNECTED):
        feed.connect_as(Connection(state, "my-server", since=NOW))
        qtbot.wait(0)
        assert places() == before, state


def test_pages_are_reached_by_list_keys_and_name_and_remembered(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.navigation.setCurrentRow(1)
    assert window.pages.shown == "clients"
    qtbot.keyClick(window, Qt.Key.Key_6, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: window.pages.shown == "logs")
    assert window.navigation.currentRow() == 5
    for service_name in ("trainer", "redis"):
        window.show_page("logs", service=service_name)
    assert page_of(window, "logs").places == [{"service": "trainer"}, {"service": "redis"}]
    assert make().pages.shown == "logs"


def test_unsaved_changes_hold_page_and_window_until_they_are_answered(qtbot: QtBot, make: Make) -> None:
    window = make("config")
    config = page_of(window, "config")
    config.unsaved = True
    window.navigation.setCurrentRow(0)
    assert window.pages.shown == "config"
    config.asked.pop()(False)
    assert window.navigation.currentRow() == 4, "the list shows where one is"
    window.show_page("overview")
    config.asked.pop()(True)
    assert window.pages.shown == "overview"
    window.show_page("config")
    window.close()
    assert window.isVisible()
    with qtbot.waitSignal(window.closer.closed):
        config.asked.pop()(True)
    assert not window.isVisible()


@pytest.mark.allow_warnings
def test_a_damaged_page_says_so_and_the_window_lives(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = stub_pages() | {"logs": PageEntry("logs", "Logs", "page-logs", "soulsgui.gui.none:None")}
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", lambda: entries)
    window = make("logs")
    assert isinstance(window.pages.made("logs"), EmptyState)
    window.show_page("runs")
    assert window.pages.shown == "runs"


def test_find_and_refresh_reach_the_page_from_outside_of_it(qtbot: QtBot, make: Make) -> None:
    window = make("runs")
    page = page_of(window, "runs")
    window.navigation.setFocus()
    qtbot.keyClick(window.navigation, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert window.focusWidget() is page.filter
    qtbot.keyClick(window.navigation, Qt.Key.Key_F5)
    assert page.refreshed == 1


@pytest.fixture
def real_pages(stubs: None, monkeypatch: pytest.MonkeyPatch, feed: FakeFeed) -> None:
    """The window's own pages, before a server with many runs and a client."""
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", lambda: REAL_PAGES)
    feed.connection = CONNECTED
    feed.status = RUNNING.model_copy(update={"clients": [client("client-1", local=True)]})
    runs = [RunSummary(id=f"r{number}", name="lunar-2", dir="r1") for number in range(1, 41)]
    feed.answers["runs.list"] = {"runs": [run.model_dump(mode="json") for run in runs]}


def keyboard_at(window: MainWindow) -> QWidget:
    """What has the keyboard, and Space presses nothing there."""
    holder = window.focusWidget()
    assert not isinstance(holder, QAbstractButton)
    return holder


LANDINGS = {
    "welcome": "welcomePage",
    "overview": "plot",
    "clients": "clients",
    "plots": "plotsRuns",
    "runs": "runsTable",
    "config": "filter",
    "logs": "filter",
    "client": "clientPage",  # its plot is off until it plays
}


@pytest.mark.usefixtures("real_pages")
@pytest.mark.parametrize("name", REAL_PAGES)
def test_a_page_opens_with_the_keyboard_at_its_table_or_plot(qtbot: QtBot, make: Make, name: str) -> None:
    window = make(name)

    def landed() -> bool:
        holder = keyboard_at(window)
        kinds = {FilterEdit: "filter", Plot: "plot"}
        return kinds.get(type(holder), holder.objectName()) == LANDINGS[name]

    qtbot.waitUntil(landed)
    page = window.pages.page
    assert page is not None
    buttons = page.findChildren(QAbstractButton)
    qtbot.waitUntil(lambda: any(one.isVisible() and one.isEnabled() for one in buttons))
    pressed = next(one for one in buttons if one.isVisible() and one.isEnabled())
    pressed.setFocus()
    window.show_page("logs" if name != "logs" else "runs")
    window.show_page(name)
    qtbot.waitUntil(landed)
    pressed.setFocus()
    dialog = QDialog(window)
    dialog.open()
    dialog.reject()
    qtbot.waitUntil(landed)


@pytest.mark.usefixtures("real_pages")
def test_a_button_that_is_off_or_goes_gives_the_keyboard_to_the_page(qtbot: QtBot, make: Make) -> None:
    window = make("runs")
    with qtbot.waitActive(window):
        window.activateWindow()
    for gone in (lambda one: one.setEnabled(False), lambda one: one.hide()):
        for held in (button(window, "newRun"), button(window, "config")):
            held.setFocus()
            gone(held)
            assert keyboard_at(window).objectName() in ("runsTable", "runsPage")
            held.setEnabled(True)
            held.show()


@pytest.mark.usefixtures("real_pages")
def test_a_server_that_goes_leaves_no_button_the_keyboard(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make("overview")
    feed.connect_as(SHUT_DOWN)
    assert window.pages.covered
    assert keyboard_at(window) is window.pages.no_server
    feed.connect_as(CONNECTED)
    qtbot.waitUntil(lambda: isinstance(keyboard_at(window), Plot))


@pytest.mark.usefixtures("real_pages")
def test_the_table_of_many_runs_is_not_scrolled_sideways(qtbot: QtBot, make: Make) -> None:
    window = make("runs")
    window.resize(1280, 800)
    table: Any = window.findChild(Table, "runsTable")
    qtbot.waitUntil(lambda: table.verticalScrollBar().maximum() > 0 == table.horizontalScrollBar().maximum())


def test_the_keyboard_comes_to_the_end_strip_before_the_pages(solved: MainWindow, feed: FakeFeed) -> None:
    feed.connect_as(SHUT_DOWN)
    chain, one = [], solved.navigation.nextInFocusChain()
    while one is not solved.navigation:
        chain.append(one)
        one = one.nextInFocusChain()
    inside = solved.pages.no_server.empty.button, page_of(solved, "config").filter
    order = [chain.index(part) for part in (solved.end_strip.watch, solved.end_strip.close_button, *inside)]
    assert order == sorted(order)


def test_f1_opens_the_manual_at_the_page_that_is_shown(qtbot: QtBot, make: Make) -> None:
    window = make()
    for page, title in (("logs", "Logs"), ("runs", "Runs")):
        window.show_page(page)
        window.activateWindow()
        qtbot.waitUntil(window.isActiveWindow)
        qtbot.keyClick(window, Qt.Key.Key_F1)
        (manual,) = window.findChildren(ManualDialog)
        qtbot.waitUntil(lambda manual=manual, title=title: manual.text.textCursor().block().text() == title)


def test_f1_in_a_dialog_opens_the_manual_over_it_at_its_section(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.show_page("logs")
    dialogs: tuple[tuple[Callable[[], object], type[QDialog], str], ...] = (
        (window.menu.settings.trigger, SettingsDialog, "Settings"),
        (window.open_new_run, NewRunDialog, "New run"),
    )
    for act, kind, title in dialogs:
        act()
        qtbot.waitUntil(lambda kind=kind: window.findChild(kind) is not None)
        dialog = part_of(window, kind)
        for _ in range(2):
            qtbot.keyClick(dialog, Qt.Key.Key_F1)
        (manual,) = dialog.findChildren(ManualDialog)  # only what is of a modal dialog can be used
        qtbot.waitUntil(lambda manual=manual, title=title: manual.text.textCursor().block().text() == title)
        qtbot.keyClick(manual, Qt.Key.Key_F1)
        assert not manual.findChildren(ManualDialog)
        dialog.close()


def test_client_mode_stops_nothing_and_is_remembered(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    feed.status = RUNNING
    window = make("runs")
    to_server, to_client = window.toolbar.mode.menu().actions()
    to_client.trigger()
    assert window.pages.shown == "client"
    assert not window.navigation.isVisible()
    qtbot.waitUntil(lambda: not button(window, "newRun").isVisible())
    assert window.toolbar.badge.text() == "a run is active"
    assert not [one for one in feed.sent if not one.command.endswith((".list", ".presets"))]
    assert make().pages.shown == "client"
    assert make(mode=Mode.SERVER).mode is Mode.SERVER, "the command line wins"
    to_server.trigger()
    assert to_server.isChecked()
    assert window.pages.shown == "runs"
    assert window.navigation.isVisible()
    qtbot.waitUntil(button(window, "newRun").isVisible)
    playing = Status(services=[service("client")], server=UP)
    window.client_side().feed.take(Snapshot(cursor=1, status=playing))
    assert window.toolbar.badge.text() == "this computer plays"
    qtbot.waitUntil(window.toolbar.badge.isVisible)


def test_server_mode_without_a_server_asks_for_a_runner(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    for state in (S.WELCOME, S.RUNNER_GONE):
        feed.connection, feed.hello = Connection(state), None
        window = make(mode=Mode.CLIENT)
        with qtbot.waitSignal(window.start_wanted):
            window.show_mode(Mode.SERVER)


WAYS_OUT = {
    S.RUNNER_GONE: "start",
    S.SHUT_DOWN: "start",
    S.START_FAILED: "start",
    S.RECONNECTING: "retry",
    S.WRONG_TOKEN: "retry",
    S.NOT_ALLOWED: "retry",
}


def test_while_not_connected_commands_are_off_and_the_banner_leads_out(make: Make, feed: FakeFeed) -> None:
    window = make()
    wanted: list[str] = []
    window.start_wanted.connect(lambda: wanted.append("start"))
    window.retry_wanted.connect(lambda: wanted.append("retry"))
    for state in S:
        feed.connect_as(Connection(state, "my-server", since=NOW))
        if feed.connection.live:
            continue
        for name in ("newRun", "resume", "pauseRun", "stopRun", "quicksave", "config"):
            assert not button(window, name).isEnabled()
            assert button(window, name).toolTip()
        assert not window.status_line.isEnabled()
        assert window.banner.isVisible() is (state is not S.WELCOME), state
        if state in WAYS_OUT:
            window.banner.button.click()
            assert wanted.pop() == WAYS_OUT[state], state
    for state in (S.REDIS_DOWN, S.TOO_OLD, S.TOO_NEW):
        feed.connect_as(Connection(state, "my-server"))
        window.banner.button.click()
    assert page_of(window, "logs").places == [{"service": "redis"}]
    dialog = part_of(window, UpdateDialog)
    assert "git pull" in dialog.commands.toPlainText()
    dialog.reject()
    assert "Type: soulsgui shutdown" in newest(window).detail
    assert wanted == []


@pytest.mark.parametrize(
    ("before", "chosen", "shown"),
    [("", "", "overview"), ("welcome", "", "overview"), ("", "config", "config")],
    ids=["first start", "closed on the welcome page", "chosen"],
)
def test_a_window_opens_on_a_run_that_goes_on_unless_a_page_was_chosen(
    make: Make, feed: FakeFeed, before: str, chosen: str, shown: str
) -> None:
    if before:
        make("logs").show_page(before)  # the one that is shown already would not be remembered
    window = make()
    assert window.pages.shown == "welcome"
    if chosen:
        window.show_page(chosen)
    feed.take_snapshot(RUNNING)
    assert window.pages.shown == shown
    assert window.pages.made("overview"), "it notes when the window was looked at, on whatever page"


def test_title_and_status_line_say_how_the_run_goes(qtbot: QtBot, running: MainWindow) -> None:
    qtbot.waitUntil(lambda: "lunar-2, running" in words_of(running.status_line))
    assert running.windowTitle().startswith("lunar-2, running")
    assert "61.0 GB free" in words_of(running.status_line)
    running.show_mode(Mode.CLIENT)
    qtbot.waitUntil(lambda: words_of(running.status_line).startswith("This computer's own server · lunar-2"))


def test_the_status_line_waits_until_it_is_known_whether_a_server_runs(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    feed.connection, feed.hello = Connection(S.WELCOME), None
    window = make()
    qtbot.waitUntil(lambda: words_of(window.status_line).endswith("no server runs"))
    feed.connect_as(Connection(S.CONNECTING, "my-server"))
    qtbot.waitUntil(lambda: words_of(window.status_line) == "Connecting to my-server …")
    feed.connect_as(Connection(S.STARTING, "my-server", phase="loading the program"))
    qtbot.waitUntil(lambda: words_of(window.status_line) == "Starting: loading the program …")
    feed.connect_as(NO_RUN)
    feed.take_snapshot(IDLE)
    qtbot.waitUntil(lambda: "no run" in words_of(window.status_line))


def test_in_client_mode_the_status_line_names_the_server_that_is_helped(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    feed.connection, feed.hello = Connection(S.WELCOME), None
    window = make(mode=Mode.CLIENT)
    helps = window.client_side().feed
    helps.set_connection(Connection(S.CONNECTING, "this computer"))
    qtbot.waitUntil(lambda: words_of(window.status_line) == "Getting ready …")
    server = ServerStatus(name="atelier", reachable=True)
    playing = Status(services=[service("client")], clients=[client("me", episodes=3)], server=server)
    helps.take(Snapshot(cursor=1, status=playing))
    qtbot.waitUntil(lambda: words_of(window.status_line) == "atelier · Playing, episode 4")
    assert window.status_line.isEnabled()
    window.show_mode(Mode.SERVER)
    qtbot.waitUntil(lambda: words_of(window.status_line).endswith("no server runs"))
    assert not window.status_line.isEnabled()


def test_resume_asks_for_the_newest_run_and_shows_it_at_once(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    stopped = RunSummary(id="r0", name="lunar-1", resumable=True)
    feed.answers["runs.list"] = {"runs": [stopped.model_dump(mode="json")]}
    feed.answers["run.resume"] = {"run_id": "r0", "run_dir": "/d/runs/r0"}
    window = make()
    feed.take_snapshot(IDLE)
    resume = window.toolbar.resume
    qtbot.waitUntil(lambda: "lunar-1" in resume.toolTip())
    with qtbot.waitSignal(resume.finished):
        resume.click()
        assert window.pages.shown == "overview"
        window.show_page("logs")
    assert window.pages.shown == "logs", "whoever went on is not called back"


def test_one_button_pauses_a_run_and_lets_it_go_on(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    pause = make().toolbar.pause
    assert (pause.isEnabled(), pause.toolTip()) == (False, "No run is active.")
    feed.connect_as(CONNECTED)
    feed.take_snapshot(RUNNING)
    feed.answers |= {"run.pause": {"done": True}, "run.continue": {"done": True}}
    with qtbot.waitSignal(pause.finished):
        pause.click()
    feed.change_run(RUN.model_copy(update={"state": "paused", "wished_pause": True}))
    with qtbot.waitSignal(pause.finished):
        pause.click()
    assert [one.command for one in feed.sent if "run." in one.command] == ["run.pause", "run.continue"]


def test_quicksave_by_keys_saves_or_says_why_not(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make()
    keys = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(window, Qt.Key.Key_S, keys)
    qtbot.waitUntil(lambda: bool(window.messages.rows))
    assert "No run is active" in newest(window).detail
    assert not feed.sent_of("checkpoint.save")
    feed.take_snapshot(RUNNING)
    info = checkpoint(id="manual_save/x", env_steps=4096)
    feed.answers["checkpoint.save"] = {"checkpoint": info.model_dump(mode="json")}
    with qtbot.waitSignal(window.toolbar.quicksave.finished):
        qtbot.keyClick(window, Qt.Key.Key_S, keys)
    notice = newest(window)
    assert notice.level == "success"
    assert "4,096" in notice.text
    assert notice.act is not None
    notice.act()
    assert page_of(window, "runs").places == [{"run": "r1", "checkpoint": "manual_save/x"}]


def test_a_refusal_stands_in_the_message_bar(qtbot: QtBot, running: MainWindow, feed: FakeFeed) -> None:
    feed.answers["run.stop"] = refusal("The run is being stopped already.", "Wait for it.")
    with qtbot.waitSignal(running.toolbar.stop.problem):
        button(running, "stopRun").click()
    said = "The run is being stopped already.", "Wait for it."
    assert (newest(running).level, newest(running).text, newest(running).detail) == ("error", *said)


def test_cancel_closes_a_dialog_at_once_and_a_refusal_is_then_told_by_the_window(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    window = make()
    window.open_new_run()
    dialog = part_of(window, NewRunDialog)
    qtbot.waitUntil(dialog.start.isEnabled)
    dialog.start.click()
    with qtbot.waitSignal(dialog.destroyed):
        dialog.leave.click()
    feed.sent_of("run.start")[0].call.refuse(refusal("The disk is full.", "Make room."))
    assert (newest(window).text, newest(window).detail) == ("The disk is full.", "Make room.")


def test_a_run_that_goes_into_the_queue_is_shown_there(
    qtbot: QtBot, running: MainWindow, feed: FakeFeed
) -> None:
    feed.answers["run.start"] = {"run_id": "", "run_dir": "", "queued": [4, 5]}
    running.open_new_run()
    dialog = part_of(running, NewRunDialog)
    qtbot.waitUntil(dialog.queue.isEnabled)
    dialog.queue.click()
    qtbot.waitUntil(lambda: running.pages.shown == "runs")
    assert page_of(running, "runs").places[-1] == {"run": "queued 4"}


def test_a_reached_goal_offers_the_next_task(qtbot: QtBot, solved: MainWindow) -> None:
    page, end = page_of(solved, "config"), solved.end_strip
    assert words_of(end).startswith("Solved: reached 475 after 31 s")
    qtbot.waitUntil(end.next.isVisible)
    page.unsaved = True
    end.next.click()
    page.asked.pop()(False)
    assert solved.findChild(NewRunDialog) is None
    end.next.click()
    page.asked.pop()(True)
    dialog = part_of(solved, NewRunDialog)
    qtbot.waitUntil(lambda: dialog.preset.currentData() == "lunarlander_ppo")
    dialog.reject()
    assert end.isVisible(), "what was cancelled is offered still"


def test_a_run_that_ends_moves_nothing_that_is_pointed_at(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make("overview")
    feed.take_snapshot(RUNNING)
    top = window.pages.mapTo(window, QPoint(0, 0))
    feed.change_run(SOLVED)
    qtbot.waitUntil(lambda: window.end_strip.y() > window.pages.y())
    assert window.pages.mapTo(window, QPoint(0, 0)) == top


def test_letters_of_shortcuts_are_underlined_while_alt_is_held(make: Make) -> None:
    window = make()
    style, underlined = QApplication.style(), QStyle.StyleHint.SH_UnderlineShortcut
    for kind, shown_then in ((QEvent.Type.KeyPress, 1), (QEvent.Type.KeyRelease, 0)):
        QApplication.sendEvent(window, QKeyEvent(kind, Qt.Key.Key_Alt, Qt.KeyboardModifier.NoModifier))
        assert style.styleHint(underlined, None, window.toolbar) == shown_then
    assert style.styleHint(underlined, None, window.menu) == 1


def test_the_end_of_a_run_is_told_on_the_overview_and_elsewhere_when_it_is_news(
    make: Make, feed: FakeFeed
) -> None:
    window = make("logs")
    feed.take_snapshot(Status(run=SOLVED, server=UP))
    assert not window.end_strip.isVisible(), "a goal of yesterday"
    window.show_page("overview")
    assert window.end_strip.isVisible()
    feed.take_snapshot(RUNNING)
    assert not window.end_strip.isVisible()
    window.show_page("logs")
    feed.change_run(SOLVED)
    assert window.end_strip.isVisible()
    window.show_mode(Mode.CLIENT)
    assert not window.end_strip.isVisible(), "to who plays for others it says nothing"
    window.show_mode(Mode.SERVER)
    window.end_strip.close_button.click()
    window.show_page("overview")
    assert not window.end_strip.isVisible(), "it was put away"


def test_the_solved_run_goes_on_without_its_goal(qtbot: QtBot, solved: MainWindow, feed: FakeFeed) -> None:
    feed.answers["run.resume"] = {"run_id": "r1", "run_dir": "/r1"}
    with qtbot.waitSignal(solved.end_strip.go_on.finished):
        solved.end_strip.go_on.click()
    (sent,) = feed.sent_of("run.resume")
    assert sent.params == {"run": "r1", "without_goal": True}
    assert solved.pages.shown == "overview"
    assert not solved.end_strip.isVisible()


def test_what_a_run_from_elsewhere_would_run_is_asked_about_and_agreed_to_by_its_digest(
    qtbot: QtBot, solved: MainWindow, feed: FakeFeed
) -> None:
    asks = Execution(env_id="theirs:Game-v0", restart_hook="theirs:start")
    solved.end_strip.go_on.click()
    refused = {"code": ErrorCode.NOT_AGREED, "message": "It wants to run theirs.", "remedy": "Agree to it."}
    feed.sent_of("run.resume")[0].call.refuse(ApiError(**refused, asks=asks))
    dialog = solved.findChild(AgreeDialog)
    assert dialog is not None
    said = "\n".join(label.text() for label in dialog.findChildren(QLabel))
    assert all(word in said for word in ("theirs:Game-v0", "theirs:start", "comes from"))
    assert not dialog.run.isDefault()
    assert not dialog.always.isVisible()
    dialog.run.click()
    again = feed.sent_of("run.resume")[1]
    assert again.params == {"run": "r1", "without_goal": True, "trust": asks.digest}
    with qtbot.waitSignal(dialog.accepted):
        again.call.answer({"run_id": "r1", "run_dir": "/r1"})
    assert not [row for row in solved.messages.rows if row.notice.text == refused["message"]]


def test_nobody_is_asked_to_agree_to_what_a_command_does_not_run_or_to_what_nobody_can_read(
    qtbot: QtBot, solved: MainWindow, feed: FakeFeed
) -> None:
    short = Execution(env_id="theirs:Game-v0")
    for command, asks in (
        ("runs.list", short),
        ("run.resume", short.model_copy(update={"env_kwargs": {"length": "xy" * LONGEST_EXECUTION}})),
    ):
        feed.answers.pop(command, None)
        call = feed.call(command, {"run": "r1"} if command == "run.resume" else {})
        call.refuse(ApiError(code=ErrorCode.NOT_AGREED, message="It wants to run theirs.", asks=asks))
        assert solved.findChild(AgreeDialog) is None


def test_one_click_starts_the_first_run_of_the_preset(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    values = {"env.id": "CartPole-v1", "stop.mean_return": 475}
    preset = {"name": "cartpole_ppo", "title": "CartPole", "values": values}
    feed.answers["config.presets"] = {"presets": [preset]}
    window = make()
    qtbot.waitUntil(lambda: feed.lists.presets.known)
    welcome: Any = window.pages.page
    welcome.try_it.click()
    sent = feed.sent_of("run.start")[0]
    assert sent.params == {"preset": "cartpole_ppo", "overrides": values, "name": "Try it"}
    assert window.pages.shown == "overview"
    sent.call.refuse(refusal("The environment is missing.", "Install it."))
    assert newest(window).text == "The environment is missing."


def test_the_welcome_page_shows_the_last_runs_and_the_way_to_a_server_elsewhere(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    names = ["<b>a & b", "second", "third", "fourth", "fifth"]
    runs = [RunSummary(id=f"r{number}", name=name) for number, name in enumerate(names)]
    feed.answers["runs.list"] = {"runs": [run.model_dump(mode="json") for run in runs]}
    window = make()
    page: Any = window.pages.page
    assert not page.recent.isVisible()
    feed.take_snapshot(IDLE)
    qtbot.waitUntil(page.recent.isVisible)
    shown = page.recent.findChildren(QPushButton)
    assert [one.text().partition(" — ")[0] for one in shown] == ["<b>a && b", "second", "third", "fourth"]
    shown[1].click()
    assert (window.pages.shown, page_of(window, "runs").places) == ("runs", [{"run": "r1"}])
    page.connect_it.click()
    part_of(window, AddServerDialog).reject()


def test_the_welcome_page_says_why_nothing_can_be_begun(make: Make, feed: FakeFeed) -> None:
    window = make()
    page: Any = window.pages.page
    feed.connect_as(Connection(S.STARTING, "my-server"))
    assert not page.try_it.isEnabled()
    assert [tile.why.text() for tile in page.tiles] == ["", "", "", ""], "the banner says so"
    feed.connect_as(SHUT_DOWN)
    reason = "The server is shut down: start it first."
    assert [tile.why.text() for tile in page.tiles] == [reason, reason, "", ""]
    feed.connect_as(CONNECTED)
    feed.change_run(RUN)
    assert (page.try_it.isEnabled(), page.train.isEnabled()) == (False, True)
    assert "lunar-2" in page.tiles[0].why.text()
    page.help.click()
    assert (window.mode, window.pages.shown) == (Mode.CLIENT, "client")


def test_a_computer_that_only_plays_opens_in_client_mode_starts_no_server_and_says_what_is_missing(
    make: Make, feed: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("shell.window", "welcome.page"):
        monkeypatch.setattr(f"soulsgui.gui.{module}.can_train", lambda: False)
    started: list[int] = []
    feed.connect_as(Connection(S.WELCOME))
    window = make()
    window.start_wanted.connect(lambda: started.append(1))
    assert window.mode is Mode.CLIENT
    feed.connect_as(Connection(S.START_FAILED, "my-server", detail="no Redis"))
    assert not window.banner.isVisible(), "what the server lacks is no matter of this page"
    feed.connect_as(Connection(S.WELCOME))
    window.show_page("welcome")
    assert (window.mode, started) == (Mode.SERVER, [])
    page: Any = window.pages.page
    assert [one.isEnabled() for one in (page.try_it, page.train, page.help)] == [False, False, True]
    assert "PyTorch, which training needs, is not installed" in page.tiles[0].why.text()
    assert page.tiles[0].why.text() == page.tiles[1].why.text()


def test_a_computer_that_only_plays_opens_with_the_server_elsewhere_that_it_showed_last(
    make: Make, folders: Folders, feed: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("shell.window", "welcome.page"):
        monkeypatch.setattr(f"soulsgui.gui.{module}.can_train", lambda: False)
    preferences = Preferences(folders)
    preferences.keep_servers([RemoteServer("lab")])
    preferences.shown_server = "lab"
    feed.forget(remote=True)
    window = make("welcome")
    assert window.mode is Mode.SERVER
    page: Any = window.pages.page
    assert page.try_it.isEnabled()
    assert "this computer" not in words_of(page.tiles[0]) + words_of(page.tiles[1]).lower()


def event(number: int, level: str = "error", **more: Any) -> Event:
    return Event(number=number, time=NOW, level=level, what=f"event {number}", **more)


def test_the_button_of_the_events_counts_until_its_list_was_open(
    qtbot: QtBot, qapp: QApplication, make: Make, feed: FakeFeed
) -> None:
    window = make()
    events = window.toolbar.events
    assert events.text() == ""
    events.open()
    assert events.popup is not None
    events.popup.close()
    assert events.popup is None
    feed.bring_event(event(1, "info"))
    feed.bring_event(event(2, service="trainer", run_id="r1"))
    qtbot.waitUntil(lambda: events.text() == "1")
    qtbot.mouseClick(events, Qt.MouseButton.LeftButton)
    # Only now the list that was open first is deleted.
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    opened = events.popup
    assert opened is not None
    assert opened.list.count() == 2
    feed.bring_event(event(3, service="trainer", run_id="r1"))
    qtbot.waitUntil(lambda: opened.list.count() == 3)
    assert events.text() == ""
    for signal in (opened.list.itemClicked, opened.list.itemActivated):
        signal.emit(opened.list.item(0))
    (place,) = page_of(window, "logs").places
    assert (place["service"], place["run"]) == ("trainer", "r1")
    assert make().toolbar.events.text() == "", "seen is remembered"


def test_events_that_come_together_are_counted_together(
    qtbot: QtBot, make: Make, feed: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = make().toolbar.events
    words: list[str] = []
    monkeypatch.setattr(events, "setAccessibleName", words.append)
    for number in range(1, 201):
        feed.bring_event(event(number))
    qtbot.waitUntil(lambda: events.text() == "200")
    assert words == ["200 events you have not seen"]


def test_settings_take_effect_at_once_and_last_as_does_the_size(
    qtbot: QtBot, make: Make, folders: Folders, both_themes: Theme, qapp: QApplication
) -> None:
    window = make()
    qtbot.keyClick(window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: window.findChild(SettingsDialog) is not None)
    dialog = part_of(window, SettingsDialog)
    size = qapp.font().pointSizeF()
    with qtbot.waitSignal(both_themes.changed):
        dialog.theme.setCurrentIndex(dialog.theme.findData(ThemeChoice.DARK))
    dialog.font_size.setCurrentIndex(dialog.font_size.findData(150))
    dialog.closing.setCurrentIndex(dialog.closing.findData(AtClosing.KEEP))
    assert both_themes.colours.dark
    assert not dialog.wrong.isVisible()
    assert qapp.font().pointSizeF() == pytest.approx(1.5 * size)
    dialog.close()
    kept = Preferences(folders)
    assert (kept.theme, kept.font_percent, kept.at_closing) == (ThemeChoice.DARK, 150, AtClosing.KEEP)
    window.resize(window.width(), 640)
    with qtbot.waitSignal(window.closer.closed):
        window.close()
    assert make().height() == 640


def test_a_damaged_preferences_file_does_not_matter(folders: Folders) -> None:
    folders.config.mkdir()
    (folders.config / "window.ini").write_text(
        "[look]\ntheme=pink\nfont_percent=many\n[window]\nmode=boss\n[closing]\nrun=burn\n"
    )
    kept = Preferences(folders)
    assert (kept.theme, kept.font_percent) == (ThemeChoice.AUTO, 100)
    assert (kept.mode, kept.at_closing) == (Mode.SERVER, AtClosing.ASK)
    kept.settings.setValue("events/s1", "9" * 5000)
    assert kept.seen_event("s1") > 0


def test_settings_that_can_not_be_kept_are_told(qtbot: QtBot, both_themes: Theme, folders: Folders) -> None:
    folders.config.write_text("")
    dialog = shown(qtbot, SettingsDialog(Preferences(folders), both_themes))
    assert not dialog.wrong.isVisible()
    dialog.closing.setCurrentIndex(1)
    assert f"{folders.config / 'window.ini'} can't be written" in dialog.wrong.text()
    assert dialog.wrong.isVisible()


def test_the_menu_asks_leads_to_pages_and_invites(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make("logs")
    window.menu.shut_down.trigger()
    assert not feed.sent_of("server.shutdown")
    answer(window, "Shut down")
    qtbot.waitUntil(lambda: bool(feed.sent_of("server.shutdown")))
    window.menu.welcome.trigger()
    assert window.pages.shown == "welcome"
    window.menu.about.trigger()
    about: Any = next(box for box in window.findChildren(QDialog) if "About" in box.windowTitle())
    about.copy.click()
    copied = QApplication.clipboard().text()
    for fact in (HELLO.data_dir, __version__, "Qt 6", "no_run, this computer", "Last error here: none"):
        assert fact in copied
    about.close()
    window.notify("error", "It <b>broke</b>.\x1b[2J", "Mend it.")
    window.menu.about.trigger()
    about = [box for box in window.findChildren(QDialog) if "About" in box.windowTitle()][-1]
    assert (
        "Last error here: It <b>broke</b>.\N{REPLACEMENT CHARACTER}[2J Mend it." in about.facts.toPlainText()
    )
    about.close()
    for connection, why in ((SHUT_DOWN, "start it first"), (NO_RUN, "Let another computer")):
        feed.connect_as(connection)
        window.menu.aboutToShow.emit()
        assert window.menu.invite.isEnabled() is (connection is NO_RUN)
        assert why in window.menu.invite.toolTip()
    window.menu.invite.trigger()
    (dialog,) = window.findChildren(InviteDialog)
    dialog.reject()
    window.open_invitation(invitation())
    assert (window.mode, window.pages.shown) == (Mode.CLIENT, "client")
    assert window.client_side().invitation == invitation()


def test_config_opens_a_dialog_that_goes_when_closed(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make("logs")
    for _ in range(2):
        button(window, "config").click()
        dialog: Any = window.findChild(QWidget, "configDialog")
        assert dialog.isVisible()
        assert window.pages.shown == "logs"
        dialog.close()
        qtbot.waitUntil(lambda: window.findChild(QWidget, "configDialog") is None)
    # pytest-qt fails the test when a slot of one that is gone raises.
    feed.connect_as(Connection(S.RECONNECTING, "my-server", since=NOW))
    feed.connect_as(NO_RUN)
    feed.take_snapshot(IDLE)


def test_what_can_be_clicked_has_a_name(make: Make) -> None:
    window = make()
    shown = [one for one in window.findChildren(QPushButton) if one.isVisible()]
    assert not [one.objectName() for one in shown if not (one.text() or one.accessibleName())]
    for part in (window.toolbar.events, window.toolbar.mode, window.toolbar.menu, window.navigation):
        assert part.accessibleName()


def test_pages_of_the_server_say_when_it_is_shut_down(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make("overview")
    for state in (S.RUNNER_GONE, S.STARTING, S.RECONNECTING):
        feed.connect_as(Connection(state, "my-server"))
        assert page_of(window, "overview").isVisible(), "its services go on"
    feed.connect_as(SHUT_DOWN)
    cover = window.pages.no_server
    for name in ("overview", "runs", "config"):
        window.show_page(name)
        assert cover.isVisible()
        assert not page_of(window, name).isVisible()
    assert words_of(cover.empty).startswith("The server is shut down")
    qtbot.waitUntil(lambda: words_of(window.status_line).endswith("no server runs"))
    window.show_page("logs")
    assert page_of(window, "logs").isVisible()
    window.show_page("runs")
    with qtbot.waitSignal(window.start_wanted):
        cover.empty.button.click()
    feed.connect_as(Connection(S.STARTING, "my-server", phase="loading the program"))
    assert cover.isVisible()
    assert "loading the program" in words_of(cover.empty)
    assert not cover.empty.button.isVisible()
    feed.connect_as(NO_RUN)
    assert page_of(window, "runs").isVisible()
    assert not cover.isVisible()


def test_who_comes_to_help_ends_the_server_that_was_started_for_nobody(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    window = make()
    feed.hello, sent = HELLO, feed.sent
    feed.connect_as(NO_RUN)
    for ours, run, ends in ((False, "", False), (True, "r-1", False), (True, "", True)):
        if ours:
            window._preferences.remember_runner(HELLO)
        feed.status = Status(run=RunStatus(id=run))
        window.show_page("welcome")
        before = len(sent)
        window.show_mode(Mode.CLIENT)
        assert [one.command for one in sent[before:] if one.command == "server.shutdown"] == (
            ["server.shutdown"] if ends else []
        )
        if not ends:
            window.show_mode(Mode.SERVER)
    feed.connect_as(SHUT_DOWN)
    with qtbot.waitSignal(window.start_wanted):
        window.show_mode(Mode.SERVER)


def test_with_the_largest_letters_words_give_way(qtbot: QtBot, make: Make, both_themes: Theme) -> None:
    window = make()
    window.resize(1280, 800)
    bar = window.toolbar
    assert bar.config.text()
    both_themes.set_font_scale(200)
    window.resize(860, 700)
    qtbot.waitUntil(lambda: bar.menu.isVisible() and bar.menu.geometry().right() <= bar.width())
    hidden: Any = bar.findChild(QWidget, "qt_toolbar_ext_button")
    assert not hidden.isVisible()
    assert bar.config.text() == ""
    assert bar.config.accessibleName() == "Config"
    both_themes.set_font_scale(100)
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: bool(bar.config.text() and bar.new_run.text()))


def test_letters_of_one_width_are_as_large_as_all_others(
    make: Make, both_themes: Theme, fake: FakeFeed, folders: Folders
) -> None:
    both_themes.set_font_scale(200)
    window = make()
    about = AboutDialog(fake, Preferences(folders), "", window)
    update = UpdateDialog("The server is newer.", UpdateSteps("", ("one",), ""), window)
    for dialog in (about, update):
        for field in dialog.findChildren(QPlainTextEdit):
            assert field.font().pointSizeF() == window.font().pointSizeF()


def test_a_message_covers_nothing_and_moves_nothing_that_is_read_from_the_top(
    qtbot: QtBot, make: Make
) -> None:
    window = make("logs")
    page = page_of(window, "logs")
    before = page.mapTo(window, page.rect().topLeft())
    window.notify("error", "It failed.", "Do that.")
    qtbot.waitUntil(lambda: window.messages.height() > 20)
    assert page.mapTo(window, page.rect().topLeft()) == before
    assert window.messages.isVisible()
    below = window.messages.mapTo(window, window.messages.rect().topLeft()).y()
    qtbot.waitUntil(lambda: page.mapTo(window, page.rect().bottomLeft()).y() < below)
    assert window.messages.width() == page.width()
    window.resize(1000, 700)
    assert window.messages.width() == page.width()


@pytest.fixture
def broken(folders: Folders) -> Connection:
    """No server starts, because of a mistake in the file of settings."""
    folders.config.mkdir(parents=True)
    folders.overrides.write_text("ppo:\n  gama: 0.9\n")
    return Connection(S.START_FAILED, "my-server", detail="Line 2: …", config=folders.overrides)


def mend(qtbot: QtBot, window: MainWindow) -> None:
    dialog = part_of(window, MendConfigDialog)
    dialog.take_out.click()
    with qtbot.waitSignal(window.start_wanted):
        dialog.again.click()
    qtbot.waitUntil(lambda: window.findChild(MendConfigDialog) is None)


@pytest.fixture
def told_of_it(make: Make, feed: FakeFeed, broken: Connection) -> MainWindow:
    """A window whose banner has led to the dialog that mends the file."""
    window = make()
    feed.connect_as(broken)
    assert "can't start as it is configured" in words_of(window.banner)
    window.banner.button.click()
    return window


@pytest.mark.parametrize(
    ("way", "words", "left"), [("close", "Save", "seed: 7\n"), ("aside", "Set it aside", None)]
)
def test_what_was_typed_to_mend_a_mistake_is_never_dropped_unasked(
    qtbot: QtBot, told_of_it: MainWindow, folders: Folders, way: str, words: str, left: str | None
) -> None:
    dialog, before = part_of(told_of_it, MendConfigDialog), folders.overrides.read_text()
    dialog.text.setPlainText("seed: 7\n")
    ask = dialog.close if way == "close" else dialog.aside.click
    ask()
    answer(dialog, "Cancel")
    assert dialog.isVisible()
    assert dialog.text.toPlainText() == "seed: 7\n"
    assert folders.overrides.read_text() == before
    ask()
    with qtbot.waitSignal(told_of_it.start_wanted):
        answer(dialog, words)
    assert (folders.overrides.read_text() if folders.overrides.exists() else None) == left


def test_a_wrong_text_is_not_just_dropped(qtbot: QtBot, told_of_it: MainWindow, folders: Folders) -> None:
    dialog, before = part_of(told_of_it, MendConfigDialog), folders.overrides.read_text()
    dialog.text.setPlainText("seed: none of them\n")
    for words, stays in (("Fix it", True), ("Discard", False)):
        qtbot.keyClick(dialog, Qt.Key.Key_Escape)
        answer(dialog, words)
        assert dialog.isVisible() is stays
    assert folders.overrides.read_text() == before


def test_a_mistake_that_keeps_the_server_from_starting_is_mended_from_banner_page_and_toolbar(
    qtbot: QtBot, told_of_it: MainWindow, feed: FakeFeed, folders: Folders, broken: Connection
) -> None:
    window = told_of_it
    mend(qtbot, window)
    assert folders.overrides.read_text() == ""
    feed.connect_as(SHUT_DOWN)
    window.show_page("config")
    feed.connect_as(broken)
    assert window.pages.covered
    for led in (window.pages.no_server.empty.button, button(window, "config")):
        folders.overrides.write_text("seed: many\n")
        led.click()
        mend(qtbot, window)


def test_without_any_server_yet_the_page_leads_to_it(make: Make, feed: FakeFeed, broken: Connection) -> None:
    feed.connection = Connection(S.STARTING, "my-server")
    window = make("config")
    assert not window.pages.covered
    feed.connect_as(broken)
    assert "Line 2" in words_of(window.pages.no_server.empty)
    assert window.pages.front is window.pages.no_server
    feed.connect_as(NO_RUN)
    assert window.pages.front is window.pages.page
