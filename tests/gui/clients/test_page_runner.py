"""The page of the clients and the invite dialog before a real server."""

import json
from collections.abc import Callable, Iterator

import pytest
import redis
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.clients.page import ClientsPage, RenameDialog
from soulsgui.gui.feed import Feed
from soulsgui.wire.connection import connect
from soulsgui.wire.invitation import Invitation
from tests.end_to_end.server import RunningServer
from tests.gui.fake_feed import FakeShell
from tests.gui.questions import answer


@pytest.fixture
def page(qtbot: QtBot, feed: Feed, shell: FakeShell) -> Iterator[ClientsPage]:
    made = ClientsPage(feed, shell)
    qtbot.addWidget(made)
    made.resize(1100, 700)
    made.show()
    yield made
    made.hide()


def soon(qtbot: QtBot, seen: Callable[[], object]) -> None:
    qtbot.waitUntil(lambda: bool(seen()))


def click(qtbot: QtBot, button: QPushButton) -> None:
    soon(qtbot, button.isEnabled)
    button.click()


def is_let_in(invitation: Invitation) -> bool:
    connection = connect(invitation.address(*invitation.addresses[0]))
    try:
        return bool(connection.ping())
    except redis.AuthenticationError:
        return False
    finally:
        connection.close()


def test_a_computer_is_invited_told_to_pause_renamed_revoked_and_forgotten(
    qtbot: QtBot, page: ClientsPage, feed: Feed, shell: FakeShell, server: RunningServer
) -> None:
    dialog = InviteDialog(feed, shell)
    qtbot.addWidget(dialog)
    dialog.show()
    soon(qtbot, lambda: "this computer alone" in dialog.reach.text())
    dialog.name.setText("gamer-11")
    dialog.name.textEdited.emit("gamer-11")
    click(qtbot, dialog.invite)
    soon(qtbot, dialog.link.text)
    invitation = Invitation.parse(dialog.link.text())
    assert invitation.client == "gamer-11"
    assert is_let_in(invitation)

    soon(qtbot, lambda: page.roster.model.row_of("gamer-11") is not None)
    page.roster.choose("gamer-11")
    assert page.details.values["state"].text() == "Invited, never seen"
    click(qtbot, page.roster.buttons["pause"])
    soon(qtbot, lambda: page.details.values["state"].text() == "Invited, never seen, will pause when back")
    with server.redis() as connection:
        assert json.loads(connection.get("souls:to:gamer-11") or "")["state"] == "pause"
    soon(qtbot, lambda: "asked to already" in page.roster.buttons["pause"].toolTip())

    click(qtbot, page.roster.rename)
    (rename,) = page.findChildren(RenameDialog)
    rename.name.setText("Anna's PC")
    click(qtbot, rename.save)
    soon(qtbot, lambda: page.details.values["id"].text() == "Anna's PC (gamer-11)")
    names = server.data / "server" / "client_names.json"
    assert "Anna" in names.read_text()

    click(qtbot, page.roster.buttons["revoke"])
    answer(page, "Revoke")
    soon(qtbot, lambda: page.details.values["state"].text() == "Revoked")
    assert not is_let_in(invitation)
    click(qtbot, page.roster.buttons["forget"])
    soon(qtbot, lambda: page.roster.model.row_of("gamer-11") is None)
    assert "Anna" not in names.read_text()
