"""The editor of config.yaml as a page, and as a dialog from anywhere."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QCloseEvent, QKeyEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.config.editor import ConfigEditor
from soulsgui.gui.feed import Feed
from soulsgui.gui.widgets.dialog import FittingDialog

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


class ConfigPage(QWidget):
    """The editor of the server's config.yaml."""

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("configPage")
        self.editor = ConfigEditor(feed, shell, self)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 8)
        column.addWidget(self.editor)

    def show_where(self, setting: str = "", **_: Any) -> None:
        """Show a setting."""
        if setting:
            self.editor.reveal(setting)

    def refresh(self) -> None:
        """Ask for the file again."""
        self.editor.refresh()

    @property
    def landing(self) -> QWidget:
        """What gets the keyboard when the page opens: the tab in front, which hands it on."""
        return self.editor.views.currentWidget()

    @property
    def unsaved(self) -> bool:
        """Whether something was typed that is not saved."""
        return self.editor.unsaved

    def before_run(self, then: Callable[[bool], None]) -> None:
        """Tell whether a run may be begun; unsaved changes, which it would not use, are asked about first."""
        self.editor.before_run(then)

    def may_leave(self, then: Callable[[bool], None]) -> None:
        """Tell whether one may leave; unsaved changes are asked about first."""
        self.editor.may_leave(then)


_GEOMETRY = "configDialog/geometry"
_WIDTH, _HEIGHT = 1000, 680


class ConfigDialog(FittingDialog):
    """The editor of the server's config.yaml; unsaved changes are asked about when it is closed."""

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("configDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Configuration")
        self._settings = shell.settings()
        self.editor = ConfigEditor(feed, shell, self)
        close = QPushButton("Close", self)
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
