"""What stands before a name in a legend."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QWidget

from soulsgui.gui.icons import colours_of


class Swatch(QWidget):
    """A short line in a curve's colour; without one the upright dashes of a moment."""

    def __init__(self, colour: int | None, parent: QWidget) -> None:
        super().__init__(parent)
        self._colour = colour
        side = self.fontMetrics().height()
        self.setFixedSize(side + 4, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw it."""
        with QPainter(self) as painter:
            colours = colours_of(self)
            if self._colour is None:
                painter.setPen(QPen(QColor(colours.edge), 1, Qt.PenStyle.DashLine))
                painter.drawLine(self.width() // 2, 0, self.width() // 2, self.height())
                return
            line = QRectF(0, self.height() / 2 - 1.5, self.width(), 3)
            painter.fillRect(line, QColor(colours.curve(self._colour)))
