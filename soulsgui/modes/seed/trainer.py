"""Central inference from a Python program: a trainer in it, actors and inference servers beside it."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

from soulsgui.config.layers import ConfigLike, as_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import UsageError
from soulsgui.modes.agent_settings import NO_GOAL, dqn_unless_named
from soulsgui.modes.local import local_server
from soulsgui.modes.seed.actor import Actor
from soulsgui.modes.seed.inference_server import run_inference_server
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.training.attempt import TrainingRun
from soulsgui.training.intake.chunks import Accepted
from soulsgui.training.learners.replay import DeepQ, ReplayLearner
from soulsgui.training.nodes import DQNTrainingNode
from soulsgui.wire.access import Address
from soulsgui.wire.keys import inference_server

_LOOK_EVERY_S = 0.05

Environment = str | Mapping[str, Any]
"""A Gymnasium id, or the settings below `env` (`{"id": ..., "kwargs": ..., "wrappers": ...}`)."""


@dataclass
class Config:
    """How a `Trainer` trains.

    Attributes:
        max_environment_steps: Steps after which an episode is cut off, in place of the environment's own
            limit; -1: that one alone.
        n_step: Rewards that are added up before the value of what follows is asked for.
        epsilon: Probability of a random action; `ladder`: each environment has one of its own
            (`dqn.exploration`; with `boltzmann` there is none).
        actor_processes: Processes that step environments.
        actor_threads: Environments of each of them, stepped side by side.
        inference_servers: Processes that choose actions.
        broadcast_period: Least time between two changes of their weights, seconds.
        inference_batchsize: Environments that actions are chosen for at once, at most.
        inference_delay: How long a batch waits for more, from its first request on, seconds.
        inference_device: Where networks that need torch are computed (`central.inference_device`).
        minimum_buffer_size: Transitions before the first update.
        max_train_frequency: Updates a second, at most; -1: no limit.
    """

    max_environment_steps: int = -1
    n_step: int = 3
    epsilon: float | Literal["ladder"] = 0.1
    actor_processes: int = 1
    actor_threads: int = 4
    inference_servers: int = 1
    broadcast_period: float = 2.5
    inference_batchsize: int = 4
    inference_delay: float = 0.1
    inference_device: str = "auto"
    minimum_buffer_size: int = 1000
    max_train_frequency: float = -1.0

    def overrides(self, environment: Environment) -> dict[str, Any]:
        """Return the settings that these and an environment stand for, by their keys."""
        env: dict[str, Any] = {"id": environment} if isinstance(environment, str) else dict(environment)
        if self.max_environment_steps >= 0:
            env["kwargs"] = {**env.get("kwargs", {}), "max_episode_steps": self.max_environment_steps}
        ladder = self.epsilon == "ladder"
        return {
            **{f"env.{name}": value for name, value in env.items()},
            "env.num_envs": self.actor_threads,
            "inference": "server",
            "central.inference_servers": self.inference_servers,
            "central.inference_batchsize": self.inference_batchsize,
            "central.inference_delay": self.inference_delay,
            "central.inference_device": self.inference_device,
            "central.broadcast_period": self.broadcast_period,
            "dqn.n_step": self.n_step,
            "dqn.learning_starts": self.minimum_buffer_size,
            **({"dqn.exploration": "ladder"} if ladder else {}),
            "dqn.epsilon": _LADDER_EPSILON if ladder else self.epsilon,
            "learner.max_updates_per_s": self.max_train_frequency if self.max_train_frequency >= 0 else None,
        }


_LADDER_EPSILON = 0.4  # as in arXiv 1803.00933


@dataclass(frozen=True)
class TrainStats:
    """What a training came to; `restarts` counts processes that ended early, by name."""

    env_steps: int
    episodes: int
    updates: int
    seconds: float
    restarts: Mapping[str, int]


class Trainer:
    """Trains an agent of the DQN family by central inference.

    Args:
        agent: One (`rl.agents.dqn.DQNAgent`), which is trained where it is; or the settings of one
            (`{"dqn": {"agent": "rainbow"}}`).
        config: How.
        environment: What is played.
        run_dir: Folder for checkpoints; None leaves nothing behind but the agent.

    Attributes:
        agent: The agent, and after `start` what it has learned.
        address: While it trains, where its server is: for more `Actor`s.

    What `config` and `environment` stand for wins over the agent's settings, `dqn.n_step` and `dqn.epsilon`
    among them, and no goal ends the training (`stop`).

    Raises:
        ConfigError: A setting is mistaken.
        UsageError: The agent is not of the DQN family, or a field of `config` can't be.
        EnvironmentCheckError: The environment can't be made.
    """

    address: Address

    def __init__(
        self,
        agent: DQNAgent | ConfigLike,
        config: Config,
        environment: Environment,
        run_dir: Path | None = None,
    ) -> None:
        given = agent if isinstance(agent, DQNAgent) else None
        base = given.settings if given is not None else agent
        if not isinstance(base, Settings | Mapping | SimpleNamespace):
            raise UsageError(
                f"{type(agent).__name__} is no agent of the DQN family.",
                "Give a DQNAgent, or its settings such as {'dqn': {'agent': 'rainbow'}}.",
            )
        base = dqn_unless_named(base)
        if given is None and (algorithm := as_settings(base, NO_GOAL).algorithm) != "dqn":
            raise UsageError(
                f"The settings are of {algorithm}; this trainer has agents of the DQN family alone.",
                "Name none, or dqn.",
            )
        if config.actor_processes < 1:
            raise UsageError(f"actor_processes is {config.actor_processes}: one is needed at least.")
        for name in ("max_environment_steps", "max_train_frequency"):
            if (most := getattr(config, name)) != -1 and most <= 0:
                raise UsageError(f"{name} is {most}.", "Give a number above 0, or -1 for no limit.")
        if given is not None and given.parts.kind == "recurrent" and given.parts.n_step != config.n_step:
            raise UsageError(
                f"This agent was made for dqn.n_step {given.parts.n_step}; n_step is {config.n_step}.",
                f"Say n_step={given.parts.n_step}, or make the agent with another dqn.n_step.",
            )
        self._settings = as_settings(base, {"algorithm": "dqn"} | NO_GOAL | config.overrides(environment))
        self._config, self._run_dir = config, run_dir
        self._stop = threading.Event()
        self.agent = given

    def stop(self) -> None:
        """End what `start` began in another thread, or begins next."""
        self._stop.set()

    def start(self, duration: float) -> TrainStats:
        """Train for `duration` seconds from the first samples on, or until `stop` or Ctrl+C.

        All that was started has ended then.

        Called again, it goes on with the agent as it is and an empty replay memory.

        Raises:
            ServiceError: A process failed again and again, or the training diverged.
        """
        config, servers = self._config, self._config.inference_servers
        with ExitStack() as opened:
            opened.callback(self._stop.clear)
            folder, processes, address = opened.enter_context(local_server(self._stop))
            self.address, run = address, RunFolder(self._run_dir or folder / "runs" / "seed")
            node = _SeedNode(self.agent, self._settings, run, address, self._stop)
            if node.agent.spaces != node.training.spaces:
                raise UsageError(f"The agent was made for other spaces than {self._settings.env.id} has.")
            self.agent = node.agent
            before = node.agent.updates
            for name in map(inference_server, range(1, servers + 1)):
                processes.start(name, run_inference_server, address, name)
            for number in range(1, config.actor_processes + 1):
                actor = Actor(address, config.actor_threads, f"actor-{number}")
                processes.start(actor.name, actor.run)
            clock = _Clock(node.timed, duration, self._stop)
            opened.callback(clock.close)
            node.run()
            processes.check()
            training, seconds = node.training, clock.seconds
            updates = node.agent.updates - before
            restarts = {name: count for name, count in processes.restarts().items() if count}
            return TrainStats(training.env_steps, training.episodes, updates, seconds, restarts)


class _Clock:
    """Sets `stop` so many seconds after the first samples were taken in."""

    def __init__(self, learner: "_TimedLearner", duration: float, stop: threading.Event) -> None:
        self._learner, self._duration, self._stop = learner, duration, stop
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="training clock", daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """How long ago the first samples came; 0 before."""
        began = self._learner.began
        return 0.0 if began is None else time.monotonic() - began

    def _watch(self) -> None:
        while self._learner.began is None:
            if self._over.wait(_LOOK_EVERY_S):
                return
        if not self._over.wait(self._duration - self.seconds):
            self._stop.set()

    def close(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()


class _TimedLearner(ReplayLearner):
    """Notes when the first samples came: `began`, by the monotonic clock."""

    began: float | None = None

    def insert(self, accepted: Accepted) -> None:
        """Take samples into the replay memory."""
        self.began = self.began or time.monotonic()
        super().insert(accepted)


class _SeedNode(DQNTrainingNode):
    def __init__(
        self,
        agent: DQNAgent | None,
        settings: Settings,
        run: RunFolder,
        address: Address,
        stop: threading.Event,
    ) -> None:
        self._given = agent
        super().__init__(settings, run, address, stop)

    @property
    def agent(self) -> DQNAgent:
        """What learns."""
        return cast("DQNAgent", self.learner.agent)

    @property
    def timed(self) -> _TimedLearner:
        """What learns, with the time of its first samples."""
        return cast("_TimedLearner", self.learner)

    def make_learner(self, run: TrainingRun) -> ReplayLearner:
        """Make a learner of the agent that was given."""
        return _TimedLearner(run, DeepQ(run, self._given))
