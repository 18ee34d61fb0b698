"""A dialog that grows when what it says needs more room."""

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QDialog


class GrowingDialog(QDialog):
    """Never cuts its sentences: wrapped labels ask for more height than Qt gives them by itself."""

    def event(self, event: QEvent) -> bool:
        """Grow when sentences or titles come that need more room."""
        handled = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self._grow()
        return handled

    def _grow(self) -> None:
        layout = self.layout()
        if layout is not None:
            width = max(self.width(), layout.sizeHint().width())
            self.resize(width, max(self.height(), layout.totalHeightForWidth(width)))
            self._stay_on_screen()

    def _stay_on_screen(self) -> None:
        """Move back what grew over the edge of the screen, its left upper corner first of all."""
        if not self.isVisible():
            return
        room, taken = self.screen().availableGeometry(), self.frameGeometry()
        left = max(min(taken.left(), room.right() + 1 - taken.width()), room.left())
        top = max(min(taken.top(), room.bottom() + 1 - taken.height()), room.top())
        if (left, top) != (taken.left(), taken.top()):
            self.move(left, top)
