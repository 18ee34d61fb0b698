"""The dialog for a server that has another address than its invitation says."""

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFormLayout, QHBoxLayout, QLabel, QLineEdit, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.client_side import START_PATIENCE_S
from soulsgui.gui.dialogs.growing import GrowingDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import set_property
from soulsgui.wire.control import AddressChange, ApiError, SavedServer
from soulsgui.wire.invitation import place_words

_CHARACTERS = 64
_LONGEST = 300


class ChangeAddressDialog(GrowingDialog):
    """Looks for a server at another address; takes one where it is not found only after a second click.

    Args:
        feed: The runner of client mode.
        server: The server.
        parent: The widget it is opened from.
    """

    def __init__(self, feed: Feed, server: SavedServer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("changeAddressDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Address of {server}").format(server=server.server_name))
        self._feed = feed
        self._server = server
        self._refused = ""
        self._asked = ""
        self.place = QLineEdit(place_words(*server.addresses[0]), self)
        self.place.setMaxLength(_LONGEST)
        self.place.selectAll()
        self.place.textEdited.connect(self._edited)
        self.wrong = QLabel(self)
        self.wrong.setWordWrap(True)
        self.wrong.setTextFormat(Qt.TextFormat.PlainText)
        self.wrong.hide()
        self._make_buttons()
        self._build()

    def _make_buttons(self) -> None:
        words = Words(tr("&Use this address"), tr("Looking for it …"), tr("Found"))
        self.use = CommandButton(words, "check", lambda: self._send(confirmed=False), self)
        self.use.setProperty("role", "primary")
        self.use.set_words(words, "check", lambda: self._send(confirmed=False))
        self.use.setDefault(True)
        self.use.finished.connect(self._answered)
        again = Words(tr("Use it &all the same"), tr("Writing …"), tr("Taken"))
        self.insist = CommandButton(again, "state-warning", lambda: self._send(confirmed=True), self)
        self.insist.setAutoDefault(False)
        self.insist.finished.connect(self._answered)
        self.insist.hide()
        for button in (self.use, self.insist):
            button.problem.connect(self._failed)
        self.cancel = QPushButton(tr("Cancel"), self)
        self.cancel.setAutoDefault(False)
        self.cancel.clicked.connect(self.reject)

    def _build(self) -> None:
        hint = QLabel(
            tr("Where {server} is now, as its owner tells you. The invitation stays good.").format(
                server=self._server.server_name
            ),
            self,
        )
        hint.setWordWrap(True)
        hint.setProperty("weight", "muted")
        form = QFormLayout()
        form.addRow(tr("A&ddress"), self.place)
        foot = QHBoxLayout()
        foot.addWidget(self.insist)
        foot.addStretch(1)
        foot.addWidget(self.use)
        foot.addWidget(self.cancel)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addLayout(form)
        column.addWidget(hint)
        column.addWidget(self.wrong)
        column.addLayout(foot)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _CHARACTERS)

    def _edited(self) -> None:
        # What was said was said of another address.
        self.insist.hide()
        self.wrong.hide()

    def _send(self, confirmed: bool) -> Call:
        self.wrong.hide()
        # Only what was asked about can be confirmed.
        place = self._refused if confirmed else self.place.text().strip()
        self._asked = place
        params = {"server_id": self._server.server_id, "place": place, "confirmed": confirmed}
        return self._feed.call("servers.change_address", params, patience_s=START_PATIENCE_S)

    def _answered(self, result: dict[str, Any]) -> None:
        change = AddressChange.model_validate(result)
        if change.taken:
            self.accept()
            return
        self._refused = self._asked
        remedy = tr("Ask its owner for a new invitation.") if change.final else ""
        self._say(f"{change.why}\n{remedy}".strip(), "bad" if change.final else "warning")
        self.insist.setVisible(not change.final)

    def _failed(self, error: ApiError) -> None:
        self._say(f"{error.message}\n{error.remedy}".strip(), "bad")

    def _say(self, words: str, tone: str) -> None:
        self.wrong.setText(words)
        set_property(self.wrong, "tone", tone)
        self.wrong.show()
