"""Windows on the screen they open on; splitters, columns and tabs as the user left them."""

from PySide6.QtCore import QByteArray, QMargins, QRect, QSettings, Qt
from PySide6.QtWidgets import QSplitter, QTabWidget, QWidget

from soulsgui.gui.widgets.table import Table

# A title bar and borders: what they really take is known only once the system has drawn them.
_FRAME = QMargins(4, 36, 4, 4)


def room_for(window: QWidget) -> QRect:
    """Return where a window may be on its screen, its frame not counted."""
    return window.screen().availableGeometry().marginsRemoved(_FRAME)


def bring_onto_screen(window: QWidget) -> None:
    """Make a window no larger than its screen; where it has a place already, move it there, too."""
    screen, room = window.screen().availableGeometry(), room_for(window)
    least = window.minimumSize().boundedTo(room.size())
    if least != window.minimumSize():
        window.setMinimumSize(least)
    if window.windowState() & (Qt.WindowState.WindowMaximized | Qt.WindowState.WindowFullScreen):
        return
    size = window.size().boundedTo(room.size())
    if size != window.size():
        window.resize(size)
    if not (window.isVisible() or window.testAttribute(Qt.WidgetAttribute.WA_Moved)):
        return
    taken = window.geometry()
    # The left upper corner first of all.
    left = max(min(taken.left(), room.right() + 1 - taken.width()), screen.left())
    top = max(min(taken.top(), room.bottom() + 1 - taken.height()), screen.top())
    if (left, top) != (taken.left(), taken.top()):
        window.setGeometry(left, top, taken.width(), taken.height())


Arranged = QSplitter | Table | QTabWidget


class Memory:
    """Keeps the arrangement of a page."""

    def __init__(self, settings: QSettings, page: str) -> None:
        self._settings = settings
        self._page = page

    def restore(self, *parts: Arranged) -> None:
        """Arrange these parts as they were kept; what was never kept stays as it is."""
        for part in parts:
            state = self._settings.value(self._key(part))
            if isinstance(part, QTabWidget):
                if str(state).isdecimal():
                    part.setCurrentIndex(int(str(state)))
            elif not isinstance(state, QByteArray):
                continue
            elif isinstance(part, QSplitter):
                part.restoreState(state)
            # Qt takes a state with more columns than there are, and dies of it.
            elif str(self._settings.value(f"{self._key(part)}Columns")) == str(part.model().columnCount()):
                line = str(self._settings.value(f"{self._key(part)}Line"))
                part.restore_columns(state, int(line) if line.isdecimal() else 0)

    def keep(self, *parts: Arranged) -> None:
        """Keep the arrangement of these parts."""
        for part in parts:
            if isinstance(part, QTabWidget):
                self._settings.setValue(self._key(part), part.currentIndex())
            elif isinstance(part, QSplitter):
                self._settings.setValue(self._key(part), part.saveState())
            else:
                self._settings.setValue(self._key(part), part.save_columns())
                self._settings.setValue(f"{self._key(part)}Line", part.line_px)
                self._settings.setValue(f"{self._key(part)}Columns", part.model().columnCount())

    def _key(self, part: Arranged) -> str:
        return f"{self._page}/{part.objectName()}"
