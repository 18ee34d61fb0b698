"""Keeps windows on the screen they open on."""

from PySide6.QtCore import QMargins, QRect, Qt
from PySide6.QtWidgets import QWidget

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
