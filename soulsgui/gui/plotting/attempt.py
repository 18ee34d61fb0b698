"""The rows of one attempt along one axis, ready to be drawn."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from soulsgui.gui.plotting.rows import Axis, Rows

Points = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Reading:
    """One row, for the crosshair; `count` says how many it stands for."""

    episode: int
    env_steps: int
    time: float
    value: float
    smooth: float
    x: float
    count: int = 1


class AttemptCurve:
    """Rows of one attempt, in rising order of x.

    Args:
        rows: The rows.
        axis: What x means.
        smooth: The smoothed values.
    """

    def __init__(self, rows: Rows, axis: Axis, smooth: NDArray[np.float64]) -> None:
        self._rows = rows
        self._x = rows.axis(axis)
        self._smooth = smooth

    @property
    def x_range(self) -> tuple[float, float]:
        """The first and the last x."""
        return float(self._x[0]), float(self._x[-1])

    def is_coarse(self, left: float, right: float) -> bool:
        """Whether one between two positions stands for several rows."""
        return bool((self._rows.count[self._seen(left, right)] > 1).any())

    def _seen(self, left: float, right: float) -> slice:
        """Return which rows are between two positions, with one beyond each edge."""
        start = int(np.searchsorted(self._x, left)) - 1
        return slice(max(start, 0), int(np.searchsorted(self._x, right, "right")) + 1)

    def points(self, left: float, right: float, width_px: int, smooth: bool) -> Points:
        """Return what to draw of the raw or of the smoothed values: at most 2 points per pixel.

        Args:
            left: x at the left edge.
            right: x at the right edge, greater than `left`.
            width_px: Pixels between them.
            smooth: Whether the smoothed values are wanted.

        Returns:
            x and y `[N]` float64.
        """
        seen = self._seen(left, right)
        x, low, high = self._x[seen], self._rows.low[seen], self._rows.high[seen]
        if smooth:
            low = high = self._smooth[seen]
        single = smooth or np.array_equal(low, high, equal_nan=True)
        if x.size > (2 if single else 1) * width_px:
            pixel = ((x - left) * (width_px / (right - left))).astype(np.int64)
            firsts = np.flatnonzero(np.diff(pixel, prepend=pixel[0] - 1))
            single = False
            x, low, high = x[firsts], np.fmin.reduceat(low, firsts), np.fmax.reduceat(high, firsts)
        if smooth:
            # The middle is enough for a smooth curve, and half the work to paint.
            return x, (low + high) / 2
        return (x, low) if single else (np.repeat(x, 2), np.stack((low, high), axis=1).ravel())

    def x_after_step(self, env_steps: float, default: float) -> float:
        """Return x of the first row beyond a number of environment steps, `default` when there is none."""
        return float(self._x[self._rows.env_steps > env_steps].min(initial=default))

    def before(self, x: float, count: int) -> Rows:
        """Return at most `count` rows up to a position, in order."""
        stop = int(np.searchsorted(self._x, x, "right"))
        return self._rows.where(slice(max(stop - count, 0), stop))

    def nearest(self, x: float, limit: float) -> Reading | None:
        """Return the row nearest to a position, None when none is at or before `limit`."""
        stop = int(np.searchsorted(self._x, limit, "right"))
        if not stop:
            return None
        place = int(np.argmin(np.abs(self._x[:stop] - x)))
        rows = self._rows
        return Reading(
            int(rows.episode[place]),
            int(rows.env_steps[place]),
            float(rows.time[place]),
            float(rows.value[place]),
            float(self._smooth[place]),
            float(self._x[place]),
            int(rows.count[place]),
        )
