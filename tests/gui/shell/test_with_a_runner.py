"""The window's commands against a real runner: what is asserted is what became of the server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.config.new_run import NewRunDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.loop import Tasks
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell.connection import Connector
from soulsgui.gui.shell.runner_link import control_path
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import RunningServer, processes_below, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.reading import part_of
from tests.gui.shell.conftest import folders_below
from tests.gui.shell.driving import close_messages, fail_loudly, finish, until
from tests.gui.shell.stub_pages import stub_pages

LEFT = Qt.MouseButton.LeftButton


class Open:
    """A window that is connected to a runner."""

    def __init__(self, qapp: QApplication, theme: Theme, folders: Folders, may_start: bool = False) -> None:
        self.qapp = qapp
        self.tasks = Tasks(fail_loudly)
        self.feed = Feed()
        self.window = MainWindow(self.feed, theme, Preferences(folders))
        connector = Connector(self.feed, folders, "my-server", self.tasks, may_start)
        self.window.start_wanted.connect(connector.start_runner)
        self.window.first_shown.connect(connector.open)
        self.window.show()
        until(qapp, lambda: self.feed.connection.live, "the window is connected", LIMIT_S)

    def until_run(self, *states: str) -> None:
        try:
            until(self.qapp, lambda: self.feed.status.run.state in states, f"the run is {states}", LIMIT_S)
        except AssertionError as error:
            # What it is now, not what it was when the waiting began.
            raise AssertionError(f"{error}; it is {self.feed.status}") from error

    def close(self) -> None:
        finish(self.qapp, self.tasks)
        close_messages(self.window.messages)
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
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", stub_pages)
    made = Open(qapp, theme, folders_below(server.folder))
    yield made
    made.close()


def test_a_run_is_begun_saved_stopped_and_resumed(qtbot: QtBot, opened: Open, server: RunningServer) -> None:
    window, feed, toolbar = opened.window, opened.feed, opened.window.toolbar
    qtbot.mouseClick(toolbar.new_run, LEFT)
    dialog = part_of(window, NewRunDialog)
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
    until(opened.qapp, lambda: feed.status.run.updates > 0, "it learns", LIMIT_S)

    until(opened.qapp, toolbar.quicksave.isEnabled, "it can be saved")
    with qtbot.waitSignal(toolbar.quicksave.finished):
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
    until(opened.qapp, lambda: feed.status.run.attempt == 2, "a second attempt", LIMIT_S)
    assert feed.status.run.id == run.run_id
    opened.until_run("running")


def test_the_server_is_opened_to_the_network_and_then_invites_with_its_addresses(
    qapp: QApplication,
    qt_loop: asyncio.AbstractEventLoop,
    theme: Theme,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("soulsgui.gui.shell.window.page_entries", stub_pages)
    folders = folders_below(tmp_path)
    own = Open(qapp, theme, folders, may_start=True)
    window, feed = own.window, own.feed
    assert feed.hello is not None
    first = feed.hello.pid
    window.open_invite()
    (dialog,) = window.findChildren(InviteDialog)
    until(qapp, lambda: "this computer alone" in dialog.reach.text(), "it says from where it is reached")
    qtbot.mouseClick(dialog.lan.allow, LEFT)
    until(qapp, dialog.lan.restart.isVisible, "it is saved")
    qtbot.mouseClick(dialog.lan.restart, LEFT)
    until(
        qapp,
        lambda: feed.connection.live and feed.hello is not None and feed.hello.pid != first,
        "it was started anew",
        LIMIT_S,
    )
    until(qapp, lambda: "private network" in dialog.reach.text(), "the dialog has noticed", LIMIT_S)
    assert not dialog.lan.isVisible()
    until(qapp, dialog.invite.isEnabled, "one can be invited")
    qtbot.mouseClick(dialog.invite, LEFT)
    until(qapp, dialog.link.text, "the invitation")
    assert not Invitation.parse(dialog.link.text()).for_this_machine_only
    dialog.reject()
    feed.call("server.shutdown")
    until(qapp, lambda: not control_path(folders).exists(), "it ends", LIMIT_S)
    own.close()
    wait_for(lambda: not processes_below(tmp_path), "nothing is left running")
