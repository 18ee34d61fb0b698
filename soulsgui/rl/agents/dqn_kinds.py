"""The agents of the DQN family, where they differ: network, gradient, and what a client runs."""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn

from soulsgui.environments.observations import channels_of, largest_of
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.categorical import categorical_spec
from soulsgui.policies.implicit_quantile import implicit_quantile_spec
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.policies.torch_spec import TorchPolicySpec
from soulsgui.rl.agents.recurrent_kind import RecurrentKind
from soulsgui.rl.agents.saved import Arrays, to_numpy
from soulsgui.rl.dqn_parts import Kind as KindName
from soulsgui.rl.dqn_parts import Parts
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.dqn import AutogradDQNGradient, DQNGradient
from soulsgui.rl.gradients.dqn_by_hand import HandDQNGradient, HandRuleGradient
from soulsgui.rl.gradients.implicit import ImplicitGradient
from soulsgui.rl.gradients.mlp_by_hand import HandMLP
from soulsgui.rl.gradients.network_by_hand import HandHeaded, HandValues
from soulsgui.rl.gradients.rules import CategoricalRule, QuantileRule, Rule
from soulsgui.rl.losses.categorical import support
from soulsgui.rl.losses.quantile import midpoints
from soulsgui.rl.networks import build_mlp, draw_by_fan_in, named_layers
from soulsgui.rl.networks.folding import HeadedNetwork, folded, head_layers, named, torso_layers
from soulsgui.rl.networks.heads import ActionHead
from soulsgui.rl.networks.initial import fan_in_
from soulsgui.rl.networks.named import IMAGE_NETWORKS, MLP, inputs_of, named_torso
from soulsgui.rl.networks.q_networks import (
    CategoricalNetwork,
    ImplicitQuantileNetwork,
    QuantileNetwork,
    ValueNetwork,
)
from soulsgui.rl.networks.torso import Torso, perceptron
from soulsgui.rl.settings import DQNAgentSettings

_COSINES = 64


class Kind(Protocol):
    """What is particular to one kind of agent."""

    def network(self, generator: torch.Generator) -> nn.Module:
        """Make a network with weights drawn from a generator."""

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient of `online`, whose parameters `flat` holds."""

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies, with the noise they have now."""

    def values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return the values `[B, A]` of what the network takes."""


class _Common:
    """Spaces and settings, and the sizes that follow from them."""

    def __init__(self, spaces: SpacesSpec, settings: DQNAgentSettings) -> None:
        self._spaces, self._settings, self._dqn = spaces, settings, settings.dqn
        self._parts = Parts.of(settings.dqn)
        numbered = spaces.numbered_actions("dqn")
        self._actions, self._first_action = numbered.n, numbered.start

    def _mlp(self, outputs: int, first_action: int, hidden_sizes: tuple[int, ...]) -> dict[str, Any]:
        return MLPPolicySpec(
            observation_shape=self._spaces.observation.shape,
            num_actions=outputs,
            first_action=first_action,
            hidden_sizes=hidden_sizes,
            activation=self._settings.network.activation,
            normalise=self._settings.normalize.observations,
        ).to_json()

    def _split(self) -> tuple[tuple[int, ...], int]:
        """Return the layers that all streams of the head share, and the width of each one's own layer."""
        sizes, name = tuple(self._settings.network.hidden_sizes), self._settings.network.name
        if name != MLP and name not in IMAGE_NETWORKS:
            return sizes, 0  # the torso is one piece
        return sizes[:-1], sizes[-1] if sizes else 0

    def _torso(self, sizes: tuple[int, ...], generator: torch.Generator) -> Torso:
        network = self._settings.network
        if network.name != MLP:
            box = self._spaces.observation
            torso, _ = named_torso(network.name, box, sizes, network.activation, generator, by_fan_in=True)
            return cast(Torso, torso)  # one's own has features, too
        size = math.prod(self._spaces.observation.shape)
        if not sizes:
            return Torso(nn.Sequential(nn.Flatten()), size)
        activation = self._settings.network.activation
        return perceptron((size,), sizes, activation, fan_in_, generator)

    def _head(self, features: int, atoms: int, hidden: int, generator: torch.Generator) -> ActionHead:
        return ActionHead(
            features,
            self._actions,
            atoms,
            hidden,
            self._parts.dueling,
            self._parts.noisy,
            generator,
            self._settings.network.activation,
            self._dqn.noisy_sigma,
        )


class PlainValue(_Common):
    """A value for each action by an MLP: deep Q-learning as it began."""

    def network(self, generator: torch.Generator) -> nn.Sequential:
        """Make a network with weights drawn from a generator."""
        network, size = self._settings.network, self._spaces.observation.size
        online = build_mlp(size, network.hidden_sizes, self._actions, network.activation, 1.0, generator)
        draw_by_fan_in(online, generator)
        return online

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient: by hand on the CPU."""
        if flat.parameter.is_cpu:
            sequences = cast(nn.Sequential, online), cast(nn.Sequential, target)
            return HandDQNGradient(*map(HandMLP, sequences))
        return AutogradDQNGradient(online, target, flat)

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        sizes = tuple(self._settings.network.hidden_sizes)
        return self._mlp(self._actions, self._first_action, sizes)

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies."""
        layers = named_layers(cast(nn.Sequential, network), "policy")
        return {name: to_numpy(tensor) for name, tensor in layers}

    def values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return the values `[B, A]` of what the network takes."""
        values: Tensor = network(inputs)
        return values


class _Headed(_Common):
    """A torso and a head with one or several numbers for each action."""

    def _build(self, atoms: int, generator: torch.Generator) -> tuple[Torso, ActionHead]:
        shared, own = self._split()
        torso = self._torso(shared, generator)
        return torso, self._head(torso.features, atoms, own, generator)

    def _by_hand(self, flat: FlatParameters) -> bool:
        return flat.parameter.is_cpu and self._settings.network.name == MLP

    def _by_rule(self, online: nn.Module, target: nn.Module, flat: FlatParameters, rule: Rule) -> DQNGradient:
        if self._by_hand(flat):
            networks = cast(HeadedNetwork, online), cast(HeadedNetwork, target)
            return HandRuleGradient(HandHeaded(networks[0]), HandHeaded(networks[1]), rule)
        return AutogradDQNGradient(online, target, flat, rule)

    def _sizes(self) -> tuple[int, ...]:
        """Return the hidden layers of the folded network: those of the streams lie side by side."""
        shared, own = self._split()
        return (*shared, own * (2 if self._parts.dueling else 1)) if own else shared

    def values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return the values `[B, A]` of what the network takes."""
        values: Tensor = network.values(inputs)  # type: ignore[operator]
        return values


class Value(_Headed):
    """A value for each action, with a dueling head, noise, or both."""

    def network(self, generator: torch.Generator) -> ValueNetwork:
        """Make a network with weights drawn from a generator."""
        return ValueNetwork(*self._build(1, generator))

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient: by hand on the CPU."""
        if self._by_hand(flat):
            networks = cast(HeadedNetwork, online), cast(HeadedNetwork, target)
            return HandDQNGradient(*map(HandValues, networks))
        return AutogradDQNGradient(online, target, flat)

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        return self._mlp(self._actions, self._first_action, self._sizes())

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies, with the noise they have now."""
        return folded(cast(HeadedNetwork, network), mean=True)


class Quantile(Value):
    """Quantiles of the return: QR-DQN."""

    def network(self, generator: torch.Generator) -> QuantileNetwork:  # type: ignore[override]
        """Make a network with weights drawn from a generator."""
        return QuantileNetwork(*self._build(self._dqn.quantiles, generator))

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient."""
        rule = QuantileRule(midpoints(self._dqn.quantiles, flat.parameter.device))
        return self._by_rule(online, target, flat, rule)


class Categorical(_Headed):
    """Probabilities of fixed atoms of the return: C51."""

    def network(self, generator: torch.Generator) -> CategoricalNetwork:
        """Make a network with weights drawn from a generator."""
        dqn = self._dqn
        atoms = support(dqn.value_min, dqn.value_max, dqn.atoms)
        return CategoricalNetwork(*self._build(dqn.atoms, generator), atoms)

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient."""
        return self._by_rule(online, target, flat, CategoricalRule(cast(CategoricalNetwork, online).atoms))

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        dqn = self._dqn
        network = self._mlp(self._actions * dqn.atoms, 0, self._sizes())
        return categorical_spec(network, self._first_action, (dqn.value_min, dqn.value_max, dqn.atoms))

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies, with the noise they have now."""
        return folded(cast(HeadedNetwork, network), mean=False)


class Implicit(_Common):
    """The quantile of the return at any level: IQN."""

    def _split(self) -> tuple[tuple[int, ...], int]:
        shared, own = super()._split()
        return (shared, own) if shared else ((own,) if own else (), 0)

    def network(self, generator: torch.Generator) -> ImplicitQuantileNetwork:
        """Make a network with weights drawn from a generator."""
        shared, own = self._split()
        torso = self._torso(shared, generator)
        head = self._head(torso.features, 1, own, generator)
        return ImplicitQuantileNetwork(torso, head, generator, _COSINES)

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> DQNGradient:
        """Make what writes the gradient."""
        networks = cast(ImplicitQuantileNetwork, online), cast(ImplicitQuantileNetwork, target)
        return ImplicitGradient(*networks, flat, self._dqn.quantiles, rng)

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        shared, own = self._split()
        network = self._mlp(shared[-1], 0, shared[:-1])
        return implicit_quantile_spec(
            network,
            self._actions,
            self._first_action,
            own * (2 if self._parts.dueling else 1),
            _COSINES,
            self._dqn.quantiles,
        )

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies, with the noise they have now."""
        implicit = cast(ImplicitQuantileNetwork, network)
        arrays = named(torso_layers(implicit.torso), "policy")
        arrays |= named(head_layers(implicit.head, mean=True), "head")
        embedding = implicit.embedding
        return arrays | {
            "embedding.weight": to_numpy(embedding.weight),
            "embedding.bias": to_numpy(embedding.bias),
        }

    def values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return the values `[B, A]` of what the network takes."""
        return cast(ImplicitQuantileNetwork, network).values(inputs, self._dqn.quantiles)


class ByTorch:
    """An agent whose network clients can't run in numpy: they get it as it is.

    Args:
        inner: What it learns of the return.
        spaces: What the environment shows and takes.
        settings: `network.name` is not `mlp`.
    """

    def __init__(self, inner: Kind, spaces: SpacesSpec, settings: DQNAgentSettings) -> None:
        self._spaces, self._settings = spaces, settings
        self.network, self.gradient, self.values = inner.network, inner.gradient, inner.values

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        network, box = self._settings.network, self._spaces.observation
        actions = self._spaces.numbered_actions("dqn")
        return TorchPolicySpec(
            network=network.name,
            observation_shape=box.shape,
            observation_dtype=box.dtype,
            largest=largest_of(box),
            channels=channels_of(box),
            num_actions=actions.n,
            first_action=actions.start,
            hidden_sizes=tuple(network.hidden_sizes),
            activation=network.activation,
            normalise=inputs_of(box, self._settings).normalises,
            values={name: getattr(self._settings.dqn, name) for name in _TOLD},
        ).to_json()

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies, with the noise they have now."""
        return {f"policy.{name}": to_numpy(tensor) for name, tensor in network.state_dict().items()}


_TOLD = ("agent", "dueling", "exploration", "quantiles", "atoms", "value_min", "value_max", "noisy_sigma")
"""Settings of `dqn` that the network and its values depend on."""


def settings_told(spec: TorchPolicySpec) -> DQNAgentSettings:
    """Return as much of an agent's settings as a policy's description tells: `kind_of` needs no more.

    Args:
        spec: From `ByTorch.policy_spec`.
    """
    network = SimpleNamespace(name=spec.network, hidden_sizes=spec.hidden_sizes, activation=spec.activation)
    dqn = {"double": True, "replay": "uniform", "n_step": 1} | (spec.values or {})
    normalize = SimpleNamespace(observations=spec.normalise)
    told = SimpleNamespace(network=network, dqn=SimpleNamespace(**dqn), normalize=normalize)
    return cast(DQNAgentSettings, told)


_KINDS: dict[KindName, Callable[[SpacesSpec, DQNAgentSettings], Kind]] = {
    "value": Value,
    "quantile": Quantile,
    "categorical": Categorical,
    "implicit": Implicit,
}


def kind_of(spaces: SpacesSpec, settings: DQNAgentSettings) -> Kind:
    """Return the kind of agent that settings ask for."""
    parts = Parts.of(settings.dqn)
    if parts.kind == "recurrent":
        return RecurrentKind(spaces, settings)
    if settings.network.name != MLP:
        return ByTorch(_KINDS[parts.kind](spaces, settings), spaces, settings)
    if parts.kind == "value" and not (parts.dueling or parts.noisy):
        return PlainValue(spaces, settings)
    return _KINDS[parts.kind](spaces, settings)
