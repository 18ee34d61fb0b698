"""The thread that keeps one key up to date: a heartbeat, a node's state."""

import logging
import threading
from collections.abc import Callable

import redis

from soulsgui.wire.connection import AWAY, Address, Link, Stopped

logger = logging.getLogger(__name__)


class Beacon(threading.Thread):
    """Writes a key every period, whatever the rest of the process does, and at once when `soon` was called.

    Args:
        address: The server.
        name: Name of the thread, in the log and in the server's list of connections.
        key: The key.
        period_s: Seconds between two writes.
        content: Returns what to write; called in this thread.
        expiry_s: Seconds after which the server forgets the key; None keeps it.
    """

    def __init__(
        self,
        address: Address,
        name: str,
        key: str,
        period_s: float,
        content: Callable[[], str],
        expiry_s: int | None = None,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._key = key
        self._period_s = period_s
        self._content = content
        self._expiry_s = expiry_s
        self._stop_event = threading.Event()
        self._wake = threading.Event()
        self._link = Link(address, self._stop_event, name)

    def soon(self) -> None:
        """Write at once: something changed that others wait for."""
        self._wake.set()

    def run(self) -> None:
        """Write until closed."""
        try:
            while not self._stop_event.is_set():
                try:
                    self._link.run(self._write)
                except redis.ResponseError as error:  # out of memory, disk full: the next one may be taken
                    self._link.refused(error)
                except Stopped:
                    raise
                except Exception:
                    # The thread must live: without it others would hold on for ever to what it said last.
                    logger.exception("%s: the state could not be told", self.name)
                self._wake.wait(self._period_s)
                self._wake.clear()
        except Stopped:
            logger.debug("%s: stopped while the server was away", self.name)

    def close(self) -> None:
        """Write once more, when the server is there to take it, and end."""
        self._stop_event.set()
        self._wake.set()
        if self.is_alive():
            self.join()
        try:
            self._write(self._link.redis)
        except (*AWAY, redis.ResponseError) as error:
            logger.info("%s: the last word was not heard (%s)", self.name, type(error).__name__)
        self._link.close()

    def _write(self, connection: redis.Redis) -> None:
        connection.set(self._key, self._content(), ex=self._expiry_s)
