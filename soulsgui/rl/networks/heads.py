"""Heads: from features to a number, or several, for each action."""

import torch
from torch import Tensor, nn

from soulsgui.rl.networks.initial import fan_in_
from soulsgui.rl.networks.mlp import ACTIVATIONS
from soulsgui.rl.networks.noisy import SIGMA, NoisyLinear


class Stream(nn.Sequential):
    """Linear layers with an activation between them: one hidden layer, or none where its width is 0.

    Args:
        features: Number of inputs.
        hidden: Width of the hidden layer; 0: there is none.
        outputs: Number of outputs.
        noisy: Noise in the weights of both layers.
        generator: Where the weights are drawn from.
        activation: `tanh` or `relu`.
        sigma: How large the noise is at first (`NoisyLinear`).
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        outputs: int,
        noisy: bool,
        generator: torch.Generator,
        activation: str = "relu",
        sigma: float = SIGMA,
    ) -> None:
        def linear(fan_in: int, fan_out: int) -> nn.Module:
            if noisy:
                return NoisyLinear(fan_in, fan_out, generator, sigma)
            layer = nn.Linear(fan_in, fan_out)
            fan_in_(layer, generator)
            return layer

        if hidden:
            between = ACTIVATIONS[activation]()
            super().__init__(linear(features, hidden), between, linear(hidden, outputs))
        else:
            super().__init__(linear(features, outputs))


class ActionHead(nn.Module):
    """`[B, features]` to `[B, actions, atoms]`.

    Dueling: `Q(s, a) = V(s) + A(s, a) - mean_a A(s, a)`, each atom for itself (Wang et al. 2016,
    arXiv 1511.06581, eq. 9; with atoms as in Rainbow, arXiv 1710.02298).

    Attributes:
        atoms: Numbers for each action.

    Args:
        features: Number of inputs.
        actions: Number of actions.
        atoms: Numbers for each action: quantiles, atoms of a distribution; 1 for its value.
        hidden: Width of the hidden layer of each stream (512 in the sources); 0: there is none.
        dueling: Whether value and advantages have streams of their own.
        noisy: Noise in the weights.
        generator: Where the weights are drawn from.
        activation: Between the layers of a stream.
        sigma: How large the noise is at first (`NoisyLinear`).
    """

    def __init__(
        self,
        features: int,
        actions: int,
        atoms: int,
        hidden: int,
        dueling: bool,
        noisy: bool,
        generator: torch.Generator,
        activation: str = "relu",
        sigma: float = SIGMA,
    ) -> None:
        super().__init__()
        self.atoms = atoms
        self._shape = (-1, actions, atoms)
        rest = noisy, generator, activation, sigma
        self.advantage = Stream(features, hidden, actions * atoms, *rest)
        self.value = Stream(features, hidden, atoms, *rest) if dueling else None

    def forward(self, features: Tensor) -> Tensor:
        """Return `[B, actions, atoms]`."""
        outputs: Tensor = self.advantage(features).view(self._shape)
        if self.value is not None:
            outputs = outputs - outputs.mean(1, keepdim=True) + self.value(features)[:, None, :]
        return outputs
