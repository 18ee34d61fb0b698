"""TD3: the actor chooses one action for each observation, and moves at every few updates of the critics."""

import numpy as np

from soulsgui.config.schema import Settings
from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.action_heads import STD_NAME, HeadSpec
from soulsgui.policies.distributions import std_offset
from soulsgui.rl.agents.base import Arrays
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.gradients.sac import SACRows
from soulsgui.rl.gradients.td3 import FIGURES, TD3Gradient, TD3Step
from soulsgui.rl.networks.mlp import SACNetworks

_STD_AT_FIRST = 1.0


class TD3Agent(SACAgent):
    """Learns one action for each observation, and the values of actions, from transitions of any policy.

    Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv 1802.09477): clipped double
    Q-learning, target policy smoothing and delayed updates of the policy. Clients add noise to what the actor
    chooses, and cut the sum off at the bounds; what is stored is the sum, scaled, before it was cut off.

    Its figures are `critic_loss`, `q_mean`, `target_mean` and `td_error`, as those of `SACAgent`, whose
    arguments and errors it has, too. In its settings `sac.agent` is `td3`.
    """

    _FIGURES = FIGURES

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        super().__init__(spaces, settings, seed, device)
        self._actor_size = sum(parameter.numel() for parameter in self.networks.actor.parameters())

    def export_weights(self) -> Arrays:
        """Return what a client needs to act: actor, normaliser and the noise to explore with, copied."""
        # Before the first update there is nothing to be near to.
        wanted = self._head.initial_std if self.updates else _STD_AT_FIRST
        raw = std_offset(wanted) - std_offset(self._head.initial_std)
        return super().export_weights() | {STD_NAME: np.full(self._head.size, raw, np.float32)}

    def update(self, batch: NStepBatch, tell: bool = True) -> None:
        """Make a gradient step with windows of any length: none has a priority."""
        sac = self.settings.sac
        self._set_rate(sac.learning_rate)
        self.updates += 1
        moves = self.updates % sac.policy_delay == 0
        told = TD3Step(sac.target_noise, sac.target_noise_clip, moves)
        self._figures.add(self._gradient(self._rows(batch), told).figures)
        self._optimiser.step(slice(self._actor_size, None))
        if moves:
            self._optimiser.step(slice(self._actor_size), self.updates // sac.policy_delay)
            self._follow()

    def _head_of(self, action: BoxActionSpec) -> HeadSpec:
        return HeadSpec(
            action.to_json(), "state_independent", self.settings.sac.exploration_noise, "tanh_mean"
        )

    def _gradient_of(self, networks: SACNetworks) -> TD3Gradient:
        return TD3Gradient(networks, self._flat)

    def _rows(self, batch: NStepBatch) -> SACRows:
        """Turn a batch into what the gradient takes, with noise on the next actions."""
        noise = self.sample_rng.standard_normal(batch.action.shape, dtype=np.float32)
        return self._rows_with(batch, np.clip(batch.action, -1, 1), noise)
