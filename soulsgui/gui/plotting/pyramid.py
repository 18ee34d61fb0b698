"""Draws ten million points as fast as a thousand: least and greatest value per pixel, at any zoom.

The pyramid keeps, for blocks of 16, 32, 64 … rows, the least and greatest value and the first x. A zoom
reads the level that has a few blocks per pixel and joins the blocks of each pixel; new rows complete blocks
at the end.
"""

import numpy as np
from numpy.typing import NDArray

from soulsgui.gui.plotting.column import Column, Floats, with_room

_BASE = 16
# So many blocks are read per pixel at most: regions with fewer rows than the average keep their resolution.
_BLOCKS_PER_PIXEL = 8

# Views of very uneven density are cut in halves so many times.
_HALVINGS = 6

_Blocks = tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.float32]]
Points = tuple[NDArray[np.float64], NDArray[np.float32]]


class _Level:
    """Blocks of one size: first x, least and greatest value of each."""

    def __init__(self) -> None:
        self.size = 0
        self._x: NDArray[np.float64] = np.empty(64, np.float64)
        self._low: NDArray[np.float32] = np.empty(64, np.float32)
        self._high: NDArray[np.float32] = np.empty(64, np.float32)

    def append(self, x: NDArray[np.float64], low: NDArray[np.float32], high: NDArray[np.float32]) -> None:
        end = self.size + x.size
        self._x, self._low, self._high = (with_room(part, end) for part in (self._x, self._low, self._high))
        self._x[self.size : end] = x
        self._low[self.size : end] = low
        self._high[self.size : end] = high
        self.size = end

    def blocks(self, start: int, stop: int) -> _Blocks:
        return self._x[start:stop], self._low[start:stop], self._high[start:stop]


class MinMaxPyramid:
    """Answers which points to draw for a range of x and a width in pixels.

    Args:
        x: Positions in rising order.
        y: Values; NaN is a gap.
    """

    def __init__(self, x: Column, y: Floats) -> None:
        self._x = x
        self._y = y
        self._levels: list[_Level] = []

    def grow(self) -> None:
        """Take in what was appended to x and y since the last call."""
        rows = len(self._y) // _BASE
        if rows and not self._levels:
            self._levels.append(_Level())
        if not self._levels or rows == self._levels[0].size:
            return
        first = self._levels[0].size * _BASE
        values = self._y.view[first : rows * _BASE].reshape(-1, _BASE)
        x = self._x.slice(first, rows * _BASE, _BASE)
        self._levels[0].append(x, np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1))
        self._grow_above(0)

    def _grow_above(self, number: int) -> None:
        below = self._levels[number]
        pairs = below.size // 2
        if pairs and number + 1 == len(self._levels):
            self._levels.append(_Level())
        if number + 1 == len(self._levels) or pairs == self._levels[number + 1].size:
            return
        above = self._levels[number + 1]
        x, low, high = below.blocks(2 * above.size, 2 * pairs)
        above.append(x[::2], np.fmin(low[::2], low[1::2]), np.fmax(high[::2], high[1::2]))
        self._grow_above(number + 1)

    def points(self, left: float, right: float, width_px: int, middle: bool = False) -> Points:
        """Return what to draw: at most 2 points per pixel, and one beyond each edge.

        Args:
            left: x at the left edge.
            right: x at the right edge, greater than `left`.
            width_px: Pixels between them.
            middle: Whether a pixel with many rows becomes the middle of its extremes instead of both:
                enough for a smooth curve, and half the work to paint.

        Returns:
            x `[N]` float64 and y `[N]` float32.
        """
        start = max(self._x.search(left) - 1, 0)
        stop = min(self._x.search(right, after_equals=True) + 1, len(self._y))
        if stop - start <= 2 * width_px:
            return self._x.slice(start, stop), self._y.view[start:stop]
        parts = self._refined(start, stop, left, right, width_px, _HALVINGS)
        x, low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
        return _join(x, low, high, left, width_px / (right - left), middle)

    def _refined(
        self, start: int, stop: int, left: float, right: float, width_px: float, halvings: int
    ) -> list[_Blocks]:
        """Return the blocks of these rows; where some are wider than pixels, each half picks its own size."""
        blocks, size = self._blocks(start, stop, _BLOCKS_PER_PIXEL * width_px)
        x = blocks[0]
        if size == 1 or not halvings or np.diff(x).max(initial=0.0) <= 2 * (right - left) / width_px:
            return [blocks]
        middle = (left + right) / 2
        cut = min(max(self._x.search(middle), start), stop)
        halves = [(start, cut, left, middle), (cut, stop, middle, right)]
        return [
            part
            for first, last, begin, end in halves
            if last > first
            for part in self._refined(first, last, begin, end, width_px / 2, halvings - 1)
        ]

    def _blocks(self, start: int, stop: int, limit: float) -> tuple[_Blocks, int]:
        """Return at most about `limit` blocks that cover these rows, and the rows in each."""
        y = self._y.view
        number, size = -1, 1
        while (stop - start) / size > limit and number + 1 < len(self._levels):
            number += 1
            size = _BASE << number
        if number < 0:
            part = y[start:stop]
            return (self._x.slice(start, stop), part, part), 1
        x, low, high = self._levels[number].blocks(start // size, stop // size)
        rest = y[max(stop // size * size, start) : stop]
        if rest.size:
            x = np.append(x, self._x.at(stop - rest.size))
            low = np.append(low, np.fmin.reduce(rest))
            high = np.append(high, np.fmax.reduce(rest))
        # The first block may begin before the first row.
        return (np.maximum(x, self._x.at(start)), low, high), size


def _join(
    x: NDArray[np.float64],
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    left: float,
    px_per_x: float,
    middle: bool,
) -> Points:
    """Join the blocks that begin in the same pixel; each becomes its extremes or the middle between them."""
    pixel = ((x - left) * px_per_x).astype(np.int64)
    firsts = np.flatnonzero(pixel[1:] != pixel[:-1]) + 1
    firsts = np.concatenate(([0], firsts))
    least, most = np.fmin.reduceat(low, firsts), np.fmax.reduceat(high, firsts)
    if middle:
        return x[firsts], np.asarray((least + most) / 2, np.float32)
    y = np.empty(2 * firsts.size, np.float32)
    y[0::2] = least
    y[1::2] = most
    return np.repeat(x[firsts], 2), y
