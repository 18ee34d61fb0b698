"""Guards the server against connections of invited clients: replies unread, commands half sent, floods.

The server's own limits are those of a connection, and wide, as its own processes need them: weights are sent
and read whole. A client that takes more than one of its kind needs is shut out for a while. How many
connections it may have, the gateway sees to; what it has stored, `memory_guard`.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import redis

from soulsgui.runner.access.access_control import AccessControl
from soulsgui.runner.events import EventLog
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.server.redis_server import REDIS
from soulsgui.runner.status_text import size_words
from soulsgui.wire.access import client_of_user
from soulsgui.wire.connection import AWAY
from soulsgui.wire.keys import GATEWAY, is_own_name
from soulsgui.wire.messages.node import NodeState

logger = logging.getLogger(__name__)

_SHARE = 1 / 8  # of the server's memory: what a client may hold beside a copy of the weights
_OUT_S = 60.0
_MOST_DOUBLINGS = 6


def bytes_by_client(connection: redis.Redis) -> Counter[str]:
    """Return how much memory the connections of each invited client take."""
    sizes: Counter[str] = Counter()
    for one in connection.client_list():
        client = client_of_user(one["user"])
        if client and not is_own_name(client):
            sizes[client] += int(one["tot-mem"])
    return sizes


class ConnectionGuard:
    """Looks at the connections, and shuts out whose take too much.

    Args:
        access: Shuts them out, and lets them in again.
        cut_off: Has the trainer take nothing of a client any more, for a reason.
    """

    def __init__(
        self,
        bus: Bus,
        events: EventLog,
        access: AccessControl,
        cut_off: Callable[[str, str], Awaitable[bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bus = bus
        self._events = events
        self._access = access
        self._cut_off = cut_off
        self._clock = clock
        self._out_until: dict[str, float] = {}
        self._times: Counter[str] = Counter()
        self._seen = -1  # tick of the newest state of the gateway

    async def look(self) -> None:
        """Look once; a server that is away is left alone."""
        now = self._clock()
        for client, until in list(self._out_until.items()):
            if not self._access.is_shut_out(client):  # somebody decided otherwise: it begins anew
                del self._out_until[client], self._times[client]
            elif until <= now:
                del self._out_until[client]
                self._access.let_in_again(client)
        try:
            key = self._bus.keys.node(GATEWAY)
            state = NodeState.read(await self._bus.call(lambda connection: connection.get(key)))
            if state is not None and state.tick != self._seen:  # each is news once: it may stay there
                self._seen = state.tick
                for client in state.floods:
                    await self._shut_out(client, "it sent an endless stream of small commands", now)
            most_bytes, all_bytes = await self._bus.call(self._measure)
            # Each connection is listed, of which there may be thousands: only where it can matter.
            if all_bytes > most_bytes:
                for client, size in (await self._bus.call(bytes_by_client)).items():
                    if size > most_bytes:
                        what = "of replies that it did not read, or of unfinished commands"
                        await self._shut_out(client, f"it held {size_words(size)} {what}", now)
        except (*AWAY, redis.RedisError) as error:
            logger.debug("the server's connections can't be looked at: %s", error)

    def _measure(self, connection: redis.Redis) -> tuple[float, int]:
        """Return how many bytes the connections of one client may take, and how many all of them do."""
        memory = connection.info("memory")
        limit = int(memory.get("maxmemory", 0))
        weights = int(connection.strlen(self._bus.keys.weights))
        return weights + _SHARE * limit if limit else float("inf"), int(memory["mem_clients_normal"])

    async def _shut_out(self, client: str, reason: str, now: float) -> None:
        await self._access.shut_out(client)
        out_s = _OUT_S * 2 ** min(self._times[client], _MOST_DOUBLINGS)
        self._times[client] += 1
        self._out_until[client] = now + out_s
        cause = f"It is let in again in {out_s / 60:.0f} min."
        remedy = f"To keep it out: soulsgui revoke {client}"
        if await self._cut_off(client, reason):
            cause += " Nothing that it sends is accepted until it is released."
            remedy = f"To let it send again: soulsgui clients release {client}. {remedy}"
        self._events.add("warning", f"{client} was cut off: {reason}.", cause, remedy, service=REDIS)
