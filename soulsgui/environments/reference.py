"""An observation that everybody makes for himself in the same way: what a network says of it is compared."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec, ObservationSpec
from soulsgui.frame_stacks import field_of

MOST_OUTPUTS = 64
"""Of so many outputs of a network the first ones are told: they fit into the header of its weights."""

TOLERANCE = 1e-5
"""How far two networks that are the same may differ, relative and absolute."""

_NO_FURTHER = 10.0


def reference_observation(space: ObservationSpec) -> NDArray[Any]:
    """Return a stored observation of a space, `[1, *shape]`: spread over its bounds, at most 10 from 0.

    It comes from a formula and not from chance, whose numbers differ between versions of numpy.
    """
    found = np.zeros((1, *space.shape), space.dtype)
    for name, box in space.fields:
        field_of(found, name)[:] = _spread(box)
    return space.rounded(found)


def _spread(box: BoxSpec) -> NDArray[Any]:
    low, high = (limit.astype(np.float64).reshape(-1) for limit in box.limits)
    # Bounds beyond 10 are cut there, unless the whole space lies beyond.
    least = np.minimum(np.maximum(low, -_NO_FURTHER), high)
    most = np.maximum(np.minimum(high, _NO_FURTHER), low)
    part = (1.0 + np.sin(1.0 + np.arange(box.size))) / 2.0
    flat: NDArray[np.float64] = least + part * (most - least)
    return flat.astype(np.dtype(box.dtype)).reshape(1, *box.shape)


def same_outputs(told: tuple[float, ...], own: NDArray[np.float32]) -> bool:
    """Whether a network says the same as the one on the server.

    Args:
        told: The first outputs of the server's; empty from one that did not tell them yet.
        own: All outputs of the one here.
    """
    first = np.array(told[:MOST_OUTPUTS])
    return len(first) <= len(own) and bool(np.allclose(own[: len(first)], first, TOLERANCE, TOLERANCE))
