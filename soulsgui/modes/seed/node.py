"""The training node of central inference from a program; with it comes torch, which actors do not need."""

import threading
import time
from typing import cast

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.intake.chunks import Accepted
from soulsgui.training.learners.replay import DeepQ, ReplayLearner
from soulsgui.training.nodes import DQNTrainingNode
from soulsgui.wire.access import Address


class TimedLearner(ReplayLearner):
    """Notes when the first samples came: `began`, by the monotonic clock."""

    began: float | None = None

    def insert(self, accepted: Accepted) -> None:
        """Take samples into the replay memory."""
        self.began = self.began or time.monotonic()
        super().insert(accepted)


class SeedNode(DQNTrainingNode):
    """Trains an agent that was given, or one of its settings."""

    def __init__(
        self,
        agent: DQNAgent | None,
        settings: Settings,
        run: RunFolder,
        address: Address,
        stop: threading.Event,
    ) -> None:
        self._given = agent
        super().__init__(settings, run, address, stop)

    @property
    def agent(self) -> DQNAgent:
        """What learns."""
        return cast("DQNAgent", self.learner.agent)

    @property
    def timed(self) -> TimedLearner:
        """What learns, with the time of its first samples."""
        return cast("TimedLearner", self.learner)

    def make_learner(self, run: TrainingRun) -> ReplayLearner:
        """Make a learner of the agent that was given."""
        return TimedLearner(run, DeepQ(run, self._given))
