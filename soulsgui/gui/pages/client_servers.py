"""Whom this computer plays for: the servers that invited it, and ways to take up another invitation."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QComboBox, QFileDialog, QLabel, QWidget

from soulsgui.errors import UsageError
from soulsgui.gui.calls import Call
from soulsgui.gui.client_side import START_PATIENCE_S, ClientSide
from soulsgui.gui.connection_state import why_not
from soulsgui.gui.dialogs.asking_button import AskingButton
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.question import Question
from soulsgui.gui.widgets.command_button import Words
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.fitting_row import FittingRow
from soulsgui.wire.control import ApiError, ErrorCode, SavedServer, SavedServers
from soulsgui.wire.invitation import SUFFIX, Invitation

_LEAST_CHARACTERS = 22
_GAP_PX = 8


class ServersRow(FittingRow):
    """The server this computer plays for, chosen from those that invited it.

    Signals:
        problem: Something could not be done; with the `ApiError`.

    Args:
        side: The client side of the window.
        parent: The widget it stands in.
    """

    problem = Signal(object)

    def __init__(self, side: ClientSide, parent: QWidget | None = None) -> None:
        super().__init__(_GAP_PX, parent)
        self._side = side
        self._feed = side.feed
        self._saved = SavedServers(chosen="", servers=[])
        self._build()
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(self.problem)
        self._feed.connection_changed.connect(self._connection_changed)
        self._feed.server_changed.connect(self.refresh)
        self._feed.snapshot_taken.connect(self.refresh)
        self._fill()
        self._connection_changed()

    def _build(self) -> None:
        self.box = QComboBox(self)
        self.box.setObjectName("playFor")
        self.box.setMinimumContentsLength(_LEAST_CHARACTERS)
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.box.activated.connect(self._chosen)
        title = QLabel(tr("Plays &for"), self)
        title.setBuddy(self.box)
        words = Words(tr("For&get…"), tr("Forgetting …"), tr("Forgotten"))
        self.forget = AskingButton(words, "trash", self._forget, self._forget_question, self)
        self.forget.problem.connect(self.problem)
        self.forget.finished.connect(self.refresh)
        self.open = FittingButton(tr("&Open invitation…"), "folder", self)
        self.open.explain(tr("The .soulsgui file that you were sent"))
        self.open.clicked.connect(self._open_file)
        self.paste = FittingButton(tr("Paste &link"), "link", self)
        self.paste.explain(tr("The invitation that you copied: a link, or the text of its file"))
        self.paste.clicked.connect(self.paste_link)
        self._title = title
        buttons = (self.open, self.paste, self.forget)
        self.row.addWidget(title)
        self.row.addWidget(self.box, 1)
        for button in buttons:
            self.row.addWidget(button)
        self.let_give_way(buttons)

    @property
    def taken_px(self) -> int:
        """Room for the title and the list."""
        return self._title.sizeHint().width() + self.box.minimumSizeHint().width() + 2 * _GAP_PX

    # --- what is known ---

    def refresh(self, *_: object) -> None:
        """Ask for the list again."""
        self._fetch.request()

    def _ask(self) -> Call | None:
        return self._feed.call("servers.list") if self._feed.connection.commands_possible else None

    def _take(self, result: dict[str, Any]) -> None:
        self._saved = SavedServers.model_validate(result)
        self._fill()
        self._allow()

    def _fill(self) -> None:
        with QSignalBlocker(self.box):
            self.box.clear()
            self.box.addItem(tr("This computer's own server"), "")
            for server in self._saved.servers:
                title = tr("{server} (as {client})").format(server=server.server_name, client=server.client)
                self.box.addItem(title, server.server_id)
            self.box.setCurrentIndex(max(self.box.findData(self._saved.chosen), 0))

    @property
    def chosen(self) -> SavedServer | None:
        """The server this computer plays for; None for its own."""
        return next((one for one in self._saved.servers if one.server_id == self._saved.chosen), None)

    def _connection_changed(self) -> None:
        self.box.setEnabled(self._feed.connection.commands_possible)
        if self._feed.connection.commands_possible:
            self.refresh()
        self._allow()

    def _allow(self) -> None:
        reason = why_not(self._feed.connection)
        if not reason and self.chosen is None:
            reason = tr("This computer's own server is always in the list.")
        self.forget.allow(not reason, reason or tr("Throw the invitation of this server away"))

    # --- what can be done ---

    def _chosen(self) -> None:
        server_id = str(self.box.currentData())
        if server_id == self._saved.chosen:
            return
        self.box.setEnabled(False)
        call = self._feed.call("servers.choose", {"server_id": server_id}, patience_s=START_PATIENCE_S)
        call.done.connect(self._went_over)
        call.failed.connect(self._not_chosen)
        call.silent.connect(self._not_chosen)

    def _went_over(self) -> None:
        self.box.setEnabled(self._feed.connection.commands_possible)
        self.refresh()

    def _not_chosen(self, error: ApiError) -> None:
        self.problem.emit(error)
        self._fill()
        self._went_over()

    def _forget_question(self) -> Question | None:
        chosen = self.chosen
        if chosen is None:
            return None
        return Question(
            tr("Forget {server}?").format(server=chosen.server_name),
            tr("This computer stops playing for it. To help it again you need another invitation."),
            tr("Forget"),
        )

    def _forget(self) -> Call:
        return self._feed.call(
            "servers.forget", {"server_id": self._saved.chosen}, patience_s=START_PATIENCE_S
        )

    def _open_file(self) -> None:
        dialog = QFileDialog(self, tr("Open an invitation"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilters(
            [tr("Invitations ({pattern})").format(pattern=f"*{SUFFIX}"), tr("All files (*)")]
        )
        dialog.fileSelected.connect(self.open_path)
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def open_path(self, path: str) -> None:
        """Ask about the invitation in a file."""
        try:
            invitation = Invitation.load(Path(path))
        except UsageError as error:
            self._tell(error)
        else:
            self._side.open_invitation(invitation)

    def paste_link(self) -> None:
        """Ask about the invitation on the clipboard."""
        text = QGuiApplication.clipboard().text()
        try:
            invitation = Invitation.parse(text)
        except UsageError as error:
            empty = UsageError(tr("There is no invitation to paste."), tr("Copy the link first: all of it."))
            self._tell(error if text.strip() else empty)
        else:
            self._side.open_invitation(invitation)

    def _tell(self, error: UsageError) -> None:
        self.problem.emit(ApiError(code=ErrorCode.BAD_REQUEST, message=error.message, remedy=error.remedy))
