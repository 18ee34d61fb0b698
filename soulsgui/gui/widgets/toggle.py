"""A switch as on a phone: for the one thing that is on or off."""

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget

from soulsgui.gui.icons import colours_of

_GAP = 10


class ToggleSwitch(QAbstractButton):
    """A checkable switch with its label on the right; Space and click toggle it.

    Args:
        text: Its label.
        parent: The widget it stands in.
        scale: Height of the switch in lines of text.
    """

    def __init__(self, text: str = "", parent: QWidget | None = None, scale: float = 1.25) -> None:
        super().__init__(parent)
        self._scale = scale
        self.setText(text)
        self.setCheckable(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def _height(self) -> int:
        return round(QFontMetrics(self.font()).height() * self._scale)

    def sizeHint(self) -> QSize:
        """Room for switch and label."""
        height = self._height()
        metrics = QFontMetrics(self.font())
        label = metrics.size(Qt.TextFlag.TextShowMnemonic, self.text()).width() if self.text() else 0
        return QSize(
            round(height * 1.8) + (label + _GAP if label else 0) + 4, max(height, metrics.height()) + 4
        )

    def minimumSizeHint(self) -> QSize:
        """No less than all of it."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a track with a knob; a tick or nothing on it, so that the colour is not all."""
        colours = colours_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        height = self._height()
        track = QRectF(2, (self.height() - height) / 2 + 1, height * 1.8, height - 2)
        on = self.isChecked()
        if not self.isEnabled():
            fill, edge, knob = colours.hover, colours.border, colours.disabled
        elif on:
            fill, edge, knob = colours.accent, colours.accent, colours.on_accent
        else:
            fill, edge, knob = colours.base, colours.edge, colours.muted
        painter.setPen(QPen(QColor(colours.text if self.hasFocus() else edge), 1.5))
        painter.setBrush(QColor(fill))
        painter.drawRoundedRect(track, track.height() / 2, track.height() / 2)
        size = track.height() - 6
        left = track.right() - size - 3 if on else track.left() + 3
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(knob))
        painter.drawEllipse(QRectF(left, track.top() + 3, size, size))
        if on:
            self._draw_tick(painter, QRectF(left, track.top() + 3, size, size), QColor(fill))
        painter.setPen(QColor(colours.text if self.isEnabled() else colours.disabled))
        words = self.rect().adjusted(round(track.right()) + _GAP, 0, 0, 0)
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextShowMnemonic
        painter.drawText(words, int(flags), self.text())

    @staticmethod
    def _draw_tick(painter: QPainter, knob: QRectF, colour: QColor) -> None:
        pen = QPen(colour, max(1.6, knob.height() / 7))
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        corners = ((0.28, 0.54), (0.44, 0.70), (0.73, 0.34))
        painter.drawPolyline(
            [knob.topLeft() + QPointF(knob.width() * x, knob.height() * y) for x, y in corners]
        )
