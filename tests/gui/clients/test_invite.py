from pathlib import Path

import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from soulsgui.gui.clients import invite
from soulsgui.gui.clients.invite import InviteDialog
from soulsgui.gui.colours import Tone
from soulsgui.gui.states import reach_look
from soulsgui.gui.theme import Theme
from soulsgui.system import is_private
from soulsgui.wire.control import InvitationInfo, InvitationList, NewInvitation
from soulsgui.wire.invitation import Invitation
from tests import states
from tests.gui.fake_feed import FakeFeed, refusal
from tests.gui.reading import shown

HERE = [("127.0.0.1", 6379)]


def invited(name: str, revoked: float | None = None) -> InvitationInfo:
    return InvitationInfo(client=name, invited=1_790_000_000.0, revoked=revoked)


def listed(*names: str, lan: bool = False, addresses: list[tuple[str, int]] = HERE) -> InvitationList:
    invitations = [invited(name) for name in names]
    return InvitationList(
        lan=lan, public=False, port=addresses[0][1], addresses=addresses, invitations=invitations
    )


def test_the_next_free_name_is_offered_and_a_revoked_one_counts_as_never_invited() -> None:
    assert invite.next_name([]) == "gamer-01"
    assert invite.next_name([invited("gamer-01"), invited("gamer-03")]) == "gamer-02"
    assert invite.known_as("a", [invited("a", revoked=1.0)]) is None
    assert invite.known_as("a", [invited("a")]) == invited("a")


def test_a_name_is_checked_as_it_is_typed() -> None:
    assert invite.wrong_name("").startswith("Give the computer")
    assert invite.wrong_name("client-3").startswith("client-3 is a name that this server uses")
    assert invite.wrong_name("two words").startswith("A name has letters")
    assert invite.wrong_name("gamer-01") == ""


def test_it_says_from_where_the_server_is_reachable() -> None:
    closed = reach_look(listed())
    assert closed.tone is Tone.WARNING
    assert closed.word == "Reachable only from the server's computer, at 127.0.0.1:6379"
    wide = reach_look(listed(lan=True, addresses=[("192.168.1.5", 6379), ("pc", 6379)]))
    assert wide.tone is Tone.GOOD
    assert wide.word.endswith("at 192.168.1.5:6379, pc:6379")


INVITATION = states.invitation(client="gamer-13")
GIVEN_OUT = NewInvitation(
    client="gamer-13",
    username="client-gamer-13",
    addresses=HERE,
    lan=False,
    secret=INVITATION.secret,
    link=INVITATION.link,
    file_text=INVITATION.file_text,
)


@pytest.fixture
def dialog(qtbot: QtBot, theme: Theme, fake: FakeFeed) -> InviteDialog:
    fake.answers["clients.invite.list"] = listed("gamer-01")
    made = shown(qtbot, InviteDialog(fake))  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: made.name.text() == "gamer-02")
    return made


def write_name(dialog: InviteDialog, name: str) -> None:
    dialog.name.setText(name)
    dialog.name.textEdited.emit(name)


def test_an_invitation_is_given_out_as_a_link_and_a_file_and_taken_back(
    qtbot: QtBot, dialog: InviteDialog, fake: FakeFeed, tmp_path: Path
) -> None:
    write_name(dialog, "two words")
    assert not dialog.invite.isEnabled()
    write_name(dialog, "gamer-13")
    fake.answers["clients.invite.create"] = GIVEN_OUT
    dialog.invite.click()
    qtbot.waitUntil(lambda: dialog.link.text() == INVITATION.link)
    assert fake.sent_of("clients.invite.create")[-1].params == {"client": "gamer-13"}
    assert "Only the server's computer can use it" in dialog.warned.text()
    assert dialog.warned.property("tone") == Tone.WARNING
    dialog.copy.click()
    assert QGuiApplication.clipboard().text() == INVITATION.link
    dialog.copy_command.click()
    command = "python3 packaging/bootstrap.py client gamer-13.soulsgui"
    assert QGuiApplication.clipboard().text() == command
    dialog.command.selectAll()
    assert dialog.command.selectedText() == command
    path = tmp_path / "gamer-13.soulsgui"
    dialog.save_to(str(path))
    assert Invitation.load(path) == INVITATION
    assert is_private(path)
    dialog.save_to(str(tmp_path / "nowhere" / "x.soulsgui"))
    assert "not saved" in dialog.not_done.text()
    fake.answers["clients.revoke"] = {"cut_off": True}
    dialog.revoke.click()
    qtbot.waitUntil(dialog.name.isVisible)
    assert fake.sent_of("clients.revoke")[-1].params == {"client": "gamer-13"}


def test_an_answer_for_a_name_that_no_client_may_have_is_none(
    qtbot: QtBot, dialog: InviteDialog, fake: FakeFeed
) -> None:
    fake.answers["clients.invite.create"] = GIVEN_OUT.model_dump() | {"client": "../gamer"}
    dialog.invite.click()
    qtbot.waitUntil(lambda: "not understood" in dialog.wrong.text())
    assert dialog.link.text() == ""


def test_a_name_that_is_invited_already_is_invited_anew(
    qtbot: QtBot, dialog: InviteDialog, fake: FakeFeed
) -> None:
    write_name(dialog, "gamer-13")
    assert "plays under this name" in dialog.hint.text()
    # Since the list was read it was invited by somebody else: the server says so, and the list is read again.
    fake.answers["clients.invite.create"] = refusal("gamer-13 is invited already.")
    fake.answers["clients.invite.list"] = listed("gamer-13")
    dialog.invite.click()
    qtbot.waitUntil(lambda: "invited already" in dialog.wrong.text())
    qtbot.waitUntil(lambda: "ends the older one" in dialog.hint.text())
    fake.answers["clients.invite.reissue"] = GIVEN_OUT
    dialog.invite.click()
    qtbot.waitUntil(lambda: dialog.link.text() == INVITATION.link)
    assert len(fake.sent_of("clients.invite.create")) == len(fake.sent_of("clients.invite.reissue")) == 1


def test_the_network_is_allowed_while_the_server_runs(
    qtbot: QtBot, dialog: InviteDialog, fake: FakeFeed
) -> None:
    assert dialog.lan.isVisible()
    fake.answers["server.set"] = refusal("The port is taken.")
    dialog.lan.allow.click()
    qtbot.waitUntil(lambda: "taken" in dialog.lan.wrong.text())
    fake.answers["server.set"] = {"lan": True, "public": False, "port": 6379, "addresses": []}
    fake.answers["clients.invite.list"] = listed(lan=True, addresses=[("192.168.1.5", 6379)])
    dialog.lan.allow.click()
    qtbot.waitUntil(lambda: not dialog.lan.isVisible())
    assert fake.sent_of("server.set")[-1].params == {"lan": "on"}
    assert "192.168.1.5" in dialog.reach.word
