"""Asynchronous deep Q-learning: the agents of the DQN family, their memory, and how clients explore."""

from soulsgui.config.sections.dqn import DQNSettings
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.agents.off_policy import OffPolicyAgent
from soulsgui.rl.buffers.memory import Memory
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.windows import WindowReplay
from soulsgui.training.exploring import Exploration, falling
from soulsgui.training.off_policy_node import OffPolicyTrainingNode


class DQNTrainingNode(OffPolicyTrainingNode):
    """Trains an agent of the DQN family. See `TrainingNode` for the arguments."""

    def _make_learner(self) -> tuple[OffPolicyAgent, Memory]:
        dqn, spaces = self.settings.dqn, self.spaces
        ring = UniformReplay(dqn.buffer_size, spaces.observation, spaces.masked_actions)
        return DQNAgent(spaces, self.settings, self.settings.seed, self.device), WindowReplay(
            ring, 1, dqn.gamma
        )

    @property
    def _pacing(self) -> DQNSettings:
        return self.settings.dqn

    def _exploration(self) -> Exploration:
        dqn = self.settings.dqn
        return Exploration(falling(dqn.epsilon_start, dqn.epsilon_end, dqn.epsilon_steps, self.env_steps))
