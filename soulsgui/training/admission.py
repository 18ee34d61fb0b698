"""Whether a client may play for a run, told by its hello. Pure."""

from collections.abc import Mapping

from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.heartbeat import MAX_ENVS
from soulsgui.wire.messages.session import Hello
from soulsgui.wire.versions import update_needed

_SHOWN = 80
_SHARE_BYTES = 2**28
_STEP_BYTES = 32
"""Action, reward, log-probability and their like of one step, about."""


def most_envs(n_steps: int, observation_bytes: int) -> int:
    """Return how many environments a client may have for its share of a round to be held in memory.

    Args:
        n_steps: Steps of each environment in a round.
        observation_bytes: Bytes of one observation.
    """
    return max(1, min(_SHARE_BYTES // (n_steps * (observation_bytes + _STEP_BYTES)), MAX_ENVS))


def problem_of(
    hello: Hello | None, client: str, contract: str, least_versions: Mapping[str, str], envs: int = MAX_ENVS
) -> str:
    """Return why a client can't be let in, in words; empty when it can.

    Args:
        hello: What it said, None when that can't be read.
        client: Whose stream it came on.
        contract: Contract hash of the run.
        least_versions: Oldest version of each package that a client may run.
        envs: Most environments that it may step side by side.
    """
    if hello is None:
        return "its hello can't be read"
    if hello.client != client:
        return f"it calls itself {hello.client[:_SHOWN]!r}"
    if old := update_needed(hello.versions, least_versions):
        return old
    if hello.protocol != PROTOCOL:
        return f"it speaks protocol {hello.protocol}, this server {PROTOCOL}"
    if hello.contract != contract:
        return "its environment, wrappers or spaces differ from this run's"
    if hello.num_envs > envs:
        return (
            f"it steps {hello.num_envs:,} environments side by side: here a client may have {envs:,} at most "
            "(fewer of them, or a smaller ppo.n_steps)"
        )
    return ""
