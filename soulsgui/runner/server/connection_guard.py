"""Guards the server against what connections of clients take: replies unread, commands half sent, sockets.

The server's own limits are those of a connection, and wide, as its own processes need them: weights are sent
and read whole. A client that takes more than one of its kind needs is shut out for a while. What clients have
stored, `memory_guard` sees to.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import redis

from soulsgui.runner.events import EventLog
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.server.redis_server import REDIS
from soulsgui.runner.status_text import size_words
from soulsgui.wire.access import client_of_user, user_of
from soulsgui.wire.connection import AWAY

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 64  # a client has about five, and as many again while another process takes its name over

_SHARE = 1 / 8  # of the server's memory: what a client may hold beside a copy of the weights
_COUNT_EVERY_S = 5.0
_OUT_S = 60.0
_MOST_DOUBLINGS = 6


class Taken(NamedTuple):
    """What all connections of one client take together: their number, and bytes of memory."""

    connections: int
    size: int


def taken_by_client(connection: redis.Redis) -> dict[str, Taken]:
    """Return what each client that has connections takes; the server's own processes are none."""
    numbers: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for one in connection.client_list():
        if client := client_of_user(one["user"]):
            numbers[client] += 1
            sizes[client] += int(one["tot-mem"])
    return {client: Taken(number, sizes[client]) for client, number in numbers.items()}


def too_much(taken: Taken, most_bytes: float) -> str:
    """Return in words what a client takes more than it may; empty when it does not."""
    if taken.size > most_bytes:
        return f"{size_words(taken.size)} of replies that it did not read, or of commands half sent"
    if taken.connections > MOST_CONNECTIONS:
        return f"{taken.connections:,} connections"
    return ""


class ConnectionGuard:
    """Looks at the connections, and shuts out whose take too much.

    Args:
        cut_off: Has the trainer take nothing of a client any more, for a reason.
        let_in: Has the server know again everybody who may come.
    """

    def __init__(
        self,
        bus: Bus,
        events: EventLog,
        cut_off: Callable[[str, str], Awaitable[bool]],
        let_in: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bus = bus
        self._events = events
        self._cut_off = cut_off
        self._let_in = let_in
        self._clock = clock
        self._count_due = 0.0
        self._out_until: dict[str, float] = {}
        self._times: Counter[str] = Counter()

    async def look(self) -> None:
        """Look once; a server that is away is left alone."""
        now = self._clock()
        if over := [client for client, until in self._out_until.items() if until <= now]:
            for client in over:
                del self._out_until[client]
            self._let_in()
        try:
            most_bytes, all_bytes = await self._bus.call(self._measure)
            # Each connection is listed, of which there may be thousands: only where it can matter.
            if all_bytes > most_bytes or now >= self._count_due:
                self._count_due = now + _COUNT_EVERY_S
                for client, taken in (await self._bus.call(taken_by_client)).items():
                    if what := too_much(taken, most_bytes):
                        await self._shut_out(client, f"it held {what}", now)
        except (*AWAY, redis.RedisError) as error:
            logger.debug("the server's connections can't be looked at: %s", error)

    def _measure(self, connection: redis.Redis) -> tuple[float, int]:
        """Return how many bytes the connections of one client may take, and how many all of them do."""
        memory = connection.info("memory")
        limit = int(memory.get("maxmemory", 0))
        weights = int(connection.strlen(self._bus.keys.weights))
        return weights + _SHARE * limit if limit else float("inf"), int(memory["mem_clients_normal"])

    async def _shut_out(self, client: str, reason: str, now: float) -> None:
        # It ends the connections of the user, too.
        await self._bus.call(lambda connection: connection.acl_deluser(user_of(client)))
        out_s = _OUT_S * 2 ** min(self._times[client], _MOST_DOUBLINGS)
        self._times[client] += 1
        self._out_until[client] = now + out_s
        cause = f"It is let in again in {out_s / 60:.0f} min."
        remedy = f"To keep it out: soulsgui revoke {client}"
        if await self._cut_off(client, reason):
            cause += " Nothing that it sends is taken in until it is released."
            remedy = f"To let it send again: soulsgui clients release {client}. {remedy}"
        self._events.add("warning", f"{client} was cut off: {reason}.", cause, remedy, service=REDIS)
