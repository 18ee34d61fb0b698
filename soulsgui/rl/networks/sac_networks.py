"""The networks of soft actor-critic: an actor, two critics, what follows them, and the temperature."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from soulsgui.rl.networks.mlp import build_mlp, draw_by_fan_in


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
    hidden_sizes: Sequence[int],
    value_hidden_sizes: Sequence[int],
    activation: str,
    policy_init_scale: float,
    initial_std: float,
    initial_temperature: float,
    generator: torch.Generator,
    device: torch.device,
) -> SACNetworks:
    """Build the networks; weights are drawn by fan-in, as what the published returns were reached with.

    Args:
        inputs: Number of features of an observation.
        actions: Numbers in an action.
        hidden_sizes: Width of each hidden layer of the actor.
        value_hidden_sizes: Likewise of each critic.
        activation: `tanh` or `relu`.
        policy_init_scale: Factor on the actor's last layer: a small one begins with nearly the same
            distribution everywhere.
        initial_std: Deviation of `u` where the raw one is 0.
        initial_temperature: Alpha at the start.
        generator: Where the weights are drawn from.
        device: Where the networks live.
    """

    def drawn(fan_in: int, hidden: Sequence[int], outputs: int) -> nn.Sequential:
        network = build_mlp(fan_in, hidden, outputs, activation, 1.0, generator)
        draw_by_fan_in(network, generator)
        return network.to(device)

    actor = drawn(inputs, hidden_sizes, 2 * actions)
    with torch.no_grad():
        for parameter in actor[-1].parameters():
            parameter.mul_(policy_init_scale)
    critics = [drawn(inputs + actions, value_hidden_sizes, 1) for _ in range(2)]
    log_temperature = nn.Parameter(torch.tensor(math.log(initial_temperature), device=device))
    return SACNetworks(actor, critics, copy.deepcopy(critics), log_temperature, initial_std)
