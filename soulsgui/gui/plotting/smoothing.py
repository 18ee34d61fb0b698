"""Smoothing that never changes what is drawn already: each value depends on earlier ones alone."""

from collections.abc import Callable
from copy import deepcopy
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

_LONGEST_BLOCK = 4096
# Powers of the weight within a block stay above e^-200, far from what float64 can't hold.
_SMALLEST_POWER = -200.0
_PARTS = 20
SHORTEST = 2 * _PARTS
"""Values of the shortest curve that is smoothed at all."""
Values = NDArray[np.float32]


class Smoother(Protocol):
    """Turns a growing series into a smoother one, piece by piece; NaN counts as missing."""

    memory: int
    """Rows after which an old value no longer matters."""

    def extend(self, values: Values) -> Values:
        """Return the smoothed `[N]` values that go on behind those given before."""

    def copy(self) -> Self:
        """Return one with the same memory, which goes on by itself."""


class ExponentialMean:
    """Exponential moving mean with bias correction: the first values are no worse than later ones.

    s_t = Σ w^(t-i) x_i / Σ w^(t-i), over the values that are not missing (Adam, arXiv 1412.6980, section 3).

    Args:
        weight: w, 0 (no smoothing) to below 1.
    """

    def __init__(self, weight: float) -> None:
        self._weight = weight
        self._sum = 0.0
        self._norm = 0.0
        # Below this share of the whole a value can't be seen.
        self.memory = 1 if weight <= 0 else max(1, int(np.ceil(np.log(1e-3) / np.log(weight))))

    def extend(self, values: Values) -> Values:
        """Return the smoothed `[N]` values that go on behind those given before."""
        if self._weight <= 0:
            return values.copy()
        known = np.isfinite(values)
        filled = np.where(known, values, 0.0).astype(np.float64)
        sums, self._sum = _recursion(filled, self._weight, self._sum)
        norms, self._norm = _recursion(known.astype(np.float64), self._weight, self._norm)
        with np.errstate(invalid="ignore", divide="ignore"):
            smooth = sums / norms
        smooth[~known] = np.nan
        return smooth.astype(np.float32)

    def copy(self) -> Self:
        """Return one with the same memory, which goes on by itself."""
        return deepcopy(self)


MakeSmoother = Callable[[int], Smoother]
"""Makes a fresh smoother for a curve of so many values."""


def fitting_mean(weight: float) -> MakeSmoother:
    """Return what makes exponential means of a weight that leave the shape of short curves.

    Args:
        weight: w for a long curve, 0 (no smoothing) to below 1.
    """
    return lambda count: ExponentialMean(fitting_weight(weight, count))


def fitting_weight(weight: float, count: int) -> float:
    """Return the weight that suits a curve: a mean over most of its values would be nearly straight.

    A mean with the weight w is one over about 1 / (1 - w) values: here over a twentieth of the curve at most,
    and below `SHORTEST` over none. The limit doubles whenever the curve does: what is drawn already changes
    seldom.

    Args:
        weight: w for a long curve, 0 to below 1.
        count: Values on the curve.
    """
    longest = 1 << max((count // _PARTS).bit_length() - 1, 0)
    return min(weight, 1.0 - 1.0 / longest)


def _recursion(values: NDArray[np.float64], weight: float, carry: float) -> tuple[NDArray[np.float64], float]:
    """Return s_t = weight · s_{t-1} + x_t for all t, and the last one.

    Within a block s_t / weight^t is a plain running sum; only the carry goes from block to block.
    """
    count = values.size
    if count == 0:
        return values, carry
    size = min(_LONGEST_BLOCK, count, max(1, int(_SMALLEST_POWER / np.log(weight))))
    padded = np.zeros(-(-count // size) * size)
    padded[:count] = values
    powers = weight ** np.arange(1, size + 1)
    sums = np.cumsum(padded.reshape(-1, size) / powers, axis=1) * powers
    for row in sums:
        row += powers * carry
        carry = float(row[-1])
    flat = sums.reshape(-1)[:count]
    return flat, float(flat[-1])
