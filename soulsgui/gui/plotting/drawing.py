"""Puts a series on the canvas: raw one pixel wide and faded, smoothed two wide, overwritten dotted."""

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPen

from soulsgui.gui.colours import Colours
from soulsgui.gui.plotting.pyramid import Points
from soulsgui.gui.plotting.series import Piece, Series


class DrawnCurve:
    """A series with the items it is drawn by: a raw and a smoothed one for each piece.

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
        self._items: list[tuple[pg.PlotCurveItem, pg.PlotCurveItem]] = []

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
        for number, (raw, smooth) in enumerate(self._items):
            piece = pieces[number] if number < len(pieces) else None
            _put(raw, piece.raw if piece and not (piece.overwritten and smooths) else None)
            _put(smooth, piece.smooth if piece and smooths else None)
            if piece:
                self._colour(raw, smooth, piece.overwritten, colours)
        low, high = np.inf, -np.inf
        for piece in pieces:
            low, high = _extend(low, high, piece, left, right)
        return low, high

    def remove(self) -> None:
        """Take it off the canvas."""
        for pair in self._items:
            for item in pair:
                self._canvas.removeItem(item)
        self._items = []

    @property
    def points(self) -> int:
        """How many points it is drawn with."""
        return sum(item.xData.size for pair in self._items for item in pair)

    def _make_items(self, count: int) -> None:
        while len(self._items) < count:
            pair = (pg.PlotCurveItem([], []), pg.PlotCurveItem([], []))
            for depth, item in enumerate(pair):
                item.setZValue(depth)
                self._canvas.addItem(item, ignoreBounds=True)
            self._items.append(pair)

    def _colour(
        self, raw: pg.PlotCurveItem, smooth: pg.PlotCurveItem, overwritten: bool, colours: Colours
    ) -> None:
        full, faded = colours.curve(self.colour), colours.faded_curve(self.colour)
        dots = Qt.PenStyle.DotLine
        raw.setPen(pen(faded if self.series.smooths else full, 1, dots if overwritten else None))
        smooth.setPen(pen(full, 1, dots) if overwritten else pen(full, 2))


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
    item.setData(x, y.astype(np.float64), connect="all" if whole else "finite", skipFiniteCheck=whole)


def _extend(low: float, high: float, piece: Piece, left: float, right: float) -> tuple[float, float]:
    """Return the range of y that also holds what is seen of a piece."""
    for x, y in (piece.raw, piece.smooth):
        seen = y[(x >= left) & (x <= right)]
        if seen.size:
            low, high = float(np.fmin(low, np.fmin.reduce(seen))), float(np.fmax(high, np.fmax.reduce(seen)))
    return low, high
