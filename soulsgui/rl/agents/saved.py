"""What the saved states of agents have in common: tensors by name, and a check of shapes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.errors import CheckpointError

Arrays = dict[str, NDArray[Any]]


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor out."""
    array: NDArray[Any] = tensor.detach().cpu().numpy().copy()
    return array


def to_tensor(array: NDArray[Any]) -> Tensor:
    """Copy an array in; its scalars and read-only ones too."""
    return torch.from_numpy(np.array(array))


def check_shapes(
    tensors: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], parameters: int
) -> None:
    """Make sure that the tensors of a saved state fit an agent.

    Args:
        tensors: The saved state, with Adam's moments or without.
        shapes: What the agent needs, by name, without Adam's moments.
        parameters: Number of all parameters that Adam moves.

    Raises:
        CheckpointError: A tensor is missing or misshapen.
    """
    needed = dict(shapes)
    if "adam.step" in tensors:
        needed |= {"adam.exp_avg": (parameters,), "adam.exp_avg_sq": (parameters,), "adam.step": ()}
    for name, shape in needed.items():
        if name not in tensors or tensors[name].shape != shape:
            found = tensors[name].shape if name in tensors else "missing"
            raise CheckpointError(
                f"The state does not fit this agent: {name} is {found}, {shape} is needed.",
                "Resume with the network sizes and the environment of the run that saved it.",
            )


def unreadable_counters(error: Exception) -> CheckpointError:
    """Return what is to be raised for counters or a random state that can't be read."""
    return CheckpointError(
        f"The counters and the random state of the agent can't be read: {error!r}.",
        "Resume from an older checkpoint.",
    )
