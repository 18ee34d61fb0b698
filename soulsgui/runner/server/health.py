"""Whether the Redis server answers; a crowded or full one lives."""

import threading
import time
from contextlib import closing

import redis

from soulsgui.runner.services.service import Health
from soulsgui.wire.connection import AWAY, NO_DESCRIPTORS, Address, connect, disk_full

_LIMIT_S = 5.0  # a server that is busy, or waits for its disk, is slow
_PING_EVERY_S = 0.25
_PING_EVERY_STARTING_S = 0.05


def health_of(client: redis.Redis) -> Health:
    """Ask the server whether it is there; the tick is the moment of its answer."""
    try:
        client.ping()
    except redis.AuthenticationError as error:
        return Health(ready=False, error=f"it does not accept our password ({error})")
    except redis.BusyLoadingError:
        return Health(ready=False, tick=time.monotonic_ns(), phase="loading", detail="loading its data")
    except AWAY as error:
        crowded = _crowded(error)
        if crowded:
            # It lives: ending it would help nobody but who crowds it.
            return Health(ready=False, tick=time.monotonic_ns(), detail=crowded, crowded=True)
        return Health(ready=False, detail=f"no answer ({type(error).__name__})")
    except redis.ResponseError as error:
        # "Disk full" is an answer: the server lives, reads, and refuses writes.
        full = disk_full(error)
        detail = "disk full: the server can't store and refuses writes" if full else ""
        return Health(full, time.monotonic_ns(), detail=detail, error=str(error), disk_full=full)
    except Exception as error:  # whatever listens there may answer anything
        client.connection_pool.disconnect()
        return Health(ready=False, detail=f"no answer that can be read ({type(error).__name__})")
    return Health(ready=True, tick=time.monotonic_ns())


def _crowded(error: BaseException) -> str:
    """Return in words that there is no room for a connection, there or here; empty for other errors."""
    causes = (error, error.__cause__, error.__context__)
    # It takes a connection and closes it before it has read anything.
    if "max number of clients" in str(error) or any(isinstance(one, BrokenPipeError) for one in causes):
        return "it has reached its limit of connections"
    if any(isinstance(one, OSError) and one.errno in NO_DESCRIPTORS for one in causes):
        return "this computer has reached its limit of open files and connections"
    return ""


class Pinger:
    """Asks the server in a thread of its own, so that `health()` never waits.

    It keeps its connection: where others take all that the server allows, this one is there already. Only an
    answer that takes longer than `_LIMIT_S` ends it.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._health = Health(ready=False)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="redis-ping", daemon=True)
        self._thread.start()

    def health(self) -> Health:
        """Return the newest answer."""
        return self._health

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        pause_s = 0.0
        with closing(connect(self._address, timeout_s=_LIMIT_S)) as client:
            while not self._stop.wait(pause_s):
                self._health = health_of(client)
                pause_s = _PING_EVERY_S if self._health.ready else _PING_EVERY_STARTING_S
