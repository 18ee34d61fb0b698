"""What a training node finds out before its first turn."""

import json
from pathlib import Path

import redis

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.config.settings_info import client_settings
from soulsgui.environments.make import make_env
from soulsgui.environments.masks import gives_masks
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError, EnvironmentMissingError
from soulsgui.rl.agents.base import Agent
from soulsgui.system import atomic_write
from soulsgui.wire.codec import CodecError
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig, contract_hash, state_of
from soulsgui.wire.weights import HEADER_BYTES, WeightsHeader, read_header


def find_spaces(settings: Settings, run: RunFolder) -> SpacesSpec:
    """Read what the probe found, or make the environment here.

    Raises:
        EnvironmentCheckError: The environment can't be made, its spaces are not supported, or what was
            found of it can't be read.
    """
    if run.spaces.exists():
        return _read_spaces(run.spaces)
    env = settings.env
    made = make_env(env.id, env.kwargs, env.wrappers)
    try:
        spaces = SpacesSpec.from_env(made.observation_space, made.action_space)
        masked = gives_masks(made.reset(seed=settings.seed)[1])
        return spaces.with_masks(masked)
    finally:
        made.close()


def spaces_found(settings: Settings, run: RunFolder) -> bool:
    """Make sure that the spaces stand in the run's folder, unless a client is to tell them.

    Returns:
        Whether they are known.

    Raises:
        EnvironmentCheckError: As `find_spaces`.
    """
    try:
        spaces = find_spaces(settings, run)
    except EnvironmentMissingError:
        if not settings.a_client_may_tell_the_spaces:
            raise
        return False
    if not run.spaces.exists():
        atomic_write(run.spaces, json.dumps(spaces.to_json(), indent=1).encode())
    return True


def _read_spaces(path: Path) -> SpacesSpec:
    try:
        return SpacesSpec.from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError, EnvironmentCheckError) as error:
        reason = error.message if isinstance(error, EnvironmentCheckError) else repr(error)
        raise EnvironmentCheckError(
            f"{path} can't be read: {reason}",
            "Remove the file and resume the run: the environment is probed again.",
        ) from error


def count_attempt(run: RunFolder) -> int:
    """Return this attempt's number, and write it into the run's folder.

    Raises:
        OSError: It can't be written.
    """
    try:
        begun = int(json.loads(run.attempts.read_text(encoding="utf-8"))["begun"])
    except (OSError, ValueError, KeyError, TypeError):
        begun = 0
    atomic_write(run.attempts, json.dumps({"begun": begun + 1}).encode())
    return begun + 1


def server_config(
    settings: Settings, run: RunFolder, attempt: int, spaces: SpacesSpec, agent: Agent, family: str
) -> ServerConfig:
    """Return the run as clients see it.

    Args:
        settings: The run's configuration.
        run: Its folder.
        attempt: Number of the attempt.
        spaces: Spaces of the environment.
        agent: The learner.
        family: Family of the algorithm (`wire.messages.server_config`).
    """
    env = settings.env
    told = client_settings(settings) | {"client.segment_length": settings.longest_segment}
    policy = agent.policy_spec()
    return ServerConfig(
        run_id=run.run_id,
        attempt=attempt,
        contract=contract_hash(
            env.id, env.kwargs, told["env.wrappers"], spaces.to_json(), family, state_of(policy)
        ),
        spaces=spaces.to_json(),
        policy=policy,
        settings=told,
        seed=settings.seed,
    )


def published_header(connection: redis.Redis, keys: Keys, run_id: str) -> WeightsHeader | None:
    """Return what is known of the weights that stand on the server, None when there are none of this run.

    Raises:
        redis.RedisError: The server is away.
    """
    head = connection.getrange(keys.weights, 0, HEADER_BYTES - 1)
    try:
        header = read_header(head) if isinstance(head, bytes) and head else None
    except CodecError:
        return None
    return header if header is not None and header.run_id == run_id else None
