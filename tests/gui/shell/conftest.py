"""asyncio, folders and windows for the tests of the window."""

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.gui.models.connection import ConnectionState
from soulsgui.gui.preferences import Mode, Preferences
from soulsgui.gui.shell import connector, remote, runner_link
from soulsgui.gui.shell.connector import SleepWatch
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme
from tests.end_to_end.server import RunningServer
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import FakeFeed
from tests.gui.shell.driving import OpenedWindow, close_messages, qt_asyncio
from tests.gui.shell.far import Far, Ssh
from tests.gui.shell.stub_pages import stub_pages

Make = Callable[..., MainWindow]


def folders_below(folder: Path) -> Folders:
    """The folders that `RunningServer` uses below a folder."""
    return Folders(folder / "config", folder / "data")


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    return folders_below(tmp_path)


@pytest.fixture
def qt_loop(qapp: QApplication, theme: Theme) -> Iterator[asyncio.AbstractEventLoop]:
    """asyncio runs while qtbot waits."""
    with qt_asyncio(qapp) as loop:
        yield loop


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing stands on the pages."""
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", stub_pages)


@pytest.fixture
def make(qtbot: QtBot, both_themes: Theme, folders: Folders, fake: FakeFeed) -> Iterator[Make]:
    """Opens a window before the played runner, at a page where one is named."""
    made: list[MainWindow] = []

    def build(page: str = "", mode: Mode | None = None, show: bool = True) -> MainWindow:
        window = MainWindow(fake, both_themes, Preferences(folders), mode)
        made.append(window)
        if show:
            with qtbot.waitSignal(window.first_shown):
                window.show()
        if page:
            window.show_page(page)
        return window

    yield build
    for window in made:
        close_messages(window.messages)
        window.hide()
        window.deleteLater()


OpenWindow = Callable[..., OpenedWindow]


@pytest.fixture
def open_window(qapp: QApplication, qt_loop: asyncio.AbstractEventLoop, theme: Theme) -> Iterator[OpenWindow]:
    """Opens a window before the runner of its folders."""
    made: list[OpenedWindow] = []

    def begin(folders: Folders, may_start: bool = False, sleep: SleepWatch | None = None) -> OpenedWindow:
        made.append(OpenedWindow(qapp, theme, folders, may_start, sleep))
        return made[-1]

    yield begin
    for one in made:
        one.close()


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ssh:
    # Usual limits are far below what a busy machine may take.
    for module, name in (
        (remote, "_LIMIT_S"),
        (connector, "_FAR_HELLO_TIMEOUT_S"),
        (runner_link, "_PING_EVERY_S"),
    ):
        monkeypatch.setattr(module, name, LIMIT_S)
    made = Ssh(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{made.folder}{os.pathsep}{os.environ['PATH']}")
    return made


@pytest.fixture
def far(
    qapp: QApplication,
    qt_loop: asyncio.AbstractEventLoop,
    theme: Theme,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Far]:
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    made = Far(qapp, theme, folders_below(home))
    made.until_state(ConnectionState.WELCOME)
    yield made
    made.close()


@pytest.fixture
def command(ssh: Ssh, server: RunningServer) -> str:
    """How the server's SoulsGUI is called there."""
    places = ["--config-dir", str(server.folder / "config"), "--data-dir", str(server.folder / "data")]
    return str(ssh.write("soulsgui", f'exec {shlex.join([sys.executable, "-m", "soulsgui", *places])} "$@"'))
