"""What the saved states of agents have in common: tensors by name, Adam's moments, and a check of shapes."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.errors import CheckpointError

Arrays = dict[str, NDArray[Any]]
_ADAM = ("exp_avg", "exp_avg_sq", "step")


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Copy a tensor out."""
    array: NDArray[Any] = tensor.detach().cpu().numpy().copy()
    return array


def to_tensor(array: NDArray[Any]) -> Tensor:
    """Copy an array in; its scalars and read-only ones too."""
    return torch.from_numpy(np.array(array))


def adam_arrays(optimiser: torch.optim.Adam, parameter: Tensor) -> Arrays:
    """Return the moments of one parameter as `adam.NAME`; nothing before the first step."""
    state = optimiser.state.get(parameter, {})
    return {f"adam.{name}": to_numpy(state[name]) for name in _ADAM if state}


def load_adam(optimiser: torch.optim.Adam, parameter: Tensor, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Give an optimiser of one parameter the moments that `adam_arrays` returned."""
    optimiser.state.clear()
    if "adam.step" in tensors:
        optimiser.state[parameter] = {
            name: to_tensor(tensors[f"adam.{name}"]).to(parameter.device) for name in _ADAM
        }


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
