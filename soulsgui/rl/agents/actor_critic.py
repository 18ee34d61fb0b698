"""Networks for policy and value with their optimiser, their normaliser and their state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.schema import Settings
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.observations import channels_of, largest_of
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.policies.policy import actor_spec, with_encoding
from soulsgui.policies.specs import MLPPolicySpec, TorchPolicySpec
from soulsgui.rl.agents.base import AgentState, Arrays, to_numpy
from soulsgui.rl.compiled_loss import CompiledLoss
from soulsgui.rl.distributions import distribution_head
from soulsgui.rl.gradients.shared import Group, SharedGradient
from soulsgui.rl.networks.mlp import build_mlp
from soulsgui.rl.networks.named import MLP, build_network, inputs_of, named_tensors, sharing
from soulsgui.rl.networks.shapes import LayerShape, shape_report
from soulsgui.rl.normalisation import Rewards
from soulsgui.rl.optimiser import Adam, FlatParameters

ADAM_EPSILON = 1e-5
"""ε of Adam where no setting says another: detail 3 of "The 37 implementation details of PPO"."""


class ActorCritic:
    """Networks for policy and value, their optimiser and the normaliser: what every actor-critic needs.

    Policy and value have networks of their own, unless `network.shared` lets them differ in their last layer
    only; the last policy layer is small and observations are normalised ("What matters in on-policy
    reinforcement learning", arXiv 2006.05990).

    Args:
        settings: The groups `network` and `normalize` of the configuration, and that of the algorithm, which
            is read at each update; the attribute may be replaced in between.
        seed: Determines the initial weights and every shuffle.
        device: Where the networks live, as torch names it.
    """

    _gradient: Any

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str) -> None:
        self.spaces = spaces
        self.settings = settings
        self.device = torch.device(device)
        self.updates = 0
        self._rng = np.random.default_rng(seed)
        self.head = distribution_head(spaces.action, settings.network).to(self.device)
        self._to_see = inputs_of(spaces.observation, settings)
        self.normaliser, self._normalises = self._to_see.normaliser, self._to_see.normalises
        self._flat = FlatParameters(self._build(torch.Generator().manual_seed(seed)))
        self._optimiser = Adam(self._flat.parameter, eps=ADAM_EPSILON)
        self.rewards = Rewards(settings.normalize)
        saved = self._named_tensors, self._flat, self._optimiser, self.normaliser
        self._saved = AgentState(*saved, self.rewards, self._rng)

    @property
    def compiled_loss(self) -> CompiledLoss[Any] | None:
        """What of the update may be compiled; None: nothing that would gain."""
        found: CompiledLoss[Any] | None = self._gradient.compiled_loss
        return found

    def learn_mixed(self) -> None:
        """Let networks compute in bfloat16 in the updates, where that is enough."""
        self._gradient.mixed = True

    def share(self, group: Group) -> SharedGradient:
        """Compute gradients together with the other processes of a group from now on."""
        self._gradient = shared = SharedGradient(self._gradient, group, self._flat, [], self._modules())
        return shared

    def _modules(self) -> list[nn.Module]:
        """Return all networks that the gradient looks at."""
        return [self.policy, self.value, self.head]

    def _build(self, generator: torch.Generator) -> list[nn.Module]:
        """Build the networks and return all that is to be learned."""
        network = self.settings.network
        outputs, scale = self.head.spec.outputs, network.policy_init_scale
        self.policy = self._network(network.hidden_sizes, outputs, scale, generator)
        if network.shared:
            self.value = sharing(self.policy, network.value_init_scale, generator).to(self.device)
        else:
            self.value = self._network(network.value_hidden_sizes, 1, network.value_init_scale, generator)
        return [self.policy, self.value, self.head]

    def _network(
        self, hidden_sizes: Sequence[int], outputs: int, scale: float, generator: torch.Generator
    ) -> nn.Module:
        network, seen = self.settings.network, self._to_see.seen
        if network.name == MLP:
            mlp = build_mlp(seen.size, hidden_sizes, outputs, network.activation, scale, generator)
            return mlp.to(self.device)
        built = build_network(network.name, seen, hidden_sizes, network.activation, outputs, scale, generator)
        return built.to(self.device)

    def shapes(self) -> dict[str, list[LayerShape]]:
        """Return the layers of each network by its name, with shapes and parameters."""
        inputs = self._inputs(self._to_see.nothing())
        return {"policy": shape_report(self.policy, inputs), "value": shape_report(self.value, inputs)}

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        network = self._network_spec()
        if not isinstance(self.spaces.action, DiscreteSpec):
            network = actor_spec(network, self.head.spec)
        return with_encoding(network, self.spaces.observation, self._to_see.images)

    def _network_spec(self) -> dict[str, Any]:
        """Return the description of the policy's network, as JSON-able data."""
        action, network, seen = self.spaces.action, self.settings.network, self._to_see.seen
        either: dict[str, Any] = {
            "observation_shape": seen.shape,
            "num_actions": self.head.spec.outputs,
            "first_action": action.start if isinstance(action, DiscreteSpec) else 0,
            "hidden_sizes": tuple(network.hidden_sizes),
            "activation": network.activation,
            "normalise": self._normalises,
        }
        if network.name == MLP:
            return MLPPolicySpec(**either).to_json()
        seen_as: dict[str, Any] = {
            "observation_dtype": seen.dtype,
            "largest": largest_of(seen),
            "channels": channels_of(seen),
        }
        return TorchPolicySpec(network=network.name, **seen_as, **either).to_json()

    def export_weights(self) -> Arrays:
        """Return what a client needs to act: policy and normaliser, copied, float32."""
        arrays = {name: to_numpy(tensor) for name, tensor in self._acting_tensors()}
        if self._normalises:
            arrays |= {f"normaliser.{name}": array for name, array in self.normaliser.frozen().items()}
        return arrays

    def _acting_tensors(self) -> list[tuple[str, Tensor]]:
        """Return what acts, without the value network."""
        return [*named_tensors(self.policy, "policy"), *self.head.named_tensors()]

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return what the policy network says of stored observations `[B, *shape]`, `[B, outputs]`."""
        with torch.no_grad():
            return to_numpy(self.policy(self._inputs(obs)))

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return everything that a bit-equal continuation needs: arrays by name, and JSON-able data."""
        return self._saved.save(self._counters())

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned (`AgentState.load`)."""
        self._load_counters(self._saved.load(tensors, meta, self._counters()))

    def _counters(self) -> dict[str, int]:
        return {"updates": self.updates}

    def _load_counters(self, counters: Mapping[str, int]) -> None:
        self.updates = counters["updates"]

    def _learned_from(self, batch: Segments, gamma: float) -> Segments:
        """Take a batch's rewards into their statistics, and return it with those that are learned from."""
        batch.check()
        if not self.rewards.changes:
            return batch
        return replace(batch, reward=self.rewards.learned_from(batch, gamma))

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        layers = (*named_tensors(self.policy, "policy"), *named_tensors(self.value, "value"))
        return [*layers, *self.head.named_tensors()]

    def _inputs(self, obs: NDArray[Any]) -> Tensor:
        """Turn stored observations `[N, *shape]` into what the networks take, on the device."""
        return torch.from_numpy(self._to_see.of(obs, self.normaliser.frozen())).to(self.device)
