"""What comes to the user from outside of the window: notifications, and the window itself at login."""

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QSystemTrayIcon
from pytestqt.qtbot import QtBot

from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell import tray
from soulsgui.gui.shell.menu import SettingsDialog
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme
from soulsgui.system import starts_at_login
from soulsgui.wire.control import Event
from tests.gui.fake_feed import HELLO, FakeFeed
from tests.gui.shell.conftest import Make
from tests.gui.shell.stub_pages import StubPage

pytestmark = pytest.mark.usefixtures("stubs")


def event(
    number: int, level: str = "error", what: str = "The trainer crashed", cause: str = "out of memory"
) -> Event:
    return Event(number=number, time=1.0, level=level, what=what, service="trainer", cause=cause)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the desktop was told; it has a tray."""
    shown: list[Any] = []
    monkeypatch.setattr(tray, "has_tray", lambda: True)
    monkeypatch.setattr(QSystemTrayIcon, "showMessage", lambda self, *words: shown.append(words[:2]))
    return shown


@pytest.fixture
def away(make: Make, fake: FakeFeed, monkeypatch: pytest.MonkeyPatch) -> MainWindow:
    """A window that is not in front."""
    fake.hello = HELLO
    window = make("overview")
    monkeypatch.setattr(window, "isActiveWindow", lambda: False)
    return window


def test_warnings_and_errors_are_told_together_as_text_and_lead_to_the_log(
    qtbot: QtBot, away: MainWindow, fake: FakeFeed, told: list[Any]
) -> None:
    fake.bring_event(event(1, "info"))
    fake.bring_event(event(2, what="<img src='file:///canary'> & lost"))
    fake.bring_event(event(3, "warning", what="<b>Lost</b> & gone"))
    qtbot.waitUntil(lambda: bool(told))
    assert told == [("‹b›Lost‹/b› ＆ gone", "out of memory\nand 1 more")]
    away.notifier._icon.messageClicked.emit()  # type: ignore[union-attr]
    page = away.pages.made("logs")
    assert isinstance(page, StubPage)
    assert page.places == [{"service": "trainer", "run": "", "time": 1.0}]
    away.notifier._later.stop()


def test_a_desktop_without_a_tray_is_told_by_its_own_command(
    qtbot: QtBot,
    away: MainWindow,
    fake: FakeFeed,
    theme: Theme,
    folders: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tray, "has_tray", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))

    def settings() -> SettingsDialog:
        dialog = SettingsDialog(Preferences(folders), theme)
        qtbot.addWidget(dialog)
        return dialog

    assert not settings().notifies.isEnabled()
    assert "notify-send" in settings().notifies.toolTip()
    said, command = tmp_path / "said", tmp_path / "notify-send"
    command.write_text(
        f"#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done > {said}.new\n/bin/mv {said}.new {said}\n"
    )
    command.chmod(0o755)
    assert settings().notifies.isEnabled()
    fake.bring_event(event(2, what="--<b>Lost</b>", cause=r"C:\new \074b\076"))
    qtbot.waitUntil(said.exists)
    # It follows escapes in the last one.
    assert said.read_text().split("\n")[2:5] == ["--", "--‹b›Lost‹/b›", r"C:\\new \\074b\\076"]


def test_nothing_is_told_to_who_looks_or_does_not_want_it(
    qtbot: QtBot, make: Make, away: MainWindow, fake: FakeFeed, told: list[Any], folders: Any
) -> None:
    away._preferences.notifies = False
    assert not Preferences(folders).notifies
    fake.bring_event(event(2))
    away._preferences.notifies = True
    away.isActiveWindow = lambda: True  # type: ignore[method-assign]
    fake.bring_event(event(3))
    assert not away.notifier._soon.isActive()
    assert told == []


def test_the_window_opens_at_login_where_that_is_wanted(
    qtbot: QtBot, theme: Theme, folders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "desktop"))
    dialog = SettingsDialog(Preferences(folders), theme)
    qtbot.addWidget(dialog)
    assert not dialog.at_login.isChecked()
    dialog.at_login.click()
    assert starts_at_login()
    entry = (tmp_path / "desktop" / "autostart" / "soulsgui.desktop").read_text()
    assert str(folders.data) in entry
    dialog.at_login.click()
    assert not starts_at_login()
    (tmp_path / "desktop" / "autostart").rmdir()
    (tmp_path / "desktop" / "autostart").touch()
    dialog.at_login.click()
    assert not dialog.at_login.isChecked()
    assert "The system refused it" in dialog.wrong.text()
