"""Forward and backward pass of a torso with a head for each action, on the CPU, written out in numpy."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from soulsgui.rl.gradients.mlp_by_hand import HandMLP
from soulsgui.rl.networks.folding import HeadedNetwork

Floats = NDArray[np.float32]


class HandNetwork(Protocol):
    """A network whose gradient is taken by hand."""

    def forward(self, inputs: Floats) -> Floats:
        """Run the network on `[B, size]`; what is returned is overwritten by the next call."""

    def backward(self, inputs: Floats, gradient: Floats) -> object:
        """Write the parameters' gradients, from the one by what `forward` returned last for `inputs`."""


class HandHeaded:
    """A torso and a head (`ActionHead`), on the parameters and gradients of torch networks on the CPU.

    Args:
        network: Of linear layers, with noise or without; the gradients exist (`FlatParameters`).
    """

    def __init__(self, network: HeadedNetwork) -> None:
        layers = network.torso.layers
        self._torso = HandMLP(layers) if any(isinstance(layer, nn.Linear) for layer in layers) else None
        self._advantage = HandMLP(network.head.advantage)
        self._value = None if network.head.value is None else HandMLP(network.head.value)
        self._atoms = network.head.atoms
        self._features: Floats = np.zeros((0, 0), np.float32)

    def forward(self, inputs: Floats) -> Floats:
        """Run the network on `[B, size]`: `[B, actions, atoms]`."""
        self._features = inputs if self._torso is None else self._torso.forward(inputs)
        rows = self._advantage.forward(self._features)
        outputs: Floats = rows.reshape(len(inputs), -1, self._atoms)
        if self._value is None:
            return outputs
        outputs = outputs - outputs.mean(1, keepdims=True)
        outputs += self._value.forward(self._features)[:, None]
        return outputs

    def backward(self, inputs: Floats, gradient: Floats) -> None:
        """Write the parameters' gradients, from the one by the outputs `[B, actions, atoms]`."""
        further = self._torso is not None
        by_advantage = gradient
        by_value: Floats | None = None
        if self._value is not None:
            total = np.add.reduce(gradient, axis=1)
            by_advantage = gradient - total[:, None] / np.float32(gradient.shape[1])
            by_value = self._value.backward(self._features, total, further)
        rows = by_advantage.reshape(len(inputs), -1)
        by_features = self._advantage.backward(self._features, rows, further)
        if self._torso is None or by_features is None:
            return
        if by_value is not None:
            by_features += by_value
        self._torso.backward(inputs, by_features)


class HandValues:
    """A `HandHeaded` with one atom, as values `[B, actions]`."""

    def __init__(self, network: HeadedNetwork) -> None:
        self._headed = HandHeaded(network)

    def forward(self, inputs: Floats) -> Floats:
        """Run the network on `[B, size]`: values `[B, actions]`."""
        return self._headed.forward(inputs)[:, :, 0]

    def backward(self, inputs: Floats, gradient: Floats) -> None:
        """Write the parameters' gradients, from the one by the values `[B, actions]`."""
        self._headed.backward(inputs, gradient[:, :, None])
