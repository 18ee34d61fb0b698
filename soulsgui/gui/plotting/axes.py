"""Axes of a plot whose numbers are short and whose wheel and drag do what one expects."""

import math
from collections.abc import Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal


class NumberAxis(pg.AxisItem):  # type: ignore[misc]
    """Ticks such as `200 k` and `1.2 M`, all with the digits that the distance between them needs."""

    def tickStrings(self, values: Sequence[float], scale: float, spacing: float) -> list[str]:
        """Return the words at these ticks."""
        largest = max((abs(value) * scale for value in values), default=0.0)
        return [short_number(value * scale, spacing * scale, largest) for value in values]


def short_number(value: float, spacing: float, largest: float) -> str:
    """Return a tick's word.

    Args:
        value: The number.
        spacing: Distance to the next tick: decides the decimals.
        largest: Greatest number on the axis: decides the unit, so that all ticks share it.
    """
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
