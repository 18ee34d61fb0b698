"""The sampling processes of an asynchronous trainer, and the server that they meet it on."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import redis

from soulsgui.config.layers import ConfigLike
from soulsgui.config.schema import Settings
from soulsgui.errors import UsageError
from soulsgui.modes.agent_settings import env_settings
from soulsgui.modes.asynchronous.config import ActorManagerConfig, SimpleStepProcessorConfig
from soulsgui.modes.asynchronous.sync_model import OwnPolicy, SyncModel
from soulsgui.modes.local import check_sendable, local_server
from soulsgui.sampling.client import ClientOptions, run_client
from soulsgui.system import FileLock, explained
from soulsgui.wire.access import Address
from soulsgui.wire.connection import AWAY, Stopped, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat

AgentConfig = Callable[[], SyncModel] | ConfigLike
"""What makes an agent of one's own, or the settings of one of the program's (`{"dqn": {...}}`)."""

HOW_AGENTS_ARE_GIVEN = "Give settings such as {'dqn': {'gamma': 0.98}}, or the class of an agent of your own."

_LOOK_EVERY_S = 0.5
_GUARD_EVERY_S = 0.05


def is_agent_config(given: object) -> bool:
    """Whether an agent can be made of it."""
    return callable(given) or isinstance(given, Settings | dict | SimpleNamespace)


class InitGuard:
    """Lets one process at a time make its environments; one that dies meanwhile lets go of it.

    Args:
        path: A file that all processes know; it is made.

    Raises:
        UsageError: It can't be made there.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.open("ab").close()
        except OSError as error:
            what, remedy = explained(error)
            raise UsageError(f"The InitGuard has no file: {what}", remedy) from error

    @contextmanager
    def __call__(self, stop: threading.Event | None = None) -> Iterator[None]:
        """Wait until no other process makes environments; the next one waits for the end of the block.

        Raises:
            Stopped: `stop` was set meanwhile.
        """
        lock, stop = FileLock(self._path), stop or threading.Event()
        while not lock.acquire():
            if stop.wait(_GUARD_EVERY_S):
                raise Stopped
        try:
            yield
        finally:
            lock.release()


@dataclass(frozen=True)
class ActorStat:
    """What an actor did: environment steps, over all of its processes, and the seconds it had for them."""

    env_steps: int
    duration: float


def actor_stats_fmt(stats: Sequence[ActorStat]) -> str:
    """Return a table of what actors did."""
    rows = [
        f"{number}, {one.env_steps}, {one.duration:.2f}, {one.env_steps / max(one.duration, 1e-9):.1f}"
        for number, one in enumerate(stats)
    ]
    return "\n".join(["actor id, samples, duration [sec], samples per sec", *rows])


class ActorManager:
    """Runs actors, a process each, and starts one again that fails.

    Args:
        config: How they send.
        agent_configs: One per actor. Agents of one's own explore each as it was made; of the program's the
            settings of the trainer count, and an actor may have a probability of random actions of its own
            (`dqn.epsilon`, a number).
        env_config: What they play: an id, or the settings below `env`; one environment each, unless
            `num_envs` says more.
        step_proc_config: How steps become transitions.

    Raises:
        UsageError: There are no agents, or what was given is none; or `env_config` is no environment.
    """

    def __init__(
        self,
        config: ActorManagerConfig,
        agent_configs: Sequence[AgentConfig],
        env_config: str | Mapping[str, Any],
        step_proc_config: SimpleStepProcessorConfig,
    ) -> None:
        if not agent_configs:
            raise UsageError("There are no agent_configs: each makes an actor.")
        for number, one in enumerate(agent_configs):
            if not is_agent_config(one):
                raise UsageError(f"agent_configs[{number}] is {one!r}.", HOW_AGENTS_ARE_GIVEN)
        self.config, self.step_proc_config = config, step_proc_config
        self.env = {"num_envs": 1} | env_settings(env_config)
        self.agent_configs = {f"actor-{number}": one for number, one in enumerate(agent_configs)}
        self.stop = threading.Event()
        self._opened: ExitStack | None = None
        self._counted: Mapping[str, int] = {}  # environment steps by actor, once they run

    @classmethod
    def build(
        cls,
        config: ActorManagerConfig,
        agent_configs: Sequence[AgentConfig],
        env_config: str | Mapping[str, Any],
        step_proc_config: SimpleStepProcessorConfig,
    ) -> Self:
        """Return a manager of actors that do not run yet."""
        return cls(config, agent_configs, env_config, step_proc_config)

    def run(self, guard_init_env: InitGuard) -> None:
        """Start the server, and the actors, which wait there for the first model.

        Raises:
            ServiceError: The server does not start.
            UsageError: They run already; or an agent of one's own can't be sent to another process.
        """
        if self._opened is not None:
            raise UsageError("These actors were started before: create new ones.")
        for name, config in self.agent_configs.items():
            if callable(config):
                check_sendable(name, config)
        self._opened = opened = ExitStack()
        try:
            self.folder, self.processes, self.address = opened.enter_context(local_server(self.stop))
            opened.callback(self.stop.set)
            self._began = time.monotonic()
            for name, config in self.agent_configs.items():
                own = config if callable(config) else None
                words = self.address, name, int(self.env["num_envs"]), own, guard_init_env
                self.processes.start(name, _act, *words)
            self._counted = opened.enter_context(_counting(self.address, list(self.agent_configs)))
        except BaseException:
            opened.close()
            raise

    @property
    def running(self) -> bool:
        """Whether they run, and may go on."""
        return self._opened is not None and not self.stop.is_set()

    def stop_and_join(self) -> list[ActorStat]:
        """End actors and server; return what each actor did.

        Raises:
            UsageError: They were never started, or could not be.
        """
        if self._opened is None or not self._counted:
            raise UsageError("The actors do not run: call run first; if it failed, create new ones.")
        self.processes.stop(*self.agent_configs)
        duration = time.monotonic() - self._began
        self._opened.close()
        return [ActorStat(steps, duration) for steps in self._counted.values()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._opened is not None:
            self._opened.close()


@contextmanager
def _counting(address: Address, actors: Sequence[str]) -> Iterator[dict[str, int]]:
    """Return the environment steps of actors, over all their processes, as they told them last."""
    counted, told, ended = dict.fromkeys(actors, 0), dict[tuple[str, str], int](), threading.Event()
    connection, keys = connect(address), Keys(address.prefix)

    def count() -> None:
        for name in actors:
            beat = Heartbeat.read(connection.get(keys.beat(name)))
            if beat is not None:
                told[name, str(beat.instance)] = beat.env_steps
                counted[name] = sum(steps for (who, _), steps in told.items() if who == name)

    def keep_counting() -> None:
        last = False
        while not last:
            last = ended.wait(_LOOK_EVERY_S)
            with suppress(*AWAY, redis.ResponseError):
                count()
        connection.close()

    thread = threading.Thread(target=keep_counting, name="actor statistics", daemon=True)
    thread.start()
    try:
        yield counted
    finally:
        ended.set()
        thread.join()


def _act(
    address: Address, name: str, num_envs: int, own: Callable[[], SyncModel] | None, guard: InitGuard
) -> None:
    """Play in this process, as the actor of a name, until it is asked to stop."""
    options = ClientOptions(num_envs=num_envs, making=guard)
    if own is not None:
        agent = own()
        options = replace(options, make_policy=lambda _: OwnPolicy(agent))
    run_client(address, name, options)
