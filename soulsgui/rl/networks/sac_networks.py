"""The networks of soft actor-critic: an actor, two critics, what follows them, and the temperature."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from soulsgui.rl.networks.mlp import build_mlp, draw_by_fan_in
from soulsgui.rl.settings import NetworkSettings


@dataclass(frozen=True)
class SACNetworks:
    """What learns, and what it follows; observations are inputs `[B, size]`.

    Attributes:
        actor: To the mean of `u` and its raw deviation (`softplus_std`) side by side, `[B, 2 * D]`.
        critics: Two, from observation and scaled action side by side to a value `[B, 1]`.
        targets: Two likewise, which follow the critics.
        log_temperature: `[]`, log alpha.
        initial_std: Deviation of `u` where the raw one is 0.
    """

    actor: nn.Sequential
    critics: Sequence[nn.Sequential]
    targets: Sequence[nn.Sequential]
    log_temperature: nn.Parameter
    initial_std: float

    @property
    def learning(self) -> list[nn.Module]:
        """What learns: the actor, the critics, the temperature."""
        return [self.actor, *self.critics, nn.ParameterList([self.log_temperature])]


def build_sac_networks(
    inputs: int,
    actions: int,
    network: NetworkSettings,
    initial_temperature: float,
    generator: torch.Generator,
    device: torch.device,
) -> SACNetworks:
    """Build the networks; weights are drawn by fan-in, as what the published returns were reached with.

    Args:
        inputs: Number of features of an observation.
        actions: Numbers in an action.
        network: Widths and activation; how small the actor's last layer begins, so that its distribution is
            nearly the same everywhere, and how wide that is.
        initial_temperature: Alpha at the start.
        generator: Where the weights are drawn from.
        device: Where the networks live.
    """

    def drawn(fan_in: int, hidden_sizes: Sequence[int], outputs: int) -> nn.Sequential:
        layers = build_mlp(fan_in, hidden_sizes, outputs, network.activation, 1.0, generator)
        draw_by_fan_in(layers, generator)
        return layers.to(device)

    actor = drawn(inputs, network.hidden_sizes, 2 * actions)
    with torch.no_grad():
        for parameter in actor[-1].parameters():
            parameter.mul_(network.policy_init_scale)
    critics = [drawn(inputs + actions, network.value_hidden_sizes, 1) for _ in range(2)]
    log_temperature = nn.Parameter(torch.tensor(math.log(initial_temperature), device=device))
    return SACNetworks(actor, critics, copy.deepcopy(critics), log_temperature, network.initial_std)
