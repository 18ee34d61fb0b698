"""What the trainer tells of itself: its state, its rows on the curves, how long things take."""

import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.training.intake.sessions import Refusals
from soulsgui.wire.beats import PeriodicWriter
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.metrics import ROW_FIELD, STREAM_LENGTH
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Arrived, NodePhase, NodeState, Staleness

if TYPE_CHECKING:
    from soulsgui.training.intake.reader import Intake

QUIET_END = "ended as asked"  # the farewell of a node that nothing went wrong with

_PERIOD_S = 0.5
_RATE_WINDOW_S = 10.0
_BUCKETS = len(STALENESS_BOUNDS) + 1


@runtime_checkable
class Observes(Protocol):
    """Anything that takes measured seconds, such as a histogram or summary of prometheus_client."""

    def observe(self, amount: float, /) -> None:
        """Take one measurement in seconds."""


class IsSet(Protocol):
    """Anything that shows the last measured seconds, such as a gauge of prometheus_client."""

    def set(self, value: float, /) -> None:
        """Show one measurement in seconds."""


class Stopwatch(AbstractContextManager[None]):
    """Measures the wall time of its block and hands it on, also when the block fails; may be used again."""

    def __init__(self, timer: Observes | IsSet) -> None:
        self._take = timer.observe if isinstance(timer, Observes) else timer.set
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._take(time.perf_counter() - self._since)


class Timing:
    """The last of a kind of duration, in seconds."""

    def __init__(self) -> None:
        self.last_s = 0.0

    def observe(self, amount: float, /) -> None:
        """Take one measurement."""
        self.last_s = amount


class Rate:
    """Growth of a counter per second over the last seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque()

    def update(self, value: float, now: float) -> float:
        """Take the counter's value now; return its recent growth per second."""
        self._points.append((now, value))
        while len(self._points) > 2 and now - self._points[0][0] > _RATE_WINDOW_S:
            self._points.popleft()
        (since, before) = self._points[0]
        return (value - before) / (now - since) if now > since else 0.0


class Waiting:
    """Seconds that somebody waited. `total` may be asked for in any thread, the rest belongs to one."""

    def __init__(self) -> None:
        self._state: tuple[float, float | None] = (0.0, None)  # up to the last change, and since when again
        self._taken = 0.0

    def set(self, waiting: bool, now: float) -> None:
        """Say whether it waits from now on."""
        self._state = (self.total(now), now if waiting else None)

    @property
    def waiting(self) -> bool:
        """Whether it waits now."""
        return self._state[1] is not None

    def total(self, now: float) -> float:
        """Return the seconds waited since the beginning."""
        seconds, since = self._state
        return seconds if since is None else seconds + max(now - since, 0.0)

    def take(self, now: float) -> float:
        """Return the seconds waited since the last call."""
        total = self.total(now)
        seconds, self._taken = total - self._taken, total
        return seconds


class Rows:
    """Keeps rows until the server has them; rows may be added from any thread."""

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque(maxlen=STREAM_LENGTH)
        self._lock = threading.Lock()

    def add(self, row: Message) -> None:
        """Add a row."""
        with self._lock:
            self._waiting.append(row)

    def flush(self, connection: redis.Redis, keys: Keys) -> None:
        """Send the rows; they are named by attempt and update, so twice does no harm."""
        with self._lock:
            rows = list(self._waiting)
        if not rows:
            return
        pipeline = connection.pipeline(transaction=False)
        for row in rows:
            pipeline.xadd(keys.metrics, {ROW_FIELD: row.to_json()}, maxlen=STREAM_LENGTH, approximate=True)
        pipeline.execute()
        with self._lock:
            for _ in rows:
                self._waiting.popleft()


class StalenessCount:
    """Counts transitions by the updates between the weights they were made with and the newest ones."""

    def __init__(self) -> None:
        self._accepted = np.zeros(_BUCKETS, np.int64)
        self._late = np.zeros(_BUCKETS, np.int64)

    def accept(self, lags: NDArray[np.int64], steps: NDArray[np.integer[Any]]) -> None:
        """Count what is learned from."""
        self._accepted += _in_buckets(lags, steps)

    def refuse(self, lags: NDArray[np.int64], steps: NDArray[np.integer[Any]]) -> None:
        """Count what came too late, as `accept`."""
        self._late += _in_buckets(lags, steps)

    @property
    def told(self) -> Staleness:
        """What is told of it, as of now."""
        return Staleness(accepted=self._accepted.tolist(), late=self._late.tolist())


def _in_buckets(lags: NDArray[np.int64], steps: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(STALENESS_BOUNDS, lags), steps, _BUCKETS).astype(np.int64)


_TOLD_AS_IT_STANDS = (
    "tick", "phase", "detail", "trouble", "diverged", "stop_reason", "stop_reached", "asks_clients",
    "learns_on", "error", "farewell",
)  # fmt: skip


class TrainerStatus:
    """What the trainer is doing: set by its loop and its learner, told by the reporting thread."""

    def __init__(self) -> None:
        self.phase: NodePhase = "loading"
        self.detail = ""
        self.stop_reached = False
        self.policy_lag = 0.0
        self.trouble = self.diverged = self.stop_reason = ""
        self.asks_clients: bool | None = False
        self.learns_on = self.error = self.farewell = ""
        self.tick = 0
        self.timings = {name: Timing() for name in ("update", "publish")}
        self.waits = {name: Waiting() for name in ("learner", "clients")}
        self.staleness = StalenessCount()
        self._rates = {name: Rate() for name in ("env_steps", "updates", *self.waits)}
        self._refusals = Refusals()
        self._arrived: dict[str, Arrived] = {}
        self._staleness = Staleness()
        self._waited: list[str] = []

    def alive(self) -> None:
        """Give a sign of life: the main loop goes on, or an update that takes long."""
        self.tick += 1

    def stop_waiting(self) -> None:
        """Nobody waits from now on, until they `wait_again`."""
        self._waited = [name for name, waiting in self.waits.items() if waiting.waiting]
        for waiting in self.waits.values():
            waiting.set(False, time.monotonic())

    def wait_again(self) -> None:
        """Let those wait who did before."""
        for name in self._waited:
            self.waits[name].set(True, time.monotonic())

    def count(self, intake: "Intake") -> None:
        """Take note of what came and what was refused by now."""
        self._refusals, self._staleness = intake.sessions.refusals(), self.staleness.told
        self._arrived = intake.ingest.arrived.told(intake.roster.clients)

    def told(self, env_steps: int, updates: int, **others: Any) -> NodeState:
        """Return the state as of now, with what others know of it; called by the reporting thread."""
        now, refusals = time.monotonic(), self._refusals
        told: dict[str, Any] = {name: getattr(self, name) for name in _TOLD_AS_IT_STANDS} | {
            "env_steps": env_steps,
            "updates": updates,
            "policy_lag": round(self.policy_lag, 1),
            "env_steps_per_s": round(self._rates["env_steps"].update(env_steps, now), 1),
            "updates_per_s": round(self._rates["updates"].update(updates, now), 2),
            "lost_chunks": refusals.missing,
            "rejected": refusals.total,
            "rejected_by_client": refusals.by_client,
            "arrived": self._arrived,
            "staleness": self._staleness,
            "timings_s": {name: timing.last_s for name, timing in self.timings.items()},
            "learner_waits": self._part_waited("learner", now),
            "clients_wait": self._part_waited("clients", now),
        }
        return NodeState(**(told | others))

    def _part_waited(self, who: str, now: float) -> float:
        """Return in which part of the last seconds somebody waited."""
        return round(min(max(self._rates[who].update(self.waits[who].total(now), now), 0.0), 1.0), 3)


class StateReporter(PeriodicWriter):
    """Writes `node:<name>` twice a second, whatever the main loop does; `close` writes the farewell."""

    def __init__(self, address: Address, name: str, state: Callable[[], NodeState]) -> None:
        key = Keys(address.prefix).node(name)
        super().__init__(address, "report", key, _PERIOD_S, lambda: state().to_json())
