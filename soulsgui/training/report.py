"""What the trainer tells of itself: its state every half second, and a row for each update."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.node import NodeState

logger = logging.getLogger(__name__)

_PERIOD_S = 0.5
_RATE_WINDOW_S = 10.0


class Observes(Protocol):
    """Anything that takes measured seconds, such as a histogram of prometheus_client."""

    def observe(self, amount: float, /) -> None:
        """Take one measurement in seconds."""


class Stopwatch(AbstractContextManager[None]):
    """Measures the wall time of its block and hands it on."""

    def __init__(self, timer: Observes) -> None:
        self._timer = timer
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.observe(time.perf_counter() - self._since)


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
        self._points: deque[tuple[float, int]] = deque()

    def update(self, value: int, now: float) -> float:
        """Take the counter's value now; return its recent growth per second."""
        self._points.append((now, value))
        while len(self._points) > 2 and now - self._points[0][0] > _RATE_WINDOW_S:
            self._points.popleft()
        (since, before) = self._points[0]
        return (value - before) / (now - since) if now > since else 0.0


class StateReporter(threading.Thread):
    """Writes `node:<name>` twice a second, whatever the main loop does.

    Args:
        address: The server.
        name: The node's name.
        state: Returns the state; called in this thread.
    """

    def __init__(self, address: Address, name: str, state: Callable[[], NodeState]) -> None:
        super().__init__(name="report", daemon=True)
        self._key = Keys(address.prefix).node(name)
        self._state = state
        self._stop_event = threading.Event()
        self._wake = threading.Event()
        self._link = Link(address, self._stop_event, "report")

    def soon(self) -> None:
        """Report at once."""
        self._wake.set()

    def run(self) -> None:
        """Report until closed."""
        try:
            while not self._stop_event.is_set():
                self._link.run(lambda redis: redis.set(self._key, self._state().to_json()))
                self._wake.wait(_PERIOD_S)
                self._wake.clear()
        except Stopped:
            logger.debug("stopped while the server was away")

    def close(self) -> None:
        """Write the last state, with its farewell, and end."""
        self._stop_event.set()
        self._wake.set()
        self.join()
        try:
            self._link.redis.set(self._key, self._state().to_json())
        except AWAY:
            logger.info("the server is away: the farewell stays in the log")
        self._link.close()
