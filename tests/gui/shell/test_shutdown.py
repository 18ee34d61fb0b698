import pytest
from PySide6.QtWidgets import QLabel, QSystemTrayIcon, QWidget
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.client_mode.state import ClientWords
from soulsgui.gui.colours import LIGHT, Tone
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.preferences import AtClosing, AtLeaving, Preferences
from soulsgui.gui.shell import tray as trays
from soulsgui.gui.shell.menu import SettingsDialog
from soulsgui.gui.shell.shutdown import (
    ClosingDialog,
    Ending,
    Leaving,
    LeavingDialog,
    WindowCloser,
    ending,
    leaving,
)
from soulsgui.gui.shell.tray import Tray, state_icon, why_off
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.states import Look
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.command_button import Stage
from soulsgui.wire.control import QueuedRun, RunStatus, ServerStatus, Snapshot, Status
from tests.gui.fake_feed import HELLO, LIVE, LOST, FakeFeed, refusal
from tests.gui.reading import part_of
from tests.gui.shell.conftest import Make
from tests.states import client, service

IDLE, STARTING, CONNECTING, START_FAILED = (
    Connection(ConnectionState(name), "my-server")
    for name in ("no_run", "starting", "connecting", "start_failed")
)
RUNNING = RunStatus(id="r1", name="lunar-2", state="running", checkpoint_age_s=125.0)
NONE = RunStatus()


def test_closing_asks_about_a_run_and_leaves_no_runner_of_its_own_behind() -> None:
    for connection, run, ours, remembered, expected in (
        (LIVE, RUNNING, True, AtClosing.ASK, Ending(ask=True, shut_down=True)),
        (LIVE, RUNNING, False, AtClosing.ASK, Ending(ask=True)),
        (LIVE, RUNNING, True, AtClosing.STOP, Ending(stop_run=True, shut_down=True)),
        (LIVE, RUNNING, True, AtClosing.KEEP, Ending()),
        (IDLE, NONE, True, AtClosing.ASK, Ending(shut_down=True)),
        (IDLE, NONE, True, AtClosing.KEEP, Ending(shut_down=True)),
        (IDLE, NONE, False, AtClosing.STOP, Ending()),
        (LOST, RUNNING, True, AtClosing.ASK, Ending()),
    ):
        assert ending(connection, run, ours, remembered) == expected


class Closing:
    """A window that is being closed while a run goes on, or none."""

    def __init__(self, qtbot: QtBot, folders: Folders, run: RunStatus = RUNNING) -> None:
        self.feed = FakeFeed(Status(run=run, server=ServerStatus(reachable=True)), LIVE, HELLO)
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.window.show()
        self.preferences = Preferences(folders)
        self.closer = WindowCloser(self.feed, self.preferences, self.window)
        self.closed: list[bool] = []
        self.closer.closed.connect(self.closed.append)

    @property
    def dialog(self) -> ClosingDialog:
        assert self.closer.dialog is not None
        return self.closer.dialog


@pytest.fixture
def closing(qtbot: QtBot, theme: Theme, folders: Folders) -> Closing:
    """A run goes on."""
    return Closing(qtbot, folders)


@pytest.fixture
def idle(qtbot: QtBot, theme: Theme, folders: Folders) -> Closing:
    """No run is active, and the runner was started by the window."""
    made = Closing(qtbot, folders, NONE)
    made.preferences.remember_runner(HELLO)
    return made


def test_keep_training_is_silent_and_remembered(qtbot: QtBot, closing: Closing, folders: Folders) -> None:
    closing.preferences.remember_runner(HELLO)
    closing.feed.change_queue([QueuedRun(number=4), QueuedRun(number=7)])
    closing.closer.begin()
    assert closing.closed == []
    words = [label.text() for label in closing.dialog.findChildren(QLabel)]
    assert any(
        "The 2 runs in the queue follow then; if you stop it, at the next start" in one for one in words
    )
    assert "To come back, open SoulsGUI again." in words, "no command that may not be there"
    closing.dialog.remember.setChecked(True)
    closing.dialog.keep.click()
    assert closing.closed == [True]
    assert not closing.window.isVisible()
    assert closing.feed.sent == []
    again = Closing(qtbot, folders)
    assert again.preferences.at_closing is AtClosing.KEEP
    again.closer.begin()
    assert again.closed == [True]


@pytest.mark.parametrize("stops", [False, True])
def test_the_question_goes_when_its_run_has_ended_meanwhile(
    qtbot: QtBot, closing: Closing, stops: bool
) -> None:
    closing.closer.begin()
    dialog = closing.dialog
    closing.feed.change_run(RUNNING.model_copy(update={"env_steps": 100}))
    if stops:
        dialog.stop.click()
    assert dialog.isVisible()
    closing.feed.change_run(RUNNING.model_copy(update={"state": "finished"}))
    assert dialog.isVisible() is stops, "what becomes of a command that was given is told"
    if stops:
        closing.feed.sent_of("run.stop")[0].call.refuse(refusal("No run is active."))
        assert not dialog.isVisible()
    qtbot.waitUntil(lambda: closing.closer.dialog is None)
    assert closing.closed == []
    assert closing.window.isVisible(), "it tells how the run ended"
    closing.closer.begin()
    assert closing.closed == [False]


@pytest.mark.parametrize("ours", [True, False])
def test_stop_and_quit_waits_and_ends_its_runner_alone(qtbot: QtBot, closing: Closing, ours: bool) -> None:
    if ours:
        closing.preferences.remember_runner(HELLO)
    closing.closer.begin()
    dialog = closing.dialog
    dialog.stop.click()
    assert dialog.stop.stage is Stage.RUNNING
    assert not dialog.keep.isEnabled()
    assert closing.closed == []
    closing.feed.answers["server.shutdown"] = {}
    with qtbot.waitSignal(closing.closer.closed):
        closing.feed.sent_of("run.stop")[0].call.answer({"run_id": "r1", "run_dir": "/r1"})
    assert closing.closed == [False]
    assert bool(closing.feed.sent_of("server.shutdown")) is ours


def test_a_run_that_can_not_be_stopped_keeps_the_window(qtbot: QtBot, closing: Closing) -> None:
    closing.feed.answers["run.stop"] = refusal("The disk is full.", "Free some.")
    closing.closer.begin()
    dialog = closing.dialog
    with qtbot.waitSignal(dialog.stop.problem):
        dialog.stop.click()
    assert "The disk is full." in dialog.wrong.text()
    assert dialog.keep.isEnabled()
    dialog.leave.click()
    assert closing.closed == []
    assert closing.window.isVisible()
    qtbot.waitUntil(lambda: closing.closer.dialog is None)
    closing.closer.begin()
    assert closing.dialog.isVisible(), "it can be asked again"
    closing.dialog.reject()


def test_a_remembered_stop_shows_its_progress(closing: Closing) -> None:
    closing.preferences.at_closing = AtClosing.STOP
    closing.closer.begin()
    assert closing.dialog.stop.stage is Stage.RUNNING
    closing.feed.sent_of("run.stop")[0].call.answer({"run_id": "r1", "run_dir": "/r1"})
    assert closing.closed == [False]


@pytest.mark.parametrize("answered", [True, False])
def test_asked_several_times_it_ends_once_also_beside_a_silent_runner(idle: Closing, answered: bool) -> None:
    for end in (idle.closer.begin_quietly, idle.closer.begin_quietly, idle.closer.begin):
        end()
    assert idle.closed == []
    (shutdown,) = idle.feed.sent_of("server.shutdown")
    if answered:
        shutdown.call.answer({})
    else:
        shutdown.call.refuse(refusal("gone"))
    assert idle.closed == [False]


@pytest.mark.parametrize("comes", [True, False])
def test_a_runner_that_is_being_started_is_not_left_behind(qtbot: QtBot, idle: Closing, comes: bool) -> None:
    idle.feed.answers["server.shutdown"] = {}
    idle.feed.connect_as(STARTING)
    idle.closer.begin()
    assert not idle.window.isVisible()
    idle.feed.connect_as(CONNECTING)
    assert idle.closed == []
    with qtbot.waitSignal(idle.closer.closed):
        idle.feed.connect_as(IDLE if comes else START_FAILED)
    assert idle.closed == [False]
    assert len(idle.feed.sent_of("server.shutdown")) == comes


NAME = "gamer-01"


def helping(state: str = "online", wish: str = "run") -> Status:
    return Status(
        services=[service("client")],
        clients=[client(NAME, state, wish=wish, episodes=96)],
        server=ServerStatus(url="redis://127.0.0.1:1", reachable=True),
    )


@pytest.fixture
def window(stubs: None, make: Make, monkeypatch: pytest.MonkeyPatch) -> MainWindow:
    monkeypatch.setattr(trays, "has_tray", lambda: True)
    made = make()
    own = made.client_side().feed
    own.set_connection(LIVE)
    own.take(Snapshot(cursor=1, status=helping()))
    return made


def asked(window: MainWindow) -> LeavingDialog:
    window.close()
    assert window.client_closer.dialog is not None
    return window.client_closer.dialog


def tray_of(window: MainWindow) -> Tray:
    assert window.client_closer.tray is not None
    return window.client_closer.tray


def test_a_closed_window_stays_only_while_this_computer_helps() -> None:
    for playing, has_tray, remembered, what in (
        (False, True, AtLeaving.TRAY, Leaving.CLOSE),
        (True, False, AtLeaving.TRAY, Leaving.ASK),
        (True, False, AtLeaving.QUIT, Leaving.CLOSE),
        (True, True, AtLeaving.QUIT, Leaving.CLOSE),
        (True, True, AtLeaving.TRAY, Leaving.TRAY),
        (True, True, AtLeaving.ASK, Leaving.ASK),
    ):
        assert leaving(playing, has_tray, remembered) is what


def test_the_tray_says_why_something_can_not_be_done() -> None:
    playing = ClientWords(Look("state-good", Tone.GOOD, "Playing, episode 97"), on=True, wish="run")
    no_pause, no_resume, no_stop = why_off(playing, LIVE)
    assert (no_pause, no_stop) == ("", "")
    assert no_resume
    assert all(why_off(playing, LOST))


def test_the_first_close_is_explained_then_tray(qtbot: QtBot, window: MainWindow, folders: Folders) -> None:
    ended: list[bool] = []
    window.closer.closed.connect(ended.append)
    dialog = asked(window)
    assert window.isVisible()
    dialog.remember.setChecked(True)
    dialog.stay.click()
    tray = tray_of(window)
    assert not window.isVisible()
    assert tray.shown
    assert tray.icon.toolTip() == "SoulsGUI: Playing, episode 97"
    tray.icon.activated.emit(QSystemTrayIcon.ActivationReason.Trigger)
    assert window.isVisible()
    assert not tray.shown
    window.close()  # as it was remembered, without another question
    assert not window.isVisible()
    assert tray.shown
    assert ended == []
    assert Preferences(folders).at_leaving is AtLeaving.TRAY
    with qtbot.waitSignal(window.closer.closed):
        tray.quit.trigger()
    assert not tray.shown


def test_quit_in_the_menu_ends_the_program(qtbot: QtBot, window: MainWindow) -> None:
    with qtbot.waitSignal(window.closer.closed):
        window.menu.quit.trigger()
    assert window.client_closer.dialog is None, "the menu asks nothing about the tray"


def test_a_desktop_without_a_tray_ends_with_the_window_and_says_why_in_the_settings(
    qtbot: QtBot, window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trays, "has_tray", lambda: False)
    window.menu.settings.trigger()
    dialog = part_of(window, SettingsDialog)
    assert not dialog.leaving.isEnabled()
    assert dialog.why_no_tray.text() == trays.why_no_tray() != ""
    dialog.reject()
    leave = asked(window)
    assert "stops helping" in " ".join(label.text() for label in leave.findChildren(QLabel))
    assert leave.stay.isHidden()
    with qtbot.waitSignal(window.closer.closed):
        leave.quit.click()


def test_the_menu_of_the_tray_pauses_resumes_and_stops(qtbot: QtBot, window: MainWindow) -> None:
    feed = FakeFeed(helping())
    side = window.client_side()
    side.feed = feed
    tray = Tray(side, FakeFeed(), window)
    tray.show()
    assert not tray.resume.isEnabled()
    tray.pause.trigger()
    feed.take_snapshot(helping("paused", "pause"))
    qtbot.waitUntil(tray.resume.isEnabled)
    assert tray.state.text() == "Paused by you"
    assert not tray.pause.isEnabled()
    tray.resume.trigger()
    tray.stop.trigger()
    assert [(one.command, one.params) for one in feed.sent] == [
        ("clients.pause", {"client": NAME, "after_episode": False}),
        ("clients.resume", {"client": NAME}),
        ("service.stop", {"name": "client"}),
    ]
    tray.hide()


def test_the_icon_of_another_state_is_another_picture(theme: Theme) -> None:
    good, paused = (
        state_icon(Look(icon, tone, ""), LIGHT).pixmap(32, 32).toImage()
        for icon, tone in (("state-good", Tone.GOOD), ("state-paused", Tone.PAUSED))
    )
    assert good != paused


@pytest.mark.parametrize(("ends", "words"), [(True, "stops helping"), (False, "it keeps playing there")])
def test_what_quitting_means_is_told_as_it_is(window: MainWindow, ends: bool, words: str) -> None:
    window.client_side().feed.greet(HELLO.model_copy(update={"ends_with_window": ends}))
    dialog = asked(window)
    assert words in " ".join(label.text() for label in dialog.findChildren(QLabel))
    dialog.reject()
