"""The asynchronous trainer: an ordinary off-policy node whose intervals are counted in updates."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch

from soulsgui.config.layers import as_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.config.sections.run import EnvSettings
from soulsgui.environments.make import Env, longest_episode, make_env
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.modes.asynchronous.actors import ActorManager, AgentConfig
from soulsgui.modes.asynchronous.config import AsyncTrainerConfig, ReplayBufferConfig
from soulsgui.modes.asynchronous.recorder import OPT_STEPS, Recorder
from soulsgui.modes.asynchronous.sync_model import OwnAlgorithm, OwnPolicy, SyncModel
from soulsgui.modes.evaluate import Evaluation, evaluate
from soulsgui.modes.local import InitGuard
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.intake.sessions import Exploration
from soulsgui.training.learners.replay import DeepQ, ReplayLearner, SoftActorCritic
from soulsgui.training.trainer import Trainer

_BEST = "best"


class Evaluator:
    """Plays greedy episodes.

    Args:
        env_config: The environment: an id, or the settings below `env`.
        seed: Of the first episode; each next one has the next number.
        n_episodes: How many.
    """

    def __init__(self, env_config: str | Mapping[str, Any], seed: int, n_episodes: int) -> None:
        given = {"id": env_config} if isinstance(env_config, str) else dict(env_config)
        self._env, self._seed, self._episodes = as_settings({"env": given}).env, seed, n_episodes

    def evaluate(self, policy: Policy, guard_init_env: InitGuard) -> Evaluation:
        """Play them; environments are made one process at a time.

        Raises:
            EvaluationError: The environment fails.
        """
        env = self._env
        longest = longest_episode(env.id, env.kwargs, env.wrappers, otherwise=_LONGEST)
        make = partial(_make_guarded, guard_init_env, env)
        return evaluate(policy, make, self._episodes, self._seed, max_steps=longest)


_LONGEST = 10_000


def _make_guarded(guard: InitGuard, env: EnvSettings) -> Env:
    with guard():
        return make_env(env.id, env.kwargs, env.wrappers)


@dataclass(frozen=True)
class AsyncTrainStat:
    """What a training came to; `duration` is that of `train`, in seconds, and what the rates go by."""

    samples_per_sec: float
    duration: float
    opt_per_sec: float
    best_eval_reward: float | None

    def fmt(self) -> str:
        """Return it in words."""
        best = "" if self.best_eval_reward is None else f", best evaluation {self.best_eval_reward:.1f}"
        return (
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
            `dqn`, or `sac` for actions that are numbers).
        replay_buffer_config: The replay memory.
        actors: Who samples.

    Raises:
        ConfigError: A setting is mistaken.
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
        self._settings = self._composed(agent_config, replay_buffer_config)
        self._rates = {} if self._make_own else _own_rates(actors.agent_configs)

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

    def _composed(self, agent_config: AgentConfig, buffer: ReplayBufferConfig) -> Settings:
        """Return the settings of a training node."""
        actors, config = self._actors, self._config
        common = {
            "env": actors.env,
            "client.segment_length": actors.config.n_buffer,
            "checkpoint.every_updates": min(config.save_interval, 1_000_000),
            "evaluation.every_updates": 0,
        }
        of_algorithm = config.settings() | buffer.settings()
        if not callable(agent_config):
            chosen = as_settings(agent_config)
            algorithm = chosen.algorithm if chosen.algorithm == "sac" else "dqn"
            if algorithm == "dqn":
                of_algorithm["n_step"] = actors.step_proc_config.n_step
            return as_settings(agent_config, {"algorithm": algorithm, algorithm: of_algorithm, **common})
        own = agent_config()
        env = as_settings({"env": actors.env}).env
        made = make_env(env.id, env.kwargs, env.wrappers)
        try:
            spaces = SpacesSpec.from_env(made.observation_space, made.action_space)
        finally:
            made.close()
        algorithm = "sac" if spaces.action.dtype == "float32" else "dqn"
        if algorithm == "dqn":
            of_algorithm["n_step"] = actors.step_proc_config.n_step
        return as_settings({"algorithm": algorithm, algorithm: {**own.settings, **of_algorithm}, **common})

    def train(self, recorder: Recorder, evaluator: Evaluator, guard_init_env: InitGuard) -> AsyncTrainStat:
        """Train until `max_opts`, or until Ctrl+C; call it while the actors run.

        Raises:
            ServiceError: An actor failed again and again, or the training diverged.
        """
        actors, threads = self._actors, torch.get_num_threads()
        own = self._make_own() if self._make_own is not None else None
        with guard_init_env():
            node = _Node(own, self._rates, self._settings, self._run_folder(), actors.address, actors.stop)
        agent_to_play = OwnPolicy(self._make_own()) if self._make_own is not None else None
        training = _Training(self._config, node, recorder, evaluator, guard_init_env, agent_to_play)
        node.learner.call_at(training.next_interval, training.at)
        try:
            node.run()
        finally:
            recorder.close()
            torch.set_num_threads(threads)
        actors.processes.check()
        return training.stat()

    def _run_folder(self) -> RunFolder:
        folder = self._config.model_dir or self._actors.folder
        return RunFolder(Path(folder) / "run")


class _Training:
    """What is done at the intervals of one training."""

    def __init__(
        self,
        config: AsyncTrainerConfig,
        node: "_Node",
        recorder: Recorder,
        evaluator: Evaluator,
        guard: InitGuard,
        own: OwnPolicy | None,
    ) -> None:
        self._config, self._node, self._recorder = config, node, recorder
        self._evaluate = partial(evaluator.evaluate, guard_init_env=guard)
        self._policy = own or make_policy(node.agent.policy_spec())
        self._record: dict[str, float] = {}
        self._best: float | None = None
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

        def due(interval: int) -> bool:
            return updates % interval == 0

        if due(config.sync_interval) or updates == config.max_opts:
            learner.publish_next(now)
        if due(config.record_agent_info_interval):
            learner.tell_row(now)
            self._record |= learner.newest_figures
        if due(config.record_compute_cost_interval):
            self._note_cost(updates, now)
        if due(config.eval_interval):
            self._evaluate_now()
        if self._record and (due(config.flush_record_interval) or due(config.eval_interval)):
            self._recorder.write({OPT_STEPS: updates, **self._record})
            self._record = {}
        if due(config.save_interval):
            self._save(str(updates))
        if updates >= config.max_opts:
            self._node.shutdown()

    def _note_cost(self, updates: int, now: float) -> None:
        before, samples = self._noted, self._node.training.env_steps
        seconds = max(now - self._noted_at, 1e-9)
        self._noted, self._noted_at = (updates, samples), now
        opts, sampled = updates - before[0], samples - before[1]
        self._record |= {
            "samples_total": samples,
            "opt_steps_per_sec": opts / seconds,
            "samples_per_sec": sampled / seconds,
            "samples_per_opt_steps": sampled / max(opts, 1),
        }

    def _evaluate_now(self) -> None:
        self._policy.load(self._node.learner.weights(published=False))
        found = self._evaluate(self._policy).mean_return
        self._record["eval_reward"] = found
        if self._best is None or found > self._best:
            self._best = found
            self._save(_BEST, kind="best", score=found)

    def _save(self, name: str, **options: Any) -> None:
        if self._config.model_dir is not None:
            self._node.checkpoint(self._config.model_dir / name, options)

    def stat(self) -> AsyncTrainStat:
        """Return what it came to."""
        seconds = time.monotonic() - self._began
        training, updates = self._node.training, self._node.agent.updates
        return AsyncTrainStat(training.env_steps / seconds, seconds, updates / seconds, self._best)


class _IntervalLearner(ReplayLearner):
    """Stops learning at numbers of updates that somebody names, and calls him there."""

    newest_figures: dict[str, float] = {}  # noqa: RUF012

    def call_at(self, next_one: Callable[[int], int], call: Callable[[int, float], None]) -> None:
        """Call at the next number of updates, again and again."""
        self._next_one, self._call = next_one, call
        self._next = next_one(self.agent.updates)

    @property
    def due(self) -> bool:
        """Whether an update is due."""
        return self.agent.updates < self._next and super().due

    def tell_when_due(self, now: float) -> None:
        """Do what is due; weights are published then alone."""
        if self.agent.updates >= self._next:
            self._call(self.agent.updates, now)
            self._next = self._next_one(self.agent.updates)

    def own_figures(self, of_agent: Mapping[str, float]) -> dict[str, float]:
        """Keep what the agent tells."""
        self.newest_figures = dict(of_agent)
        return super().own_figures(of_agent)


class _ExploringActors(DeepQ):
    def __init__(self, run: TrainingRun, rates: Mapping[str, float]) -> None:
        super().__init__(run)
        self._rates = rates

    def exploration(self, moment: Any) -> Exploration:
        """Return how clients are to explore, those with a rate of their own by it."""
        found = super().exploration(moment)
        return Exploration(found.epsilon, found.temperature, found.ladder, own=self._rates)


class _Node(Trainer):
    learner: _IntervalLearner

    def __init__(
        self,
        own: SyncModel | None,
        rates: Mapping[str, float],
        settings: Settings,
        run: RunFolder,
        address: Any,
        stop: threading.Event,
    ) -> None:
        self._own, self._rates = own, rates
        super().__init__(settings, run, address, stop)

    def make_learner(self, run: TrainingRun) -> _IntervalLearner:
        """Make a learner with the agent."""
        if self._own is not None:
            algorithm: Any = OwnAlgorithm(run, self._own)
        elif run.settings.algorithm == "sac":
            algorithm = SoftActorCritic(run)
        else:
            algorithm = _ExploringActors(run, self._rates)
        return _IntervalLearner(run, algorithm)


def _own_rates(configs: Mapping[str, AgentConfig]) -> dict[str, float]:
    """Return the probability of random actions of each actor whose configuration names one."""
    rates = {
        name: as_settings(config).dqn.epsilon for name, config in configs.items() if not callable(config)
    }
    return {name: rate for name, rate in rates.items() if isinstance(rate, float)}
