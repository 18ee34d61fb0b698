"""The trainer process."""

import logging
from pathlib import Path

import torch

from soulsgui.config.load import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.sections.network import NetworkSettings
from soulsgui.environments.images import LEAST_SIDES, image_words
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.training.checkpoint import newest_resumable
from soulsgui.training.dqn_node import DQNTrainingNode
from soulsgui.training.first_client import FirstClient
from soulsgui.training.networks_told import tell_networks
from soulsgui.training.node import TrainingNode
from soulsgui.training.opening import spaces_found
from soulsgui.training.ppo_node import PPOTrainingNode
from soulsgui.training.sac_node import SACTrainingNode
from soulsgui.training.vtrace_node import VTraceTrainingNode
from soulsgui.wire.connection import Address

logger = logging.getLogger(__name__)

NODES: dict[str, type[TrainingNode]] = {
    "ppo": PPOTrainingNode,
    "dqn": DQNTrainingNode,
    "sac": SACTrainingNode,
    "vtrace": VTraceTrainingNode,
}
"""The node that trains each algorithm."""


def run_trainer(run: RunFolder, address: Address, checkpoint: Path | None = None) -> int:
    """Train a run until told to stop; return the exit code.

    Args:
        run: The run's folder, with its configuration.
        address: The server.
        checkpoint: Go on from this one; None goes on from the newest, if there is one.

    Raises:
        ConfigError: The run's configuration has mistakes.
        EnvironmentCheckError: The environment can't be made here, and no client may tell of it.
        CheckpointError: The checkpoint can't be used.
    """
    settings = load_run_settings(run.config)
    setup_logging(settings.logging.level)
    stop = stop_on_signals()
    if not spaces_found(settings, run) and not FirstClient(settings, run, address, stop).wait():
        return 0
    torch.set_num_threads(settings.learner.threads or 1)
    node = NODES[settings.algorithm](settings, run, address, stop)
    processes = settings.learner.processes
    if processes > 1 and node.device == "cpu":
        logger.warning(
            "learner.processes is %d without a GPU: on the CPU that is slower for all but large networks",
            processes,
        )
    chosen = checkpoint or newest_resumable(run)
    if chosen is not None:
        node.load_checkpoint(chosen)
    tell_networks(node.agent, run, _image_words(node.spaces, settings.network))
    node.run()
    return 0


def _image_words(spaces: SpacesSpec, network: NetworkSettings) -> str:
    """Return which sides of an image are which, where the network sees it as such; otherwise nothing."""
    seen = network.name in LEAST_SIDES
    return image_words(spaces.observation, network.channels) if seen else ""
