"""Asynchronous soft actor-critic: its agent and its memory; clients draw from the policy itself."""

from soulsgui.config.sections.sac import SACSettings
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.buffers.memory import ReplayMemory, WindowReplay
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.training.agents import make_sac
from soulsgui.training.off_policy_node import OffPolicyTrainingNode


class SACTrainingNode(OffPolicyTrainingNode):
    """Trains a `SACAgent`. See `TrainingNode` for the arguments."""

    def _make_learner(self) -> tuple[SACAgent, ReplayMemory]:
        sac, spaces = self.settings.sac, self.spaces
        action = spaces.action
        ring = UniformReplay(
            sac.buffer_size,
            spaces.observation,
            action_shape=action.shape,
            action_dtype=action.dtype,
            storage=self._observation_storage(),
        )
        return make_sac(self.settings, spaces, self.device), WindowReplay(ring, 1, sac.gamma)

    @property
    def _pacing(self) -> SACSettings:
        return self.settings.sac

    def _exploration(self) -> None:
        """Return that clients explore as the policy itself says: it keeps its entropy."""
