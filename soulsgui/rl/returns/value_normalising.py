"""Values in deviations from the mean of all value targets so far (arXiv 2006.05990, section 3.3).

Without the correction of the network's last layer that PopArt makes (arXiv 1602.07714): when the statistics
move, so do the values, the less the longer a run lasts.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.normalise import RunningNormaliser

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]

_LEAST_STD = 1e-6


class ValueNormaliser:
    """Turns what the value network says into values, and value targets into what it is to say.

    With mean m and deviation s of all targets: `value = m + s * output`. Before the first targets the value
    is the output.
    """

    def __init__(self) -> None:
        self._statistics = RunningNormaliser(1, math.inf)

    @property
    def mean(self) -> float:
        """Mean of all targets."""
        return float(self._statistics.mean[0])

    @property
    def std(self) -> float:
        """Standard deviation of all targets, at least 1e-6."""
        return max(math.sqrt(float(self._statistics.var[0])), _LEAST_STD)

    def update(self, targets: NDArray[Any]) -> None:
        """Take value targets `[N]` into the statistics."""
        self._statistics.update(targets[:, None])

    def values(self, outputs: NDArray[Any]) -> Doubles:
        """Return the values `[N]` of the network's outputs `[N]`."""
        values: Doubles = outputs.astype(np.float64) * self.std + self.mean
        return values

    def outputs(self, values: NDArray[Any]) -> Floats:
        """Return what the network says, or is to say, `[N]`, where the values are `[N]`."""
        return ((values - self.mean) / self.std).astype(np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that a bit-equal continuation needs."""
        return self._statistics.state()

    def load(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned."""
        self._statistics.load(state)
