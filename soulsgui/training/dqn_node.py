"""Asynchronous deep Q-learning: the agents of the DQN family, their memory, and how clients explore."""

import logging
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from soulsgui.config.sections.dqn import (
    BEYOND_SUPPORT,
    BEYOND_SUPPORT_REMEDY,
    DQNSettings,
    beyond_support_words,
)
from soulsgui.policies.still import with_still
from soulsgui.rl.agents.base import OffPolicyAgent
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.buffers.memory import ReplayMemory, WindowReplay
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.sequences import SequenceReplay
from soulsgui.rl.gradients.dqn import DQNParts
from soulsgui.training.agents import make_dqn
from soulsgui.training.exploring import Exploration
from soulsgui.training.off_policy_node import OffPolicyTrainingNode
from soulsgui.wire.messages.server_config import state_of

logger = logging.getLogger(__name__)


class DQNTrainingNode(OffPolicyTrainingNode):
    """Trains an agent of the DQN family. See `TrainingNode` for the arguments."""

    _told_beyond = False

    def _make_learner(self) -> tuple[OffPolicyAgent, ReplayMemory]:
        dqn, spaces = self.settings.dqn, self.spaces
        ring = UniformReplay(
            dqn.buffer_size, spaces.observation, spaces.masked_actions, storage=self._observation_storage()
        )
        self._q_learner = agent = make_dqn(self.settings, spaces, self.device)
        recurrent = agent.parts.kind == "recurrent"
        self._replay = self._sequences(ring, agent) if recurrent else self._windows(ring, agent)
        return agent, self._replay

    def _windows(self, ring: UniformReplay, agent: DQNAgent) -> WindowReplay | SequenceReplay:
        dqn = self.settings.dqn
        alpha = dqn.priority_exponent if agent.parts.prioritised else None
        return WindowReplay(ring, agent.parts.n_step, dqn.gamma, alpha)

    def _sequences(self, ring: UniformReplay, agent: DQNAgent) -> SequenceReplay:
        dqn, length = self.settings.dqn, self.settings.dqn.sequence_length
        ((field, (state_size,)),) = state_of(agent.policy_spec()).items()
        # At worst each step is a segment of its own, and a sequence begins with each.
        most = ring.capacity
        return SequenceReplay(ring, field, state_size, dqn.burn_in, length, most, dqn.priority_exponent)

    def _weights_to_publish(self) -> dict[str, NDArray[Any]]:
        if not self._q_learner.parts.noisy:
            return self._q_learner.export_weights()
        still = self._q_learner.export_weights(noise=False)
        return with_still(self._q_learner.export_weights(), still)

    def _weights_to_keep(self) -> dict[str, NDArray[Any]]:
        return self._q_learner.export_weights(noise=False)

    @property
    def _pacing(self) -> DQNSettings:
        return self.settings.dqn

    def _exploration(self) -> Exploration:
        dqn, moment = self.settings.dqn, self.moment
        if DQNParts.of(dqn).noisy:
            return Exploration(0.0)  # the weights that are published explore by themselves
        if dqn.exploration == "boltzmann":
            return Exploration(temperature=moment.value(dqn.temperature))
        epsilon = moment.value(dqn.epsilon)
        ladder = dqn.ladder_exponent if dqn.exploration == "ladder" else None
        return Exploration(epsilon, ladder=ladder)

    def _set_limits(self) -> None:
        super()._set_limits()
        self._replay.beta = self._correction()

    def _tell_update(self, previous: int, values: Mapping[str, float]) -> None:
        super()._tell_update(previous, values)
        beyond = beyond_support_words(values.get(BEYOND_SUPPORT, 0.0))
        if beyond and not self._told_beyond:
            self._told_beyond = True
            logger.warning("%s. %s", beyond, BEYOND_SUPPORT_REMEDY)

    def _correction(self) -> float:
        """Return how much of the bias of prioritised replay is undone now."""
        return self.moment.value(self.settings.dqn.priority_correction)

    def _scheduled(self) -> dict[str, float]:
        if not self._q_learner.parts.prioritised:
            return {}
        return {"priority_correction": self._correction()}
