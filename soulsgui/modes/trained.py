"""A policy out of a checkpoint, and the environment it was trained on."""

from dataclasses import dataclass
from pathlib import Path

from soulsgui.config.sections.environment import EnvSettings
from soulsgui.errors import CheckpointError
from soulsgui.modes.evaluate import EnvMaker, check_spaces
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.training.checkpoint import read_checkpoint
from soulsgui.wire.manifest import Manifest


@dataclass(frozen=True)
class Trained:
    """What is needed to play with a checkpoint.

    Attributes:
        info: What the checkpoint says of itself.
        policy: Its policy, with its weights.
        maker: Makes the environment.
    """

    info: Manifest
    policy: Policy
    maker: EnvMaker


def open_trained(path: Path, env: EnvSettings) -> Trained:
    """Read a checkpoint, make its policy, and see whether the environment suits it.

    Args:
        path: The checkpoint's folder.
        env: The environment.

    Raises:
        CheckpointError: It is missing or damaged, its policy is of an unknown kind, or the environment
            differs from the one it was trained on.
        EnvironmentCheckError: The environment can't be made here.
    """
    checkpoint = read_checkpoint(path)
    maker = EnvMaker(env.id, env.kwargs, env.wrappers)
    try:
        policy = make_policy(checkpoint.info.policy)
        policy.load(checkpoint.weights)
        check_spaces(maker, checkpoint.info.spaces, env.id)
    except CheckpointError as error:
        raise CheckpointError(f"{path} can't be evaluated: {error.message}", error.remedy) from error
    return Trained(checkpoint.info, policy, maker)
