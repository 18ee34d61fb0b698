"""Soft actor-critic, also of quantiles (TQC): networks, optimiser, normaliser, random state, and the update
over a drawn batch.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.schema import Settings
from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.policy import actor_spec, with_encoding
from soulsgui.policies.specs import MLPPolicySpec
from soulsgui.rl.agents.base import Arrays, to_numpy
from soulsgui.rl.agents.replay_agent import ReplayAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.gradients.base import Gradient
from soulsgui.rl.gradients.sac import FIGURES, AutogradSACGradient, HandSACGradient, SACRows, TQCGradient
from soulsgui.rl.inputs import Inputs
from soulsgui.rl.networks.mlp import SACNetworks, build_sac_networks, named_layers
from soulsgui.rl.optimiser import FlatParameters


class SACAgent(ReplayAgent):
    """Learns a policy over numbers within bounds, and their values, from transitions of any policy.

    Soft actor-critic with two critics, target networks that follow softly and a learned temperature (Haarnoja
    et al. 2018, arXiv 1812.05905). Inside, actions are scaled to -1 … 1 by the bounds of their space, and
    entropies are those of scaled actions. Each update moves actor, critics and temperature at once, all by
    what the others were before it; it draws its actions from `sample_rng`.

    With `sac.agent` tqc several critics tell quantiles of the return: the lowest of all together are what
    they are drawn to, and the mean of all is what the actor raises (Kuznetsov et al. 2020, arXiv 2005.04269).

    Its figures are `critic_loss` and `actor_loss`; `q_mean`, the value of the actions taken; `target_mean`,
    what they are drawn to; `td_error`, the mean absolute difference of both; `entropy` of the policy over
    scaled actions, estimated; `temperature`. The arguments are those of `DQNAgent`; the group is `sac`.

    Raises:
        EnvironmentCheckError: The environment takes something else than numbers within bounds.
    """

    _FIGURES: ClassVar[Sequence[str]] = FIGURES

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        normalize = settings.normalize
        to_see = Inputs(spaces.observation, False, True, normalize.observations, normalize.clip)
        super().__init__(spaces, to_see, seed, device, normalize, self._FIGURES, "sac.learning_rate")
        self.settings = settings
        self._head = self._head_of(spaces.bounded_actions("sac"))
        self.networks = nets = build_sac_networks(
            to_see.seen.size,
            self._head.size,
            settings.network,
            settings.sac,
            torch.Generator().manual_seed(seed),
            self.device,
        )
        self._learn_with(FlatParameters(nets.learning), FlatParameters(nets.following))
        self._gradient = self._gradient_of(nets)

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""
        network = MLPPolicySpec(
            observation_shape=self._to_see.seen.shape,
            num_actions=self._head.outputs,
            first_action=0,
            hidden_sizes=tuple(self.settings.network.hidden_sizes),
            activation=self.settings.network.activation,
            normalise=self._normalises,
        )
        told = actor_spec(network.to_json(), self._head)
        return with_encoding(told, self.spaces.observation, self._to_see.images)

    def export_weights(self) -> Arrays:
        """Return what a client needs to act: actor and normaliser, copied, float32."""
        actor = named_layers(self.networks.actor, "policy")
        return self._with_statistics({name: to_numpy(tensor) for name, tensor in actor})

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return what the actor says of stored observations `[B, *shape]`: `[B, outputs]`, of its head.

        That is `[B, 2 * D]`, means and raw deviations of `u`; of TD3 the means `[B, D]` alone.
        """
        with torch.no_grad():
            return to_numpy(self.networks.actor(torch.from_numpy(self._inputs(obs)).to(self.device)))

    def start_values(self, obs: NDArray[Any], mask: None = None) -> NDArray[np.float32]:
        """Return the value `[B]`, a mean over all critics, of the policy's middle action at `[B, *shape]`."""
        inputs = torch.from_numpy(self._inputs(obs)).to(self.device)
        with torch.no_grad():
            action = self.networks.actor(inputs)[:, : self._head.size].tanh()
            seen = torch.cat((inputs, action), 1)
            return to_numpy(torch.cat([critic(seen) for critic in self.networks.critics], 1).mean(1))

    def update(self, batch: NStepBatch, tell: bool = True) -> None:
        """Make one gradient step with windows of any length, whose actions are `u`: none has a priority."""
        sac = self.settings.sac
        self._set_rate(sac.learning_rate)
        self._figures.add(self._gradient(self._rows(batch), self._target_entropy).figures)
        self._optimiser.step()
        self.updates += 1
        self._follow()

    def _head_of(self, action: BoxActionSpec) -> HeadSpec:
        """Return how clients make actions of what the actor says."""
        return HeadSpec(action.to_json(), "state_dependent", self.settings.network.initial_std, "tanh")

    def _gradient_of(self, networks: SACNetworks) -> Gradient[SACRows, Any]:
        """Return what takes the gradient: by hand where there is such."""
        sac = self.settings.sac
        if sac.agent == "tqc":
            return TQCGradient(networks, self._flat, sac.dropped_quantiles)
        on_cpu = self.device.type == "cpu"
        return HandSACGradient(networks) if on_cpu else AutogradSACGradient(networks, self._flat)

    def _follow(self) -> None:
        """Let the targets go their part of the way."""
        # What they follow stands last, before the temperature.
        followed = self._flat.parameter.data[-1 - self._target_flat.parameter.numel() : -1]
        self._target_flat.follow(followed, self.settings.sac.target_tau)

    @property
    def _target_entropy(self) -> float | None:
        """What the temperature aims at; None: it stays as it is."""
        sac = self.settings.sac
        if not sac.learn_temperature:
            return None
        return -float(self._head.size) if sac.target_entropy is None else sac.target_entropy

    def _modules(self) -> list[nn.Module]:
        return [self.networks.actor, *self.networks.critics, *self.networks.following]

    def _networks(self) -> list[tuple[str, Tensor]]:
        nets = self.networks
        pairs = enumerate(zip(nets.critics, nets.targets, strict=True))
        layers = (
            (*named_layers(critic, f"critic_{index}"), *named_layers(target, f"target_{index}"))
            for index, (critic, target) in pairs
        )
        return [
            *named_layers(nets.actor, "actor"),
            *chain.from_iterable(layers),
            *(() if nets.target_actor is None else named_layers(nets.target_actor, "target_actor")),
            ("log_temperature", nets.log_temperature),
        ]

    def _inputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Turn stored observations `[N, *shape]` into what the networks take, `[N, size]`."""
        return self._to_see.of(obs, self._statistics)

    def _rows(self, batch: NStepBatch) -> SACRows:
        """Turn a batch into what the gradient takes, with chance for its actions."""
        shape = (2, len(batch.reward), self._head.size)
        noise = self.sample_rng.standard_normal(shape, dtype=np.float32)
        return self._rows_with(batch, np.tanh(batch.action), noise)

    def _rows_with(self, batch: NStepBatch, action: NDArray[Any], noise: NDArray[Any]) -> SACRows:
        """Return what the gradient takes of a batch, with scaled actions and noise."""
        count = len(batch.reward)
        inputs = self._inputs(np.concatenate((batch.obs, batch.next_obs)))
        return SACRows(
            obs=inputs[:count],
            action=action,
            reward=batch.reward,
            next_obs=inputs[count:],
            discount=batch.discount,
            noise=noise,
        )
