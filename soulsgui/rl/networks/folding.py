"""Networks as the plain layers that a client runs in numpy.

Whatever a dueling head, noise and a mean over quantiles do to the last numbers is linear, and so is part of
the last layer: `Q = V + A - mean A` of two streams is one layer behind the hidden units of both.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.networks.heads import ActionHead, Stream
from soulsgui.rl.networks.noisy import NoisyLinear
from soulsgui.rl.networks.torso import Torso

Arrays = dict[str, NDArray[np.float32]]
_Layer = tuple[NDArray[np.float64], NDArray[np.float64]]


class HeadedNetwork(Protocol):
    """A torso with a head for each action."""

    torso: Torso
    head: ActionHead


def folded(network: HeadedNetwork, mean: bool) -> Arrays:
    """Return torso and head as `policy.N.weight` and `policy.N.bias`, float32.

    Args:
        network: Of linear layers with activations between them.
        mean: Return an output for each action, the mean over its atoms; otherwise one for each action and
            atom, those of an action side by side.
    """
    return named([*torso_layers(network.torso), *head_layers(network.head, mean)], "policy")


def named(layers: list[_Layer], prefix: str) -> Arrays:
    """Name layers by their place, as float32."""
    arrays: Arrays = {}
    for index, (weight, bias) in enumerate(layers):
        arrays[f"{prefix}.{index}.weight"] = weight.astype(np.float32)
        arrays[f"{prefix}.{index}.bias"] = bias.astype(np.float32)
    return arrays


def torso_layers(torso: Torso) -> list[_Layer]:
    """Return the linear layers of a torso."""
    return [plain(layer) for layer in torso.layers if isinstance(layer, nn.Linear)]


def head_layers(head: ActionHead, mean: bool) -> list[_Layer]:
    """Return a head as one layer, or as two where its streams have hidden ones."""
    advantage, value = _stream(head.advantage), None if head.value is None else _stream(head.value)
    weight, bias = advantage[-1]
    shape = -1, head.atoms
    weight, bias = weight.reshape(*shape, weight.shape[1]), bias.reshape(shape)
    hidden = advantage[:-1]
    if value is not None:
        weight, bias = weight - weight.mean(0), bias - bias.mean(0) + value[-1][1]
        of_value = np.broadcast_to(value[-1][0], (len(weight), *value[-1][0].shape))
        weight = np.concatenate((weight, of_value), axis=2) if hidden else weight + of_value
        hidden = [
            (np.concatenate((one[0], other[0])), np.concatenate((one[1], other[1])))
            for one, other in zip(hidden, value[:-1], strict=True)
        ]
    if mean:
        return [*hidden, (weight.mean(1), bias.mean(1))]
    return [*hidden, (weight.reshape(-1, weight.shape[2]), bias.reshape(-1))]


def plain(layer: nn.Module) -> _Layer:
    """Return weight and bias of a linear layer, of a noisy one with its present noise, float64.

    Raises:
        TypeError: It is no linear layer.
    """
    if isinstance(layer, NoisyLinear):
        weight, bias = layer.plain()
    elif isinstance(layer, nn.Linear):
        weight, bias = layer.weight, layer.bias
    else:
        raise TypeError(f"{type(layer).__name__} is no linear layer")
    return _double(weight), _double(bias)


def _stream(stream: Stream) -> list[_Layer]:
    return [plain(layer) for layer in stream if isinstance(layer, nn.Linear | NoisyLinear)]


def _double(tensor: Tensor) -> NDArray[np.float64]:
    array: NDArray[np.float64] = tensor.detach().cpu().double().numpy()
    return array
