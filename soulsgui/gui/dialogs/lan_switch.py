"""Opening the server to the private network: the switch, what it means, and the new start it needs."""

from typing import TYPE_CHECKING, Any

from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.connection_state import why_not
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.models.inviting import lan_words
from soulsgui.gui.states import run_is_active
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.wire.control import ApiError

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell

LAN = "redis.lan"


class LanSwitch(QFrame):
    """Shown while other computers can't reach the server.

    Args:
        feed: The runner.
        shell: The window, which can start the server anew.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._feed = feed
        self._saved = False
        self.about = QLabel(self)
        self.about.setWordWrap(True)
        self.wrong = QLabel(self)
        self.wrong.setWordWrap(True)
        self.wrong.setProperty("tone", "bad")
        self.wrong.hide()
        words = Words(tr("Allow the private &network"), tr("Saving …"), tr("Saved"))
        self.allow = CommandButton(words, "link", self._send, self)
        self.allow.setObjectName("allowLan")
        self.allow.setAutoDefault(False)
        self.allow.finished.connect(self._was_saved)
        self.allow.problem.connect(self._failed)
        self.restart = QPushButton(tr("Start the server a&new"), self)
        self.restart.setObjectName("restartServer")
        self.restart.setAutoDefault(False)
        dress(self.restart, "restart")
        self.restart.clicked.connect(shell.restart_server)
        buttons = QHBoxLayout()
        buttons.addWidget(self.allow)
        buttons.addWidget(self.restart)
        buttons.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.addWidget(self.about)
        column.addWidget(self.wrong)
        column.addLayout(buttons)
        self.hide()
        feed.connection_changed.connect(self._show)
        feed.run_changed.connect(self._show)
        self._show()

    def show_open(self, is_open: bool) -> None:
        """Show whether other computers can reach the server."""
        self._saved = self._saved and not is_open
        self.setVisible(not is_open)
        self._show()

    def _show(self) -> None:
        self.about.setText(lan_words(self._saved, run_is_active(self._feed.status.run.state)))
        self.allow.setVisible(not self._saved)
        self.restart.setVisible(self._saved)
        reason = why_not(self._feed.connection)
        self.allow.allow(not reason, reason)
        self.restart.setEnabled(not reason)
        self.restart.setToolTip(reason)

    def _send(self) -> Call:
        self.wrong.hide()
        return self._feed.call("config.save", {"changes": {LAN: True}})

    def _was_saved(self, _: dict[str, Any]) -> None:
        self._saved = True
        self._show()

    def _failed(self, error: ApiError) -> None:
        self.wrong.setText(f"{error.message}\n{error.remedy}".strip())
        self.wrong.show()
