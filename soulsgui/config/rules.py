"""Rules between settings, which a type and a range can't say."""

from dataclasses import dataclass

from soulsgui.config.schema import Settings
from soulsgui.system import is_loopback

_ALGORITHMS_WITH_NAMED_NETWORKS = ("ppo", "vtrace")


@dataclass(frozen=True)
class BrokenRule:
    """A setting that does not go with the others."""

    key: str
    reason: str


def broken_rules(settings: Settings) -> list[BrokenRule]:
    """Return every rule that the settings break."""
    broken = []
    for name, group in (("ppo", settings.ppo), ("vtrace", settings.vtrace)):
        if group.learning_rate_schedule == "linear" and settings.stop.env_steps is None:
            broken.append(
                BrokenRule(
                    f"{name}.learning_rate_schedule",
                    "`linear` needs stop.env_steps, the steps to spread over.",
                )
            )
    if settings.network.name != "mlp" and settings.algorithm not in _ALGORITHMS_WITH_NAMED_NETWORKS:
        told = " and ".join(_ALGORITHMS_WITH_NAMED_NETWORKS)
        broken.append(BrokenRule("network.name", f"should be mlp: others go with algorithm {told} only."))
    dqn = settings.dqn
    if max(dqn.learning_starts, dqn.batch_size) > dqn.buffer_size:
        broken.append(
            BrokenRule(
                "dqn.buffer_size", "should hold at least dqn.learning_starts and dqn.batch_size transitions."
            )
        )
    if settings.vtrace.buffer_size < 2 * settings.vtrace.batch_size:
        broken.append(BrokenRule("vtrace.buffer_size", "should hold at least two times vtrace.batch_size."))
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
