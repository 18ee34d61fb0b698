"""Which actions are valid at an observation: `info["action_mask"]`, as Gymnasium's environments tell it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import EnvironmentCheckError

Mask = NDArray[np.bool_]
KEY = "action_mask"


def gives_masks(info: Mapping[str, Any]) -> bool:
    """Return whether an environment tells which actions are valid, by the info of its reset."""
    return KEY in info


def read_mask(value: Any, actions: int) -> Mask:
    """Return one mask, `[A]`.

    Args:
        value: What stands in an info: a number or truth value for each action, 0 where it is not valid.
        actions: Number of actions, `A`.

    Raises:
        EnvironmentCheckError: It has not one entry for each action.
    """
    mask = np.asarray(value)
    if mask.shape != (actions,) or mask.dtype.kind not in "biuf":
        raise EnvironmentCheckError(
            f"An action mask has shape {mask.shape} and dtype {mask.dtype}; there are {actions} actions.",
            "The environment must put one 0 or 1 for each action into info['action_mask'].",
        )
    return mask.astype(np.bool_)


def read_masks(info: Mapping[str, Any], num_envs: int, actions: int) -> Mask:
    """Return the masks `[N, A]` in the info of a vector environment.

    Where an environment tells nothing, all actions are valid.

    Raises:
        EnvironmentCheckError: As `read_mask`.
    """
    masks = np.ones((num_envs, actions), np.bool_)
    told = info.get(KEY)
    if told is None:
        return masks
    said = info.get(f"_{KEY}", masks[:, 0])
    for env in np.flatnonzero(said):
        masks[env] = read_mask(told[env], actions)
    return masks
