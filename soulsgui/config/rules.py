"""Rules between settings, which a type and a range can't say."""

from dataclasses import dataclass

from soulsgui.config.declaring import needs_goal
from soulsgui.config.schema import Settings
from soulsgui.system import is_loopback

_ALGORITHMS_WITH_NAMED_NETWORKS = ("ppo", "dqn", "vtrace")
_ALGORITHMS_WITH_A_VALUE = ("ppo", "vtrace")


@dataclass(frozen=True)
class BrokenRule:
    """A setting that does not go with the others."""

    key: str
    reason: str


def broken_rules(settings: Settings) -> list[BrokenRule]:
    """Return every rule that the settings break."""
    broken = _broken_by_schedules(settings)
    if settings.network.name != "mlp" and settings.algorithm not in _ALGORITHMS_WITH_NAMED_NETWORKS:
        told = ", ".join(_ALGORITHMS_WITH_NAMED_NETWORKS)
        broken.append(BrokenRule("network.name", f"should be mlp: others go with algorithm {told} only."))
    for name, replay in (("dqn", settings.dqn), ("sac", settings.sac)):
        if max(replay.learning_starts, replay.batch_size) > replay.buffer_size:
            broken.append(
                BrokenRule(
                    f"{name}.buffer_size",
                    f"should hold at least {name}.learning_starts and {name}.batch_size transitions.",
                )
            )
    memory, goal = settings.replay, settings.stop.env_steps
    if memory is not None and goal is not None and goal <= memory.learning_starts:
        name = f"{settings.algorithm}.learning_starts"
        reason = (
            f"should be more than {name} ({memory.learning_starts:,}), or the run ends before its first "
            f"update: let it make more steps, or set {name} lower."
        )
        broken.append(BrokenRule("stop.env_steps", reason))
    if settings.network.shared and settings.algorithm not in _ALGORITHMS_WITH_A_VALUE:
        told = " and ".join(_ALGORITHMS_WITH_A_VALUE)
        broken.append(BrokenRule("network.shared", f"goes with algorithm {told} only."))
    if settings.vtrace.buffer_size < 2 * settings.vtrace.batch_size:
        broken.append(BrokenRule("vtrace.buffer_size", "should hold at least two times vtrace.batch_size."))
    broken += _broken_by_the_agent(settings)
    if settings.algorithm == "sac" and settings.network.squash != "tanh":
        broken.append(BrokenRule("network.squash", "has to be tanh for sac."))
    if settings.determinism == "lockstep" and settings.algorithm != "ppo":
        if not settings.explores:
            broken.append(BrokenRule("determinism", f"`lockstep` does not go with {settings.algorithm}."))
        elif settings.clients.local > 1:
            broken.append(
                BrokenRule("determinism", "`lockstep` lets one client play: set clients.local to 1 or 0.")
            )
    if settings.evaluation.best_by == "evaluation" and not settings.evaluates_every:
        broken.append(
            BrokenRule(
                "evaluation.best_by", "`evaluation` needs evaluation.every_updates, or nothing is ever best."
            )
        )
    if settings.stop.judged_by == "evaluation" and not settings.evaluates_every:
        broken.append(
            BrokenRule(
                "stop.judged_by", "`evaluation` needs evaluation.every_updates, or the goal is never reached."
            )
        )
    broken += _broken_by_memory(settings)
    if settings.learner.processes > 1 and settings.learner.compile == "on":
        broken.append(
            BrokenRule(
                "learner.compile", "does not go with learner.processes above 1: set it to auto or off."
            )
        )
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


def _broken_by_schedules(settings: Settings) -> list[BrokenRule]:
    """Return the rules that schedules add: a run without a known end has no whole to spread over."""
    if settings.stop.env_steps is not None:
        return []
    groups = {"ppo": settings.ppo, "dqn": settings.dqn, "sac": settings.sac, "vtrace": settings.vtrace}
    reason = "this schedule needs `over`, or stop.env_steps, the steps to spread over."
    return [
        BrokenRule(f"{name}.{key}", reason)
        for name, group in groups.items()
        for key, value in group
        if needs_goal(value)
    ]


def _broken_by_the_agent(settings: Settings) -> list[BrokenRule]:
    """Return the rules that the agents of the DQN family add."""
    dqn, broken = settings.dqn, []
    if not dqn.value_min < dqn.value_max:
        broken.append(BrokenRule("dqn.value_max", "should be more than dqn.value_min."))
    if settings.algorithm == "dqn" and dqn.agent == "iqn" and not settings.network.hidden_sizes:
        broken.append(BrokenRule("network.hidden_sizes", "needs at least one layer for dqn.agent iqn."))
    return broken


def _broken_by_memory(settings: Settings) -> list[BrokenRule]:
    """Return the rules that policies with a memory add."""
    broken = []
    recurrent = settings.network.recurrent != "none"
    r2d2 = settings.algorithm == "dqn" and settings.dqn.agent == "r2d2"
    if r2d2 and not recurrent:
        broken.append(BrokenRule("network.recurrent", "should be lstm or gru for dqn.agent r2d2."))
    if recurrent and not r2d2 and settings.algorithm != "ppo":
        broken.append(
            BrokenRule(
                "network.recurrent",
                "goes with algorithm ppo, or with algorithm dqn and dqn.agent r2d2; otherwise none.",
            )
        )
    if recurrent and settings.network.name == "mlp" and not settings.network.hidden_sizes:
        reason = "needs at least one layer with network.recurrent and network.name mlp."
        broken.append(BrokenRule("network.hidden_sizes", reason))
    if r2d2 and settings.dqn.exploration not in ("epsilon", "ladder"):
        broken.append(BrokenRule("dqn.exploration", "should be epsilon or ladder for dqn.agent r2d2."))
    if r2d2:
        # Sequences are drawn once they go on behind the burn-in, while their first step is still there: in
        # each environment, whose steps lie between those of the others.
        dqn, environments = settings.dqn, settings.env.num_envs * max(settings.clients.local, 1)
        needed = max(dqn.burn_in + dqn.sequence_length, environments * (dqn.burn_in + 1))
        if dqn.buffer_size < needed:
            reason = (
                f"should be at least {needed:,} for dqn.agent r2d2, or no sequence can ever be drawn: make "
                "it larger, or dqn.burn_in, dqn.sequence_length or env.num_envs smaller."
            )
            broken.append(BrokenRule("dqn.buffer_size", reason))
    if r2d2 and settings.dqn.q_clip is not None:
        broken.append(BrokenRule("dqn.q_clip", "does not go with dqn.agent r2d2: leave it empty."))
    return broken
