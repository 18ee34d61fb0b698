"""A small curve in a cell of a table, beside its number."""

from collections.abc import Sequence

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from soulsgui.gui.colours import Tone
from soulsgui.gui.icons import palette_colours

_SHARE = 0.5
_MARGIN_PX = 4.0


def spark_points(values: Sequence[float], room: QRectF, most: int) -> list[QPointF]:
    """Return the corners of a small curve: the newest value at the right edge, 0 at the bottom.

    Args:
        values: Oldest first.
        room: Where it is drawn.
        most: Values that fill the room; fewer begin further to the right.
    """
    top = max(max(values, default=0.0), 0.0)
    if len(values) < 2 or top <= 0 or most < 2:
        return []
    step = room.width() / (most - 1)
    left = room.right() - step * (len(values) - 1)
    return [
        QPointF(left + step * place, room.bottom() - room.height() * max(value, 0.0) / top)
        for place, value in enumerate(values)
    ]


class Sparkline(QStyledItemDelegate):
    """Draws the cell's text as always, and a curve in its left half.

    Args:
        role: Where the model keeps the values of a cell, oldest first.
        parent: The table.
        most: Values that fill the width.
    """

    def __init__(self, role: int, parent: QWidget, most: int = 60) -> None:
        super().__init__(parent)
        self._role = role
        self._most = most

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        """Draw one cell."""
        super().paint(painter, option, index)
        values = index.data(self._role)
        if not values:
            return
        rect = QRectF(option.rect)
        room = rect.adjusted(_MARGIN_PX, _MARGIN_PX, -rect.width() * (1 - _SHARE), -_MARGIN_PX)
        points = spark_points(values, room, self._most)
        if not points:
            return
        colours = palette_colours(option.palette)
        enabled = bool(option.state & QStyle.StateFlag.State_Enabled)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colours.tones[Tone.ACCENT] if enabled else colours.disabled), 1.2))
        painter.drawPolyline(points)
        painter.restore()
