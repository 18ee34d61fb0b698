"""What the trainer tells of itself: its state every half second, its rates, and how long things take."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, runtime_checkable

from soulsgui.wire.beacon import Beacon
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.node import NodeState

_PERIOD_S = 0.5
_RATE_WINDOW_S = 10.0


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
    """Measures the wall time of its block and hands it on."""

    def __init__(self, timer: Observes | IsSet) -> None:
        self._take = timer.observe if isinstance(timer, Observes) else timer.set
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """Say whether it waits from now on.

        Args:
            waiting: Whether it does.
            now: Monotonic time, seconds.
        """
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


class StateReporter(Beacon):
    """Writes `node:<name>` twice a second, whatever the main loop does; `close` writes the farewell.

    Args:
        address: The server.
        name: The node's name.
        state: Returns the state; called in this thread.
    """

    def __init__(self, address: Address, name: str, state: Callable[[], NodeState]) -> None:
        key = Keys(address.prefix).node(name)
        super().__init__(address, "report", key, _PERIOD_S, lambda: state().to_json())
