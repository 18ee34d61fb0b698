"""The training nodes: what trains a run with each algorithm."""

from soulsgui.training.attempt import TrainingRun
from soulsgui.training.learners.off_policy import DeepQ, SoftActorCritic
from soulsgui.training.learners.replay import ReplayLearner
from soulsgui.training.learners.rounds import RoundLearner
from soulsgui.training.learners.vtrace import VTraceLearner
from soulsgui.training.trainer import Trainer


class PPOTrainingNode(Trainer):
    """Trains a `PPOAgent` in rounds. See `Trainer` for the arguments."""

    def make_learner(self, run: TrainingRun) -> RoundLearner:
        """Make a learner for rounds."""
        return RoundLearner(run)


class DQNTrainingNode(Trainer):
    """Trains an agent of the DQN family. See `Trainer` for the arguments."""

    def make_learner(self, run: TrainingRun) -> ReplayLearner:
        """Make a learner with a replay memory."""
        return ReplayLearner(run, DeepQ(run))


class SACTrainingNode(Trainer):
    """Trains a `SACAgent`. See `Trainer` for the arguments."""

    def make_learner(self, run: TrainingRun) -> ReplayLearner:
        """Make a learner with a replay memory."""
        return ReplayLearner(run, SoftActorCritic(run))


class VTraceTrainingNode(Trainer):
    """Trains a `VTraceAgent` on segments as they come. See `Trainer` for the arguments."""

    def make_learner(self, run: TrainingRun) -> VTraceLearner:
        """Make a learner that corrects for the age of what it learns from."""
        return VTraceLearner(run)


NODES: dict[str, type[Trainer]] = {
    "ppo": PPOTrainingNode,
    "dqn": DQNTrainingNode,
    "sac": SACTrainingNode,
    "vtrace": VTraceTrainingNode,
}
"""The node that trains each algorithm."""
