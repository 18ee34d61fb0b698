"""Inviting while only this computer reaches the server: the network is allowed, the server starts anew."""

import asyncio
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.gui.connecting import Connector
from soulsgui.gui.dialogs.invite import InviteDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.loop import Tasks
from soulsgui.gui.main_window import MainWindow
from soulsgui.gui.pages import table
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.runner_process import control_path
from soulsgui.gui.theme import Theme
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import processes_below, wait_for
from tests.faults.waiting import LIMIT_S
from tests.gui.shell.conftest import folders_below
from tests.gui.shell.driving import fail_loudly, finish, until
from tests.gui.shell.stub_pages import stub_pages

LEFT = Qt.MouseButton.LeftButton


def test_the_server_is_opened_to_the_network_and_then_invites_with_its_addresses(
    qapp: QApplication,
    qt_loop: asyncio.AbstractEventLoop,
    theme: Theme,
    qtbot: QtBot,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table, "pages", stub_pages)
    folders, tasks, feed = folders_below(tmp_path), Tasks(fail_loudly), Feed()
    window = MainWindow(feed, theme, Preferences(folders))
    connector = Connector(feed, folders, "my-server", tasks)
    window.start_wanted.connect(connector.start_runner)
    window.first_shown.connect(connector.open)
    window.show()
    until(qapp, lambda: feed.connection.live, "a server was started", LIMIT_S)
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
    finish(qapp, tasks)
    window.messages.clear()
    window.hide()
    window.deleteLater()
    wait_for(lambda: not processes_below(tmp_path), "nothing is left running")
