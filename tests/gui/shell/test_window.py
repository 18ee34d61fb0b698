from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QDialog, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.config.mending import MendConfigDialog
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.plotting.plot import Plot
from soulsgui.gui.preferences import AtClosing, Mode, Preferences
from soulsgui.gui.shell.menu import ManualDialog, SettingsDialog
from soulsgui.gui.shell.pages import PageEntry, page_entries
from soulsgui.gui.shell.update import UpdateDialog
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.welcome.page import WelcomePage
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.wire.control import (
    ClientStatus,
    ConfigValues,
    Event,
    RunStatus,
    RunSummary,
    ServerStatus,
    ServiceStatus,
    Snapshot,
    Status,
)
from soulsgui.wire.invitation import Invitation
from tests.gui.fake_feed import HELLO, FakeFeed, refusal
from tests.gui.reading import part_of, words_of
from tests.gui.shell.driving import close_messages
from tests.gui.shell.stub_pages import StubPage, stub_pages
from tests.states import checkpoint

NOW = 1_790_000_000.0
S = ConnectionState
UP = ServerStatus(reachable=True, disk_free_bytes=61_000_000_000)
NEED_A_RUN = ("run.stop", "run.pause", "checkpoint.save")
IDLE = Status(server=UP, allowed=dict.fromkeys(NEED_A_RUN, "No run goes on."))
RUN = RunStatus(id="r1", name="lunar-2", state="running", env_id="CartPole-v1", goal_return=475.0)
RUNNING = Status(run=RUN, server=UP)
SOLVED = RUN.model_copy(update={"state": "finished", "reached": "mean_return", "seconds": 31.0})
NO_RUN = Connection(S.NO_RUN, "my-server")
Make = Callable[..., MainWindow]
REAL_PAGES = page_entries()


@pytest.fixture(autouse=True)
def _stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", stub_pages)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return Folders(tmp_path / "c", tmp_path / "d")


@pytest.fixture
def feed() -> FakeFeed:
    made = FakeFeed(IDLE, NO_RUN, HELLO)
    made.answers = {
        "runs.list": {"runs": []},
        "config.presets": {"presets": []},
        "server.shutdown": {},
    }
    return made


@pytest.fixture
def make(qtbot: QtBot, both_themes: Theme, folders: Folders, feed: FakeFeed) -> Iterator[Make]:
    made: list[MainWindow] = []

    def build(mode: Mode | None = None, show: bool = True) -> MainWindow:
        window = MainWindow(feed, both_themes, Preferences(folders), mode)  # type: ignore[arg-type]
        made.append(window)
        if show:
            with qtbot.waitSignal(window.first_shown):
                window.show()
        return window

    yield build
    for window in made:
        close_messages(window.messages)
        window.hide()
        window.deleteLater()


@pytest.fixture
def running(make: Make, feed: FakeFeed) -> MainWindow:
    """A window on a run that goes on."""
    window = make()
    feed.connect_as(Connection(S.CONNECTED, "my-server"))
    feed.take_snapshot(RUNNING)
    return window


@pytest.fixture
def solved(make: Make, feed: FakeFeed) -> MainWindow:
    """A window on another page than the overview, whose run has just reached its goal."""
    window = make()
    window.show_page("config")
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


# --- pages ---


def test_the_first_start_shows_the_welcome_page_and_makes_no_other(make: Make) -> None:
    window = make()
    assert window.pages.shown == "welcome"
    assert window.navigation.currentRow() == -1
    assert [name for name in page_entries() if window.pages.made(name)] == ["welcome"]


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


def test_the_welcome_page_does_not_move_when_a_banner_comes_or_goes(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
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


def test_the_keyboard_at_the_list_chooses_no_page_by_itself(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.navigation.clearFocus()
    window.navigation.setFocus()
    assert window.pages.shown == "welcome"
    for name in ("overview", "clients"):
        qtbot.keyClick(window.navigation, Qt.Key.Key_Down)
        assert window.pages.shown == name


def test_pages_are_reached_by_list_and_by_keys_and_remembered(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.navigation.setCurrentRow(1)
    assert window.pages.shown == "clients"
    qtbot.keyClick(window, Qt.Key.Key_5, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: window.pages.shown == "logs")
    assert window.navigation.currentRow() == 4
    assert make().pages.shown == "logs"


def test_a_page_is_led_to_a_place(make: Make) -> None:
    window = make()
    window.show_page("logs", service="trainer")
    window.show_page("logs", service="redis")
    assert page_of(window, "logs").places == [{"service": "trainer"}, {"service": "redis"}]


def test_unsaved_changes_hold_the_page_until_they_are_answered(make: Make) -> None:
    window = make()
    window.show_page("config")
    config = page_of(window, "config")
    config.unsaved = True
    window.navigation.setCurrentRow(0)
    assert window.pages.shown == "config"
    config.asked.pop()(False)
    assert window.navigation.currentRow() == 3, "the list shows where one is"
    window.show_page("overview")
    config.asked.pop()(True)
    assert window.pages.shown == "overview"


def test_unsaved_changes_hold_the_window_open(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.show_page("config")
    config = page_of(window, "config")
    config.unsaved = True
    window.close()
    assert window.isVisible()
    with qtbot.waitSignal(window.closer.closed):
        config.asked.pop()(True)
    assert not window.isVisible()


@pytest.mark.allow_warnings
def test_a_damaged_page_says_so_and_the_window_lives(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = stub_pages()
    entries["logs"] = PageEntry("logs", "Logs", "page-logs", "soulsgui.gui.none:None")
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", lambda: entries)
    window = make()
    window.show_page("logs")
    assert isinstance(window.pages.made("logs"), EmptyState)
    window.show_page("runs")
    assert window.pages.shown == "runs"


def test_find_and_refresh_reach_the_page_from_outside_of_it(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.show_page("runs")
    page = page_of(window, "runs")
    window.navigation.setFocus()
    qtbot.keyClick(window.navigation, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert window.focusWidget() is page.filter
    qtbot.keyClick(window.navigation, Qt.Key.Key_F5)
    assert page.refreshed == 1


@pytest.fixture
def real_pages(monkeypatch: pytest.MonkeyPatch, feed: FakeFeed) -> None:
    """The window's own pages, before a server with a run and a client."""
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", lambda: REAL_PAGES)
    feed.connection = Connection(S.CONNECTED, "my-server")
    client = ClientStatus(id="client-1", name="client-1", local=True)
    feed.status = RUNNING.model_copy(update={"clients": [client]})
    feed.answers |= {
        "runs.list": {"runs": [RunSummary(id="r1", name="lunar-2", dir="r1").model_dump(mode="json")]},
        "config.get": ConfigValues(
            defaults={}, saved={}, running={}, text="", hash="h", path="/c/config.yaml"
        ),
        "config.check": {"problems": []},
        "history.logs": {"lines": []},
        "checkpoint.list": {"checkpoints": []},
    }


def keyboard_at(window: MainWindow) -> QWidget:
    """What has the keyboard, and Space presses nothing there."""
    holder = window.focusWidget()
    assert not isinstance(holder, QAbstractButton)
    return holder


LANDINGS = {
    "welcome": "welcomePage",
    "overview": "plot",
    "clients": "clients",
    "runs": "runsTable",
    "config": "filter",
    "logs": "filter",
    "client": "clientPage",  # its plot is off until it plays
}


@pytest.mark.usefixtures("real_pages")
@pytest.mark.parametrize("name", REAL_PAGES)
def test_a_page_opens_with_the_keyboard_at_its_table_or_plot(qtbot: QtBot, make: Make, name: str) -> None:
    window = make()

    def landed() -> bool:
        holder = keyboard_at(window)
        kinds = {FilterEdit: "filter", Plot: "plot"}
        return kinds.get(type(holder), holder.objectName()) == LANDINGS[name]

    window.show_page(name)
    qtbot.waitUntil(landed)
    page = window.pages.page
    assert page is not None
    buttons = page.findChildren(QAbstractButton)
    qtbot.waitUntil(lambda: any(one.isVisible() and one.isEnabled() for one in buttons))
    pressed = next(one for one in buttons if one.isVisible() and one.isEnabled())
    pressed.setFocus()
    other = "logs" if name != "logs" else "runs"
    window.show_page(other)
    window.show_page(name)
    qtbot.waitUntil(landed)
    pressed.setFocus()
    dialog = QDialog(window)
    dialog.open()
    dialog.reject()
    qtbot.waitUntil(landed)


@pytest.mark.usefixtures("real_pages")
def test_a_button_that_is_switched_off_or_goes_gives_the_keyboard_to_the_page(
    qtbot: QtBot, make: Make
) -> None:
    window = make()
    window.show_page("runs")
    with qtbot.waitActive(window):
        window.activateWindow()
    for gone in (lambda one: one.setEnabled(False), lambda one: one.hide()):
        for held in (button(window, "newRun"), button(window, "configure")):
            held.setFocus()
            gone(held)
            assert keyboard_at(window).objectName() in ("runsTable", "runsPage")
            held.setEnabled(True)
            held.show()


@pytest.mark.usefixtures("real_pages")
def test_a_server_that_goes_leaves_the_keyboard_at_no_button(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    window = make()
    window.show_page("overview")
    feed.connect_as(SHUT_DOWN)
    assert window.pages.covered
    assert keyboard_at(window) is window.pages.no_server
    feed.connect_as(Connection(S.CONNECTED, "my-server"))
    qtbot.waitUntil(lambda: isinstance(keyboard_at(window), Plot))


def test_f1_opens_the_manual_at_the_page_that_is_shown(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.show_page("logs")
    qtbot.keyClick(window, Qt.Key.Key_F1)
    manual = part_of(window, ManualDialog)
    qtbot.waitUntil(lambda: manual.text.textCursor().block().text() == "Logs")
    manual.close()
    window.show_page("runs")
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_F1)
    qtbot.waitUntil(lambda: manual.text.textCursor().block().text() == "Runs")
    assert window.findChildren(ManualDialog) == [manual]


# --- modes ---


def test_client_mode_shows_its_page_alone_and_stops_nothing(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    feed.status = RUNNING
    window = make()
    window.show_page("runs")
    server, client = window.toolbar.mode.menu().actions()
    client.trigger()
    assert window.pages.shown == "client"
    assert not window.navigation.isVisible()
    assert not button(window, "newRun").isVisible()
    assert window.toolbar.badge.text() == "a run goes on"
    assert not [one for one in feed.sent if not one.command.endswith((".list", ".presets"))]
    server.trigger()
    assert server.isChecked()
    assert window.pages.shown == "runs"
    assert window.navigation.isVisible()
    qtbot.waitUntil(button(window, "newRun").isVisible)


def test_the_mode_is_remembered_and_the_command_line_wins(make: Make) -> None:
    make().show_mode(Mode.CLIENT)
    assert make().pages.shown == "client"
    assert make(Mode.SERVER).mode is Mode.SERVER


@pytest.mark.parametrize("state", [S.WELCOME, S.RUNNER_GONE])
def test_server_mode_on_a_computer_without_a_server_asks_for_a_runner(
    qtbot: QtBot, make: Make, feed: FakeFeed, state: ConnectionState
) -> None:
    feed.connection, feed.hello = Connection(state), None
    window = make(Mode.CLIENT)
    with qtbot.waitSignal(window.start_wanted):
        window.show_mode(Mode.SERVER)


# --- the connection ---


@pytest.mark.parametrize("state", [state for state in S if not Connection(state).live])
def test_while_not_connected_every_command_is_off_and_says_why(
    make: Make, feed: FakeFeed, state: ConnectionState
) -> None:
    window = make()
    feed.connect_as(Connection(state, "my-server", since=NOW))
    for name in ("newRun", "resume", "pauseRun", "stopRun", "quicksave", "configure"):
        assert not button(window, name).isEnabled()
        assert button(window, name).toolTip()
    assert not window.status_line.isEnabled()
    assert window.banner.isVisible() is (state is not S.WELCOME)


@pytest.mark.parametrize(
    ("state", "signal"),
    [
        (S.RUNNER_GONE, "start_wanted"),
        (S.SHUT_DOWN, "start_wanted"),
        (S.START_FAILED, "start_wanted"),
        (S.RECONNECTING, "retry_wanted"),
        (S.WRONG_TOKEN, "retry_wanted"),
        (S.NOT_ALLOWED, "retry_wanted"),
    ],
)
def test_the_banner_leads_out_of_every_state(
    qtbot: QtBot, make: Make, feed: FakeFeed, state: ConnectionState, signal: str
) -> None:
    window = make()
    feed.connect_as(Connection(state, "my-server", since=NOW))
    with qtbot.waitSignal(getattr(window, signal)):
        qtbot.mouseClick(window.banner.button, Qt.MouseButton.LeftButton)


def test_some_states_lead_to_what_mends_them(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make()
    for state in (S.REDIS_DOWN, S.TOO_OLD, S.TOO_NEW):
        feed.connect_as(Connection(state, "my-server"))
        qtbot.mouseClick(window.banner.button, Qt.MouseButton.LeftButton)
    assert page_of(window, "logs").places == [{"service": "redis"}]
    dialog = part_of(window, UpdateDialog)
    assert "git pull" in dialog.commands.toPlainText()
    dialog.reject()
    assert "Type: soulsgui shutdown" in window.messages.rows[-1].notice.detail


# --- the run ---


@pytest.mark.parametrize(
    ("before", "chosen", "shown"),
    [("", "", "overview"), ("welcome", "", "overview"), ("", "config", "config")],
    ids=["first start", "closed on the welcome page", "chosen"],
)
def test_a_window_opens_on_a_run_that_goes_on_unless_a_page_was_chosen(
    make: Make, feed: FakeFeed, before: str, chosen: str, shown: str
) -> None:
    if before:
        earlier = make()
        for page in ("logs", before):  # the one that is shown already would not be remembered
            earlier.show_page(page)
    window = make()
    assert window.pages.shown == "welcome"
    if chosen:
        window.show_page(chosen)
    feed.take_snapshot(RUNNING)
    assert window.pages.shown == shown


def test_title_and_status_line_say_how_the_run_goes(qtbot: QtBot, running: MainWindow) -> None:
    qtbot.waitUntil(lambda: "lunar-2, running" in words_of(running.status_line))
    assert running.windowTitle().startswith("lunar-2, running")
    assert "61.0 GB free" in words_of(running.status_line)
    running.show_mode(Mode.CLIENT)
    qtbot.waitUntil(lambda: words_of(running.status_line).startswith("This computer's own server · lunar-2"))


def test_resume_asks_for_the_newest_run_and_shows_it(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    feed.answers["runs.list"] = {
        "runs": [RunSummary(id="r0", name="lunar-1", resumable=True).model_dump(mode="json")]
    }
    feed.answers["run.resume"] = {"run_id": "r0", "run_dir": "/d/runs/r0"}
    window = make()
    feed.take_snapshot(IDLE)
    resume = button(window, "resume")
    qtbot.waitUntil(lambda: "lunar-1" in resume.toolTip())
    assert resume.isEnabled()
    with qtbot.waitSignal(window.toolbar.resume.finished):
        qtbot.mouseClick(resume, Qt.MouseButton.LeftButton)
    assert window.pages.shown == "overview"


def test_one_button_pauses_a_run_and_lets_it_go_on(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make()
    pause = window.toolbar.pause
    assert (pause.isEnabled(), pause.toolTip()) == (False, "No run goes on.")
    feed.connect_as(Connection(S.CONNECTED, "my-server"))
    feed.take_snapshot(RUNNING)
    feed.answers |= {"run.pause": {"done": True}, "run.continue": {"done": True}}
    with qtbot.waitSignal(pause.finished):
        qtbot.mouseClick(pause, Qt.MouseButton.LeftButton)
    feed.change_run(RUN.model_copy(update={"state": "paused", "wished_pause": True}))
    assert pause.isEnabled()
    with qtbot.waitSignal(pause.finished):
        qtbot.mouseClick(pause, Qt.MouseButton.LeftButton)
    assert [one.command for one in feed.sent if "run." in one.command] == ["run.pause", "run.continue"]


def press_quicksave(qtbot: QtBot, window: MainWindow) -> None:
    modifiers = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier
    qtbot.keyClick(window, Qt.Key.Key_S, modifiers)


def test_quicksave_by_keys_saves_and_offers_to_show_it(
    qtbot: QtBot, running: MainWindow, feed: FakeFeed
) -> None:
    info = checkpoint(id="manual_save/x", env_steps=4096)
    feed.answers["checkpoint.save"] = {"checkpoint": info.model_dump(mode="json")}
    with qtbot.waitSignal(running.toolbar.quicksave.finished):
        press_quicksave(qtbot, running)
    notice = running.messages.rows[-1].notice
    assert notice.level == "success"
    assert "4,096" in notice.text
    assert notice.act is not None
    notice.act()
    assert page_of(running, "runs").places == [{"run": "r1", "checkpoint": "manual_save/x"}]


def test_quicksave_by_keys_without_a_run_says_why_not(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make()
    press_quicksave(qtbot, window)
    qtbot.waitUntil(lambda: bool(window.messages.rows))
    assert "No run goes on" in window.messages.rows[-1].notice.detail
    assert not feed.sent_of("checkpoint.save")


def test_a_refused_command_stands_in_the_message_bar(
    qtbot: QtBot, running: MainWindow, feed: FakeFeed
) -> None:
    feed.answers["run.stop"] = refusal("The run is being stopped already.", "Wait for it.")
    with qtbot.waitSignal(running.toolbar.stop.problem):
        qtbot.mouseClick(button(running, "stopRun"), Qt.MouseButton.LeftButton)
    notice = running.messages.rows[-1].notice
    said = "The run is being stopped already.", "Wait for it."
    assert (notice.level, notice.text, notice.detail) == ("error", *said)


# --- solved ---


def test_a_goal_that_is_reached_offers_the_next_task(
    qtbot: QtBot, solved: MainWindow, feed: FakeFeed
) -> None:
    assert solved.offer.isVisible()
    assert solved.offer.words.text() == "Reached 475 after 31 s."
    feed.answers["run.start"] = refusal("Box2D is missing.", "Install it: pip install gymnasium[box2d]")
    qtbot.mouseClick(solved.offer.train_next, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: bool(solved.messages.rows))
    assert feed.sent_of("run.start")[0].params == {"preset": "lunarlander_ppo"}
    assert "pip install" in solved.messages.rows[-1].notice.detail


def test_the_next_task_begins_only_after_a_question_where_something_is_unsaved(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    window = make()
    window.show_page("config")
    page = page_of(window, "config")
    feed.take_snapshot(RUNNING)
    feed.change_run(SOLVED)
    page.unsaved = True
    qtbot.mouseClick(window.offer.train_next, Qt.MouseButton.LeftButton)
    page.asked.pop()(False)
    assert not feed.sent_of("run.start")
    assert window.offer.isVisible(), "what was cancelled is offered still"
    qtbot.mouseClick(window.offer.train_next, Qt.MouseButton.LeftButton)
    page.asked.pop()(True)
    assert feed.sent_of("run.start")[0].params == {"preset": "lunarlander_ppo"}
    assert not window.offer.isVisible()


def test_a_goal_is_offered_only_when_it_is_news_and_nothing_else_says_so(make: Make, feed: FakeFeed) -> None:
    window = make()
    window.show_page("logs")
    feed.take_snapshot(Status(run=SOLVED, server=UP))
    assert not window.offer.isVisible(), "a goal of yesterday"
    feed.take_snapshot(RUNNING)
    feed.change_run(SOLVED)
    assert window.offer.isVisible()
    window.show_page("overview")
    assert not window.offer.isVisible(), "the page says so itself"
    feed.change_run(RUN)
    window.show_mode(Mode.CLIENT)
    feed.change_run(SOLVED)
    assert not window.offer.isVisible(), "to who plays for others it says nothing"


def test_the_solved_run_is_opened_or_goes_on_without_its_goal(
    qtbot: QtBot, solved: MainWindow, feed: FakeFeed
) -> None:
    qtbot.mouseClick(solved.offer.open_run, Qt.MouseButton.LeftButton)
    assert page_of(solved, "runs").places == [{"run": "r1"}]
    assert not solved.offer.isVisible()
    solved.offer.show()
    qtbot.mouseClick(solved.offer.go_on, Qt.MouseButton.LeftButton)
    (sent,) = feed.sent_of("run.resume")
    assert sent.params == {"run": "r1", "without_goal": True}
    assert not solved.offer.isVisible()


# --- welcome ---


def test_one_click_starts_the_first_run_with_the_presets_own_values(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    values = {"env.id": "CartPole-v1", "stop.mean_return": 475}
    feed.answers["config.presets"] = {
        "presets": [{"name": "cartpole_ppo", "title": "CartPole", "values": values}]
    }
    window = make()
    qtbot.waitUntil(lambda: bool(feed.sent_of("config.presets")[0].call.over))
    welcome: Any = window.pages.made("welcome")
    qtbot.mouseClick(welcome.try_it, Qt.MouseButton.LeftButton)
    sent = feed.sent_of("run.start")[0]
    assert sent.params == {"preset": "cartpole_ppo", "overrides": values, "name": "Try it"}
    assert window.pages.shown == "overview"
    sent.call.refuse(refusal("The environment is missing.", "Install it."))
    assert window.messages.rows[-1].notice.text == "The environment is missing."


# --- events ---


def event(number: int, level: str = "error", **more: Any) -> Event:
    return Event(number=number, time=NOW, level=level, what=f"event {number}", **more)  # type: ignore[arg-type]


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
    assert events.text() == "1"
    qtbot.mouseClick(events, Qt.MouseButton.LeftButton)
    # Only now the list that was open first is deleted.
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    opened = events.popup
    assert opened is not None
    assert opened.list.count() == 2
    feed.bring_event(event(3, service="trainer", run_id="r1"))
    assert opened.list.count() == 3
    assert events.text() == ""
    for signal in (opened.list.itemClicked, opened.list.itemActivated):
        signal.emit(opened.list.item(0))
    (place,) = page_of(window, "logs").places
    assert (place["service"], place["run"]) == ("trainer", "r1")
    assert make().toolbar.events.text() == "", "seen is remembered"


# --- preferences ---


def test_settings_take_effect_at_once_and_last(
    qtbot: QtBot, make: Make, folders: Folders, both_themes: Theme, qapp: QApplication
) -> None:
    window = make()
    qtbot.keyClick(window, Qt.Key.Key_Comma, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: window.findChild(SettingsDialog) is not None)
    dialog = part_of(window, SettingsDialog)
    size = qapp.font().pointSizeF()
    with qtbot.waitSignal(window.theme_changed):
        dialog.theme.setCurrentIndex(dialog.theme.findData(ThemeChoice.DARK))
    dialog.font_size.setCurrentIndex(dialog.font_size.findData(150))
    dialog.closing.setCurrentIndex(dialog.closing.findData(AtClosing.KEEP))
    assert both_themes.colours.dark
    assert qapp.font().pointSizeF() == pytest.approx(1.5 * size)
    dialog.close()
    kept = Preferences(folders)
    assert (kept.theme, kept.font_percent, kept.at_closing) == (ThemeChoice.DARK, 150, AtClosing.KEEP)


def test_a_damaged_preferences_file_does_not_matter(folders: Folders) -> None:
    folders.config.mkdir()
    (folders.config / "window.ini").write_text(
        "[look]\ntheme=pink\nfont_percent=many\n[window]\nmode=boss\n[closing]\nrun=burn\n"
    )
    kept = Preferences(folders)
    assert (kept.theme, kept.font_percent) == (ThemeChoice.AUTO, 100)
    assert (kept.mode, kept.at_closing) == (Mode.SERVER, AtClosing.ASK)


def test_the_size_survives_a_restart(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.resize(window.width(), 640)
    with qtbot.waitSignal(window.closer.closed):
        window.close()
    assert make().height() == 640


# --- messages, menu, names ---


def test_shutting_down_asks_first(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make()
    window.menu.shut_down.trigger()
    box: Any = window.findChild(QWidget, "qt_msgbox_label").window()
    assert not feed.sent_of("server.shutdown")
    yes = next(one for one in box.buttons() if one.text().replace("&", "") == "Shut down")
    yes.click()
    qtbot.waitUntil(lambda: bool(feed.sent_of("server.shutdown")))


def test_configure_opens_the_editor_as_a_dialog_that_is_gone_once_it_was_closed(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    window = make()
    window.show_page("logs")
    for _ in range(2):
        qtbot.mouseClick(button(window, "configure"), Qt.MouseButton.LeftButton)
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
    nameless = [
        one.objectName() or str(one)
        for one in window.findChildren(QPushButton)
        if one.isVisible() and not (one.text() or one.accessibleName())
    ]
    assert not nameless
    for part in (window.toolbar.events, window.toolbar.mode, window.toolbar.menu, window.navigation):
        assert part.accessibleName()


def test_a_client_that_plays_here_shows_on_the_mode_switch(qtbot: QtBot, make: Make) -> None:
    window = make()
    client = ServiceStatus(name="client", kind="client", state="running")
    window.client_side().feed.take(Snapshot(cursor=1, status=Status(services=[client], server=UP)))
    assert window.toolbar.badge.text() == "this computer plays"
    qtbot.waitUntil(window.toolbar.badge.isVisible)


# --- without a server ---


SHUT_DOWN = Connection(S.SHUT_DOWN, "my-server")


def test_pages_that_live_from_the_server_say_that_it_is_shut_down_and_start_it(
    qtbot: QtBot, make: Make, feed: FakeFeed
) -> None:
    window = make()
    window.show_page("overview")
    feed.connect_as(SHUT_DOWN)
    cover = window.pages.no_server
    for name in ("overview", "runs", "config"):
        window.show_page(name)
        assert cover.isVisible()
        assert not page_of(window, name).isVisible()
    assert cover.empty.words.startswith("The server is shut down")
    qtbot.waitUntil(lambda: words_of(window.status_line).endswith("no server runs"))
    window.show_page("logs")
    assert page_of(window, "logs").isVisible()
    window.show_page("runs")
    with qtbot.waitSignal(window.start_wanted):
        qtbot.mouseClick(cover.empty.button, Qt.MouseButton.LeftButton)
    feed.connect_as(Connection(S.STARTING, "my-server", phase="loading the program"))
    assert cover.isVisible()
    assert "loading the program" in cover.empty.words
    assert not cover.empty.button.isVisible()
    feed.connect_as(NO_RUN)
    assert page_of(window, "runs").isVisible()
    assert not cover.isVisible()


def test_a_runner_that_is_gone_covers_nothing_for_its_services_go_on(make: Make, feed: FakeFeed) -> None:
    window = make()
    window.show_page("overview")
    for state in (S.RUNNER_GONE, S.STARTING, S.RECONNECTING):
        feed.connect_as(Connection(state, "my-server"))
        assert page_of(window, "overview").isVisible()


# --- room ---


def test_with_the_largest_letters_the_menu_stays_in_reach_and_words_give_way(
    qtbot: QtBot, make: Make, both_themes: Theme
) -> None:
    window = make()
    window.resize(1280, 800)
    bar = window.toolbar
    assert bar.configure.text()
    both_themes.set_font_scale(200)
    window.resize(860, 700)
    hidden = bar.findChild(QWidget, "qt_toolbar_ext_button")
    assert hidden is not None
    qtbot.waitUntil(lambda: bar.menu.isVisible() and bar.menu.geometry().right() <= bar.width())
    assert not hidden.isVisible()
    assert bar.configure.text() == ""
    assert bar.configure.accessibleName() == "Configure"
    both_themes.set_font_scale(100)
    window.resize(1280, 800)
    qtbot.waitUntil(lambda: bool(bar.configure.text() and bar.new_run.text()))


def test_a_message_moves_nothing_on_the_page(qtbot: QtBot, make: Make) -> None:
    window = make()
    window.show_page("logs")
    page = page_of(window, "logs")
    before = page.mapTo(window, page.rect().topLeft()), page.size()
    window.notify("error", "It failed.", "Do that.")
    qtbot.waitUntil(lambda: window.messages.height() > 20)
    assert (page.mapTo(window, page.rect().topLeft()), page.size()) == before
    assert window.messages.isVisible()
    assert window.messages.width() == page.width()
    window.resize(1000, 700)
    assert window.messages.width() == page.width()


def test_the_welcome_page_says_why_nothing_can_be_begun(make: Make, feed: FakeFeed) -> None:
    window = make()
    page: Any = window.pages.page
    feed.connect_as(Connection(S.STARTING, "my-server"))
    assert not page.try_it.isEnabled()
    assert [tile.why.text() for tile in page.tiles] == ["", "", ""], "the banner says so"
    feed.connect_as(SHUT_DOWN)
    reason = "The server is shut down: start it first."
    assert [tile.why.text() for tile in page.tiles] == [reason, reason, ""]
    feed.connect_as(Connection(S.CONNECTED, "my-server"))
    feed.change_run(RUN)
    assert (page.try_it.isEnabled(), page.train.isEnabled()) == (False, True)
    assert "lunar-2" in page.tiles[0].why.text()
    page.help.click()
    assert (window.mode, window.pages.shown) == (Mode.CLIENT, "client")


# --- the menu, and invitations ---

INVITATION = Invitation(
    server_id="server-1",
    server_name="atelier",
    client="gamer-01",
    addresses=(("192.168.1.5", 6379),),
    secret="0123456789abcdef-for-tests",
    prefix="souls:",
    created=1.0,
)


def test_the_menu_leads_to_the_welcome_page_names_the_folders_and_invites_while_there_is_a_server(
    make: Make, feed: FakeFeed
) -> None:
    window = make()
    window.show_page("logs")
    window.menu.welcome.trigger()
    assert window.pages.shown == "welcome"
    window.menu.about.trigger()
    label: Any = window.findChild(QWidget, "qt_msgbox_label")
    assert "/d" in label.text()
    label.window().close()
    for connection, why in ((SHUT_DOWN, "start it first"), (NO_RUN, "Let another computer")):
        feed.connect_as(connection)
        window.menu.aboutToShow.emit()
        assert window.menu.invite.isEnabled() is (connection is NO_RUN)
        assert why in window.menu.invite.toolTip()
    window.menu.invite.trigger()
    (dialog,) = window.findChildren(InviteDialog)
    dialog.reject()
    window.open_invitation(INVITATION)
    assert (window.mode, window.pages.shown) == (Mode.CLIENT, "client")
    assert window.client_side().invitation == INVITATION


def test_a_computer_that_only_plays_opens_in_client_mode_starts_no_server_and_says_what_is_missing(
    qtbot: QtBot, make: Make, feed: FakeFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.gui.shell.window.can_train", lambda: False)
    monkeypatch.setattr("soulsgui.gui.welcome.page.can_train", lambda: False)
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
    page = WelcomePage(feed, window)  # type: ignore[arg-type]
    qtbot.addWidget(page)
    assert not page.try_it.isEnabled()
    assert not page.train.isEnabled()
    assert page.help.isEnabled()
    assert "PyTorch, which training needs, is not installed" in page.tiles[0].why.text()
    assert page.tiles[0].why.text() == page.tiles[1].why.text()


def test_a_server_that_is_started_anew_is_shut_down_first(qtbot: QtBot, make: Make, feed: FakeFeed) -> None:
    window = make()
    window.restart_server()
    assert feed.sent[-1].command == "server.shutdown"
    with qtbot.waitSignal(window.start_wanted):
        feed.connect_as(Connection(S.SHUT_DOWN, "my-server"))
    started: list[int] = []
    window.start_wanted.connect(lambda: started.append(1))
    feed.connect_as(NO_RUN)
    feed.connect_as(Connection(S.SHUT_DOWN, "my-server"))
    assert started == [], "once alone"


@pytest.fixture
def broken(folders: Folders) -> Connection:
    """No server starts, because of a mistake in the file of settings."""
    folders.config.mkdir(parents=True)
    folders.overrides.write_text("ppo:\n  gama: 0.9\n")
    return Connection(S.START_FAILED, "my-server", detail="Line 2: …", config=folders.overrides)


def mend(qtbot: QtBot, window: MainWindow) -> None:
    """Mend the file in the dialog that is open, and see that the server is to be started."""
    dialog = part_of(window, MendConfigDialog)
    dialog.take_out.click()
    with qtbot.waitSignal(window.start_wanted):
        dialog.again.click()


@pytest.fixture
def told_of_it(qtbot: QtBot, make: Make, feed: FakeFeed, broken: Connection) -> MainWindow:
    """A window whose banner has led to the dialog that mends the file."""
    window = make()
    feed.connect_as(broken)
    assert "The configuration has mistakes" in words_of(window.banner)
    qtbot.mouseClick(window.banner.button, Qt.MouseButton.LeftButton)
    return window


def answer(dialog: MendConfigDialog, words: str) -> None:
    """Press a button of the question that stands over the dialog."""
    (box,) = (one for one in dialog.findChildren(QMessageBox) if one.isVisible())
    next(one for one in box.buttons() if one.text().replace("&", "") == words).click()


def test_a_mistake_that_keeps_the_server_from_starting_is_mended_from_the_banner(
    qtbot: QtBot, told_of_it: MainWindow, folders: Folders
) -> None:
    mend(qtbot, told_of_it)
    assert folders.overrides.read_text() == ""


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


def test_a_text_with_mistakes_is_discarded_only_when_that_is_said(
    qtbot: QtBot, told_of_it: MainWindow, folders: Folders
) -> None:
    dialog, before = part_of(told_of_it, MendConfigDialog), folders.overrides.read_text()
    dialog.text.setPlainText("seed: none of them\n")
    for words, stays in (("Mend it", True), ("Discard", False)):
        qtbot.keyClick(dialog, Qt.Key.Key_Escape)
        answer(dialog, words)
        assert dialog.isVisible() is stays
    assert folders.overrides.read_text() == before


def test_a_mistake_that_keeps_the_server_from_starting_is_mended_from_page_and_toolbar(
    qtbot: QtBot, make: Make, feed: FakeFeed, folders: Folders, broken: Connection
) -> None:
    feed.connection = Connection(S.SHUT_DOWN, "my-server")
    window = make()
    window.show_page("config")
    feed.connect_as(broken)
    assert window.pages.covered
    qtbot.mouseClick(window.pages.no_server.empty.button, Qt.MouseButton.LeftButton)
    mend(qtbot, window)
    folders.overrides.write_text("seed: many\n")
    qtbot.waitUntil(lambda: window.findChild(MendConfigDialog) is None)
    assert button(window, "configure").isEnabled()
    qtbot.mouseClick(button(window, "configure"), Qt.MouseButton.LeftButton)
    mend(qtbot, window)


def test_where_no_server_has_been_seen_yet_the_page_itself_leads_to_the_mistake(
    make: Make, feed: FakeFeed, broken: Connection
) -> None:
    feed.connection = Connection(S.STARTING, "my-server")
    window = make()
    window.show_page("config")
    assert not window.pages.covered
    feed.connect_as(broken)
    assert "Line 2" in window.pages.no_server.empty.words
    assert window.pages.front is window.pages.no_server
    feed.connect_as(NO_RUN)
    assert window.pages.front is window.pages.page


def test_settings_that_can_not_be_kept_are_told(qtbot: QtBot, both_themes: Theme, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("")
    preferences = Preferences(Folders(tmp_path / "c", tmp_path / "d"))
    assert "can't be written" in preferences.keep()
    dialog = SettingsDialog(preferences, both_themes)
    qtbot.addWidget(dialog)
    dialog.show()
    assert not dialog.trouble.isVisible()
    dialog.closing.setCurrentIndex(1)
    assert str(tmp_path / "c" / "window.ini") in dialog.trouble.text()
    assert dialog.trouble.isVisible()
    assert Preferences(Folders(tmp_path / "e", tmp_path / "d")).keep() == ""
