"""Initial weights, multi-layer perceptrons by size, and those of soft actor-critic and its relatives."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from soulsgui.config.sections.algorithms import SACSettings
from soulsgui.config.sections.network import NetworkSettings
from soulsgui.rl.networks.renorm import renormalised

Initialise = Callable[[nn.Module, torch.Generator], None]
"""Draws the first weights of a network from a generator."""


def fan_in_(network: nn.Module, generator: torch.Generator) -> None:
    """Draw weights and biases of linear and convolution layers evenly within `±1 / √inputs`.

    What Torch and PyTorch do by default, and so what DQN, QR-DQN and IQN were published with (Mnih et al.
    2015; arXiv 1710.10044; 1806.06923). Values that are their own targets stay bounded longer than with the
    larger orthogonal weights: in CartPole, with 256×256 units and a target network that moves every 25
    updates, at 10² instead of 10⁶ after 7,000 updates.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def orthogonal_(network: nn.Module, scale: float, generator: torch.Generator) -> None:
    """Give linear and convolution layers orthogonal weights times `scale`, and zero biases.

    For on-policy learning (Saxe et al. 2014, arXiv 1312.6120; √2 before a rectifier or tanh).
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain=scale, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def orthogonal_hidden_(network: nn.Module, generator: torch.Generator) -> None:
    """Draw as `orthogonal_` what stands before a rectifier or tanh."""
    orthogonal_(network, math.sqrt(2), generator)


ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


def linear(fan_in: int, fan_out: int, scale: float, generator: torch.Generator) -> nn.Linear:
    """Build a linear layer, drawn as `orthogonal_` does."""
    layer = nn.Linear(fan_in, fan_out)
    orthogonal_(layer, scale, generator)
    return layer


def build_mlp(
    inputs: int,
    hidden_sizes: Sequence[int],
    outputs: int,
    activation: str,
    output_scale: float,
    generator: torch.Generator,
) -> nn.Sequential:
    """Build a multi-layer perceptron with orthogonal weights and zero biases.

    Hidden layers are scaled by √2 (Saxe et al. 2014), the last one by `output_scale`: a small one (0.01) for
    a policy makes the first actions independent of the observation (Andrychowicz et al. 2021, arXiv
    2006.05990, section 3.2). Without hidden sizes the network is linear.
    """
    sizes = [inputs, *hidden_sizes, outputs]
    modules: list[nn.Module] = []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        modules.append(linear(fan_in, fan_out, output_scale if last else math.sqrt(2), generator))
        if not last:
            modules.append(ACTIVATIONS[activation]())
    return nn.Sequential(*modules)


def named_layers(network: nn.Sequential, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Name each linear layer's tensors by place: `prefix.0.weight`, `prefix.0.bias`, `prefix.1.weight`."""
    layers = (module for module in network if isinstance(module, nn.Linear))
    for index, layer in enumerate(layers):
        yield f"{prefix}.{index}.weight", layer.weight
        yield f"{prefix}.{index}.bias", layer.bias


@dataclass(frozen=True)
class SACNetworks:
    """What learns, and what it follows; observations are inputs `[B, size]`.

    Attributes:
        actor: To the mean of `u` and its raw deviation (`softplus_std`) side by side, `[B, 2 * D]`; of td3
            to `u` alone, `[B, D]`.
        critics: Two, from observation and scaled action side by side to a value `[B, 1]`; of tqc several, to
            quantiles `[B, M]`.
        targets: As many, which follow the critics; of crossq none.
        log_temperature: `[]`, log alpha; td3 has no use for it.
        initial_std: Deviation of `u` where the raw one is 0.
        target_actor: Of td3, one that follows the actor.
    """

    actor: nn.Sequential
    critics: Sequence[nn.Sequential]
    targets: Sequence[nn.Sequential]
    log_temperature: nn.Parameter
    initial_std: float
    target_actor: nn.Sequential | None = None

    @property
    def learning(self) -> list[nn.Module]:
        """What learns: the actor, the critics, the temperature."""
        return [self.actor, *self.critics, nn.ParameterList([self.log_temperature])]

    @property
    def following(self) -> list[nn.Module]:
        """What follows what learns, in the same order."""
        return [*([] if self.target_actor is None else [self.target_actor]), *self.targets]


def build_sac_networks(
    inputs: int,
    actions: int,
    network: NetworkSettings,
    sac: SACSettings,
    generator: torch.Generator,
    device: torch.device,
) -> SACNetworks:
    """Build the networks; weights are drawn by fan-in, as what the published returns were reached with.

    The actor's last layer begins small, so that its distribution is nearly the same everywhere.
    """

    def drawn(fan_in: int, hidden_sizes: Sequence[int], outputs: int) -> nn.Sequential:
        layers = build_mlp(fan_in, hidden_sizes, outputs, network.activation, 1.0, generator)
        fan_in_(layers, generator)
        return (renormalised(layers) if crossq else layers).to(device)

    td3, tqc, crossq = (sac.agent == name for name in ("td3", "tqc", "crossq"))
    actor = drawn(inputs, network.hidden_sizes, actions if td3 else 2 * actions)
    with torch.no_grad():
        for parameter in actor[-1].parameters():
            parameter.mul_(network.policy_init_scale)
    count, values = (sac.critics, sac.quantiles) if tqc else (2, 1)
    critics = [drawn(inputs + actions, network.value_hidden_sizes, values) for _ in range(count)]
    log_temperature = nn.Parameter(torch.tensor(math.log(sac.initial_temperature), device=device))
    targets = [] if crossq else copy.deepcopy(critics)
    target_actor = copy.deepcopy(actor) if td3 else None
    return SACNetworks(actor, critics, targets, log_temperature, network.initial_std, target_actor)
