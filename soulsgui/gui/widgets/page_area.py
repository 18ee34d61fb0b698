"""What stands around a page: it fills its room, and is scrolled up and down where it needs more."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget


class _Least(QWidget):
    """Asks for the least height that a widget can do with, not for the one it would like."""

    def __init__(self, page: QWidget) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(page)
        self._page = page

    def heightForWidth(self, width: int) -> int:
        """Return the least height of the widget when it is so wide."""
        inside = self._page.layout()
        if inside is None or not inside.hasHeightForWidth():
            return self._page.minimumSizeHint().height()
        return inside.totalMinimumHeightForWidth(width)


class PageArea(QScrollArea):
    """Scrolls one page.

    Args:
        page: The page.
        parent: Where it stands.
    """

    def __init__(self, page: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        # Its bars take no keyboard from what is in it.
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.page = page
        self.setWidget(_Least(page))
