"""The dialog that lets another computer play for this server."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QWidget,
)

from soulsgui.errors import UsageError
from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.states import reach_look
from soulsgui.gui.theme import GAP_M
from soulsgui.gui.widgets.boxes import DIALOG_MARGINS, NO_MARGINS, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.dialog import FittingDialog, ask_where_to_save
from soulsgui.gui.widgets.labels import Heading, Remark, StateLabel, muted, wrapped
from soulsgui.system import in_words
from soulsgui.wire.control import ApiError, InvitationInfo, InvitationList, NewInvitation
from soulsgui.wire.invitation import SUFFIX, Invitation, invitation_file_name
from soulsgui.wire.keys import is_client_name, is_own_name

_CHARACTERS = 100
_USUAL_NAME = "gamer"


def next_name(invitations: list[InvitationInfo]) -> str:
    """Return a name that nobody was invited by: `gamer-01`, `gamer-02` …"""
    taken = {one.client for one in invitations}
    number = 1
    while f"{_USUAL_NAME}-{number:02}" in taken:
        number += 1
    return f"{_USUAL_NAME}-{number:02}"


def known_as(name: str, invitations: list[InvitationInfo]) -> InvitationInfo | None:
    """Return the invitation that a name has already and that is still good; None without one."""
    found = (one for one in invitations if one.client == name and one.revoked is None)
    return next(found, None)


def wrong_name(name: str) -> str:
    """Return what is wrong with a name; empty when a client can be called so."""
    if not name:
        return "Give the computer a name."
    if is_own_name(name):
        return f"{name} is a name that this server uses for its own processes."
    if not is_client_name(name):
        return "A name has letters, digits, “.”, “_” and “-”, at most 64, and begins with a letter or digit."
    return ""


def reissue_words(known: InvitationInfo, now: float) -> str:
    """Return what inviting somebody again means."""
    return (
        f"{known.client} was invited on {text.clock(known.invited, now)}. That secret was told once and "
        "can't be told again: a new invitation ends the older one at once."
    )


class LanSwitch(QFrame):
    """Shown while other computers can't reach the server; its button lets them."""

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._feed = feed
        about = wrapped(
            "Other computers come in at the private addresses of the server, each with an invitation of its "
            "own; whoever is not invited is not let in. Everything is encrypted.",
            self,
        )
        self.wrong = Remark(self)
        words = Words("Allow the private &network", "Opening …", "Allowed")
        self.allow = CommandButton(words, "link", self._send, self)
        self.allow.setObjectName("allowLan")
        self.allow.setAutoDefault(False)
        self.allow.problem.connect(self._failed)
        column(about, self.wrong, row(self.allow, None), on=self, margins=(GAP_M, GAP_M, GAP_M, GAP_M))
        self.hide()
        feed.connection_changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        reason = why_not(self._feed.connection)
        self.allow.allow(reason)

    def _send(self) -> Call:
        self.wrong.hide()
        return self._feed.call("server.set", {"lan": "on"})

    def _failed(self, error: ApiError) -> None:
        self.wrong.setText(error.words())


def _button(words: str, then: Callable[[], None], parent: QWidget, icon: str = "") -> QPushButton:
    """Return a button that Enter in the name does not press."""
    button = QPushButton(words, parent)
    button.setAutoDefault(False)
    if icon:
        dress(button, icon)
    button.clicked.connect(then)
    return button


def _line(name: str, what: str, parent: QWidget) -> QLineEdit:
    """Return a line that is read and selected, and not typed into."""
    line = QLineEdit(parent)
    line.setObjectName(name)
    line.setReadOnly(True)
    line.setAccessibleName(what)
    return line


class InviteDialog(FittingDialog):
    """Asks for a name, invites, and gives the invitation out: as a link, as a file."""

    section = "Clients"

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__("inviteDialog", "Invite a computer", parent)
        self._feed = feed
        self._listed: InvitationList | None = None
        self._made: NewInvitation | None = None
        self._typed = False
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self._make_asking())
        self._stack.addWidget(self._make_result())
        column(self._stack, on=self, margins=DIALOG_MARGINS)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _CHARACTERS)
        ask = partial(feed.ask, "clients.invite.list")
        self._fetch = Fetch(self, ask, came=self._take, failed=self._failed)
        feed.connection_changed.connect(self._connection_changed)
        self._fetch.request()
        self._allow()
        self.name.setFocus()

    def _make_asking(self) -> QWidget:
        page = QWidget(self)
        self.name = QLineEdit(page)
        self.name.setObjectName("inviteName")
        self.name.textEdited.connect(self._name_typed)
        form = QFormLayout()
        form.setVerticalSpacing(GAP_M)
        form.addRow("&Name of the computer", self.name)
        self.reach = StateLabel(page, wraps=True)
        self.hint = muted(wrapped("", page))
        # After the name: the keyboard is not to begin at its button.
        self.lan = LanSwitch(self._feed, page)
        self.lan.allow.finished.connect(lambda _: self._fetch.request())
        self._first = Words("&Invite", "Inviting …", "Invited")
        self._again = Words("&Invite again", "Inviting …", "Invited")
        self.invite = CommandButton(self._first, "add", self._send, page)
        self.invite.setObjectName("inviteCreate")
        make_primary(self.invite)
        self.invite.setDefault(True)
        self.invite.finished.connect(self._created)
        self.invite.problem.connect(self._failed)
        foot = row(None, self.invite, _button("&Cancel", self.reject, page))
        parts = (form, self.hint, self.reach, self.lan, self.wrong, None, foot)
        column(*parts, on=page, margins=NO_MARGINS, gap_px=GAP_M)
        return page

    def _make_result(self) -> QWidget:
        page = QWidget(self)
        self._title = Heading("", 1, page)
        self._title.setWordWrap(True)
        self.told = wrapped("", page)
        self.warned = Remark(page, "warning")
        self.said = Remark(page, "good")
        self.not_done = Remark(page)
        card = QFrame(page)
        card.setProperty("part", "card")
        self.link = _line("inviteLink", "The invitation as a link", card)
        self.copy = _button("&Copy link", self._copy, card, "copy")
        make_primary(self.copy)
        self.save = _button("&Save file…", self._ask_for_path, card, "save")
        unpack = "Without SoulsGUI there yet: unpack it, put the file into its folder, and type there"
        self.command = _line("inviteCommand", "The command for a computer without SoulsGUI", card)
        self.copy_command = _button("Copy co&mmand", self._copy_command, card, "copy")
        given = row((self.link, 1), self.copy, self.save)
        typed = row((self.command, 1), self.copy_command)
        column(given, wrapped(unpack, card), typed, on=card, margins=(GAP_M, GAP_M, GAP_M, GAP_M))
        said = (self.warned, self.said, self.not_done)
        parts = (self._title, self.told, card, *said, None, self._make_foot(page))
        column(*parts, on=page, margins=NO_MARGINS, gap_px=GAP_M)
        return page

    def _make_foot(self, page: QWidget) -> QHBoxLayout:
        words = Words("&Revoke it", "Revoking …", "Revoked")
        self.revoke = CommandButton(words, "state-refused", self._revoke, page)
        self.revoke.setAutoDefault(False)
        self.revoke.finished.connect(lambda _: self._begin_again())
        self.revoke.problem.connect(self._not_revoked)
        another = _button("Invite &another", self._begin_again, page)
        return row(self.revoke, None, another, _button("Cl&ose", self.accept, page))

    def _take(self, listed: InvitationList) -> None:
        self._listed = listed
        if not self._typed:
            self.name.setText(next_name(listed.invitations))
            self.name.selectAll()
        self.reach.show_look(reach_look(listed))
        self.lan.setVisible(not listed.lan)
        self._allow()

    def _connection_changed(self) -> None:
        if self._feed.connection.live:
            self._fetch.request()
        self._allow()

    def _name_typed(self) -> None:
        self._typed = True
        self._allow()

    def _allow(self) -> None:
        name = self.name.text().strip()
        known = known_as(name, self._listed.invitations) if self._listed is not None else None
        self.invite.set_words(self._again if known is not None else self._first, "add", self._send)
        wrong = wrong_name(name)
        if known is not None:
            self.hint.setText(reissue_words(known, time.time()))
        else:
            self.hint.setText(wrong or "It plays under this name; the invitation is for this one computer.")
        reason = why_not(self._feed.connection) or wrong
        self.invite.allow(reason)

    def _send(self) -> Call:
        self.wrong.hide()
        name = self.name.text().strip()
        listed = self._listed.invitations if self._listed is not None else []
        command = "create" if known_as(name, listed) is None else "reissue"
        return self._feed.call(f"clients.invite.{command}", {"client": name})

    def _failed(self, error: ApiError) -> None:
        self.show_problem(error)
        self._fetch.request()

    def _created(self, made: NewInvitation) -> None:
        self._made = made
        self._title.setText(f"{made.client} is invited")
        told = (
            "Give the link or the file to that computer and nobody else: whoever has one plays as "
            f"{made.client}. It is shown this once; later you can only invite again."
        )
        self.told.setText(told)
        closed = "Only the server's computer can use it: the server is not open to the network."
        self.warned.setText("" if made.lan else closed)
        self.command.setText(f"python3 packaging/bootstrap.py client {invitation_file_name(made.client)}")
        self.link.setText(made.link)
        self.link.setCursorPosition(0)
        self._say("")
        self._stack.setCurrentIndex(1)
        self.copy.setFocus()

    def _begin_again(self) -> None:
        self._made = None
        self._typed = False
        self.link.clear()
        self._stack.setCurrentIndex(0)
        self._fetch.request()
        self.name.setFocus()

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.link.text())
        self._say("Copied. On the other computer: Client mode, Paste link.")

    def _copy_command(self) -> None:
        QGuiApplication.clipboard().setText(self.command.text())
        self._say("Copied. On the other computer: in the folder of SoulsGUI, beside the saved file.")

    def _ask_for_path(self) -> None:
        if self._made is None:
            return
        name = invitation_file_name(self._made.client)
        ask_where_to_save("Save the invitation", name, f"Invitations (*{SUFFIX})", self.save_to, self)

    def save_to(self, path: str) -> None:
        """Write the invitation into a file that only its owner can read."""
        if self._made is None:
            return
        try:
            Invitation.parse(self._made.link).save(Path(path))
        except (OSError, UsageError) as error:
            why = in_words(error) if isinstance(error, OSError) else error.message
            self._say("", f"It is not saved: {why}")
        else:
            self._say(f"Saved as {path}. On the other computer: open it with SoulsGUI.")

    def _say(self, done: str, not_done: str = "") -> None:
        self.said.setText(done)
        self.not_done.setText(not_done)

    def _revoke(self) -> Call:
        assert self._made is not None
        return self._feed.call("clients.revoke", {"client": self._made.client})

    def _not_revoked(self, error: ApiError) -> None:
        self._say("", error.words())
