"""What is seen of an evaluation: its picture, and what the policy says of each action, as bars."""

import base64
import math

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QImage, QImageReader, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.icons import colours_of, qcolor
from soulsgui.wire.control import Picture

_LONGEST_SIDE = 1024  # of a picture that is taken, pixels: a server sends smaller ones
_LARGE = 2.0  # from this enlargement on pixels stay square
_KEYS = {
    Qt.Key.Key_Space: "play",
    Qt.Key.Key_Left: "back",
    Qt.Key.Key_Right: "forward",
    Qt.Key.Key_Home: "begin",
    Qt.Key.Key_End: "end",
}


def decoded(jpeg: str) -> QImage:
    """Return a picture of a server; one without a pixel where it is none, or is too large."""
    try:
        data = base64.b64decode(jpeg, validate=True)
    except ValueError:
        return QImage()
    buffer = QBuffer()
    buffer.setData(QByteArray(data))
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer, QByteArray(b"jpeg"))
    reader.setAutoDetectImageFormat(False)
    size = reader.size()
    if not size.isValid() or max(size.width(), size.height()) > _LONGEST_SIDE:
        return QImage()
    return reader.read()


class PictureView(QWidget):
    """Shows a picture as large as there is room.

    Signals:
        key_pressed: Of those that steer a player: `play`, `back`, `forward`, `begin`, `end`.
    """

    key_pressed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.image = QImage()
        self.setAccessibleName("Picture of the environment")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 180)

    def show_image(self, image: QImage) -> None:
        """Show another picture."""
        self.image = image
        self.update()

    def sizeHint(self) -> QSize:
        """As the picture, where there is one."""
        return self.image.size().expandedTo(QSize(480, 360))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Steer the player."""
        if (name := _KEYS.get(Qt.Key(event.key()))) is not None and not event.modifiers():
            self.key_pressed.emit(name)
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Play or pause, as players do."""
        if event.button() is Qt.MouseButton.LeftButton:
            self.key_pressed.emit("play")

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw it in the middle, with an edge where the keyboard is."""
        colours = colours_of(self)
        with QPainter(self) as painter:
            painter.fillRect(self.rect(), qcolor(colours.base))
            if not self.image.isNull():
                size = self.image.size().scaled(self.size(), Qt.AspectRatioMode.KeepAspectRatio)
                place = QRect(0, 0, size.width(), size.height())
                place.moveCenter(self.rect().center())
                smooth = size.width() < _LARGE * self.image.width()
                painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, smooth)
                painter.drawImage(place, self.image)
            painter.setPen(qcolor(colours.accent if self.hasFocus() else colours.border))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))


class ActionBars(QWidget):
    """A bar for each action: its probability or value; for each number of a continuous one: how large it is.

    The longest bar of values is the highest value, the shortest the lowest. Where there is no room for all,
    the highest are shown.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: list[tuple[int, float | None]] = []
        self._taken = -1
        self._says = ""
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("What the policy says")

    def show_picture(self, picture: Picture) -> None:
        """Show what the policy says at a picture; at the end of an episode what it said last stays."""
        if picture.ended:
            return
        self._says = picture.says
        said = picture.said if picture.says else picture.action
        self._rows = list(enumerate(said))
        self._taken = int(picture.action[0]) if picture.says and len(picture.action) == 1 else -1
        self.update()

    def clear(self) -> None:
        """Show nothing."""
        self._rows = []
        self.update()

    @property
    def heading(self) -> str:
        """What the bars are."""
        if not self._rows:
            return ""
        return {"values": "Action values", "probabilities": "Probabilities"}.get(self._says, "Action")

    @property
    def words(self) -> str:
        """All of it in words."""
        rows = [f"{row}: {self._number(said)}" for row, said in self._rows]
        taken = [f"Taken: {self._taken}"] if self._taken >= 0 else []
        return "\n".join(taken + rows)

    def minimumSizeHint(self) -> QSize:
        """Room for a few bars."""
        metrics = QFontMetrics(self.font())
        return QSize(26 * metrics.averageCharWidth(), 4 * self._line_px)

    @property
    def _line_px(self) -> int:
        return QFontMetrics(self.font()).height() + 6

    def _number(self, said: float | None) -> str:
        if said is None:
            return "not valid"
        return text.percent(100 * said) if self._says == "probabilities" else text.value(said)

    def _part(self, said: float) -> float:
        """Return how much of its room a bar fills, 0 to 1; below 0 to the left."""
        known = [one for _, one in self._rows if one is not None and math.isfinite(one)]
        if self._says == "probabilities":
            return said
        if self._says == "values":
            low, high = min(known), max(known)
            return 0.08 + 0.92 * (said - low) / (high - low) if high > low else 1.0
        return said / max(1.0, *map(abs, known))

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw a line for each action."""
        room = max(self.height() // self._line_px, 1)
        rows = self._rows
        if len(rows) > room:
            # The last line says how many are left out.
            highest = sorted(rows, key=lambda row: (row[1] is None, -(row[1] or 0.0)))
            rows = sorted(highest[: max(room - 1, 1)])
        colours, metrics = colours_of(self), QFontMetrics(self.font())
        with QPainter(self) as painter:
            name_px = metrics.horizontalAdvance("0" * len(str(len(self._rows)))) + 12
            number_px = metrics.horizontalAdvance("−0.00e+00")
            bar_px = max(self.width() - name_px - number_px - 8, 10)
            for line, (row, said) in enumerate(rows):
                y = line * self._line_px
                taken = row == self._taken
                painter.setPen(qcolor(colours.text if taken or self._taken < 0 else colours.muted))
                self._draw_words(painter, str(row), 0, y, name_px - 8, Qt.AlignmentFlag.AlignRight)
                number_x = self.width() - number_px
                self._draw_words(
                    painter, self._number(said), number_x, y, number_px, Qt.AlignmentFlag.AlignRight
                )
                place = QRectF(name_px, y + 4, bar_px, self._line_px - 8)
                painter.fillRect(place, qcolor(colours.hover))
                if said is not None and math.isfinite(said):
                    filled = colours.accent if taken or self._taken < 0 else colours.edge
                    painter.fillRect(self._filled(place, self._part(said)), qcolor(filled))
            if len(rows) < len(self._rows):
                painter.setPen(qcolor(colours.muted))
                left = f"and {len(self._rows) - len(rows):,} more"
                y = len(rows) * self._line_px
                self._draw_words(painter, left, name_px, y, self.width(), Qt.AlignmentFlag.AlignLeft)

    def _filled(self, place: QRectF, part: float) -> QRectF:
        if self._says:
            return QRectF(place.x(), place.y(), place.width() * min(max(part, 0.0), 1.0), place.height())
        # Of a continuous action: from the middle, to either side.
        half = place.width() / 2
        length = half * min(max(part, -1.0), 1.0)
        return QRectF(place.x() + half + min(length, 0.0), place.y(), max(abs(length), 1.0), place.height())

    def _draw_words(
        self, painter: QPainter, words: str, x: int, y: int, width: int, side: Qt.AlignmentFlag
    ) -> None:
        painter.drawText(QRect(x, y, width, self._line_px), side | Qt.AlignmentFlag.AlignVCenter, words)
