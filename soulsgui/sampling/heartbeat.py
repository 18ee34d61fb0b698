"""The thread that says once a second that this client lives, and how far it is."""

import logging
import threading

from soulsgui.sampling.progress import Progress
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, PERIOD_S

logger = logging.getLogger(__name__)


class HeartbeatThread(threading.Thread):
    """Writes `beat:<client>` every second, and at once when `soon` was called.

    Args:
        address: The server.
        progress: What to tell.
    """

    def __init__(self, address: Address, progress: Progress) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._keys = Keys(address.prefix)
        self._progress = progress
        self._stop_event = threading.Event()
        self._wake = threading.Event()
        self._link = Link(address, self._stop_event, "heartbeat")

    def soon(self) -> None:
        """Beat at once: something changed that others wait for."""
        self._wake.set()

    def run(self) -> None:
        """Beat until `close`."""
        key = self._keys.beat(self._progress.client)
        try:
            while not self._stop_event.is_set():
                beat = self._progress.beat().to_json()
                self._link.run(lambda redis, beat=beat: redis.set(key, beat, ex=EXPIRY_S))  # type: ignore[misc]
                self._wake.wait(PERIOD_S)
                self._wake.clear()
        except Stopped:
            logger.debug("stopped while the server was away")

    def close(self) -> None:
        """Say goodbye, when the server is there to hear it, and end."""
        self._progress.leaving = True
        self._stop_event.set()
        self._wake.set()
        self.join()
        try:
            self._link.redis.set(
                self._keys.beat(self._progress.client), self._progress.beat().to_json(), ex=EXPIRY_S
            )
        except AWAY:
            logger.info("the server is away: it will find out by itself that we left")
        self._link.close()
