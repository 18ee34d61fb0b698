"""Central inference from a Python program: a trainer in it, actors and inference servers beside it."""

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, field_validator

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import ConfigLike, as_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import UsageError
from soulsgui.modes.agent_settings import NO_GOAL, dqn_unless_named, env_settings, try_agent
from soulsgui.modes.asynchronous.config import YamlConfig
from soulsgui.modes.local import local_server
from soulsgui.modes.seed.actor import Actor
from soulsgui.modes.seed.inference_server import run_inference_server
from soulsgui.wire.access import Address
from soulsgui.wire.keys import inference_server

if TYPE_CHECKING:
    from soulsgui.modes.seed.node import TimedLearner
    from soulsgui.rl.agents.dqn import DQNAgent

_LOOK_EVERY_S = 0.05

Environment = str | Mapping[str, Any]
"""A Gymnasium id, or the settings below `env` (`{"id": ..., "kwargs": ..., "wrappers": ...}`)."""


class Config(YamlConfig):
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

    Raises:
        UsageError: A field is mistaken; the bounds of those that are settings a `Trainer` checks.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    max_environment_steps: int = -1
    n_step: int = 3
    epsilon: float | Literal["ladder"] = 0.1
    actor_processes: Annotated[int, Field(ge=1)] = 1
    actor_threads: int = 4
    inference_servers: int = 1
    broadcast_period: float = 2.5
    inference_batchsize: int = 4
    inference_delay: float = 0.1
    inference_device: str = "auto"
    minimum_buffer_size: int = 1000
    max_train_frequency: float = -1.0

    @field_validator("epsilon", mode="before")
    @classmethod
    def _rate_or_ladder(cls, value: Any) -> Any:
        if value != "ladder" and not (type(value) in (int, float) and 0 <= value <= 1):
            raise ValueError("should be a number from 0 to 1, or ladder")
        return value

    @field_validator("max_environment_steps", "max_train_frequency")
    @classmethod
    def _above_zero_or_no_limit(cls, value: float) -> float:
        if value != -1 and value <= 0:
            raise ValueError("should be above 0, or -1 for no limit")
        return value

    def overrides(self, environment: Environment) -> dict[str, Any]:
        """Return the settings that these and an environment stand for, by their keys."""
        env = env_settings(environment)
        kwargs = env.get("kwargs", {})
        if self.max_environment_steps >= 0 and isinstance(kwargs, Mapping):
            env["kwargs"] = {**kwargs, "max_episode_steps": self.max_environment_steps}
        ladder = self.epsilon == "ladder"
        return {
            **{f"env.{name}": value for name, value in env.items()},
            "inference": "server",
            **{key: getattr(self, field) for key, field in _SAME.items()},
            **({"dqn.exploration": "ladder"} if ladder else {}),
            "dqn.epsilon": _LADDER_EPSILON if ladder else self.epsilon,
            "learner.max_updates_per_s": self.max_train_frequency if self.max_train_frequency >= 0 else None,
        }


_LADDER_EPSILON = 0.4  # as in arXiv 1803.00933
_SAME = {
    "env.num_envs": "actor_threads",
    "central.inference_servers": "inference_servers",
    "central.inference_batchsize": "inference_batchsize",
    "central.inference_delay": "inference_delay",
    "central.inference_device": "inference_device",
    "central.broadcast_period": "broadcast_period",
    "dqn.n_step": "n_step",
    "dqn.learning_starts": "minimum_buffer_size",
}
"""Settings, each with the field that it is."""


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
        UsageError: The agent is not of the DQN family, or was made for something else.
        EnvironmentCheckError: The environment can't be made here, or the agent can't choose its actions.
        HardwareError: There is not what the settings ask for (`learner.device`).
    """

    address: Address

    def __init__(
        self,
        agent: "DQNAgent | ConfigLike",
        config: Config,
        environment: Environment,
        run_dir: Path | None = None,
    ) -> None:
        from soulsgui.rl.agents.dqn import DQNAgent  # actors import the program: no torch there

        given = agent if isinstance(agent, DQNAgent) else None
        base = given.settings if given is not None else agent
        if not isinstance(base, Settings | Mapping | SimpleNamespace):
            raise UsageError(
                f"{type(agent).__name__} is not an agent of the DQN family.",
                "Give a DQNAgent, or its settings such as {'dqn': {'agent': 'rainbow'}}.",
            )
        base = dqn_unless_named(base)
        if given is None and (algorithm := as_settings(base, NO_GOAL).algorithm) != "dqn":
            raise UsageError(
                f"The settings are of {algorithm}; this trainer has agents of the DQN family alone.",
                "Name none, or dqn.",
            )
        if given is not None and given.parts.kind == "recurrent" and given.parts.n_step != config.n_step:
            raise UsageError(
                f"This agent was made for dqn.n_step {given.parts.n_step}; n_step is {config.n_step}.",
                f"Say n_step={given.parts.n_step}, or make the agent with another dqn.n_step.",
            )
        overrides = {"algorithm": "dqn"} | NO_GOAL | config.overrides(environment)
        try:
            self._settings = as_settings(base, overrides)
        except ConfigError as error:  # by the names that were written
            named = [replace(one, key=_SAME.get(one.key, one.key)) for one in error.problems]
            raise ConfigError(named) from None
        spaces = try_agent(self._settings, ("dqn",))
        if given is not None and given.spaces != spaces:
            raise UsageError(f"The agent was made for other spaces than {self._settings.env.id} has.")
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
            UsageError: The duration is no number of seconds.
            ServiceError: A process failed again and again, or the training diverged.
        """
        from soulsgui.modes.seed.node import SeedNode

        if not isinstance(duration, int | float) or not duration >= 0:  # NaN, too
            raise UsageError(f"The duration is {duration!r}.", "Give a number of seconds; inf: until `stop`.")
        config, servers = self._config, self._config.inference_servers
        with ExitStack() as opened:
            opened.callback(self._stop.clear)
            try:
                folder, processes, address = opened.enter_context(local_server(self._stop))
            except SystemExit:  # asked to stop before there was a server: nothing was begun
                return TrainStats(0, 0, 0, 0.0, {})
            self.address, run = address, RunFolder(self._run_dir or folder / "runs" / "seed")
            node = SeedNode(self.agent, self._settings, run, address, self._stop)
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

    def __init__(self, learner: "TimedLearner", duration: float, stop: threading.Event) -> None:
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
        while (left := self._duration - self.seconds) > 0:
            if self._over.wait(min(left, threading.TIMEOUT_MAX)):
                return
        self._stop.set()

    def close(self) -> None:
        """End."""
        self._over.set()
        self._thread.join()
