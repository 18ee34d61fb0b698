"""Keeping observations within their space: the server refuses what lies outside."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec


class Bounds:
    """Moves values outside the bounds of a space onto them; unbounded spaces pass as they are.

    Args:
        space: The space of one observation.

    Attributes:
        bounded: Whether there is anything to move.
    """

    def __init__(self, space: BoxSpec) -> None:
        self.bounded = space.low is not None or space.high is not None
        self._low, self._high = space.limits

    def __call__(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return observations `[N, *shape]` within their bounds."""
        if not self.bounded:
            return obs
        # Twice as fast as `numpy.clip` where there are few.
        within: NDArray[Any] = np.minimum(np.maximum(obs, self._low), self._high)
        return within
