"""Rules between settings, which a type and a range can't say."""

from dataclasses import dataclass

from soulsgui.config.schema import Settings
from soulsgui.system import is_loopback


@dataclass(frozen=True)
class BrokenRule:
    """A setting that does not go with the others."""

    key: str
    reason: str


def broken_rules(settings: Settings) -> list[BrokenRule]:
    """Return every rule that the settings break."""
    broken = []
    if settings.ppo.learning_rate_schedule == "linear" and settings.stop.env_steps is None:
        broken.append(
            BrokenRule(
                "ppo.learning_rate_schedule", "`linear` needs stop.env_steps, the steps to spread over."
            )
        )
    for name, replay in (("dqn", settings.dqn), ("sac", settings.sac)):
        if max(replay.learning_starts, replay.batch_size) > replay.buffer_size:
            broken.append(
                BrokenRule(
                    f"{name}.buffer_size",
                    f"should hold at least {name}.learning_starts and {name}.batch_size transitions.",
                )
            )
    broken += _broken_by_the_agent(settings)
    if settings.algorithm == "sac" and settings.network.squash != "tanh":
        broken.append(BrokenRule("network.squash", "has to be tanh for sac."))
    if not is_loopback(settings.redis.host):
        broken.append(
            BrokenRule(
                "redis.host",
                "should be an address of this machine itself, such as 127.0.0.1. Other computers on its "
                "private networks are let in by redis.lan; beyond those by redis.public, with redis.tls.",
            )
        )
    if settings.redis.public and not (settings.redis.lan and settings.redis.tls):
        broken.append(
            BrokenRule("redis.public", "needs redis.lan and redis.tls: nothing goes beyond unencrypted.")
        )
    return broken


def _broken_by_the_agent(settings: Settings) -> list[BrokenRule]:
    """Return the rules that the agents of the DQN family add."""
    dqn, broken = settings.dqn, []
    if not dqn.value_min < dqn.value_max:
        broken.append(BrokenRule("dqn.value_max", "should be more than dqn.value_min."))
    if settings.algorithm == "dqn" and dqn.agent == "iqn" and not settings.network.hidden_sizes:
        broken.append(BrokenRule("network.hidden_sizes", "needs at least one layer for dqn.agent iqn."))
    return broken
