"""What is particular to R2D2 among the agents of the DQN family: a network that remembers."""

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.recurrent_spec import RecurrentPolicySpec
from soulsgui.rl.agents.saved import Arrays, to_numpy
from soulsgui.rl.dqn_parts import Parts
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.r2d2 import R2D2Gradient
from soulsgui.rl.networks.folding import head_layers, named
from soulsgui.rl.networks.heads import ActionHead
from soulsgui.rl.networks.named import inputs_of, torso_spec
from soulsgui.rl.networks.recurrent import recurrent_torso
from soulsgui.rl.networks.recurrent_q import RecurrentQNetwork
from soulsgui.rl.settings import DQNAgentSettings


class RecurrentKind:
    """R2D2: a torso, an LSTM or GRU, and dueling streams as wide as it (section 2.3).

    Args:
        spaces: What the network sees, and what the environment takes.
        settings: `network.recurrent` is a cell.
    """

    def __init__(self, spaces: SpacesSpec, settings: DQNAgentSettings) -> None:
        self._spaces, self._settings = spaces, settings
        self._actions: DiscreteSpec = spaces.numbered_actions("dqn")

    def network(self, generator: torch.Generator) -> nn.Module:
        """Make a network with weights drawn from a generator."""
        network = self._settings.network
        torso = recurrent_torso(network, self._spaces.observation, generator, by_fan_in=True)
        units = torso.features
        return RecurrentQNetwork(torso, ActionHead(units, self._actions.n, 1, units, True, False, generator))

    def gradient(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rng: np.random.Generator
    ) -> R2D2Gradient:
        """Make what writes the gradient of `online`, whose parameters `flat` holds."""
        networks = cast("RecurrentQNetwork", online), cast("RecurrentQNetwork", target)
        return R2D2Gradient(*networks, flat, Parts.of(self._settings.dqn).n_step)

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        network, seen = self._settings.network, self._spaces.observation
        return RecurrentPolicySpec(
            observation_shape=seen.shape,
            hidden_sizes=tuple(network.hidden_sizes),
            activation=network.activation,
            cell=network.recurrent,
            units=network.recurrent_size,
            head_sizes=(2 * network.recurrent_size,),  # both streams side by side
            normalise=inputs_of(seen, self._settings).normalises,
            head=HeadSpec(self._actions.to_json()),
            torso=torso_spec(network.name, seen),
        ).to_json()

    def exported(self, network: nn.Module) -> Arrays:
        """Return the weights that the policy takes, copies."""
        recurrent = cast("RecurrentQNetwork", network)
        remembering = {name: to_numpy(tensor) for name, tensor in recurrent.torso.named_tensors()}
        return remembering | named(head_layers(recurrent.head, mean=True), "policy")

    def values(self, network: nn.Module, inputs: Tensor) -> Tensor:
        """Return the values `[B, A]` of what the network takes, each seen twice at first."""
        return cast("RecurrentQNetwork", network).values(inputs)
