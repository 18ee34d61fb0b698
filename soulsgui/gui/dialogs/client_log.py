"""What went wrong on the computer of a client, as it has told the server."""

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import ApiError, ClientLog, ClientStatus

_CHARACTERS = 150
_LINES = 18
_ASKED = 200


class ClientLogDialog(FittingDialog):
    """The last warnings and errors of a client on another computer.

    Args:
        feed: The runner.
        client: The client.
        parent: The widget it is opened from.
    """

    def __init__(self, feed: Feed, client: ClientStatus, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("clientLogDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Log of {client}").format(client=client.name))
        self._feed = feed
        self._client = client
        self.pane = LogPane(self)
        self.pane.show_empty_text(tr("Asking the server …"))
        self.wrong = QLabel(self)
        self.wrong.setWordWrap(True)
        self.wrong.setTextFormat(Qt.TextFormat.PlainText)
        self.wrong.setProperty("tone", "bad")
        self.wrong.hide()
        self._build()
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(self._failed)
        self._fetch.request()

    def _build(self) -> None:
        hint = QLabel(
            tr("Warnings and errors that {client} has told; the whole log is on its own computer.").format(
                client=self._client.name
            ),
            self,
        )
        hint.setWordWrap(True)
        hint.setProperty("weight", "muted")
        self.renew = QPushButton(tr("&Ask again"), self)
        dress(self.renew, "restart")
        self.renew.clicked.connect(lambda: self._fetch.request())
        column = QVBoxLayout(self)
        column.setSpacing(10)
        column.addWidget(hint)
        column.addWidget(self.pane, 1)
        column.addWidget(self.wrong)
        column.addLayout(self.foot(self.renew))
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * (_LINES + 8))

    def _ask(self) -> Call | None:
        if not self._feed.connection.live:
            return None
        return self._feed.call("clients.log", {"client": self._client.id, "n": _ASKED})

    def _take(self, result: dict[str, Any]) -> None:
        self.wrong.hide()
        self.pane.show_empty_text(tr("{client} has told of no trouble.").format(client=self._client.name))
        self.pane.replace(ClientLog.model_validate(result).lines, with_service=False)

    def _failed(self, error: ApiError) -> None:
        self.wrong.setText(f"{error.message}\n{error.remedy}".strip())
        self.wrong.show()
