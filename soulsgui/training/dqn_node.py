"""Asynchronous deep Q-learning: the agents of the DQN family, their memory, and how clients explore."""

from typing import Any

from numpy.typing import NDArray

from soulsgui.config.sections.dqn import DQNSettings
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.agents.off_policy import OffPolicyAgent
from soulsgui.rl.buffers.memory import Memory
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.windows import WindowReplay
from soulsgui.rl.dqn_parts import Parts
from soulsgui.training.exploring import Exploration, falling
from soulsgui.training.off_policy_node import OffPolicyTrainingNode


class DQNTrainingNode(OffPolicyTrainingNode):
    """Trains an agent of the DQN family. See `TrainingNode` for the arguments."""

    def _make_learner(self) -> tuple[OffPolicyAgent, Memory]:
        dqn, spaces = self.settings.dqn, self.spaces
        agent = DQNAgent(spaces, self.settings, self.settings.seed)
        ring = UniformReplay(dqn.buffer_size, spaces.observation, spaces.masked_actions)
        alpha = dqn.priority_exponent if agent.parts.prioritised else None
        self._windows = WindowReplay(ring, agent.parts.n_step, dqn.gamma, alpha)
        self._learner = agent
        return agent, self._windows

    def _weights_to_keep(self) -> dict[str, NDArray[Any]]:
        return self._learner.export_weights(noise=False)

    @property
    def _pacing(self) -> DQNSettings:
        return self.settings.dqn

    def _exploration(self) -> Exploration:
        dqn, done = self.settings.dqn, self.env_steps
        if Parts.of(dqn).noisy:
            return Exploration(0.0)  # the weights that are published explore by themselves
        if dqn.exploration == "boltzmann":
            start, end, steps = dqn.temperature_start, dqn.temperature_end, dqn.temperature_steps
            return Exploration(temperature=falling(start, end, steps, done))
        epsilon = falling(dqn.epsilon_start, dqn.epsilon_end, dqn.epsilon_steps, done)
        ladder = dqn.ladder_exponent if dqn.exploration == "ladder" else None
        return Exploration(epsilon, ladder=ladder)

    def _set_limits(self) -> None:
        super()._set_limits()
        self._windows.beta = self._correction()

    def _correction(self) -> float:
        """Return how much of the bias of prioritised replay is undone now: in the end, all of it."""
        dqn = self.settings.dqn
        return falling(dqn.priority_correction, 1.0, dqn.priority_correction_steps, self.env_steps)
