"""Clients that fill the server with more than anybody was granted are found and held back."""

from collections.abc import Iterable, Sequence
from typing import cast

import redis

from soulsgui.wire.keys import Keys

# What the server needs beside the payload of an entry, and how it rounds its blocks up.
_OVERHEAD = 1.25
_ALWAYS_BYTES = 2**20
_MOST_GREETINGS, _GREETINGS_S = 50, 10.0


class FloodGuard:
    """Looks at how much waits on the streams of clients.

    Nobody is ever granted more than all clients together may have on their way; a stream that holds more was
    filled against the rules. As long as the whole server uses less than that, no stream is looked at.

    Args:
        keys: Key names.
        bytes_ahead: Bytes all clients together may have on the way.

    Attributes:
        most_bytes: Memory that one stream may take.
    """

    def __init__(self, keys: Keys, bytes_ahead: int) -> None:
        self.most_bytes = int(bytes_ahead * _OVERHEAD) + _ALWAYS_BYTES
        self._keys = keys

    def look(self, connection: redis.Redis, clients: Sequence[str]) -> dict[str, int]:
        """Return the clients whose stream holds more than may be, with its bytes.

        Raises:
            redis.RedisError: The server is away.
        """
        used = cast("dict[str, int]", connection.info("memory"))["used_memory"]
        if used <= self.most_bytes:
            return {}
        pipeline = connection.pipeline(transaction=False)
        for client in clients:
            pipeline.memory_usage(self._keys.chunks(client))
        sizes = pipeline.execute(raise_on_error=False)
        return {
            client: size
            for client, size in zip(clients, sizes, strict=True)
            if isinstance(size, int) and size > self.most_bytes
        }

    def sweep(self, connection: redis.Redis, clients: Iterable[str]) -> dict[str, int]:
        """Take everything off the streams of clients; return how many entries that were.

        What a client put there in the place of its stream is taken off, too.

        Raises:
            redis.RedisError: The server is away.
        """
        names = sorted(clients)
        pipeline = connection.pipeline(transaction=False)
        for client in names:
            pipeline.xtrim(self._keys.chunks(client), maxlen=0, approximate=False)
        counts = pipeline.execute(raise_on_error=False) if names else []
        no_streams = [
            self._keys.chunks(client)
            for client, reply in zip(names, counts, strict=True)
            if isinstance(reply, redis.ResponseError) and str(reply).startswith("WRONGTYPE")
        ]
        if no_streams:
            connection.unlink(*no_streams)
        return {client: n for client, n in zip(names, counts, strict=True) if isinstance(n, int) and n}


class Greetings:
    """Counts the hellos of each client: one that begins session after session floods the server too."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}  # since when, and how many

    def too_many(self, client: str, now: float) -> bool:
        """Count a hello; return whether these are more than a client that crashes all the time would send.

        Args:
            client: The client.
            now: Monotonic time, seconds.
        """
        since, count = self._seen.get(client, (now, 0))
        if now - since > _GREETINGS_S:
            since, count = now, 0
        self._seen[client] = since, count + 1
        return count >= _MOST_GREETINGS
