"""The rows of one attempt along one axis, ready to be drawn."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from soulsgui.gui.plotting.column import Column, Floats
from soulsgui.gui.plotting.pyramid import MinMaxPyramid, Points
from soulsgui.gui.plotting.rows import Axis, Rows
from soulsgui.gui.plotting.smoothing import Smoother

LATE_S = 5.0
_TAIL_LIMIT = 20_000
# Long histories are taken in pieces, so that the temporary arrays stay small.
_PIECE = 1 << 16


@dataclass(frozen=True)
class Reading:
    """One row, for the crosshair."""

    episode: int
    env_steps: int
    time: float
    value: float
    smooth: float
    x: float


class AttemptCurve:
    """Rows of one attempt, in rising order of x.

    Rows of the last seconds wait in a tail that is sorted anew with each arrival, so that a late one finds
    its place; the older ones are settled: in columns that only grow, with a pyramid for the raw and one for
    the smoothed values.

    Args:
        axis: What x means.
        smoother: Smooths the values; begins where the curve before it was left.
    """

    def __init__(self, axis: Axis, smoother: Smoother) -> None:
        self._axis = axis
        self._columns = {Axis.EPISODE: Column(True), Axis.ENV_STEP: Column(True), Axis.TIME: Column(False)}
        self._value = Floats()
        self._tail = Rows.empty()
        self._smooth_tail = np.empty(0, np.float32)
        self._begin(axis, smoother)

    def _begin(self, axis: Axis, smoother: Smoother) -> None:
        self._axis = axis
        self._smoother = smoother
        self._smooth = Floats()
        self._raw_points = MinMaxPyramid(self._columns[axis], self._value)
        self._smooth_points = MinMaxPyramid(self._columns[axis], self._smooth)

    def __len__(self) -> int:
        return len(self._value) + len(self._tail)

    def append(self, rows: Rows) -> None:
        """Add rows of this attempt; those up to 5 s late (by their own times) are put where they belong."""
        for start in range(0, max(len(rows), 1), _PIECE):
            self._append_piece(rows.where(slice(start, start + _PIECE)))
        self._smooth_tail = self._smoother.copy().extend(self._tail.value)

    def _append_piece(self, rows: Rows) -> None:
        tail = self._tail + rows
        tail = tail.where(np.argsort(tail.axis(self._axis), kind="stable"))
        newest = float(tail.time.max()) if len(tail) else 0.0
        young = np.flatnonzero(tail.time > newest - LATE_S)
        # Everything before the first young row is settled; behind it sorting may still move rows.
        keep_from = int(young[0]) if young.size else len(tail)
        keep_from = max(keep_from, len(tail) - _TAIL_LIMIT)
        self._settle(tail.where(slice(keep_from)))
        # A copy: a slice would hold on to the whole piece.
        self._tail = tail.where(np.arange(keep_from, len(tail)))

    def _settle(self, rows: Rows) -> None:
        if not len(rows):
            return
        for axis, column in self._columns.items():
            x = rows.axis(axis)
            if axis is self._axis:
                # A row later than the tail is long keeps its value and takes the last place.
                x = np.maximum.accumulate(np.maximum(x, column.at(-1)) if len(column) else x)
            column.append(x)
        self._value.append(rows.value)
        self._smooth.append(self._smoother.extend(rows.value))
        self._raw_points.grow()
        self._smooth_points.grow()

    def rebuild(self, axis: Axis, smoother: Smoother) -> None:
        """Show the same rows along another axis or smoothed in another way."""
        column = self._columns[axis]
        if not column.is_rising():
            order = np.argsort(column.slice(0, len(column)), kind="stable")
            for each in self._columns.values():
                each.reorder(order)
            self._value.view[:] = self._value.view[order]
        self._begin(axis, smoother)
        for start in range(0, len(self._value), _PIECE):
            self._smooth.append(smoother.extend(self._value.view[start : start + _PIECE]))
        self._raw_points.grow()
        self._smooth_points.grow()
        self.append(Rows.empty())

    def x_range(self) -> tuple[float, float] | None:
        """Return the first and the last x, None without rows."""
        column, tail = self._columns[self._axis], self._tail.axis(self._axis)
        if not len(self):
            return None
        first = column.at(0) if len(column) else float(tail[0])
        last = float(tail[-1]) if tail.size else column.at(-1)
        return first, max(first, last)

    def points(self, left: float, right: float, width_px: int, smooth: bool) -> Points:
        """Return what to draw of the raw or of the smoothed values.

        Args:
            left: x at the left edge.
            right: x at the right edge, greater than `left`.
            width_px: Pixels between them.
            smooth: Whether the smoothed values are wanted.
        """
        pyramid = self._smooth_points if smooth else self._raw_points
        if not len(self._value):
            x, y = np.empty(0), self._value.view
        else:
            x, y = pyramid.points(left, right, width_px, middle=smooth)
        if not len(self._tail):
            return x, y
        values = self._smooth_tail if smooth else self._tail.value
        tail_x, tail_y = _thin(self._tail.axis(self._axis), values, left, right, width_px)
        return np.concatenate((x, tail_x)), np.concatenate((y, tail_y))

    def x_after_step(self, env_steps: float, default: float) -> float:
        """Return x of the first row beyond a number of environment steps, `default` when there is none."""
        steps = self._columns[Axis.ENV_STEP].slice(0, len(self._value))
        beyond = np.flatnonzero(np.concatenate((steps, self._tail.env_steps)) > env_steps)
        if not beyond.size:
            return default
        x = np.concatenate((self._columns[self._axis].slice(0, steps.size), self._tail.axis(self._axis)))
        return float(x[beyond].min())

    def values_before(self, x: float, count: int) -> NDArray[np.float32]:
        """Return at most `count` values up to a position, in order."""
        settled = self._columns[self._axis].search(x, after_equals=True)
        tail = self._tail.value[self._tail.axis(self._axis) <= x]
        return np.concatenate((self._value.view[max(settled - count, 0) : settled], tail))[-count:]

    def nearest(self, x: float, limit: float) -> Reading | None:
        """Return the row nearest to a position, None when none is at or before `limit`."""
        column, tail = self._columns[self._axis], self._tail.axis(self._axis)
        last = column.search(limit, after_equals=True) - 1
        settled = column.search(x)
        places = {min(place, last) for place in (settled - 1, settled)}
        found = [(abs(column.at(place) - x), place) for place in places if place >= 0]
        near = tail[tail <= limit]
        if near.size:
            place = int(np.argmin(np.abs(near - x)))
            found.append((abs(float(near[place]) - x), len(column) + place))
        return self._reading(min(found)[1]) if found else None

    def _reading(self, index: int) -> Reading:
        columns, tail = self._columns, index - len(self._value)
        if tail < 0:
            return Reading(
                round(columns[Axis.EPISODE].at(index)),
                round(columns[Axis.ENV_STEP].at(index)),
                columns[Axis.TIME].at(index),
                float(self._value.view[index]),
                float(self._smooth.view[index]),
                columns[self._axis].at(index),
            )
        rows = self._tail
        return Reading(
            int(rows.episode[tail]),
            int(rows.env_steps[tail]),
            float(rows.time[tail]),
            float(rows.value[tail]),
            float(self._smooth_tail[tail]),
            float(rows.axis(self._axis)[tail]),
        )


def _thin(x: NDArray[np.float64], y: NDArray[np.float32], left: float, right: float, width_px: int) -> Points:
    """Return the part of a short curve that is seen, at most 2 points per pixel."""
    start = max(int(np.searchsorted(x, left)) - 1, 0)
    stop = int(np.searchsorted(x, right, "right")) + 1
    x, y = x[start:stop], y[start:stop]
    step = -(-x.size // max(2 * width_px, 1))
    if step <= 1:
        return x, y
    firsts = np.arange(0, x.size, 2 * step)
    thin = np.empty(2 * firsts.size, np.float32)
    thin[0::2] = np.fmin.reduceat(y, firsts)
    thin[1::2] = np.fmax.reduceat(y, firsts)
    return np.repeat(x[firsts], 2), thin
