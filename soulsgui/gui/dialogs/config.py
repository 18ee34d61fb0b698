"""The configuration as a dialog: the same editor as on its page, from anywhere."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QCloseEvent, QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.config_editor.editor import ConfigEditor
from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.feed import Feed

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell

_GEOMETRY = "configDialog/geometry"
_WIDTH, _HEIGHT = 1000, 680


class ConfigDialog(FittingDialog):
    """The editor of the server's config.yaml; unsaved changes are asked about when it is closed.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it is opened from.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("configDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Configuration"))
        self._settings = shell.settings()
        self.editor = ConfigEditor(feed, shell, self)
        close = QPushButton(self.tr("Close"), self)
        close.clicked.connect(self.reject)
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(close)
        column = QVBoxLayout(self)
        column.addWidget(self.editor, 1)
        column.addLayout(foot)
        self._restore()

    def _restore(self) -> None:
        self.resize(_WIDTH, _HEIGHT)
        state = self._settings.value(_GEOMETRY)
        if isinstance(state, QByteArray):
            self.restoreGeometry(state)

    def reject(self) -> None:
        """Close, after a question where something is unsaved."""
        self.editor.may_leave(self._leave)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter in a field must not press a button."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """The same when the window's own button is used."""
        event.ignore()
        self.reject()

    def _leave(self, go: bool) -> None:
        if go:
            self._settings.setValue(_GEOMETRY, self.saveGeometry())
            super().reject()
            # Qt deletes only what it closes itself, and `closeEvent` took that over.
            self.deleteLater()
