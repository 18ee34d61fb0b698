"""The dialog that lets another computer play for this server."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from soulsgui.errors import UsageError
from soulsgui.gui.calls import Call
from soulsgui.gui.connection_state import why_not
from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.dialogs.lan_switch import LanSwitch
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.models.inviting import known_as, next_name, reach_look, reissue_words, wrong_name
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import Heading, IconLabel, set_property
from soulsgui.system import in_words
from soulsgui.wire.control import ApiError, InvitationList, NewInvitation
from soulsgui.wire.invitation import SUFFIX, Invitation, invitation_file_name

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell

_CHARACTERS = 100


def _wrapped(parent: QWidget, tone: str = "", weight: str = "") -> QLabel:
    label = QLabel(parent)
    label.setWordWrap(True)
    if tone:
        label.setProperty("tone", tone)
    if weight:
        label.setProperty("weight", weight)
    return label


class InviteDialog(FittingDialog):
    """Asks for a name, invites, and gives the invitation out: as a link, as a file.

    Args:
        feed: The runner.
        shell: The window, which can start the server anew.
        parent: The window.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("inviteDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Invite a computer"))
        self._feed = feed
        self._listed: InvitationList | None = None
        self._made: NewInvitation | None = None
        self._typed = False
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self._make_asking(shell))
        self._stack.addWidget(self._make_result())
        column = QVBoxLayout(self)
        column.addWidget(self._stack)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _CHARACTERS)
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(self._failed)
        feed.connection_changed.connect(self._connection_changed)
        self._fetch.request()
        self._allow()
        self.name.setFocus()

    # --- building ---

    def _make_asking(self, shell: "Shell") -> QWidget:
        page = QWidget(self)
        self.name = QLineEdit(page)
        self.name.setObjectName("inviteName")
        self.name.textEdited.connect(self._name_typed)
        self._reach_mark = IconLabel(0, page)
        self.reach = _wrapped(page)
        self.reach.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        reach = QHBoxLayout()
        reach.addWidget(self._reach_mark, 0, Qt.AlignmentFlag.AlignTop)
        reach.addWidget(self.reach, 1)
        self.hint = _wrapped(page, weight="muted")
        # After the name: the keyboard is not to begin at its button.
        self.lan = LanSwitch(self._feed, shell, page)
        self.wrong = _wrapped(page, "bad")
        self.wrong.hide()
        self._make_asking_buttons(page)
        form = QFormLayout()
        form.setVerticalSpacing(10)
        form.addRow(tr("&Name of the computer"), self.name)
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(self.invite)
        foot.addWidget(self.cancel)
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addLayout(form)
        column.addWidget(self.hint)
        column.addLayout(reach)
        column.addWidget(self.lan)
        column.addWidget(self.wrong)
        column.addStretch(1)
        column.addLayout(foot)
        return page

    def _make_asking_buttons(self, page: QWidget) -> None:
        self._first = Words(tr("&Invite"), tr("Inviting …"), tr("Invited"))
        self._again = Words(tr("&Invite anew"), tr("Inviting …"), tr("Invited"))
        self.invite = CommandButton(self._first, "add", self._send, page)
        self.invite.setObjectName("inviteCreate")
        make_primary(self.invite)
        self.invite.setDefault(True)
        self.invite.finished.connect(self._created)
        self.invite.problem.connect(self._failed)
        self.cancel = QPushButton(tr("&Cancel"), page)
        self.cancel.setAutoDefault(False)
        self.cancel.clicked.connect(self.reject)

    def _make_result(self) -> QWidget:
        page = QWidget(self)
        self._title = Heading("", 1, page)
        self._title.setWordWrap(True)
        self.told = _wrapped(page)
        self.said = _wrapped(page, "good")
        self.not_done = _wrapped(page, "bad")
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        for part in (self._title, self.told, self._make_card(page), self.said, self.not_done):
            column.addWidget(part)
        column.addStretch(1)
        column.addLayout(self._make_foot(page))
        return page

    def _make_card(self, page: QWidget) -> QFrame:
        card = QFrame(page)
        card.setProperty("part", "card")
        self.link = QLineEdit(card)
        self.link.setObjectName("inviteLink")
        self.link.setReadOnly(True)
        self.link.setAccessibleName(tr("The invitation as a link"))
        self.copy = QPushButton(tr("&Copy link"), card)
        make_primary(self.copy)
        dress(self.copy, "copy")
        self.copy.clicked.connect(self._copy)
        self.file = QPushButton(tr("&Save file…"), card)
        dress(self.file, "save")
        self.file.clicked.connect(self._ask_for_path)
        inside = QHBoxLayout(card)
        inside.setContentsMargins(12, 10, 12, 10)
        inside.addWidget(self.link, 1)
        inside.addWidget(self.copy)
        inside.addWidget(self.file)
        return card

    def _make_foot(self, page: QWidget) -> QHBoxLayout:
        words = Words(tr("&Revoke it"), tr("Revoking …"), tr("Revoked"))
        self.revoke = CommandButton(words, "state-refused", self._revoke, page)
        self.revoke.setAutoDefault(False)
        self.revoke.finished.connect(self._revoked)
        self.revoke.problem.connect(self._not_revoked)
        self.another = QPushButton(tr("Invite &another"), page)
        self.another.setAutoDefault(False)
        self.another.clicked.connect(self._begin_again)
        close = QPushButton(tr("Cl&ose"), page)
        close.setAutoDefault(False)
        close.clicked.connect(self.accept)
        foot = QHBoxLayout()
        foot.addWidget(self.revoke)
        foot.addStretch(1)
        foot.addWidget(self.another)
        foot.addWidget(close)
        return foot

    # --- what is known ---

    def _ask(self) -> Call | None:
        return self._feed.call("clients.invite.list") if self._feed.connection.commands_possible else None

    def _take(self, result: dict[str, Any]) -> None:
        self._listed = listed = InvitationList.model_validate(result)
        if not self._typed:
            self.name.setText(next_name(listed.invitations))
            self.name.selectAll()
        look = reach_look(listed)
        self._reach_mark.show_icon(look.icon, look.tone)
        self.reach.setText(look.word)
        set_property(self.reach, "tone", look.tone)
        self.lan.show_open(listed.lan)
        self._allow()

    def _connection_changed(self) -> None:
        if self._feed.connection.commands_possible:
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
            self.hint.setText(
                wrong or tr("It plays under this name; the invitation is for this one computer.")
            )
        reason = why_not(self._feed.connection) or wrong
        self.invite.allow(not reason, reason)

    # --- inviting ---

    def _send(self) -> Call:
        self.wrong.hide()
        name = self.name.text().strip()
        listed = self._listed.invitations if self._listed is not None else []
        reissue = known_as(name, listed) is not None
        return self._feed.call("clients.invite.create", {"client": name, "reissue": reissue})

    def _failed(self, error: ApiError) -> None:
        self.wrong.setText(f"{error.message}\n{error.remedy}".strip())
        self.wrong.show()
        self._fetch.request()

    def _created(self, result: dict[str, Any]) -> None:
        self._made = made = NewInvitation.model_validate(result)
        self._title.setText(tr("{client} is invited").format(client=made.client))
        told = tr(
            "Give the link or the file to that computer and nobody else: whoever has one plays as {client}. "
            "It is told this once; later you can only invite anew."
        ).format(client=made.client)
        told += "\n" + tr("Without SoulsGUI there yet: unpack it, and in its folder type {command}").format(
            command=f"python3 packaging/bootstrap.py client {invitation_file_name(made.client)}"
        )
        if not made.lan:
            told += "\n" + tr("Only this computer can use it: the server is not open to the network.")
        self.told.setText(told)
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

    # --- giving it out ---

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.link.text())
        self._say(tr("Copied. On the other computer: Client mode, Paste link."))

    def _ask_for_path(self) -> None:
        if self._made is None:
            return
        dialog = QFileDialog(self, tr("Save the invitation"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(SUFFIX.removeprefix("."))
        dialog.setNameFilter(tr("Invitations ({pattern})").format(pattern=f"*{SUFFIX}"))
        dialog.selectFile(invitation_file_name(self._made.client))
        dialog.fileSelected.connect(self.save_to)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def save_to(self, path: str) -> None:
        """Write the invitation into a file that only its owner can read."""
        if self._made is None:
            return
        try:
            Invitation.parse(self._made.link).save(Path(path))
        except (OSError, UsageError) as error:
            why = in_words(error) if isinstance(error, OSError) else error.message
            self._say("", tr("It is not saved: {why}").format(why=why))
        else:
            self._say(tr("Saved as {path}. On the other computer: open it with SoulsGUI.").format(path=path))

    def _say(self, done: str, not_done: str = "") -> None:
        for label, words in ((self.said, done), (self.not_done, not_done)):
            label.setText(words)
            label.setVisible(bool(words))

    # --- taking it back ---

    def _revoke(self) -> Call:
        assert self._made is not None
        return self._feed.call("clients.revoke", {"client": self._made.client})

    def _revoked(self, _: dict[str, Any]) -> None:
        self._begin_again()

    def _not_revoked(self, error: ApiError) -> None:
        self._say("", f"{error.message}\n{error.remedy}".strip())
