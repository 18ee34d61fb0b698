"""Rules between settings, which a type and a range can't say."""

from collections.abc import Iterator
from typing import NamedTuple

from soulsgui.config.declaring import needs_goal
from soulsgui.config.schema import SECTIONS_OF_ALGORITHMS, Settings
from soulsgui.system import is_loopback


class BrokenRule(NamedTuple):
    """A setting that does not go with the others."""

    key: str
    reason: str


def broken_rules(settings: Settings) -> list[BrokenRule]:
    """Return every rule that the settings break."""
    rules = (_schedules, _algorithms, _agents, _recurrence, _determinism, _inference, _evaluation, _machine)
    return [BrokenRule(key, reason) for rule in rules for key, reason in rule(settings)]


Broken = Iterator[tuple[str, str]]  # keys, each with what is wrong


def _schedules(settings: Settings) -> Broken:
    """Without a known end a run has no whole to spread a schedule over."""
    if settings.stop.env_steps is not None:
        return
    reason = "this schedule needs `over`, or stop.env_steps, the steps to spread over."
    for name in SECTIONS_OF_ALGORITHMS:
        yield from ((f"{name}.{key}", reason) for key, value in getattr(settings, name) if needs_goal(value))


def _algorithms(settings: Settings) -> Broken:
    algorithm, network = settings.algorithm, settings.network
    if network.name != "mlp" and algorithm == "sac":
        yield "network.name", "should be mlp: other networks only work with algorithm ppo, dqn or vtrace."
    for name, replay in (("dqn", settings.dqn), ("sac", settings.sac)):
        if max(replay.learning_starts, replay.batch_size) > replay.buffer_size:
            told = f"{name}.learning_starts and {name}.batch_size"
            yield f"{name}.buffer_size", f"should hold at least {told} transitions."
    memory, goal = settings.replay, settings.stop.env_steps
    if memory is not None and goal is not None and goal <= memory.learning_starts:
        name = f"{algorithm}.learning_starts"
        reason = (
            f"should be more than {name} ({memory.learning_starts:,}), or the run ends before its first "
            f"update: allow more steps, or set {name} lower."
        )
        yield "stop.env_steps", reason
    if network.shared and algorithm not in ("ppo", "vtrace"):
        yield "network.shared", "only works with algorithm ppo and vtrace."
    if settings.vtrace.buffer_size < 2 * settings.vtrace.batch_size:
        yield "vtrace.buffer_size", "should hold at least two times vtrace.batch_size."
    if settings.sac.dropped_quantiles >= settings.sac.quantiles:
        yield "sac.dropped_quantiles", "should be less than sac.quantiles."
    if algorithm == "sac" and network.squash != "tanh":
        yield "network.squash", "has to be tanh for sac."


def _agents(settings: Settings) -> Broken:
    """What the agents of a family ask for."""
    dqn = settings.dqn
    if not dqn.value_min < dqn.value_max:
        yield "dqn.value_max", "should be more than dqn.value_min."
    if settings.agent == "iqn" and not settings.network.hidden_sizes:
        yield "network.hidden_sizes", "needs at least one layer for dqn.agent iqn."
    if settings.agent == "crossq":
        if settings.learner.processes > 1:
            told = "should be 1 for sac.agent crossq, whose networks are normalised over a complete batch."
            yield "learner.processes", told
        if settings.sac.batch_size < 2:
            yield "sac.batch_size", "should be at least 2 for sac.agent crossq: one sample has no deviation."
    if settings.agent != "r2d2":
        return
    if settings.network.recurrent == "none":
        yield "network.recurrent", "should be lstm or gru for dqn.agent r2d2."
    if dqn.exploration not in ("epsilon", "ladder"):
        yield "dqn.exploration", "should be epsilon or ladder for dqn.agent r2d2."
    # Sequences are drawn once they go on behind the burn-in, while their first step is still there: in
    # each environment, whose steps lie between those of the others.
    environments = settings.env.num_envs * max(settings.clients.local, 1)
    needed = max(dqn.burn_in + dqn.sequence_length, environments * (dqn.burn_in + 1))
    if dqn.buffer_size < needed:
        reason = (
            f"should be at least {needed:,} for dqn.agent r2d2, or no sequence can ever be sampled: make it "
            "larger, or dqn.burn_in, dqn.sequence_length or env.num_envs smaller."
        )
        yield "dqn.buffer_size", reason
    if dqn.q_clip is not None:
        yield "dqn.q_clip", "does not work with dqn.agent r2d2: leave it empty."


def _recurrence(settings: Settings) -> Broken:
    network = settings.network
    if network.recurrent == "none":
        return
    if settings.algorithm != "ppo" and settings.agent != "r2d2":
        told = (
            "only works with algorithm ppo, or with algorithm dqn and dqn.agent r2d2; otherwise set it to "
            "none."
        )
        yield "network.recurrent", told
    if network.name == "mlp" and not network.hidden_sizes:
        told = "needs at least one layer with network.recurrent and network.name mlp."
        yield "network.hidden_sizes", told


def _determinism(settings: Settings) -> Broken:
    if settings.determinism != "lockstep" or settings.algorithm == "ppo":
        return
    if not settings.explores:
        yield "determinism", f"`lockstep` does not work with {settings.algorithm}."
    elif settings.clients.local > 1:
        yield "determinism", "`lockstep` lets one client play: set clients.local to 1 or 0."


def _inference(settings: Settings) -> Broken:
    if settings.inference == "local":
        return
    if settings.algorithm == "ppo":
        yield "inference", "`server` does not work with rounds: choose another algorithm than ppo."
    if settings.determinism == "lockstep":
        yield "inference", "`server` does not work with determinism=lockstep."


def _evaluation(settings: Settings) -> Broken:
    if settings.evaluates_every:
        return
    needs = "`evaluation` needs evaluation.every_updates, or"
    if settings.evaluation.best_by == "evaluation":
        yield "evaluation.best_by", f"{needs} there is never a best model."
    if settings.stop.judged_by == "evaluation":
        yield "stop.judged_by", f"{needs} the goal is never reached."


def _machine(settings: Settings) -> Broken:
    redis = settings.redis
    if settings.learner.processes > 1 and settings.learner.compile == "on":
        yield "learner.compile", "does not work with learner.processes above 1: set it to auto or off."
    if not is_loopback(redis.host):
        reason = (
            "should be an address of this machine itself, such as 127.0.0.1. Other computers on its "
            "private networks are let in by redis.lan, those beyond by redis.public."
        )
        yield "redis.host", reason
    if redis.public and not redis.lan:
        yield "redis.public", "needs redis.lan."
