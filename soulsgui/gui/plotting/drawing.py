"""Puts a series on the canvas: raw one pixel wide and faded, smoothed two wide, overwritten dotted.

Values that count by themselves are marked, as long as there is room between them.
"""

from typing import NamedTuple

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPen

from soulsgui.gui.colours import Colours
from soulsgui.gui.plotting.attempt import Points
from soulsgui.gui.plotting.series import Piece, Series

_DOT_PX = 6
# Nearer to each other they would be a band.
_DOT_ROOM_PX = 8


class _Items(NamedTuple):
    """What a piece is drawn by."""

    raw: pg.PlotCurveItem
    smooth: pg.PlotCurveItem
    dots: pg.ScatterPlotItem


class DrawnCurve:
    """A series with the items it is drawn by, for each piece.

    Args:
        canvas: Where it is drawn.
        series: What is drawn.
        name: Its name on screen.
        colour: Number of its colour.
    """

    def __init__(self, canvas: pg.PlotWidget, series: Series, name: str, colour: int) -> None:
        self.series = series
        self.name = name
        self.colour = colour
        self._canvas = canvas
        self._items: list[_Items] = []

    def draw(self, left: float, right: float, width_px: int, colours: Colours) -> tuple[float, float]:
        """Draw what is between two positions of x.

        Args:
            left: x at the left edge.
            right: x at the right edge.
            width_px: Pixels between them.
            colours: Colours of the theme.

        Returns:
            Least and greatest value in view; infinity and minus infinity when there is none.
        """
        pieces = list(self.series.pieces(left, right, width_px))
        self._make_items(len(pieces))
        smooths = self.series.smooths
        dotted = self.series.of_measurements
        for number, items in enumerate(self._items):
            piece = pieces[number] if number < len(pieces) else None
            _put(items.raw, piece.raw if piece and not (piece.overwritten and smooths) else None)
            _put(items.smooth, piece.smooth if piece and smooths else None)
            has_room = piece is not None and piece.raw[0].size <= max(width_px // _DOT_ROOM_PX, 1)
            _put_dots(items.dots, piece.raw if piece and dotted and has_room else None)
            if piece:
                self._colour(items, piece.overwritten, colours)
        low, high = np.inf, -np.inf
        for piece in pieces:
            low, high = _extend(low, high, piece, left, right)
        return low, high

    def remove(self) -> None:
        """Take it off the canvas."""
        for items in self._items:
            for item in items:
                self._canvas.removeItem(item)
        self._items = []

    @property
    def points(self) -> int:
        """How many points it is drawn with."""
        return sum(item.xData.size for items in self._items for item in (items.raw, items.smooth))

    @property
    def dots(self) -> int:
        """How many of its values are marked."""
        return sum(len(items.dots.points()) for items in self._items)

    def _make_items(self, count: int) -> None:
        while len(self._items) < count:
            dots = pg.ScatterPlotItem(size=_DOT_PX, pen=None)
            items = _Items(pg.PlotCurveItem([], []), pg.PlotCurveItem([], []), dots)
            for depth, item in enumerate(items):
                item.setZValue(depth)
                self._canvas.addItem(item, ignoreBounds=True)
            self._items.append(items)

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


def pen(colour: str, width: int, style: Qt.PenStyle | None = None) -> QPen:
    """Return a pen whose width is in pixels at any zoom."""
    made = QPen(QColor(colour), width)
    made.setCosmetic(True)
    if style is not None:
        made.setStyle(style)
    if style is Qt.PenStyle.DotLine:
        made.setDashPattern([2, 3])
    return made


def _put(item: pg.PlotCurveItem, points: Points | None) -> None:
    if points is None or points[0].size == 0:
        item.setData([], [])
        return
    x, y = points
    whole = bool(np.isfinite(y).all())
    item.setData(x, y, connect="all" if whole else "finite", skipFiniteCheck=whole)


def _put_dots(item: pg.ScatterPlotItem, points: Points | None) -> None:
    if points is None or points[0].size == 0:
        item.setData([], [])
        return
    x, y = points
    known = np.isfinite(y)
    item.setData(x[known], y[known])


def _extend(low: float, high: float, piece: Piece, left: float, right: float) -> tuple[float, float]:
    """Return the range of y that also holds what is seen of a piece."""
    for x, y in (piece.raw, piece.smooth):
        seen = y[(x >= left) & (x <= right)]
        if seen.size:
            low, high = float(np.fmin(low, np.fmin.reduce(seen))), float(np.fmax(high, np.fmax.reduce(seen)))
    return low, high
