"""What a plot is made of: curves, goal, moments, crosshair, cursors, axes, legend, and what fades it."""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPoint, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Colours, Tone, blend
from soulsgui.gui.icons import colours_of, qcolor
from soulsgui.gui.plotting.mean import Drawn
from soulsgui.gui.plotting.rows import UNITS, Axis, Mark, mark_at
from soulsgui.gui.plotting.scale import Scale, ScaleKind
from soulsgui.gui.plotting.series import Piece, Points, Reading
from soulsgui.gui.plotting.swatch import Swatch
from soulsgui.gui.theme import GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import row
from soulsgui.gui.widgets.labels import ElidedLabel, Label, elided

_DOT_PX = 6
# Nearer to each other they would be a band.
_DOT_ROOM_PX = 8
_NO_POINTS: Points = (np.empty(0), np.empty(0))


class _Items(NamedTuple):
    """What a piece is drawn by."""

    raw: pg.PlotCurveItem
    smooth: pg.PlotCurveItem
    dots: pg.ScatterPlotItem


class DrawnCurve:
    """A series, or a mean of several, with the items it is drawn by, for each piece."""

    def __init__(self, canvas: pg.PlotWidget, series: Drawn, name: str, colour: int) -> None:
        self.series = series
        self.name = name
        self.colour = colour
        self._canvas = canvas
        self.items: list[_Items] = []

    def draw(
        self, left: float, right: float, width_px: int, colours: Colours, scale: Scale
    ) -> tuple[float, float]:
        """Draw what is between two positions of x, and return the lowest and the highest place in it."""
        pieces = [_scaled(piece, scale) for piece in self.series.pieces(left, right, width_px)]
        while len(self.items) < len(pieces):
            dots = pg.ScatterPlotItem(size=_DOT_PX, pen=None)
            made = _Items(pg.PlotCurveItem([], []), pg.PlotCurveItem([], []), dots)
            for depth, item in enumerate(made):
                item.setZValue(depth)
                self._canvas.addItem(item, ignoreBounds=True)
            self.items.append(made)
        smooths = self.series.smooths
        dotted = self.series.of_measurements
        for number, items in enumerate(self.items):
            piece = pieces[number] if number < len(pieces) else None
            _put(items.raw, piece.raw if piece and not (piece.overwritten and smooths) else _NO_POINTS)
            _put(items.smooth, piece.smooth if piece and smooths else _NO_POINTS)
            has_room = piece is not None and piece.raw[0].size <= max(width_px // _DOT_ROOM_PX, 1)
            x, y = piece.raw if piece and dotted and has_room else _NO_POINTS
            items.dots.setData(x[np.isfinite(y)], y[np.isfinite(y)])
            if piece:
                self._colour(items, piece.overwritten, colours)
        low, high = np.inf, -np.inf
        for x, y in (points for piece in pieces for points in (piece.raw, piece.smooth)):
            seen = y[(x >= left) & (x <= right)]
            if seen.size:
                low, high = np.fmin(low, np.fmin.reduce(seen)), np.fmax(high, np.fmax.reduce(seen))
        return float(low), float(high)

    def remove(self) -> None:
        """Take it off the canvas."""
        for items in self.items:
            for item in items:
                self._canvas.removeItem(item)
        self.items = []

    def _colour(self, items: _Items, overwritten: bool, colours: Colours) -> None:
        full, faded = colours.curve(self.colour), colours.faded_curve(self.colour)
        dots = Qt.PenStyle.DotLine
        # The few values of a short curve are all there is of it.
        alone = not self.series.smooths and self.series.of_measurements and not overwritten
        items.raw.setPen(
            pen(faded if self.series.smooths else full, 2 if alone else 1, dots if overwritten else None)
        )
        items.smooth.setPen(pen(full, 1, dots) if overwritten else pen(full, 2))
        items.dots.setBrush(pg.mkBrush(faded if overwritten else full))


def _scaled(piece: Piece, scale: Scale) -> Piece:
    (x, y), (smooth_x, smooth_y) = piece.raw, piece.smooth
    return Piece((x, scale.place(y)), (smooth_x, scale.place(smooth_y)), piece.overwritten)


def pen(colour: str, width: int, style: Qt.PenStyle | None = None) -> QPen:
    """Return a pen whose width is in pixels at any zoom."""
    made = QPen(QColor(colour), width)
    made.setCosmetic(True)
    if style is not None:
        made.setStyle(style)
    if style is Qt.PenStyle.DotLine:
        made.setDashPattern([2, 3])
    return made


def _put(item: pg.PlotCurveItem, points: Points) -> None:
    x, y = points
    whole = bool(np.isfinite(y).all())
    item.setData(x, y, connect="all" if whole else "finite", skipFiniteCheck=whole)


# The words stand at the left end: below the line in the upper half of the picture, else above it.
# At the right end they would hide the newest values, which come closest to the goal.
_ANCHORS = [(0, 0), (0, 1)]
_FLATTEST = 0.04
_ABOVE = 10
_NAMED = 2  # curves that the legend always has room for
_NAMES_SHARE = 0.6  # of the legend, for the names of more
_SWATCH_PX = 36


class GoalLine(pg.InfiniteLine):  # type: ignore[misc]
    """A line with its words, hidden while there is no goal."""

    def __init__(self) -> None:
        super().__init__(angle=0, label="", labelOpts={"position": 0, "anchors": _ANCHORS})
        self.goal: float | None = None
        # Its words lie over the curves.
        self.setZValue(_ABOVE)
        self.hide()

    def show_goal(self, value: float | None, words: str) -> None:
        """Stand at a value; None hides the line."""
        self.goal = value
        self.label.setFormat(words.replace("{", "{{").replace("}", "}}"))

    def draw(self, scale: Scale) -> float | None:
        """Stand at its place on a scale, and return that; None where there is none."""
        place = math.nan if self.goal is None else float(scale.place(np.asarray([self.goal]))[0])
        if not math.isfinite(place):
            self.hide()
            return None
        self.setPos(place)
        if not self.isVisible():
            self.show()
            self.label.setVisible(True)  # it takes no words while it is hidden
        return place

    def take_look(self, colours: Colours, font: QFont) -> None:
        """Take on the colours and the font of the theme."""
        colour = colours.tones[Tone.GOOD]
        self.setPen(pen(colour, 1, Qt.PenStyle.DashDotLine))
        self.label.setColor(colour)
        self.label.fill = pg.mkBrush(colours.base)
        self.label.setFont(font)


def with_goal(low: float, high: float, goal: float | None) -> tuple[float, float]:
    """Return the range of y that shows a goal too, unless that would make the curve too flat to be read.

    A curve of a single value is flat anyway.
    """
    if goal is None:
        return low, high
    least, most = min(low, goal), max(high, goal)
    is_readable = high - low >= _FLATTEST * (most - least)
    return (least, most) if is_readable or low == high else (low, high)


class MarkLines(pg.PlotCurveItem):  # type: ignore[misc]
    """Upright lines at moments, all of them one item."""

    def __init__(self) -> None:
        super().__init__(connect="pairs")
        self.marks: Sequence[Mark] = ()

    def draw(self, axis: Axis, low: float, high: float) -> None:
        """Stand between two values of y."""
        places = [x for mark in self.marks if math.isfinite(x := mark.x(axis))]
        self.setData(np.repeat(places, 2).astype(float), np.tile([low, high], len(places)))

    def take_look(self, colours: Colours) -> None:
        """Take on the colours of the theme."""
        self.setPen(pen(blend(colours.edge, colours.base, 0.6), 1, Qt.PenStyle.DashLine))


class Crosshair(pg.InfiniteLine):  # type: ignore[misc]
    """The upright line at which values are read, hidden while nobody points at a row."""

    def __init__(self) -> None:
        super().__init__(angle=90)
        self.place: float | None = None
        self.readings: list[tuple[DrawnCurve, Reading]] = []
        self.hide()

    def read(self, curves: Sequence[DrawnCurve], axis: Axis, marks: Sequence[Mark], reach: float) -> str:
        """Stand at the row nearest to the place, and return the values there; empty without any."""
        place = self.place
        near = [] if place is None else [(one, one.series.nearest(place)) for one in curves]
        found = [(curve, reading) for curve, reading in near if reading is not None]
        self.setVisible(bool(found))
        self.readings = found
        if place is None or not found:
            return ""
        found.sort(key=lambda one: abs(one[1].x - place))
        self.setPos(found[0][1].x)
        named = [(curve.name, reading) for curve, reading in found]
        return reading_text(named, axis, mark_at(marks, axis, place, reach), reach)

    def take_look(self, colours: Colours) -> None:
        """Take on the colours of the theme."""
        self.setPen(pen(colours.text, 1, Qt.PenStyle.DashLine))


def reading_text(
    readings: Sequence[tuple[str, Reading]], axis: Axis, mark: Mark | None, reach: float = 0.0
) -> str:
    """Return the values under the crosshair."""
    first = readings[0][1]
    place, also = _places(first, axis)
    values = [
        _value(name, reading, alone=len(readings) == 1) + _elsewhere(reading, first, axis, reach)
        for name, reading in readings
    ]
    return " · ".join([place, *values, also, *([mark.text] if mark else [])])


def _elsewhere(reading: Reading, first: Reading, axis: Axis, reach: float) -> str:
    """Return where a row stands that is not below the crosshair, which is at `first`."""
    return f" at {_places(reading, axis)[0]}" if abs(reading.x - first.x) > reach else ""


def _places(reading: Reading, axis: Axis) -> tuple[str, str]:
    """Return where a row stands on x, and what else tells it."""
    episode = f"episode {text.count(reading.episode)}"
    steps = f"step {text.count(reading.env_steps)}"
    moment = f"{datetime.fromtimestamp(reading.time):%H:%M:%S}"
    return {
        Axis.EPISODE: (episode, moment),
        Axis.ENV_STEP: (steps, moment),
        Axis.UPDATE: (f"update {text.count(reading.update)}", moment),
        Axis.TIME: (moment, episode),
        Axis.TRAINING: (f"after {text.duration(reading.x)}", episode),
    }[axis]


def _value(name: str, reading: Reading, alone: bool) -> str:
    value, smooth = text.value(reading.value), text.value(reading.smooth)
    if reading.runs:
        band = f"lowest {text.value(reading.low)}, highest {text.value(reading.high)}"
        return f"mean {value}, {band}" if alone else f"{name}: {value}, {band}"
    if not alone:
        # There is no room for more.
        return f"{name}: {value}"
    words = value if value == smooth else f"{value} (smoothed {smooth})"
    if reading.count == 1:
        return words
    return f"mean of {text.count(reading.count)}: {words}"


class Cursors:
    """Two upright lines, A and B, that can be dragged: what lies between them is told."""

    def __init__(self, canvas: pg.PlotWidget, moved: Callable[[], None]) -> None:
        self._canvas = canvas
        self._moved = moved
        self.lines: list[pg.InfiniteLine] = []

    @property
    def places(self) -> list[float]:
        """Where they stand."""
        return [float(line.value()) for line in self.lines]

    def show(self, places: tuple[float, float] | None) -> None:
        """Stand at two positions of x; None takes them away."""
        if places and self.lines:
            for line, place in zip(self.lines, places, strict=True):
                line.setPos(place)
            return
        for line in self.lines:
            self._canvas.removeItem(line)
        self.lines = []
        for name, place in zip("AB", places or (), strict=False):
            line = pg.InfiniteLine(place, angle=90, movable=True, label=name, labelOpts={"position": 0.94})
            line.setZValue(_ABOVE)
            line.sigDragged.connect(self._moved)
            self._canvas.addItem(line, ignoreBounds=True)
            self.lines.append(line)

    def push(self, number: int, by: float) -> None:
        """Move A (0) or B (1) along x, as by dragging it."""
        self.lines[number].setPos(self.places[number] + by)
        self._moved()

    def words(self, curves: Sequence[DrawnCurve], axis: Axis, reach: float) -> str:
        """Return what lies between them: of x, and of each curve.

        A value that is further than `reach` from its line says where it is.
        """
        if not self.lines:
            return ""
        left, right = self.places
        found = [(one.name, one.series.nearest(left), one.series.nearest(right)) for one in curves]
        known = [(name, first, second) for name, first, second in found if first and second]
        if not known:
            return ""
        # Of several curves those that have a point closest to a line say where it is.
        first = min((one for _, one, _ in known), key=lambda point: abs(point.x - left))
        second = min((one for _, _, one in known), key=lambda point: abs(point.x - right))
        between = abs(second.x - first.x)
        unit = UNITS.get(axis)
        apart = f"{text.count(round(between))} {unit}" if unit else text.duration(between)
        said = [f"A {_places(first, axis)[0]} → B {_places(second, axis)[0]}: {apart}"]
        for name, one, other in known:
            if one.x == other.x:
                said.append(f"{name}: no values there")
                continue
            # Smoothing leaves traces of rounding.
            same = math.isclose(one.smooth, other.smooth, rel_tol=1e-9)
            sign = "+" if same or other.smooth >= one.smooth else "−"
            change = f"{sign}{text.value(0.0 if same else abs(other.smooth - one.smooth))}"
            before = text.value(one.smooth) + _elsewhere(one, first, axis, reach)
            after = text.value(other.smooth) + _elsewhere(other, second, axis, reach)
            said.append(f"{name}: {before} → {after} ({change})")
        return (" · " if len(known) == 1 else "\n").join(said)

    def take_look(self, colours: Colours, font: QFont) -> None:
        """Take on the colours and the font of the theme."""
        for line in self.lines:
            line.setPen(pen(colours.accent, 1))
            line.setHoverPen(pen(colours.accent, 3))
            line.label.setColor(colours.on_accent)
            line.label.fill = pg.mkBrush(colours.accent)
            line.label.setFont(font)


class NumberAxis(pg.AxisItem):  # type: ignore[misc]
    """Ticks such as `200 k` and `1.2 M`, all with the digits that the distance between them needs."""

    y_scale = Scale()

    def take_scale(self, scale: Scale) -> None:
        """Have ticks for another scale."""
        if scale != self.y_scale:
            self.y_scale = scale
            # What was drawn before is kept as long as the range is the same.
            self.picture = None
            self.update()

    def tickValues(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, list[float]]]:
        """Return where ticks are; those of a scale that is not linear are powers of ten."""
        ticks = self.y_scale.ticks(minVal, maxVal)
        if not ticks:
            found: list[tuple[float, list[float]]] = super().tickValues(minVal, maxVal, size)
            return found
        return [(1.0, self.y_scale.place(np.asarray(ticks)).tolist())]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """Return the words at these ticks."""
        if self.y_scale.kind is not ScaleKind.LINEAR:
            told = [self.y_scale.value(value) for value in values]
            return [short_number(value, abs(value), abs(value)) for value in told]
        largest = max((abs(value) * scale for value in values), default=0.0)
        return [short_number(value * scale, spacing * scale, largest) for value in values]


class DurationAxis(NumberAxis):
    """Ticks such as `10 min` and `2 h`."""

    _STEPS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21_600, 43_200)

    def tickSpacing(self, minVal: float, maxVal: float, size: float) -> list[tuple[float, float]]:
        """Return how far ticks are apart."""
        least = (maxVal - minVal) / max(size / 110, 2)
        days = 86_400 * max(math.ceil(least / 86_400), 1)
        return [(next((step for step in self._STEPS if step >= least), days), 0.0)]

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """Return the words at these ticks."""
        return [text.duration(value) if value > 0 else "0" for value in values]


def short_number(value: float, spacing: float, largest: float) -> str:
    """Return a tick's word."""
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if largest >= limit:
            factor = 1e3 if unit == " k" else limit
            break
    else:
        factor, unit = 1.0, ""
    step = abs(spacing) / factor
    if step and step < 1e-4:
        return f"{value / factor:g}{unit}"
    decimals = next((digits for digits in range(5) if math.isclose(round(step, digits), step)), 5)
    return "0" if value == 0 else f"{value / factor:,.{decimals}f}{unit}"


class View(pg.ViewBox):  # type: ignore[misc]
    """The wheel zooms x, with Ctrl y; a drag moves x; over an axis both act on that axis alone.

    Signals:
        moved: The user changed the range of x (0) or y (1).
        reset: The user wants to see everything (double click).
    """

    moved = Signal(int)
    reset = Signal()

    def __init__(self) -> None:
        super().__init__(enableMenu=False)
        self.setMouseEnabled(x=True, y=True)

    def wheelEvent(self, ev: Any, axis: int | None = None) -> None:
        """Zoom."""
        if axis is None:
            axis = 1 if ev.modifiers() & Qt.KeyboardModifier.ControlModifier else 0
        super().wheelEvent(ev, axis)
        self.moved.emit(axis)

    def mouseDragEvent(self, ev: Any, axis: int | None = None) -> None:
        """Move, or with the right button zoom."""
        axis = 0 if axis is None else axis
        super().mouseDragEvent(ev, axis)
        self.moved.emit(axis)

    def mouseDoubleClickEvent(self, ev: Any) -> None:
        """Show everything."""
        ev.accept()
        self.reset.emit()


class Readout(QWidget):
    """The values under the crosshair, a line for each curve: for more than the legend has room for.

    Where a line is too long its name is cut, never its value, nor where that is.

    Attributes:
        lines: Each with the number of its colour, None where it is not of a curve.
    """

    _MOST = 12

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.lines: list[tuple[int | None, str]] = []
        self.hide()

    def show_readings(
        self, readings: Sequence[tuple[DrawnCurve, Reading]], axis: Axis, x_px: int, reach: float
    ) -> None:
        """Stand beside a place of x; a row farther from it than `reach` says where it is."""
        self.show()
        first = readings[0][1]
        by_value = sorted(readings, key=lambda one: -np.nan_to_num(one[1].smooth, nan=-np.inf))
        metrics, room = self.fontMetrics(), self._over.rect()
        beside = 2 * metrics.height()
        lines: list[tuple[int | None, str]] = [(None, _places(first, axis)[0])]
        for curve, one in by_value:
            value, where = f"{text.value(one.smooth)}  ", _elsewhere(one, first, axis, reach)
            left_px = room.width() // 2 - beside - metrics.horizontalAdvance(value + where)
            name = metrics.elidedText(text.plain(curve.name), Qt.TextElideMode.ElideRight, left_px)
            lines.append((curve.colour, f"{value}{name}{where}"))
        if len(lines) > self._MOST:
            lines = [*lines[: self._MOST - 1], (None, f"and {len(lines) - self._MOST + 1} more")]
        self.lines = lines
        widest = max(metrics.horizontalAdvance(words) for _, words in lines) + beside
        self.resize(min(widest, room.width() // 2), len(lines) * metrics.lineSpacing() + 10)
        right = x_px + 12 + self.width() <= room.width()
        self.move(QPoint(x_px + 12 if right else x_px - 12 - self.width(), 6))
        self.raise_()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Write the lines."""
        colours, metrics = colours_of(self), self.fontMetrics()
        with QPainter(self) as painter:
            painter.setPen(QPen(QColor(colours.border), 1))
            painter.setBrush(QColor(colours.card))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
            indent = metrics.height()
            for number, (colour, words) in enumerate(self.lines):
                top = 5 + number * metrics.lineSpacing()
                if colour is not None:
                    middle = top + metrics.lineSpacing() / 2
                    painter.fillRect(QRectF(6, middle - 1.5, indent - 4, 3), QColor(colours.curve(colour)))
                painter.setPen(QColor(colours.muted if colour is None else colours.text))
                left = 6 if colour is None else 6 + indent
                line = metrics.elidedText(words, Qt.TextElideMode.ElideRight, self.width() - left - 4)
                painter.drawText(left, top + metrics.ascent(), line)


class Legend(QWidget):
    """Names of the curves on the left, the reading of the crosshair on the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._parts: list[QWidget] = []
        self._curves: Sequence[DrawnCurve] = ()
        self._moment = Label("checkpoint or resume", self)
        self._moments = [Swatch(None, self), self._moment]
        for part in self._moments:
            part.hide()
        self.setToolTip(
            "Dotted pieces of a curve are what a resume from a checkpoint overwrote.\n"
            "Keys: , and . move the crosshair, Ctrl+C copies its values, "
            "Enter shows which checkpoint is nearest to it."
        )
        self._reading = ElidedLabel("", self)
        self._reading.setProperty("weight", "muted")
        self._reading.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._reading.setAccessibleName("Values under the crosshair")
        margins = (GAP_XS, 0, GAP_XS, 0)
        self._row = row(*self._moments, (self._reading, 1), on=self, margins=margins, gap_px=GAP_S)

    def show_curves(self, curves: Sequence[DrawnCurve]) -> None:
        """Name these curves."""
        for part in self._parts:
            self._row.removeWidget(part)
            part.hide()
            part.deleteLater()
        self._parts = []
        self._curves = curves
        room = sum(self.fontMetrics().horizontalAdvance(one.name) + _SWATCH_PX for one in curves)
        share_px = round(self.width() * _NAMES_SHARE)
        if len(curves) > _NAMED and room > share_px:
            self._parts = [Label(f"{len(curves)} curves", self)]
            self._row.insertWidget(0, self._parts[0])
            return
        for curve in curves:
            label = elided(curve.name, self)
            if room > self.width():
                label.setMaximumWidth(max(share_px // len(curves) - _SWATCH_PX, 0))
            for part in (Swatch(curve.colour, self), label):
                self._row.insertWidget(len(self._parts), part)
                self._parts.append(part)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Name the curves where there is room for that now."""
        super().resizeEvent(event)
        self.show_curves(self._curves)

    def name_marks(self, words: str) -> None:
        """Say what the upright lines are."""
        self._moment.setText(words)

    def has_room(self, words: str, curves: int) -> bool:
        """Return whether all that is read of several curves can stand here."""
        return curves < 2 or (
            curves <= _NAMED and self.fontMetrics().horizontalAdvance(words) <= self._reading.width()
        )

    def show_reading(self, words: str, with_marks: bool) -> None:
        """Say what stands under the crosshair, or else what the upright lines are where there are any."""
        self._reading.setText(words)
        # A reading names the one that is near, and needs the room.
        for part in self._moments:
            part.setVisible(with_marks and not words)


_FADED = 0.5


class StaleOverlay(QWidget):
    """Fades the widget it stands in while what that shows is not the present, and leaves the mouse to it.

    A graphics effect would fade, too, but paints over an old copy of a widget that fills all of itself.
    """

    def __init__(self, faded: QWidget) -> None:
        super().__init__(faded)
        self._faded = faded
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def lay_over(self, on: bool) -> None:
        """Lie over everything, or go away."""
        self.setGeometry(self._faded.rect())
        self.setVisible(on)
        self.raise_()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Fade what lies below."""
        with QPainter(self) as painter:
            painter.fillRect(self.rect().adjusted(2, 2, -2, -2), qcolor(colours_of(self).base, _FADED))
