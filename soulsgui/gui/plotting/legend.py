"""What a plot says in words: names of its curves, its axis, the values under the crosshair."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QHBoxLayout, QLabel, QWidget

from soulsgui.gui import text
from soulsgui.gui.icons import colours_of
from soulsgui.gui.plotting.rows import Axis, Mark
from soulsgui.gui.plotting.series import Reading
from soulsgui.gui.widgets.labels import ElidedLabel


def axis_title(axis: Axis) -> str:
    """Return what x means."""
    return {
        Axis.EPISODE: "Episode",
        Axis.ENV_STEP: "Environment steps",
        Axis.TIME: "Wall time",
    }[axis]


def reading_text(
    readings: Sequence[tuple[str, Reading]], axis: Axis, mark: Mark | None, reach: float = 0.0
) -> str:
    """Return the values under the crosshair."""
    first = readings[0][1]
    place, also = _places(first, axis)
    values = [_value(name, reading, alone=len(readings) == 1) for name, reading in readings]
    for number, (_, reading) in enumerate(readings):
        if abs(reading.x - first.x) > reach:
            values[number] = f"{values[number]} at {_places(reading, axis)[0]}"
    return " · ".join([place, *values, also, *([mark.text] if mark else [])])


def _places(reading: Reading, axis: Axis) -> tuple[str, str]:
    """Return where a row stands on x, and what else tells it."""
    episode = f"episode {text.count(reading.episode)}"
    steps = f"step {text.count(reading.env_steps)}"
    moment = f"{datetime.fromtimestamp(reading.time):%H:%M:%S}"
    return {
        Axis.EPISODE: (episode, moment),
        Axis.ENV_STEP: (steps, moment),
        Axis.TIME: (moment, episode),
    }[axis]


def _value(name: str, reading: Reading, alone: bool) -> str:
    value, smooth = text.value(reading.value), text.value(reading.smooth)
    if not alone:
        # There is no room for more.
        return f"{name} {value}"
    words = value if value == smooth else f"{value} (smoothed {smooth})"
    if reading.count == 1:
        return words
    return f"mean of {text.count(reading.count)}: {words}"


@dataclass(frozen=True)
class LegendEntry:
    """One curve's name and the number of its colour."""

    name: str
    colour: int


class _Swatch(QWidget):
    """A short line in a curve's colour; without one the upright dashes of a moment."""

    def __init__(self, colour: int | None, parent: QWidget) -> None:
        super().__init__(parent)
        self._colour = colour
        side = self.fontMetrics().height()
        self.setFixedSize(side + 4, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colours = colours_of(self)
        if self._colour is None:
            painter.setPen(QPen(QColor(colours.edge), 1, Qt.PenStyle.DashLine))
            painter.drawLine(self.width() // 2, 0, self.width() // 2, self.height())
            return
        line = QRectF(0, self.height() / 2 - 1.5, self.width(), 3)
        painter.fillRect(line, QColor(colours.curve(self._colour)))


class Legend(QWidget):
    """Names of the curves on the left, the reading of the crosshair on the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(4, 0, 4, 0)
        self._row.setSpacing(6)
        self._parts: list[QWidget] = []
        self._with_moments = False
        self._moments = [_Swatch(None, self), QLabel("checkpoint or resume", self)]
        for part in self._moments:
            part.hide()
            self._row.addWidget(part)
        self.setToolTip("Dotted pieces of a curve are what a resume from a checkpoint overwrote.")
        self._row.addStretch(1)
        self._reading = ElidedLabel("", self)
        self._reading.setProperty("weight", "muted")
        self._reading.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._reading.setAccessibleName("Values under the crosshair")
        self._row.addWidget(self._reading, 3)

    def show_entries(self, entries: list[LegendEntry]) -> None:
        """Name these curves."""
        for part in self._parts:
            self._row.removeWidget(part)
            part.hide()
            part.deleteLater()
        self._parts = []
        for entry in entries:
            label = QLabel(entry.name, self)
            for part in (_Swatch(entry.colour, self), label):
                self._row.insertWidget(len(self._parts), part)
                self._parts.append(part)

    def show_marks(self, shown: bool) -> None:
        """Say what the upright lines are, while there are any."""
        self._with_moments = shown
        self._show_moments()

    def show_reading(self, text: str) -> None:
        """Say what stands under the crosshair; empty for nothing."""
        if text != self.reading:
            self._reading.setText(text)
            self._show_moments()

    def _show_moments(self) -> None:
        # A reading names the one that is near, and needs the room.
        for part in self._moments:
            part.setVisible(self._with_moments and not self.reading)

    @property
    def reading(self) -> str:
        """What stands under the crosshair."""
        return self._reading.text()
