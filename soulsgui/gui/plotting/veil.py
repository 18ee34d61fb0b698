"""What lies over a plot while it is not the present: its colours fade, its numbers can still be read."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from soulsgui.gui.icons import colours_of

_COVER = 0.5


class Veil(QWidget):
    """Half covers the widget it stands in, and leaves the mouse to it.

    A graphics effect would fade, too, but paints over an old copy of a widget that fills all of itself.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._covered = parent
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def cover(self, on: bool) -> None:
        """Lie over everything, or go away."""
        self.setGeometry(self._covered.rect())
        self.setVisible(on)
        self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Fade what lies below."""
        colour = QColor(colours_of(self).base)
        colour.setAlphaF(_COVER)
        painter = QPainter(self)
        painter.fillRect(self.rect().adjusted(2, 2, -2, -2), colour)
