"""A torso that remembers: LSTM or GRU over time, forgetting at the start of each episode."""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn

from soulsgui.config.sections.network import NetworkSettings
from soulsgui.environments.observations import ObservationSpec
from soulsgui.errors import UsageError
from soulsgui.rl.networks.mlp import Initialise, fan_in_, named_layers, orthogonal_hidden_
from soulsgui.rl.networks.named import MLP, named_torso
from soulsgui.rl.networks.torsos import Torso, perceptron

CellName = Literal["lstm", "gru"]

_AT_ONCE = 1024
"""Most observations that a torso sees at once where no gradient is wanted."""


class RecurrentTorso(nn.Module):
    """A torso, then a recurrent layer; its state is one row of numbers per environment.

    Weights are drawn evenly within `±1 / √units`, as PyTorch does.

    Attributes:
        state_size: Numbers of a state: `features`, for `lstm` twice as many (hidden, then cell).

    Args:
        torso: From observations `[B, *shape]` to the inputs of the recurrent layer, `[B, inputs]`.
        inputs: How many the torso gives; None: it is a perceptron, which tells.
    """

    def __init__(
        self,
        torso: nn.Module,
        units: int,
        cell: CellName,
        generator: torch.Generator,
        inputs: int | None = None,
    ) -> None:
        super().__init__()
        self.torso = torso
        self.features = units
        self.state_size = 2 * units if cell == "lstm" else units
        self._by_layer = inputs is None
        size = cast("Torso", torso).features if inputs is None else inputs
        self._layer = nn.LSTM(size, units) if cell == "lstm" else nn.GRU(size, units)
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
        inputs = self._seen(obs.flatten(0, 1)).view(*obs.shape[:2], -1)
        # Whole stretches without a start run in one call; most sequences are one stretch.
        cuts: list[int] = (torch.nonzero(starts[1:].any(1)).squeeze(1) + 1).tolist()
        outputs = []
        for begin, stop in pairwise([0, *cuts, len(obs)]):
            state = state.masked_fill(starts[begin][:, None], 0.0)
            features, state = self._run(inputs[begin:stop], state)
            outputs.append(features)
        return torch.cat(outputs), state

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Name all tensors as `policies.numpy_recurrent` takes them; of another torso, by their place."""
        if self._by_layer:
            yield from named_layers(cast("Torso", self.torso).layers, "torso")
        else:
            for place, tensor in self.torso.state_dict().items():
                yield f"torso.{place}", tensor
        for name, ours in (("input", "ih"), ("hidden", "hh")):
            yield f"memory.{name}.weight", getattr(self._layer, f"weight_{ours}_l0")
            yield f"memory.{name}.bias", getattr(self._layer, f"bias_{ours}_l0")

    def _seen(self, obs: Tensor) -> Tensor:
        """Return what the torso makes of observations `[N, *shape]`, `[N, inputs]`."""
        if torch.is_grad_enabled():
            whole: Tensor = self.torso(obs)
            return whole
        # Nothing is kept for a gradient: what filters make of many images whole may be gigabytes.
        return torch.cat([self.torso(part) for part in torch.split(obs, _AT_ONCE)])

    def _run(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(self._layer, nn.LSTM):
            hidden, cell = (
                part.contiguous()[None] for part in state.split_with_sizes([self.features] * 2, 1)
            )
            features, (hidden, cell) = self._layer(inputs, (hidden, cell))
            return features, torch.cat((hidden[0], cell[0]), 1)
        features, hidden = self._layer(inputs, state[None])
        return features, hidden[0]


def recurrent_torso(
    network: NetworkSettings, seen: ObservationSpec, generator: torch.Generator, by_fan_in: bool = False
) -> RecurrentTorso:
    """Build the torso that the settings name (`named_torso`), and a memory behind all of its layers.

    Raises:
        UsageError: The settings name no cell, or as `named_torso`.
    """
    if network.recurrent == "none":
        raise UsageError(
            "This agent needs a memory, and network.recurrent is none.",
            "Set it to lstm or gru; with algorithm: dqn and dqn.agent: r2d2 it is set by default.",
        )
    rest = network.recurrent_size, network.recurrent, generator
    sizes, activation = network.hidden_sizes, network.activation
    if network.name == MLP:
        initialise: Initialise = fan_in_ if by_fan_in else orthogonal_hidden_
        return RecurrentTorso(perceptron(seen.shape, sizes, activation, initialise, generator), *rest)
    torso, features = named_torso(network.name, seen, sizes, activation, generator, by_fan_in)
    return RecurrentTorso(torso, *rest, features)


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
    # A way back through the filters costs most of an update: none where nobody learns from the burn-in.
    with torch.set_grad_enabled(torch.is_grad_enabled() and bool(exact.any())):
        early, state = torso(obs[:burn_in], state, starts[:burn_in])
    state = torch.where(exact[:, None], state, state.detach())
    late, _ = torso(obs[burn_in:], state, starts[burn_in:])
    return torch.cat((early, late))
