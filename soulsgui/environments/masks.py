"""Which actions are valid at an observation: `info["action_mask"]`, as Gymnasium's environments tell it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import EnvironmentCheckError

Mask = NDArray[np.bool_]
KEY = "action_mask"


def gives_masks(info: Mapping[str, Any]) -> bool:
    """Return whether an environment tells which actions are valid, by the info of its reset."""
    return KEY in info


def action_left(masks: Mask, sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Say which masks `[N, A]` leave an action in each choice, `[N]`.

    Args:
        masks: Choice after choice.
        sizes: Number of actions of each choice.
    """
    if len(sizes) == 1:
        left: NDArray[np.bool_] = np.logical_or.reduce(masks, axis=1)
        return left
    starts = np.cumsum([0, *sizes[:-1]])
    each: NDArray[np.bool_] = np.logical_and.reduce(np.logical_or.reduceat(masks, starts, axis=1), axis=1)
    return each


def read_mask(value: Any, actions: int) -> Mask:
    """Return one mask, `[A]`.

    Args:
        value: What stands in an info: a number or truth value for each action, 0 where it is not valid. Of
            several choices one after the other, or a sequence with an array for each.
        actions: Number of actions of all choices, `A`.

    Raises:
        EnvironmentCheckError: It has not one entry for each action.
    """
    if isinstance(value, Sequence) and len(value) > 1 and all(np.ndim(part) == 1 for part in value):
        value = np.concatenate([np.asarray(part) for part in value])
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
