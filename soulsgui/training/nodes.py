"""The training nodes: what trains a run with each algorithm, and the process that runs one."""

import logging
from pathlib import Path

import torch

from soulsgui.config.layers import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.environments.images import LEAST_SIDES, image_words
from soulsgui.errors import CheckpointError
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.rl.networks.shapes import shape_lines
from soulsgui.system import atomic_write
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.checkpoint import newest_resumable
from soulsgui.training.learners.replay import DeepQ, ReplayLearner, SoftActorCritic
from soulsgui.training.learners.rounds import RoundLearner
from soulsgui.training.learners.vtrace import VTraceLearner
from soulsgui.training.spaces import FirstClient, spaces_found
from soulsgui.training.trainer import TrainingNode
from soulsgui.wire.connection import Address

logger = logging.getLogger(__name__)


class PPOTrainingNode(TrainingNode):
    """Trains a `PPOAgent` in rounds. See `TrainingNode` for the arguments."""

    def make_learner(self, run: TrainingRun) -> RoundLearner:
        """Make a learner for rounds."""
        return RoundLearner(run)


class DQNTrainingNode(TrainingNode):
    """Trains an agent of the DQN family. See `TrainingNode` for the arguments."""

    def make_learner(self, run: TrainingRun) -> ReplayLearner:
        """Make a learner with a replay memory."""
        return ReplayLearner(run, DeepQ(run))


class SACTrainingNode(TrainingNode):
    """Trains an agent of SAC's family. See `TrainingNode` for the arguments."""

    def make_learner(self, run: TrainingRun) -> ReplayLearner:
        """Make a learner with a replay memory."""
        return ReplayLearner(run, SoftActorCritic(run))


class VTraceTrainingNode(TrainingNode):
    """Trains a `VTraceAgent` on segments as they come. See `TrainingNode` for the arguments."""

    def make_learner(self, run: TrainingRun) -> VTraceLearner:
        """Make a learner that corrects for the age of what it learns from."""
        return VTraceLearner(run)


NODES: dict[str, type[TrainingNode]] = {
    "ppo": PPOTrainingNode,
    "dqn": DQNTrainingNode,
    "sac": SACTrainingNode,
    "vtrace": VTraceTrainingNode,
}
"""The node that trains each algorithm."""


def run_trainer(run: RunFolder, address: Address, checkpoint: Path | None = None) -> int:
    """Train a run until told to stop; return the exit code."""
    settings = load_run_settings(run.config)
    setup_logging(settings.logging.level)
    stop = stop_on_signals()
    if not spaces_found(settings, run) and not FirstClient(settings, run, address, stop).wait():
        return 0
    torch.set_num_threads(settings.learner.threads or 1)
    node = NODES[settings.algorithm](settings, run, address, stop)
    processes = settings.learner.processes
    if processes > 1 and node.training.device == "cpu":
        logger.warning(
            "learner.processes is %d without a GPU: on the CPU that is slower for all but large networks",
            processes,
        )
    passed_over: list[CheckpointError] = []
    chosen = checkpoint or newest_resumable(run, passed_over.append)
    node.passed_over = " ".join(error.message for error in passed_over)
    if chosen is not None:
        node.load_checkpoint(chosen)
    network = settings.network
    image = ""  # which sides of it are which, where the network sees it as such
    if network.name in LEAST_SIDES:
        image = image_words(node.training.spaces.observation, network.channels)
    tell_networks(node.agent, run, image)
    node.run()
    return 0


def tell_networks(agent: object, run: RunFolder, image: str = "") -> None:
    """Log the layers of an agent's networks, and write them into `network.txt`."""
    shapes = getattr(agent, "shapes", None)
    if shapes is None:  # it can't tell
        return
    lines = [f"image {image}"] if image else []
    lines += [line for name, report in shapes().items() for line in shape_lines(name, report)]
    for line in lines:
        logger.info("%s", line)
    atomic_write(run.network, ("\n".join(lines) + "\n").encode())
