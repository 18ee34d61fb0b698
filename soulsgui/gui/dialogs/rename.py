"""The dialog for what a client is called."""

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui.calls import Call
from soulsgui.gui.dialogs.growing import GrowingDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.wire.control import ApiError, ClientStatus

_CHARACTERS = 64
_LONGEST = 64


class RenameDialog(GrowingDialog):
    """Calls a client something else; closes when the server has written it.

    Args:
        feed: The runner.
        client: The client.
        parent: The widget it is opened from.
    """

    def __init__(self, feed: Feed, client: ClientStatus, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("renameDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Rename {client}").format(client=client.name))
        self._feed = feed
        self._client = client.id
        self.name = QLineEdit(client.name, self)
        self.name.setMaxLength(_LONGEST)
        self.name.setPlaceholderText(client.id)
        self.name.selectAll()
        self.wrong = QLabel(self)
        self.wrong.setWordWrap(True)
        self.wrong.setProperty("tone", "bad")
        self.wrong.hide()
        self._make_buttons()
        self._build()

    def _make_buttons(self) -> None:
        words = Words(tr("&Rename"), tr("Renaming …"), tr("Renamed"))
        self.save = CommandButton(words, "check", self._send, self)
        self.save.setProperty("role", "primary")
        dress(self.save, "check")
        self.save.setDefault(True)
        self.save.finished.connect(self._saved)
        self.save.problem.connect(self._failed)
        self.cancel = QPushButton(tr("Cancel"), self)
        self.cancel.setAutoDefault(False)
        self.cancel.clicked.connect(self.reject)

    def _build(self) -> None:
        hint = QLabel(
            tr(
                "Its id stays {id}: logs and invitations name that. Left empty, it is called so again."
            ).format(id=self._client),
            self,
        )
        hint.setWordWrap(True)
        hint.setProperty("weight", "muted")
        form = QFormLayout()
        form.addRow(tr("&Name"), self.name)
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(self.save)
        foot.addWidget(self.cancel)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addLayout(form)
        column.addWidget(hint)
        column.addWidget(self.wrong)
        column.addLayout(foot)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _CHARACTERS)

    def _send(self) -> Call:
        self.wrong.hide()
        return self._feed.call("clients.rename", {"client": self._client, "name": self.name.text().strip()})

    def _saved(self, _: dict[str, Any]) -> None:
        self.accept()

    def _failed(self, error: ApiError) -> None:
        self.wrong.setText(f"{error.message}\n{error.remedy}".strip())
        self.wrong.show()
