"""The agents of the DQN family, where they differ: network, gradient, and what a client runs."""

import math
from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from soulsgui.config.sections.algorithms import DQNSettings
from soulsgui.config.sections.network import NetworkSettings
from soulsgui.environments.observations import channels_of, largest_of
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.specs import MLPPolicySpec, RecurrentPolicySpec, TorchPolicySpec
from soulsgui.policies.value_based import categorical_spec, implicit_quantile_spec
from soulsgui.rl.agents.base import Arrays, to_numpy
from soulsgui.rl.gradients.dqn import (
    AutogradDQNGradient,
    CategoricalRule,
    DQNGradient,
    DQNParts,
    ImplicitGradient,
    QuantileRule,
    Rule,
)
from soulsgui.rl.gradients.dqn_by_hand import HandDQNGradient, HandHeaded, HandRuleGradient, HandValues
from soulsgui.rl.gradients.mlp_by_hand import HandMLP
from soulsgui.rl.gradients.r2d2 import R2D2Gradient
from soulsgui.rl.losses.q_learning import midpoints, support, unscaled
from soulsgui.rl.networks.mlp import build_mlp, fan_in_, named_layers
from soulsgui.rl.networks.named import IMAGE_NETWORKS, MLP, named_torso, torso_spec
from soulsgui.rl.networks.q_networks import (
    CategoricalNetwork,
    HeadedNetwork,
    ImplicitQuantileNetwork,
    QHead,
    QuantileNetwork,
    RecurrentQNetwork,
    ValueNetwork,
    folded,
    head_layers,
    named,
    torso_layers,
)
from soulsgui.rl.networks.recurrent import recurrent_torso
from soulsgui.rl.networks.torsos import Torso, perceptron
from soulsgui.rl.optimiser import FlatParameters

_COSINES = 64
_TOLD = ("agent", "dueling", "exploration", "quantiles", "atoms", "value_min", "value_max", "noisy_sigma")
"""Settings of `dqn` that the network and its values depend on."""


class DQNKind(ABC):
    """What one kind of agent has of its own; `spaces`: what the network sees, the environment takes."""

    def __init__(
        self, spaces: SpacesSpec, network: NetworkSettings, dqn: DQNSettings, normalises: bool
    ) -> None:
        self.seen, self.action = spaces.observation, spaces.numbered_actions("dqn")
        self.settings, self.dqn, self.normalises = network, dqn, normalises
        self.parts = DQNParts.of(dqn)

    @abstractmethod
    def network(self, generator: torch.Generator) -> nn.Module:
        """Make a network with weights drawn from a generator."""

    @abstractmethod
    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient of `online`, whose parameters `flat` holds: by hand if it can be."""

    @abstractmethod
    def plain_spec(self) -> dict[str, Any]:
        """Return what `policy_spec` does, of a network that clients run in numpy."""

    @abstractmethod
    def plain_weights(self, network: nn.Module) -> Arrays:
        """Return what `exported` does, of a network that clients run in numpy."""

    def values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return the values `[B, A]` of what the network takes; of one with a memory, each seen twice."""
        values: Tensor = getattr(network, "values", network)(inputs)
        return values

    def start_values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return the returns `[B, A]` that are expected of actions where episodes begin."""
        return self.values(network, inputs)

    @property
    def in_numpy(self) -> bool:
        """Whether clients run the network in numpy; otherwise they get it as it is."""
        return self.settings.name == MLP

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        if self.in_numpy:
            return self.plain_spec()
        return TorchPolicySpec(
            network=self.settings.name,
            observation_shape=self.seen.shape,
            observation_dtype=self.seen.dtype,
            largest=largest_of(self.seen),
            channels=channels_of(self.seen),
            num_actions=self.action.n,
            first_action=self.action.start,
            hidden_sizes=tuple(self.settings.hidden_sizes),
            activation=self.settings.activation,
            normalise=self.normalises,
            values={name: getattr(self.dqn, name) for name in _TOLD},
        ).to_json()

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies, with the noise they have now."""
        if self.in_numpy:
            return self.plain_weights(network)
        return {f"policy.{name}": to_numpy(tensor) for name, tensor in network.state_dict().items()}

    def mlp_spec(self, outputs: int, first_action: int, hidden_sizes: tuple[int, ...]) -> dict[str, Any]:
        """Describe a perceptron."""
        return MLPPolicySpec(
            observation_shape=self.seen.shape,
            num_actions=outputs,
            first_action=first_action,
            hidden_sizes=hidden_sizes,
            activation=self.settings.activation,
            normalise=self.normalises,
        ).to_json()

    def split(self) -> tuple[tuple[int, ...], int]:
        """Return the layers that all streams of the head share, and the width of each one's own layer."""
        sizes, name = tuple(self.settings.hidden_sizes), self.settings.name
        if name != MLP and name not in IMAGE_NETWORKS:
            return sizes, 0  # the torso is one piece
        return sizes[:-1], sizes[-1] if sizes else 0

    def torso(self, sizes: tuple[int, ...], generator: torch.Generator) -> Torso:
        """Build what is before the head."""
        name, activation = self.settings.name, self.settings.activation
        if name != MLP:
            torso, _ = named_torso(name, self.seen, sizes, activation, generator, by_fan_in=True)
            return cast(Torso, torso)  # one's own has features, too
        size = math.prod(self.seen.shape)
        if not sizes:
            return Torso(nn.Sequential(nn.Flatten()), size)
        return perceptron((size,), sizes, activation, fan_in_, generator)

    def head(self, features: int, atoms: int, hidden: int, generator: torch.Generator) -> QHead:
        """Build a head as the settings say."""
        parts, activation = self.parts, self.settings.activation
        rest = parts.dueling, parts.noisy, generator, activation, self.dqn.noisy_sigma
        return QHead(features, self.action.n, atoms, hidden, *rest)


class PlainKind(DQNKind):
    """A value for each action by an MLP: deep Q-learning as it began."""

    def network(self, generator: torch.Generator) -> nn.Sequential:
        """Make a network with weights drawn from a generator."""
        sizes, activation = self.settings.hidden_sizes, self.settings.activation
        online = build_mlp(self.seen.size, sizes, self.action.n, activation, 1.0, generator)
        fan_in_(online, generator)
        return online

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient: by hand on the CPU."""
        if flat.parameter.is_cpu:
            return HandDQNGradient(*(HandMLP(cast(nn.Sequential, network)) for network in (online, target)))
        return AutogradDQNGradient(online, target, flat)

    def plain_spec(self) -> dict[str, Any]:
        """Describe an MLP."""
        return self.mlp_spec(self.action.n, self.action.start, tuple(self.settings.hidden_sizes))

    def plain_weights(self, network: nn.Module) -> Arrays:
        """Return the layers."""
        layers = named_layers(cast(nn.Sequential, network), "policy")
        return {name: to_numpy(tensor) for name, tensor in layers}


class HeadedKind(DQNKind):
    """A torso and a head with a value for each action, quantiles of the return (QR-DQN) or atoms (C51)."""

    def network(self, generator: torch.Generator) -> HeadedNetwork:
        """Make a network with weights drawn from a generator."""
        dqn, kind = self.dqn, self.parts.kind
        shared, own = self.split()
        torso = self.torso(shared, generator)
        atoms = {"value": 1, "quantile": dqn.quantiles, "categorical": dqn.atoms}[kind]
        head = self.head(torso.features, atoms, own, generator)
        if kind == "categorical":
            return CategoricalNetwork(torso, head, support(dqn.value_min, dqn.value_max, dqn.atoms))
        return QuantileNetwork(torso, head) if kind == "quantile" else ValueNetwork(torso, head)

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient: by hand on the CPU, of perceptrons."""
        rule: Rule | None = None
        if self.parts.kind == "quantile":
            rule = QuantileRule(midpoints(self.dqn.quantiles, flat.parameter.device))
        elif self.parts.kind == "categorical":
            rule = CategoricalRule(cast(CategoricalNetwork, online).atoms)
        if not (flat.parameter.is_cpu and self.in_numpy):
            return AutogradDQNGradient(online, target, flat, rule)
        networks = cast(HeadedNetwork, online), cast(HeadedNetwork, target)
        if rule is None:
            return HandDQNGradient(*map(HandValues, networks))
        return HandRuleGradient(HandHeaded(networks[0]), HandHeaded(networks[1]), rule)

    def plain_spec(self) -> dict[str, Any]:
        """Describe the folded network: the hidden layers of both streams lie side by side."""
        dqn, action = self.dqn, self.action
        shared, own = self.split()
        sizes = (*shared, own * (2 if self.parts.dueling else 1)) if own else shared
        if self.parts.kind != "categorical":
            return self.mlp_spec(action.n, action.start, sizes)
        network = self.mlp_spec(action.n * dqn.atoms, 0, sizes)
        return categorical_spec(network, action.start, (dqn.value_min, dqn.value_max, dqn.atoms))

    def plain_weights(self, network: nn.Module) -> Arrays:
        """Return the folded network, of quantiles their means."""
        return folded(cast(HeadedNetwork, network), mean=self.parts.kind != "categorical")


class ImplicitKind(DQNKind):
    """The quantile of the return at any level: IQN."""

    def split(self) -> tuple[tuple[int, ...], int]:
        """Return layers of the torso, of which there is one at least, and the width of each stream's own."""
        shared, own = super().split()
        return (shared, own) if shared else ((own,) if own else (), 0)

    def network(self, generator: torch.Generator) -> ImplicitQuantileNetwork:
        """Make a network with weights drawn from a generator."""
        shared, own = self.split()
        torso = self.torso(shared, generator)
        head = self.head(torso.features, 1, own, generator)
        return ImplicitQuantileNetwork(torso, head, generator, _COSINES, self.dqn.quantiles)

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient, by autograd."""
        networks = cast(ImplicitQuantileNetwork, online), cast(ImplicitQuantileNetwork, target)
        return ImplicitGradient(*networks, flat, self.dqn.quantiles, rng)

    def plain_spec(self) -> dict[str, Any]:
        """Describe torso, head and embedding."""
        shared, own = self.split()
        network = self.mlp_spec(shared[-1], 0, shared[:-1])
        hidden = own * (2 if self.parts.dueling else 1)
        counts = hidden, _COSINES, self.dqn.quantiles
        return implicit_quantile_spec(network, self.action.n, self.action.start, *counts)

    def plain_weights(self, network: nn.Module) -> Arrays:
        """Return torso, head and embedding."""
        implicit = cast(ImplicitQuantileNetwork, network)
        arrays = named(torso_layers(implicit.torso), "policy")
        arrays |= named(head_layers(implicit.head, mean=True), "head")
        embedding = {"weight": implicit.embedding.weight, "bias": implicit.embedding.bias}
        return arrays | {f"embedding.{name}": to_numpy(tensor) for name, tensor in embedding.items()}


class RecurrentKind(DQNKind):
    """R2D2: a torso, an LSTM or GRU, and dueling streams as wide as it (section 2.3)."""

    in_numpy = True

    def network(self, generator: torch.Generator) -> RecurrentQNetwork:
        """Make a network with weights drawn from a generator."""
        torso = recurrent_torso(self.settings, self.seen, generator, by_fan_in=True)
        units = torso.features
        return RecurrentQNetwork(torso, QHead(units, self.action.n, 1, units, True, False, generator))

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient, by autograd."""
        networks = cast(RecurrentQNetwork, online), cast(RecurrentQNetwork, target)
        return R2D2Gradient(*networks, flat, self.parts.n_step)

    def start_values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return expected returns `[B, A]`: nothing is remembered, and values are no longer rescaled."""
        return unscaled(cast(RecurrentQNetwork, network).start_values(inputs))

    def plain_spec(self) -> dict[str, Any]:
        """Describe torso, memory and head."""
        network = self.settings
        return RecurrentPolicySpec(
            observation_shape=self.seen.shape,
            hidden_sizes=tuple(network.hidden_sizes),
            activation=network.activation,
            cell=network.recurrent,
            units=network.recurrent_size,
            head_sizes=(2 * network.recurrent_size,),  # both streams side by side
            normalise=self.normalises,
            head=HeadSpec(self.action.to_json()),
            torso=torso_spec(network.name, self.seen),
        ).to_json()

    def plain_weights(self, network: nn.Module) -> Arrays:
        """Return torso, memory and head."""
        recurrent = cast(RecurrentQNetwork, network)
        remembering = {name: to_numpy(tensor) for name, tensor in recurrent.torso.named_tensors()}
        return remembering | named(head_layers(recurrent.head, mean=True), "policy")


def kind_of(spaces: SpacesSpec, network: NetworkSettings, dqn: DQNSettings, normalises: bool) -> DQNKind:
    """Return the kind of agent that settings ask for; the arguments are those of `DQNKind`."""
    parts = DQNParts.of(dqn)
    makers: dict[str, type[DQNKind]] = {"recurrent": RecurrentKind, "implicit": ImplicitKind}
    make = makers.get(parts.kind, HeadedKind)
    if parts.kind == "value" and network.name == MLP and not (parts.dueling or parts.noisy):
        make = PlainKind
    return make(spaces, network, dqn, normalises)


def kind_told(spaces: SpacesSpec, spec: TorchPolicySpec) -> DQNKind:
    """Return the kind of agent that a policy's description (`DQNKind.policy_spec`) tells of.

    Raises:
        KeyError: A setting is not told; otherwise nothing is checked here.
    """
    told = {"name": spec.network, "hidden_sizes": spec.hidden_sizes, "activation": spec.activation}
    network = NetworkSettings.model_construct(**told)  # type: ignore[arg-type]
    values = {name: (spec.values or {})[name] for name in _TOLD}
    return kind_of(spaces, network, DQNSettings.model_construct(**values), spec.normalise)
