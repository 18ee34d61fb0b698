"""What lies over the curves of a plot: the moments worth a line, and the crosshair."""

from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt

from soulsgui.gui.colours import Colours, blend
from soulsgui.gui.plotting.drawing import DrawnCurve, pen
from soulsgui.gui.plotting.marks import Mark, mark_at
from soulsgui.gui.plotting.readout import reading_text
from soulsgui.gui.plotting.rows import Axis


class MarkLines(pg.PlotCurveItem):  # type: ignore[misc]
    """Upright lines at moments, all of them one item.

    Attributes:
        marks: The moments.
    """

    def __init__(self) -> None:
        super().__init__(connect="pairs")
        self.marks: Sequence[Mark] = ()

    def draw(self, axis: Axis, low: float, high: float) -> None:
        """Stand between two values of y."""
        x = np.repeat([mark.x(axis) for mark in self.marks], 2).astype(float)
        self.setData(x, np.tile([low, high], len(self.marks)))

    def take_look(self, colours: Colours) -> None:
        """Take on the colours of the theme."""
        self.setPen(pen(blend(colours.edge, colours.base, 0.6), 1, Qt.PenStyle.DashLine))


class Crosshair(pg.InfiniteLine):  # type: ignore[misc]
    """The upright line at which values are read, hidden while nobody points at a row.

    Attributes:
        place: Where on x the user points; None for nowhere.
    """

    def __init__(self) -> None:
        super().__init__(angle=90)
        self.place: float | None = None
        self.hide()

    def read(self, curves: Sequence[DrawnCurve], axis: Axis, marks: Sequence[Mark], reach: float) -> str:
        """Stand at the row nearest to the place, and return the values there; empty without any.

        Args:
            curves: The curves that are read.
            axis: What x means.
            marks: Moments that are named when they are near.
            reach: How near, along x.
        """
        place = self.place
        readings = [] if place is None else [(one.name, one.series.nearest(place)) for one in curves]
        found = [(name, reading) for name, reading in readings if reading is not None]
        self.setVisible(bool(found))
        if place is None or not found:
            return ""
        found.sort(key=lambda one: abs(one[1].x - place))
        self.setPos(found[0][1].x)
        return reading_text(found, axis, mark_at(marks, axis, place, reach), reach)

    def take_look(self, colours: Colours) -> None:
        """Take on the colours of the theme."""
        self.setPen(pen(colours.text, 1, Qt.PenStyle.DashLine))
