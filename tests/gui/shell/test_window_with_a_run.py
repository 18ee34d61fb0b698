"""The window's commands against a real runner: what is asserted is what became of the server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.gui.connecting import Connector
from soulsgui.gui.connection_state import ConnectionState
from soulsgui.gui.dialogs.new_run import NewRunDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.loop import Tasks
from soulsgui.gui.main_window import MainWindow
from soulsgui.gui.pages import table
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.states import run_is_active
from soulsgui.gui.theme import Theme
from tests.end_to_end.server import RunningServer
from tests.faults.waiting import LIMIT_S
from tests.gui.shell.conftest import folders_below
from tests.gui.shell.driving import fail_loudly, finish, until
from tests.gui.shell.stub_pages import stub_pages

START_S = 30.0
LEFT = Qt.MouseButton.LeftButton


class Open:
    """A window that is connected to a runner."""

    def __init__(self, qapp: QApplication, theme: Theme, folders: Folders) -> None:
        self.qapp = qapp
        self.tasks = Tasks(fail_loudly)
        self.feed = Feed()
        self.window = MainWindow(self.feed, theme, Preferences(folders))
        connector = Connector(self.feed, folders, "my-server", self.tasks, may_start=False)
        self.window.first_shown.connect(connector.open)
        self.window.show()
        until(qapp, lambda: self.feed.connection.live, "the window is connected")

    def until_run(self, *states: str) -> None:
        try:
            until(self.qapp, lambda: self.feed.status.run.state in states, f"the run is {states}", START_S)
        except AssertionError as error:
            # What it is now, not what it was when the waiting began.
            raise AssertionError(f"{error}; it is {self.feed.status}") from error

    def close(self) -> None:
        finish(self.qapp, self.tasks)
        self.window.messages.clear()
        self.window.hide()
        self.window.deleteLater()


@pytest.fixture
def opened(
    qapp: QApplication,
    qt_loop: asyncio.AbstractEventLoop,
    theme: Theme,
    server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Open]:
    monkeypatch.setattr(table, "pages", stub_pages)
    made = Open(qapp, theme, folders_below(server.folder))
    yield made
    made.close()


def test_a_run_is_begun_saved_stopped_and_resumed(qtbot: QtBot, opened: Open, server: RunningServer) -> None:
    window, feed, toolbar = opened.window, opened.feed, opened.window.toolbar
    qtbot.mouseClick(toolbar.new_run, LEFT)
    dialog = window.findChild(NewRunDialog)
    assert isinstance(dialog, NewRunDialog)
    until(opened.qapp, dialog.start.isEnabled, "the settings are there")
    dialog.name.setText("by hand")
    dialog.note.setPlainText("from a test")
    dialog.clients.setValue(1)
    dialog.goal.setText("1000")
    with qtbot.waitSignal(dialog.started) as started:
        qtbot.mouseClick(dialog.start, LEFT)
    run = RunFolder(Path(started.args[0]["run_dir"]))
    settings = json.loads(run.config.read_text())
    assert (settings["clients"]["local"], settings["stop"]["mean_return"]) == (1, 1000.0)
    record = json.loads(run.run.read_text())
    assert (record["name"], record["note"]) == ("by hand", "from a test")
    assert window.pages.shown == "overview"
    opened.until_run("running")
    until(opened.qapp, lambda: feed.status.run.updates > 0, "it learns", START_S)

    until(opened.qapp, toolbar.quicksave.isEnabled, "it can be saved")
    with qtbot.waitSignal(toolbar.saved):
        qtbot.mouseClick(toolbar.quicksave, LEFT)
    assert [one.name for one in run.manual_saves.iterdir()], "the checkpoint is on the disk"

    trainer = server.pid("trainer") or 0
    assert psutil.pid_exists(trainer)
    with qtbot.waitSignal(toolbar.stop.finished):
        qtbot.mouseClick(toolbar.stop, LEFT)
    assert not psutil.pid_exists(trainer)
    assert json.loads(run.run.read_text())["state"] == "stopped"
    opened.until_run("stopped")

    until(opened.qapp, toolbar.resume.isEnabled, "it can be resumed")
    with qtbot.waitSignal(toolbar.resume.finished):
        qtbot.mouseClick(toolbar.resume, LEFT)
    until(opened.qapp, lambda: feed.status.run.attempt == 2, "a second attempt", START_S)
    assert feed.status.run.id == run.run_id
    opened.until_run("running")


def test_closing_in_a_run_with_stop_saves_and_ends_it_but_not_the_runner_of_somebody_else(
    qtbot: QtBot, opened: Open, server: RunningServer
) -> None:
    window, feed = opened.window, opened.feed
    if not run_is_active(feed.status.run.state):
        server.start_run()
        opened.until_run("running")
    run = RunFolder(Path(feed.status.run.dir))
    window.close()
    dialog = window.closer.dialog
    assert dialog is not None
    assert window.isVisible()
    with qtbot.waitSignal(window.closer.closed) as closed:
        qtbot.mouseClick(dialog.stop, LEFT)
    assert closed.args == [False]
    assert json.loads(run.run.read_text())["state"] == "stopped"
    assert server.process.poll() is None


def test_shutting_down_from_the_menu_ends_the_runner(
    qapp: QApplication,
    qt_loop: asyncio.AbstractEventLoop,
    theme: Theme,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "pages", stub_pages)
    own = RunningServer(tmp_path)
    opened = Open(qapp, theme, folders_below(tmp_path))
    try:
        opened.window.menu.shut_down.trigger()
        box = opened.window.findChild(QMessageBox)
        assert isinstance(box, QMessageBox)
        next(one for one in box.buttons() if one.text().replace("&", "") == "Shut down").click()
        until(
            qapp,
            lambda: opened.feed.connection.state is ConnectionState.SHUT_DOWN,
            "the server is shut down",
            START_S,
        )
        assert own.process.wait(LIMIT_S) == 0
        assert opened.window.banner.isVisible()
    finally:
        opened.close()
        own.close()
