"""What y is drawn as: itself, its logarithm, or symmetrically around zero, with ticks that can be read."""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
_MOST_DECADES = 7
_LARGEST = 1e307  # of a place that has a value: powers of ten go little beyond


class ScaleKind(StrEnum):
    """How y is drawn."""

    LINEAR = "linear"
    LOG = "log"
    SYMLOG = "symlog"


@dataclass(frozen=True)
class Scale:
    """From values to places in the picture and back.

    LOG is log10(y), and nothing where y is not above 0. SYMLOG is sign(y) log10(1 + |y| / unit): nearly
    linear below the unit, logarithmic beyond it (Webber, A bi-symmetric log transformation, 2013).
    """

    kind: ScaleKind = ScaleKind.LINEAR
    unit: float = 1.0

    @classmethod
    def for_values(cls, kind: ScaleKind, largest: float) -> "Scale":
        """Return the scale for values up to a size: symlog is linear below a thousandth of it."""
        if kind is not ScaleKind.SYMLOG or not largest:
            return cls(kind)
        return cls(kind, 10.0 ** (math.floor(math.log10(largest)) - 2))

    def place(self, y: Values) -> Values:
        """Return where values are drawn, NaN where they can't be."""
        match self.kind:
            case ScaleKind.LINEAR:
                return y
            case ScaleKind.LOG:
                return np.log10(y, out=np.full_like(y, np.nan), where=y > 0)
            case ScaleKind.SYMLOG:
                return np.sign(y) * np.log10(1.0 + np.abs(y) / self.unit)

    def value(self, place: float) -> float:
        """Return what is drawn at a place."""
        match self.kind:
            case ScaleKind.LINEAR:
                return place
            case ScaleKind.LOG:
                return float(10.0 ** min(place, 300.0))
            case ScaleKind.SYMLOG:
                size = self.unit * (10.0 ** min(abs(place), 300.0) - 1.0)
                return math.copysign(min(size, _LARGEST), place)

    def ticks(self, low: float, high: float) -> list[float]:
        """Return the values that have a tick between two places, rising; of a linear scale none."""
        if self.kind is ScaleKind.LINEAR or not low < high:
            return []
        least, most = self.value(low), self.value(high)
        if self.kind is ScaleKind.LOG:
            return _decades(least, most)
        above = _decades(max(least, self.unit), most)
        below = [-tick for tick in reversed(_decades(max(-most, self.unit), -least))]
        return [*below, *([0.0] if least <= 0.0 <= most else []), *above]


def _decades(low: float, high: float) -> list[float]:
    """Return powers of ten between two values, some left out of many; of few also 2 and 5 times them."""
    if not 0.0 < low < high:
        return []
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = -(-(last - first) // _MOST_DECADES) or 1
    factors = (1.0, 2.0, 5.0) if last - first <= 2 else (1.0,)
    found = [factor * 10.0**power for power in range(first, last + 1, step) for factor in factors]
    return [tick for tick in found if low <= tick <= high]
