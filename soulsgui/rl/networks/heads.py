"""Heads: from features to a number, or several, for each action."""

import torch
from torch import Tensor, nn

from soulsgui.rl.networks.initial import fan_in_
from soulsgui.rl.networks.noisy import NoisyLinear


class Stream(nn.Sequential):
    """Linear layers with relu between them: one hidden layer, or none where its width is 0.

    Args:
        features: Number of inputs.
        hidden: Width of the hidden layer; 0: there is none.
        outputs: Number of outputs.
        noisy: Noise in the weights of both layers.
        generator: Where the weights are drawn from.
    """

    def __init__(
        self, features: int, hidden: int, outputs: int, noisy: bool, generator: torch.Generator
    ) -> None:
        def linear(fan_in: int, fan_out: int) -> nn.Module:
            if noisy:
                return NoisyLinear(fan_in, fan_out, generator)
            layer = nn.Linear(fan_in, fan_out)
            fan_in_(layer, generator)
            return layer

        if hidden:
            super().__init__(linear(features, hidden), nn.ReLU(), linear(hidden, outputs))
        else:
            super().__init__(linear(features, outputs))


class ActionHead(nn.Module):
    """`[B, features]` to `[B, actions, atoms]`.

    Dueling: `Q(s, a) = V(s) + A(s, a) - mean_a A(s, a)`, each atom for itself (Wang et al. 2016,
    arXiv 1511.06581, eq. 9; with atoms as in Rainbow, arXiv 1710.02298).

    Args:
        features: Number of inputs.
        actions: Number of actions.
        atoms: Numbers for each action: quantiles, atoms of a distribution; 1 for its value.
        hidden: Width of the hidden layer of each stream (512 in the sources); 0: there is none.
        dueling: Whether value and advantages have streams of their own.
        noisy: Noise in the weights.
        generator: Where the weights are drawn from.
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
    ) -> None:
        super().__init__()
        self._shape = (-1, actions, atoms)
        self.advantage = Stream(features, hidden, actions * atoms, noisy, generator)
        self.value = Stream(features, hidden, atoms, noisy, generator) if dueling else None

    def forward(self, features: Tensor) -> Tensor:
        """Return `[B, actions, atoms]`."""
        outputs: Tensor = self.advantage(features).view(self._shape)
        if self.value is not None:
            outputs = outputs - outputs.mean(1, keepdim=True) + self.value(features)[:, None, :]
        return outputs
