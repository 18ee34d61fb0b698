"""Closing the window while this computer helps: it asks, stays in the tray, or ends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QSystemTrayIcon
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui import tray as trays
from soulsgui.gui.colours import LIGHT, Tone
from soulsgui.gui.dialogs import settings as settings_dialog
from soulsgui.gui.main_window import MainWindow
from soulsgui.gui.models.client_mode import ClientWords
from soulsgui.gui.models.tray import Leaving, leaving, tray_words, why_no_tray
from soulsgui.gui.pages import table
from soulsgui.gui.preferences import AtLeaving, Preferences
from soulsgui.gui.states import Look
from soulsgui.gui.theme import Theme
from soulsgui.gui.tray import Tray, state_icon
from soulsgui.wire.control import ClientStatus, Hello, ServerStatus, ServiceStatus, Snapshot, Status
from tests.gui.fake_feed import LIVE, LOST, FakeFeed
from tests.gui.shell.stub_pages import stub_pages

NAME = "gamer-01"


def helping(state: str = "online", wish: str = "run") -> Status:
    return Status(
        services=[ServiceStatus(name="client", kind="client", state="running")],
        clients=[ClientStatus(id=NAME, name=NAME, state=state, wish=wish, episodes=96)],
        server=ServerStatus(url="redis://127.0.0.1:1", reachable=True),
    )


Make = Callable[..., MainWindow]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether the desktop has a tray."""
    monkeypatch.setattr(table, "pages", stub_pages)

    def say(has: bool) -> None:
        monkeypatch.setattr(trays, "has_tray", lambda: has)
        monkeypatch.setattr(settings_dialog, "has_tray", lambda: has)

    say(True)
    return say


@pytest.fixture
def window(
    qtbot: QtBot, both_themes: Theme, tmp_path: Path, desk: Callable[[bool], None]
) -> Iterator[MainWindow]:
    """A window on a computer that helps."""
    feed = FakeFeed()
    made = MainWindow(feed, both_themes, Preferences(Folders(tmp_path / "c", tmp_path / "d")))  # type: ignore[arg-type]
    with qtbot.waitSignal(made.first_shown):
        made.show()
    own = made.client_side().feed
    own.set_connection(LIVE)
    own.take(Snapshot(cursor=1, status=helping()))
    yield made
    made.messages.clear()
    made.hide()
    made.deleteLater()


@pytest.mark.parametrize(
    ("playing", "has_tray", "remembered", "what"),
    [
        (False, True, AtLeaving.TRAY, Leaving.CLOSE),
        (True, False, AtLeaving.TRAY, Leaving.CLOSE),
        (True, True, AtLeaving.QUIT, Leaving.CLOSE),
        (True, True, AtLeaving.TRAY, Leaving.TRAY),
        (True, True, AtLeaving.ASK, Leaving.ASK),
    ],
)
def test_a_closed_window_stays_only_while_this_computer_helps(
    playing: bool, has_tray: bool, remembered: AtLeaving, what: Leaving
) -> None:
    assert leaving(playing, has_tray, remembered) is what


def test_the_tray_says_the_state_and_why_something_can_not_be_done() -> None:
    playing = ClientWords(Look("state-good", Tone.GOOD, "Playing, episode 97"), on=True, wish="run")
    said = tray_words(playing, LIVE)
    assert said.tip == "SoulsGUI: Playing, episode 97"
    assert (said.no_pause, said.no_stop) == ("", "")
    assert said.no_resume
    assert all((tray_words(playing, LOST).no_pause, tray_words(playing, LOST).no_stop))


def test_the_first_close_is_explained_and_then_the_tray_plays_on(
    qtbot: QtBot, window: MainWindow, tmp_path: Path
) -> None:
    ended: list[bool] = []
    window.closer.closed.connect(ended.append)
    window.close()
    dialog = window.leaver.dialog
    assert dialog is not None
    assert window.isVisible()
    dialog.remember.setChecked(True)
    qtbot.mouseClick(dialog.stay, Qt.MouseButton.LeftButton)
    tray = window.leaver.tray
    assert tray is not None
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
    assert Preferences(Folders(tmp_path / "c", tmp_path / "d")).at_leaving is AtLeaving.TRAY


def test_quit_in_the_tray_or_the_menu_ends_the_program(qtbot: QtBot, window: MainWindow) -> None:
    window.leaver.close_window()
    assert window.leaver.dialog is not None
    window.leaver.dialog.stay.click()
    tray = window.leaver.tray
    assert tray is not None
    with qtbot.waitSignal(window.closer.closed):
        tray.quit.trigger()
    assert not tray.shown


def test_quitting_by_the_menu_asks_nothing_about_the_tray(qtbot: QtBot, window: MainWindow) -> None:
    with qtbot.waitSignal(window.closer.closed):
        window.menu.quit.trigger()
    assert window.leaver.dialog is None


def test_a_desktop_without_a_tray_ends_with_the_window_and_says_why_in_the_settings(
    qtbot: QtBot, window: MainWindow, desk: Callable[[bool], None]
) -> None:
    desk(False)
    window.menu.open_settings()
    dialog = window.findChild(settings_dialog.SettingsDialog)
    assert isinstance(dialog, settings_dialog.SettingsDialog)
    assert not dialog.leaving.isEnabled()
    assert dialog.why_no_tray.text() == why_no_tray(False) != ""
    dialog.reject()
    with qtbot.waitSignal(window.closer.closed):
        window.close()
    assert window.leaver.dialog is None


def test_the_menu_of_the_tray_pauses_resumes_and_stops(qtbot: QtBot, window: MainWindow) -> None:
    feed = FakeFeed(helping())
    side = window.client_side()
    side.feed = feed  # type: ignore[assignment]
    tray = Tray(side, FakeFeed(), window)  # type: ignore[arg-type]
    tray.show()
    assert not tray.resume.isEnabled()
    tray.pause.trigger()
    assert (feed.sent[-1].command, feed.sent[-1].params) == (
        "clients.pause",
        {"client": NAME, "after_episode": False},
    )
    feed.take_snapshot(helping("paused", "pause"))
    qtbot.waitUntil(tray.resume.isEnabled)
    assert tray.state.text() == "Paused by you"
    assert not tray.pause.isEnabled()
    tray.resume.trigger()
    assert (feed.sent[-1].command, feed.sent[-1].params) == ("clients.resume", {"client": NAME})
    tray.stop.trigger()
    assert (feed.sent[-1].command, feed.sent[-1].params) == ("service.stop", {"name": "client"})
    tray.hide()


def test_the_icon_of_another_state_is_another_picture(theme: Theme) -> None:
    pictures = [
        state_icon(Look(icon, tone, ""), LIGHT).pixmap(32, 32).toImage()
        for icon, tone in (("state-good", Tone.GOOD), ("state-paused", Tone.PAUSED))
    ]
    assert pictures[0] != pictures[1]


@pytest.mark.parametrize(("ends", "words"), [(True, "helps no longer"), (False, "it plays on there")])
def test_what_quitting_means_is_told_as_it_is(window: MainWindow, ends: bool, words: str) -> None:
    own = window.client_side().feed
    own.greet(
        Hello(
            version="1",
            role="client",
            server_id="s",
            pid=1,
            started=1.0,
            data_dir="/d",
            config_dir="/c",
            capabilities=[],
            ends_with_window=ends,
        )
    )
    window.close()
    dialog = window.leaver.dialog
    assert dialog is not None
    said = " ".join(label.text() for label in dialog.findChildren(QLabel))
    assert words in said
    dialog.reject()
