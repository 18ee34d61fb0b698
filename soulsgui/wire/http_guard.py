"""Who may ask an HTTP interface of ours: not web pages of others, and nobody without its token."""

import asyncio
import hmac
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from soulsgui.errors import printable

if TYPE_CHECKING:
    from aiohttp import web

logger = logging.getLogger(__name__)

_STRANGER_S = 5.0  # a connection shows that it may ask within this
_MOST_STRANGERS = 100
_LOOK_EVERY_S = 0.25
_OUR_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def why_refused(headers: Mapping[str, str], token: str, loopback: bool = True) -> tuple[int, str] | None:
    """Return the HTTP status of a refusal and why, or None where the request is answered.

    Args:
        headers: Those of the request; their names in any case.
        token: What it must show as `Authorization: Bearer TOKEN`; empty: nothing.
        loopback: Whether the interface is reached on this machine alone, and so under few names.
    """
    # A page whose name was made to point at this machine still sends its own name as Host.
    host = headers.get("Host", "")
    if loopback and host.rpartition(":")[0] not in _OUR_HOSTS and host not in _OUR_HOSTS:
        return 403, f"This interface can't be used under the name “{printable(host, 100)}”."
    origin = headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        return 403, "Other web pages may not use this interface."
    scheme, _, shown = headers.get("Authorization", "").partition(" ")
    right = hmac.compare_digest(shown.strip().encode(errors="replace"), token.encode())
    if token and (scheme.lower() != "bearer" or not right):
        return 401, "The token is wrong or missing."
    return None


class HttpGuard:
    """Ends connections that don't show soon that they may ask, and the oldest of too many of them.

    Anybody may open as many as there can be: then nobody else would get in.

    Attributes:
        known: Connections that have asked as who may; they stay.
    """

    def __init__(self, server: "web.AppRunner") -> None:
        self.known: set[web.RequestHandler] = set()
        self._server = server
        self._looking: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Look at who comes, from now on."""
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Look no longer."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        since: dict[web.RequestHandler, float] = {}
        while (server := self._server.server) is not None:
            now, present = time.monotonic(), server.connections
            self.known.intersection_update(present)
            since = {one: since.get(one, now) for one in present if one not in self.known}
            too_many = len(since) - _MOST_STRANGERS
            for place, (one, seen_at) in enumerate(sorted(since.items(), key=lambda item: item[1])):
                if place < too_many or now - seen_at > _STRANGER_S:
                    try:
                        _end(one)
                    except Exception:  # the others are still to be ended
                        logger.exception("a connection can't be ended")
            await asyncio.sleep(_LOOK_EVERY_S)


def _end(connection: "web.RequestHandler") -> None:
    """End a connection at once, whatever its other side has not read yet."""
    transport = connection.transport
    connection.force_close()
    if isinstance(transport, asyncio.WriteTransport):
        transport.abort()
