"""The page of the clients and the invite dialog before a real server: each button has its effect there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from soulsgui.gui.dialogs.invite import InviteDialog
from soulsgui.gui.dialogs.rename import RenameDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.pages.clients import ClientsPage
from soulsgui.system import is_private
from soulsgui.wire.connection import connect
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeShell


@pytest.fixture
def page(qtbot: QtBot, feed: Feed, shell: FakeShell) -> Iterator[ClientsPage]:
    made = ClientsPage(feed, shell)
    qtbot.addWidget(made)
    made.resize(1100, 700)
    made.show()
    yield made
    made.hide()


@pytest.fixture
def dialog(qtbot: QtBot, feed: Feed, shell: FakeShell) -> InviteDialog:
    made = InviteDialog(feed, shell)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitUntil(lambda: bool(made.reach.text()))
    return made


def soon(qtbot: QtBot, seen: Any) -> None:
    qtbot.waitUntil(lambda: bool(seen()))


def click(qtbot: QtBot, button: QPushButton) -> None:
    soon(qtbot, button.isEnabled)
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def listed(server: RunningServer) -> dict[str, Any]:
    text = (server.data / "server" / "clients.json").read_text(encoding="utf-8")
    return {one["client"]: one for one in json.loads(text)["clients"]}


def invite(server: RunningServer, name: str) -> Invitation:
    return Invitation.parse(server.api.command("clients.invite.create", {"client": name})["link"])


def is_let_in(invitation: Invitation) -> bool:
    connection = connect(invitation.address(*invitation.addresses[0]))
    try:
        return bool(connection.ping())
    except redis.AuthenticationError:
        return False
    finally:
        connection.close()


def choose(qtbot: QtBot, page: ClientsPage, name: str) -> None:
    soon(qtbot, lambda: page.roster.model.row_of(name) is not None)
    page.roster.choose(name)


def test_a_client_is_renamed_revoked_and_forgotten(
    qtbot: QtBot, page: ClientsPage, server: RunningServer
) -> None:
    invitation = invite(server, "gamer-11")
    assert is_let_in(invitation)
    choose(qtbot, page, "gamer-11")
    assert page.details.value("state") == "Invited, never seen"
    assert not page.roster.buttons["forget"].isEnabled()
    click(qtbot, page.roster.rename)
    (dialog,) = page.findChildren(RenameDialog)
    dialog.name.setText("Anna's PC")
    click(qtbot, dialog.save)
    names = server.data / "server" / "client_names.json"
    soon(qtbot, names.exists)
    soon(qtbot, lambda: page.details.value("id") == "Anna's PC (gamer-11)")

    click(qtbot, page.roster.buttons["revoke"])
    (box,) = page.findChildren(QMessageBox)
    click(qtbot, next(button for button in box.buttons() if button.text().replace("&", "") == "Revoke"))  # type: ignore[arg-type]
    soon(qtbot, lambda: page.details.value("state") == "Revoked")
    assert listed(server)["gamer-11"]["hash"] == ""
    assert not is_let_in(invitation)

    click(qtbot, page.roster.buttons["forget"])
    soon(qtbot, lambda: page.roster.model.row_of("gamer-11") is None)
    assert "gamer-11" not in listed(server)
    assert "Anna" not in names.read_text()


def test_a_wish_for_a_client_that_is_away_waits_and_is_said(
    qtbot: QtBot, page: ClientsPage, server: RunningServer
) -> None:
    invite(server, "gamer-12")
    choose(qtbot, page, "gamer-12")
    click(qtbot, page.roster.buttons["pause"])
    soon(qtbot, lambda: page.details.value("state") == "Invited, never seen, will pause when back")
    with server.redis() as connection:
        assert json.loads(connection.get("souls:to:gamer-12") or "")["state"] == "pause"
    soon(qtbot, lambda: "asked to already" in page.roster.buttons["pause"].toolTip())


def test_the_dialog_invites_and_gives_out_a_link_and_a_file(
    qtbot: QtBot, dialog: InviteDialog, server: RunningServer, tmp_path: Path
) -> None:
    assert "this computer alone" in dialog.reach.text()
    dialog.name.setText("two words")
    dialog.name.textEdited.emit("two words")
    assert not dialog.invite.isEnabled()
    dialog.name.setText("gamer-13")
    dialog.name.textEdited.emit("gamer-13")
    click(qtbot, dialog.invite)
    soon(qtbot, dialog.link.text)
    invitation = Invitation.parse(dialog.link.text())
    assert invitation.client == "gamer-13"
    assert is_let_in(invitation)
    click(qtbot, dialog.copy)
    assert QGuiApplication.clipboard().text() == invitation.link
    path = tmp_path / "gamer-13.soulsgui"
    dialog.save_to(str(path))
    assert Invitation.load(path) == invitation
    assert is_private(path)
    dialog.save_to(str(tmp_path / "nowhere" / "x.soulsgui"))
    assert "not saved" in dialog.not_done.text()
    click(qtbot, dialog.revoke)
    soon(qtbot, lambda: listed(server)["gamer-13"]["hash"] == "")
    soon(qtbot, dialog.name.isVisible)


def test_a_name_that_is_invited_already_is_invited_anew(
    qtbot: QtBot, dialog: InviteDialog, server: RunningServer
) -> None:
    older = invite(server, "gamer-14")
    dialog.name.setText("gamer-14")
    dialog.name.textEdited.emit("gamer-14")
    click(qtbot, dialog.invite)
    # Since the list was read it was invited by somebody else: the server says so, and the list is read again.
    soon(qtbot, lambda: "invited already" in dialog.wrong.text())
    soon(qtbot, lambda: "ends the older one" in dialog.hint.text())
    click(qtbot, dialog.invite)
    soon(qtbot, dialog.link.text)
    assert not is_let_in(older)
    assert is_let_in(Invitation.parse(dialog.link.text()))


def test_the_network_is_allowed_in_the_settings_and_needs_a_new_start(
    qtbot: QtBot, dialog: InviteDialog, server: RunningServer, shell: FakeShell
) -> None:
    assert dialog.lan.isVisible()
    assert not dialog.lan.restart.isVisible()
    click(qtbot, dialog.lan.allow)
    soon(qtbot, dialog.lan.restart.isVisible)
    assert "lan: true" in (server.folder / "config" / "config.yaml").read_text()
    assert "starts anew" in dialog.lan.about.text()
    click(qtbot, dialog.lan.restart)
    assert shell.opened == [("restart", {})]
