"""Seeing only a part of what an environment shows: what is hidden must be remembered."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from soulsgui.errors import EnvironmentCheckError

Numbers = NDArray[Any]


class ShowOnly(gymnasium.ObservationWrapper[Numbers, Any, Numbers]):
    """Shows some numbers of each observation and hides the others.

    As a wrapper in a configuration: `soulsgui.environments.partial:ShowOnly: {indices: [0, 2]}` leaves of
    CartPole its positions and hides their velocities.

    Raises:
        EnvironmentCheckError: Its observations are no rows of numbers, or have no such places.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], indices: Sequence[int]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, Box) or len(space.shape) != 1:
            raise EnvironmentCheckError(f"Only rows of numbers can be shown in part, not {space}.")
        if not indices or not all(0 <= index < space.shape[0] for index in indices):
            raise EnvironmentCheckError(
                f"An observation of {space.shape[0]} numbers has no places {list(indices)}.",
                f"indices: whole numbers from 0 to {space.shape[0] - 1}, at least one.",
            )
        self._indices = np.array(indices, np.int64)
        low, high = space.low[self._indices], space.high[self._indices]
        self.observation_space = Box(low, high, dtype=space.dtype)

    def observation(self, observation: Numbers) -> Numbers:
        """Return what is shown of an observation."""
        shown: Numbers = observation[self._indices]
        return shown
