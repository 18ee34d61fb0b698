"""Heartbeats: a thread that writes one, those of many clients read at once, and the state of each client."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import redis

from soulsgui.errors import SoulsGuiError
from soulsgui.process import is_supervised
from soulsgui.system import process_identity
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import Keys, is_client_name
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import MAX_BYTES, Heartbeat
from soulsgui.wire.messages.session import NO_SESSION, Grant, Wish

logger = logging.getLogger(__name__)


def own_instance() -> Instance:
    """Return what tells this process from every other one.

    Raises:
        SoulsGuiError: The system hides processes from themselves.
    """
    identity = process_identity(os.getpid())
    if identity is None:
        raise SoulsGuiError("This system hides processes from themselves: no identity can be made.")
    return Instance.model_validate({"host": socket.gethostname(), **identity})


def clients_of(connection: redis.Redis, keys: Keys) -> list[str]:
    """Return everybody on the roster, sorted; for a node that no runner started, everybody who beats, too.

    The roster is the runner's to write: who starts a node on a server of his own has none.
    """
    listed = {name.decode(errors="replace") for name in cast("list[bytes]", connection.hkeys(keys.clients))}
    if not is_supervised():
        beats = connection.scan_iter(keys.beat("*"), count=1000)
        listed |= set(filter(is_client_name, (keys.client_of_beat(key.decode()) for key in beats)))
    return sorted(listed)


class BeatReader:
    """Reads beats; errors of redis-py pass through.

    Commands are made once for the clients there are: for a thousand that is most of it.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._clients: list[str] = []
        self._commands: list[bytes] = []

    def read(self, connection: redis.Redis, clients: Sequence[str]) -> list[bytes]:
        """Return the beat of each client, empty where there is none, or something else in its place.

        What is longer than a beat may be is cut off one byte behind that, which tells that it is.
        """
        if not clients:
            return []
        link: Any = connection.connection_pool.get_connection()
        try:
            if self._clients != list(clients):
                self._clients = list(clients)
                names = (self._keys.beat(client) for client in clients)
                self._commands = link.pack_commands([("GETRANGE", name, 0, MAX_BYTES) for name in names])
            link.send_packed_command(self._commands)
            return [_reply(link) for _ in clients]
        except BaseException:
            link.disconnect()  # the rest of its answers is not what the next command waits for
            raise
        finally:
            connection.connection_pool.release(link)


def _reply(link: Any) -> bytes:
    try:
        reply = link.read_response()
    except redis.ResponseError:
        return b""
    return reply if isinstance(reply, bytes) else b""


class PeriodicWriter(threading.Thread):
    """Writes a key every period, whatever the rest of the process does, and at once when `soon` was called.

    Args:
        name: Name of the thread, in the log and in the server's list of connections.
        content: Returns what to write into `key`; called in this thread.
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
        self._key, self._content = key, content
        self._period_s, self._expiry_s = period_s, expiry_s
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


LATE_S = 5.0
LOST_S = 30.0
STALLED_S = 15.0


class ClientState(StrEnum):
    """What a client is, in one word."""

    JOINING = "joining"
    WAITING = "waiting"
    ONLINE = "online"
    LATE = "late"
    LOST = "lost"
    PAUSED = "paused"
    DRAINING = "draining"
    LEFT = "left"
    QUARANTINED = "quarantined"
    REFUSED = "refused"
    REVOKED = "revoked"


@dataclass
class _Seen:
    counter: int
    changed_at: float
    steps: int
    steps_changed_at: float


class BeatClock:
    """How long ago each client gave a sign of life.

    The first sight of a beat takes its age from the server (expiry minus time to live); from then on
    the reader's own monotonic clock counts since the beat's counter last moved, so that a stepped
    clock on either side changes nothing.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def observe(self, beat: Heartbeat, age_s: float, now: float) -> None:
        """Note a beat as read at `now` (monotonic); `age_s`, by the server's clock, counts at first sight."""
        # A client with one environment makes no others while it plays an evaluation.
        steps = beat.env_steps + (0 if beat.greedy is None else beat.greedy.steps)
        first = _Seen(beat.counter, now - max(age_s, 0.0), steps, now)
        seen = self._seen.setdefault(beat.client, first)
        if beat.counter != seen.counter:
            seen.counter, seen.changed_at = beat.counter, now
        if steps != seen.steps:
            seen.steps, seen.steps_changed_at = steps, now

    def age_s(self, client: str, now: float) -> float | None:
        """Return seconds since the client's last beat, None when it was never seen."""
        seen = self._seen.get(client)
        return None if seen is None else max(now - seen.changed_at, 0.0)

    def stalled(self, client: str, now: float) -> bool:
        """Whether beats arrive but environment steps don't."""
        seen = self._seen.get(client)
        return seen is not None and now - seen.steps_changed_at > STALLED_S

    def leave_out(self, seconds: float) -> None:
        """Subtract a time from all ages during which no client could have been heard of."""
        for seen in self._seen.values():
            seen.changed_at += seconds
            seen.steps_changed_at += seconds

    def forget(self, client: str) -> None:
        """Drop a client."""
        self._seen.pop(client, None)


def client_state(
    beat: Heartbeat, age_s: float, grant: Grant | None = None, wish: Wish | None = None
) -> ClientState:
    """Return the state of a client, whose newest beat is `age_s` seconds old.

    Before it was let in there is no grant; without a wish the runner wants nothing of it.
    """
    if beat.leaving:
        return ClientState.LEFT
    if age_s > LOST_S:
        return ClientState.LOST
    if age_s > LATE_S:
        return ClientState.LATE
    if grant is not None and grant.session in (beat.session, NO_SESSION) and grant.status != "accepted":
        return ClientState(grant.status)
    if beat.phase != "paused" and wish is not None and wish.state in ("finish", "stop"):
        return ClientState.DRAINING
    return _STATE_OF.get(beat.phase, ClientState.JOINING)


_STATE_OF = {
    "paused": ClientState.PAUSED,
    "finishing": ClientState.DRAINING,
    "stopping": ClientState.DRAINING,
    "sampling": ClientState.ONLINE,
    "waiting": ClientState.WAITING,
}
