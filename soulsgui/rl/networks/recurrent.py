"""A torso that remembers: LSTM or GRU over time, forgetting at the start of each episode."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from soulsgui.rl.networks.mlp import named_layers
from soulsgui.rl.networks.torso import Torso

CellName = Literal["lstm", "gru"]


class RecurrentTorso(nn.Module):
    """A torso, then a recurrent layer; its state is one row of numbers per environment.

    Attributes:
        features: Number of features.
        state_size: Numbers of a state: `features`, for `lstm` twice as many (hidden, then cell).

    Args:
        torso: From observations to the inputs of the recurrent layer.
        units: Width of the recurrent layer.
        cell: `lstm` or `gru`.
        generator: Where its weights are drawn from: evenly within `±1 / √units`, as PyTorch does.
    """

    def __init__(self, torso: Torso, units: int, cell: CellName, generator: torch.Generator) -> None:
        super().__init__()
        self.torso = torso
        self.features = units
        self.state_size = 2 * units if cell == "lstm" else units
        self._layer = nn.LSTM(torso.features, units) if cell == "lstm" else nn.GRU(torso.features, units)
        bound = 1.0 / math.sqrt(units)
        for parameter in self._layer.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, obs: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Go through time.

        | symbol | shape | description |
        |---|---|---|
        | obs | `[T, B, *shape]` | |
        | state | `[B, state_size]` | before the first step; zeros at the beginning of an episode |
        | starts | `[T, B]` bool | this observation is the first of its episode: the state before it is 0 |
        | returns | `[T, B, features]`, `[B, state_size]` | features, and the state after the last step |
        """
        inputs: Tensor = self.torso(obs.flatten(0, 1)).view(*obs.shape[:2], -1)
        # Whole stretches without a start run in one call; most sequences are one stretch.
        cuts: list[int] = (torch.nonzero(starts[1:].any(1)).squeeze(1) + 1).tolist()
        outputs = []
        for begin, stop in pairwise([0, *cuts, len(obs)]):
            state = state.masked_fill(starts[begin][:, None], 0.0)
            features, state = self._run(inputs[begin:stop], state)
            outputs.append(features)
        return torch.cat(outputs), state

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Name the tensors of a perceptron and the memory as `policies.numpy_recurrent` takes them."""
        yield from named_layers(self.torso.layers, "torso")
        for name, ours in (("input", "ih"), ("hidden", "hh")):
            yield f"memory.{name}.weight", getattr(self._layer, f"weight_{ours}_l0")
            yield f"memory.{name}.bias", getattr(self._layer, f"bias_{ours}_l0")

    def _run(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self._layer, nn.LSTM):
            hidden, cell = (
                part.contiguous()[None] for part in state.split_with_sizes([self.features] * 2, 1)
            )
            features, (hidden, cell) = self._layer(inputs, (hidden, cell))
            return features, torch.cat((hidden[0], cell[0]), 1)
        features, hidden = self._layer(inputs, state[None])
        return features, hidden[0]


def unroll_with_burn_in(
    torso: RecurrentTorso, obs: Tensor, state: Tensor, burn_in: int, exact: Tensor
) -> Tensor:
    """Go through stored sequences; the first `burn_in` steps only make the stored state a present one.

    No gradient flows from behind the burn-in into it (R2D2, section 3), except where the stored state is
    `exact`: those sequences are learned from their first step on.

    | symbol | shape | description |
    |---|---|---|
    | obs | `[T + 1, B, *shape]` | |
    | state | `[B, state_size]` | as stored |
    | burn_in | int | below T |
    | exact | `[B]` bool | the sequence begins its episode |
    | returns | `[T + 1, B, features]` | |
    """
    starts = torch.zeros(obs.shape[:2], dtype=torch.bool, device=obs.device)
    if not burn_in:
        features: Tensor = torso(obs, state, starts)[0]
        return features
    early, state = torso(obs[:burn_in], state, starts[:burn_in])
    state = torch.where(exact[:, None], state, state.detach())
    late, _ = torso(obs[burn_in:], state, starts[burn_in:])
    return torch.cat((early, late))
