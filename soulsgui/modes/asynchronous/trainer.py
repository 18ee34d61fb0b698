"""The asynchronous trainer: an ordinary off-policy node whose intervals are counted in updates."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Self

from gymnasium.spaces import Box

from soulsgui.config.layers import ConfigLike, as_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings, flatten
from soulsgui.config.sections.run import EnvSettings
from soulsgui.environments.make import Env, longest_episode, make_env
from soulsgui.errors import UsageError
from soulsgui.modes.agent_settings import NO_GOAL, dqn_unless_named, env_settings, try_agent
from soulsgui.modes.asynchronous.actors import (
    HOW_AGENTS_ARE_GIVEN,
    ActorManager,
    AgentConfig,
    InitGuard,
    is_agent_config,
)
from soulsgui.modes.asynchronous.config import AsyncTrainerConfig, ReplayBufferConfig
from soulsgui.modes.asynchronous.recorder import OPT_STEPS, RecordWriter
from soulsgui.modes.asynchronous.sync_model import OwnPolicy
from soulsgui.modes.evaluate import Asked, Evaluation, evaluate
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.system import explained
from soulsgui.wire.connection import Stopped

if TYPE_CHECKING:
    from soulsgui.modes.asynchronous.node import IntervalNode

Guard = Callable[[], AbstractContextManager[None]]
"""The context that environments are made in: an `InitGuard`."""

_BEST, _LAST = "best", "last"
_RATE = "dqn.epsilon"


class Evaluator:
    """Plays greedy episodes.

    Args:
        env_config: The environment: an id, or the settings below `env`.
        seed: Of the first episode; each next one has the next number.
        n_episodes: How many, at least one.

    Raises:
        UsageError: One of these can't be.
        ConfigError: A setting is mistaken.
    """

    def __init__(self, env_config: str | Mapping[str, Any], seed: int, n_episodes: int) -> None:
        given = env_settings(env_config)
        self._settings, self._seed, self._episodes = as_settings({"env": given}), seed, n_episodes
        for name, value, least in (("seed", seed, 0), ("n_episodes", n_episodes, 1)):
            if type(value) is not int or value < least:
                raise UsageError(
                    f"{name} of the Evaluator is {value!r}.", f"Give a whole number from {least} on."
                )

    def evaluate(self, policy: Policy, guard_init_env: Guard) -> Evaluation:
        """Play them; environments are made one process at a time.

        Raises:
            EvaluationError: The environment fails.
        """
        env, otherwise = self._settings.env, self._settings.evaluation.max_steps
        longest = longest_episode(env.id, env.kwargs, env.wrappers, otherwise)
        make = partial(_make_guarded, guard_init_env, env)
        return evaluate(policy, make, Asked(self._episodes, self._seed), max_steps=longest)


def _make_guarded(guard: Guard, env: EnvSettings) -> Env:
    with guard():
        return make_env(env.id, env.kwargs, env.wrappers)


@dataclass(frozen=True)
class AsyncTrainStat:
    """What a training came to; `duration` is that of `train`, in seconds, and what the rates go by."""

    samples_per_sec: float
    duration: float
    opt_per_sec: float
    opt_steps: int
    best_eval_reward: float | None
    stopped: bool  # before `max_opts`

    def fmt(self) -> str:
        """Return it in words."""
        best = "" if self.best_eval_reward is None else f", best evaluation {self.best_eval_reward:.1f}"
        return (
            f"{'Stopped after ' if self.stopped else ''}{self.opt_steps:,} optimisation steps: "
            f"{self.samples_per_sec:.1f} samples/s, {self.opt_per_sec:.1f} optimisation steps/s, "
            f"{self.duration:.1f} s{best}"
        )


class AsyncTrainer:
    """Trains with what actors send, and sends them its model.

    The replay ratio of the algorithm (`dqn.replay_ratio`) holds both in step: where the actors are quicker,
    they wait; nothing is lost.

    Args:
        config: When what is done.
        agent_config: The agent: what makes one of one's own, or settings of one of the program's (algorithm
            `dqn`, or `sac` for actions that are numbers). Of these the fields of `config`, of
            `replay_buffer_config` and of the actors win, and no goal ends the training (`stop`).
        replay_buffer_config: The replay memory.
        actors: Who samples.

    Raises:
        ConfigError: A setting is mistaken.
        UsageError: Two of these don't go together.
        EnvironmentCheckError: The environment can't be made here, or the agent can't choose its actions.
        HardwareError: There is not what the settings ask for (`learner.device`).
    """

    def __init__(
        self,
        config: AsyncTrainerConfig,
        agent_config: AgentConfig,
        replay_buffer_config: ReplayBufferConfig,
        actors: ActorManager,
    ) -> None:
        self._config, self._actors = config, actors
        self._make_own = agent_config if callable(agent_config) else None
        self._n_step = actors.step_proc_config.n_step
        if config.warmup_period > replay_buffer_config.capacity:
            raise UsageError(
                f"The replay buffer holds {replay_buffer_config.capacity} transitions; its warmup_period is "
                f"{config.warmup_period}.",
                "Choose a larger capacity, or a shorter warmup_period.",
            )
        if not is_agent_config(agent_config):
            raise UsageError(f"agent_config is {agent_config!r}.", HOW_AGENTS_ARE_GIVEN)
        given = {callable(one) for one in (agent_config, *actors.agent_configs.values())}
        if len(given) > 1:
            raise UsageError(
                "agent_config and the agent_configs of the actors are of two kinds: settings and own agents.",
                "Give all of them settings, or all of them what makes an agent.",
            )
        if callable(agent_config):
            algorithm = _algorithm_for(actors.env)
            of_agent = dict(agent_config().settings)
            base: ConfigLike = {"algorithm": algorithm, algorithm: of_agent, "normalize.rewards": False}
        else:
            base = dqn_unless_named(agent_config)
        chosen = as_settings(base, NO_GOAL | {"env": actors.env})
        self._settings = self._composed(base, chosen, replay_buffer_config)
        self._rates = _own_rates(actors.agent_configs, chosen)
        if self._make_own is None:
            try_agent(self._settings, ("dqn", "sac"))

    @classmethod
    def build(
        cls,
        config: AsyncTrainerConfig,
        agent_config: AgentConfig,
        replay_buffer_config: ReplayBufferConfig,
        actors: ActorManager,
    ) -> Self:
        """Return a trainer."""
        return cls(config, agent_config, replay_buffer_config, actors)

    def _composed(self, base: ConfigLike, chosen: Settings, buffer: ReplayBufferConfig) -> Settings:
        """Return the settings of a training node; `chosen` is what `base` comes to."""
        algorithm, has_own = chosen.algorithm, self._make_own is not None
        if algorithm not in ("dqn", "sac"):
            raise UsageError(
                f"The asynchronous trainer has a replay buffer; {algorithm} has none.", "Choose dqn or sac."
            )
        if (has_own or algorithm == "sac") and buffer.per_config is not None:
            raise UsageError(
                "Only agents of the DQN family draw by priority (per_config).", "Leave per_config out."
            )
        if not has_own and algorithm == "sac" and self._n_step > 1:
            raise UsageError("SAC and its relatives learn from single steps.", "Set n_step to 1.")
        pacing = getattr(chosen, algorithm)
        fixed = self._config.settings() | buffer.settings(pacing.batch_size / pacing.replay_ratio)
        fixed |= {"n_step": self._n_step} if algorithm == "dqn" else {}
        settings = as_settings(
            base,
            NO_GOAL
            | {
                "env": self._actors.env,
                algorithm: fixed,
                "client.segment_length": self._actors.config.n_buffer,
                "checkpoint.every_updates": 1_000_000,  # models are saved by the intervals of `config`
                "checkpoint.history_minutes": None,
                "evaluation.every_updates": 0,
            },
        )
        if settings.determinism == "lockstep":
            raise UsageError("determinism: lockstep has one client in turn; actors play at once.")
        if settings.inference == "server":
            raise UsageError(
                "inference: server takes the policy from the actors; here each has one of its own.",
                "Leave it out, or train by soulsgui.training.seed.Trainer.",
            )
        return settings

    def train(
        self, recorder: RecordWriter, evaluator: Evaluator, guard_init_env: InitGuard
    ) -> AsyncTrainStat:
        """Train until `max_opts`, or until Ctrl+C; call it once, while the actors run.

        What the recorder or the evaluator raises leaves it, too, once what was learned is saved as `last`.

        Raises:
            UsageError: The actors don't run, or were asked to stop; or nothing can be saved in `model_dir`.
            ServiceError: An actor failed again and again, or the training diverged.
            EvaluationError: The environment failed in an evaluation.
            CheckpointError: A model could not be saved.
        """
        from soulsgui.modes.asynchronous.node import IntervalNode  # actors import the program: no torch there

        actors, make = self._actors, self._make_own
        if not actors.running:
            raise UsageError(
                "The actors do not run.", "Call their run first, and create new ones for each training."
            )
        try:
            _check_writable(self._config.model_dir)
            run = RunFolder(actors.folder / "run")
            with guard_init_env(actors.stop):
                own = make() if make is not None else None
                node = IntervalNode(
                    self._settings, run, actors.address, actors.stop, own, self._rates, self._n_step
                )
            to_play = OwnPolicy(make()) if make is not None else make_policy(node.agent.policy_spec())
            guard = partial(guard_init_env, actors.stop)
            training = _Training(self._config, node, recorder, evaluator, guard, to_play)
            node.learner.call_at(training.next_interval, training.at)
            node.run()
            training.save(_LAST)
            actors.processes.check()
            if training.failure is not None:
                raise training.failure
            return training.stat()
        except Stopped:  # before the first update
            return AsyncTrainStat(0.0, 0.0, 0.0, 0, None, stopped=True)
        finally:
            recorder.close()


def _check_writable(folder: Path | None) -> None:
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        what, remedy = explained(error)
        raise UsageError(f"Nothing can be saved in model_dir: {what}", remedy) from error


def _algorithm_for(env: Mapping[str, Any]) -> str:
    """Return whose place an agent of one's own takes: SAC's where actions are numbers, else DQN's."""
    settings = as_settings({"env": dict(env)}).env
    made = make_env(settings.id, settings.kwargs, settings.wrappers)
    try:
        return "sac" if isinstance(made.action_space, Box) else "dqn"
    finally:
        made.close()


class _Training:
    """What is done at the intervals of one training."""

    def __init__(
        self,
        config: AsyncTrainerConfig,
        node: "IntervalNode",
        recorder: RecordWriter,
        evaluator: Evaluator,
        guard: Guard,
        policy: Policy,
    ) -> None:
        self._config, self._node, self._recorder = config, node, recorder
        self._evaluate = partial(evaluator.evaluate, guard_init_env=guard)
        self.failure: Exception | None = None  # of recorder or evaluator, whatever they raise
        self._policy = policy
        self._best: float | None = None
        self._first = node.agent.updates
        self._began = self._noted_at = time.monotonic()
        self._noted = 0, 0
        self._every = [
            config.eval_interval, config.flush_record_interval, config.record_compute_cost_interval,
            config.record_agent_info_interval, config.save_interval, config.sync_interval, config.max_opts,
        ]  # fmt: skip

    def next_interval(self, updates: int) -> int:
        """Return the next number of updates at which something is to be done."""
        return min((updates // every + 1) * every for every in self._every)

    def at(self, updates: int, now: float) -> None:
        """Do what is due after so many updates."""
        config, learner = self._config, self._node.learner
        record: dict[str, float] = {}
        if updates % config.sync_interval == 0 or updates == config.max_opts:
            learner.publish_next(now)
        if updates % config.record_agent_info_interval == 0:
            learner.tell_row(now)
            record |= learner.newest_figures
        try:
            self._tell_and_save(updates, now, record)
        except Stopped:
            pass
        except Exception as error:  # an OSError would pass for an absence of the server
            self.failure = error
            self._node.shutdown()
        if updates >= config.max_opts:
            self._node.shutdown()

    def _tell_and_save(self, updates: int, now: float, record: dict[str, float]) -> None:
        config = self._config

        def due(interval: int) -> bool:
            return updates % interval == 0

        if due(config.record_compute_cost_interval):
            record |= self._cost(updates, now)
        if due(config.eval_interval):
            record["eval_reward"] = self._evaluated()
        if record:
            self._recorder.write({OPT_STEPS: updates, **record})
        if due(config.flush_record_interval):
            self._recorder.flush()
        if due(config.save_interval):
            self.save(str(updates))

    def _cost(self, updates: int, now: float) -> dict[str, float]:
        before, samples = self._noted, self._node.training.env_steps
        seconds = max(now - self._noted_at, 1e-9)
        self._noted, self._noted_at = (updates, samples), now
        opts, sampled = updates - before[0], samples - before[1]
        return {
            "samples_total": samples,
            "opt_steps_per_sec": opts / seconds,
            "samples_per_sec": sampled / seconds,
            "samples_per_opt_steps": sampled / max(opts, 1),
        }

    def _evaluated(self) -> float:
        self._policy.load(self._node.learner.weights(published=False))
        found = self._evaluate(self._policy).mean_return
        if found > (-math.inf if self._best is None else self._best):  # NaN is no best one
            self._best = found
            self.save(_BEST, kind="best", score=found)
        return found

    def save(self, name: str, **options: Any) -> None:
        """Save the model as it is, where models are saved."""
        if self._config.model_dir is not None:
            self._node.checkpoint(self._config.model_dir / name, options)

    def stat(self) -> AsyncTrainStat:
        """Return the rates and results of the training so far."""
        seconds = time.monotonic() - self._began
        training, updates = self._node.training, self._node.agent.updates - self._first
        rates = training.env_steps / seconds, seconds, updates / seconds
        return AsyncTrainStat(*rates, updates, self._best, self._node.agent.updates < self._config.max_opts)


def _own_rates(configs: Mapping[str, AgentConfig], trainer: Settings) -> dict[str, float]:
    """Return the probability of random actions of each actor that has one of its own.

    Raises:
        UsageError: An actor has more of its own than that, or one that is not to be had.
    """
    common, rates = flatten(trainer.model_dump()), dict[str, float]()
    for name, config in configs.items():
        if callable(config):
            continue
        own = flatten(as_settings(trainer, config).model_dump())
        differing = {key for key in own if own[key] != common[key]} - set(NO_GOAL)
        if more := sorted(differing - {_RATE}):
            raise UsageError(
                f"{name} has other settings than the trainer: {', '.join(more)}.",
                f"Of its own an actor may have {_RATE} alone: give the others to agent_config or env_config.",
            )
        if not differing:
            continue
        if trainer.algorithm != "dqn":
            raise UsageError(
                f"{name} has a {_RATE} of its own, which is of no use to {trainer.algorithm}.",
                "Leave it out.",
            )
        if trainer.dqn.exploration in ("ladder", "boltzmann"):
            raise UsageError(
                f"{name} has a {_RATE} of its own, and dqn.exploration is {trainer.dqn.exploration}.",
                "Leave one of both out.",
            )
        if not isinstance(rate := own[_RATE], float):
            raise UsageError(
                f"{name} has a schedule as {_RATE}: an actor can only have one number of its own.",
                "Give the schedule to agent_config, for all actors, or choose a number.",
            )
        rates[name] = rate
    return rates
