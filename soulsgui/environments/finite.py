"""Numbers of an environment that can be computed with: the server refuses samples with others."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec, ObservationSpec
from soulsgui.errors import EnvironmentCheckError
from soulsgui.frame_stacks import field_of

LARGEST = 1e15
"""Largest magnitude of rewards, observations and actions: the square of a larger one may leave the range of
float32, and with it the statistics of the normaliser."""

_LARGEST = np.float64(LARGEST)  # which float16 can't hold
_WORDS = f"finite and at most {LARGEST:g} in magnitude"


def check_rewards(reward: NDArray[np.float32]) -> None:
    """Make sure that rewards `[N]` can be learned from.

    Raises:
        EnvironmentCheckError: One can't.
    """
    # The sum of squares is quick, and within this only if each is; it is NaN where one is.
    if float(np.vdot(reward, reward)) <= LARGEST**2:
        return
    bad = reward[~(np.abs(reward) <= LARGEST)]
    if len(bad):
        raise EnvironmentCheckError(
            f"It gave the reward {bad[0]:g} (as float32).",
            f"Rewards should be {_WORDS}: mend the environment, or scale them by a wrapper.",
        )


class ObservationCheck:
    """Finds observations that nobody can learn from.

    What lies outside the bounds of its space is no error here, since it is moved onto them
    (`sampling.rollout.Bounds`); what is no number, or too large where there are no such bounds, is one.

    Args:
        space: The space of one observation.
    """

    def __init__(self, space: ObservationSpec) -> None:
        self._fields = [
            (name, _unlimited(box)) for name, box in space.fields if np.dtype(box.dtype).kind == "f"
        ]

    def __call__(self, obs: NDArray[Any]) -> None:
        """Look at observations `[N, *shape]`.

        Raises:
            EnvironmentCheckError: One can't be used.
        """
        for name, (no_least, no_largest) in self._fields:
            numbers = field_of(obs, name)
            if float(np.vdot(numbers, numbers)) <= LARGEST**2:
                continue
            too_small, too_large = numbers < -_LARGEST, numbers > _LARGEST
            bad = np.isnan(numbers) | (too_small & no_least) | (too_large & no_largest)
            if bad.any():
                raise EnvironmentCheckError(
                    f"It showed {numbers[bad][0]:g} in an observation.",
                    f"Numbers should be {_WORDS}: mend the environment, or limit them by a wrapper.",
                )


def _unlimited(box: BoxSpec) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Say where no value is moved onto a bound that can be computed with, at the low and the high end."""
    low, high = (np.abs(limit.astype(np.float64)) > LARGEST for limit in box.limits)
    everywhere = box.low is None and box.high is None
    return low | everywhere, high | everywhere
