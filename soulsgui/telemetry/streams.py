"""The episode streams of all clients: found, read in batches, acknowledged, trimmed.

One stream that can't be read (a client made it into something else) is set aside, and the others go on.
"""

import logging
from collections.abc import Iterable
from typing import cast

import redis

from soulsgui.telemetry.intake import Entry, Reason, Refusal
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import TELEMETRY_GROUP, Keys

logger = logging.getLogger(__name__)

BATCH_ENTRIES = 4096
"""Entries read at once, over all streams."""

_LEAST_PER_STREAM = 16
_CONSUMER = "telemetry"
_LARGEST = 2**64 - 1

_Reply = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]


class EpisodeStreams:
    """What the telemetry group reads. Used by one thread.

    Args:
        keys: Key names.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._clients: dict[str, str] = {}
        self._unsettled: set[str] = set()
        self._aside: set[str] = set()
        self._refusals: list[Refusal] = []

    def __len__(self) -> int:
        return len(self._clients)

    def distrust(self) -> None:
        """After any error: what was delivered to us and not acknowledged is read before anything new."""
        self._unsettled = set(self._clients)

    def discover(self, connection: redis.Redis) -> None:
        """Follow the roster: make the group on new clients' streams, forget those of clients that are gone.

        Streams set aside are tried again.
        """
        names = cast("list[bytes]", connection.hkeys(self._keys.clients))
        roster = {name.decode("utf-8", "replace") for name in names}
        for key in [key for key, client in self._clients.items() if client not in roster]:
            del self._clients[key]
        self._unsettled &= set(self._clients)
        self._aside &= roster
        known = set(self._clients.values())
        self._add(connection, sorted(roster - known))

    def _add(self, connection: redis.Redis, clients: list[str]) -> None:
        if not clients:
            return
        pipeline = connection.pipeline(transaction=False)
        for client in clients:
            # From the beginning: at `$` what came before us would be lost.
            pipeline.xgroup_create(self._keys.episodes(client), TELEMETRY_GROUP, id="0", mkstream=True)
        for client, reply in zip(clients, pipeline.execute(raise_on_error=False), strict=True):
            if not isinstance(reply, Exception) or _says(reply, "BUSYGROUP"):
                key = self._keys.episodes(client)
                self._clients[key] = client
                self._unsettled.add(key)
                self._aside.discard(client)
            elif _says(reply, "WRONGTYPE"):
                self._set_aside(client)
            else:
                raise reply

    def _set_aside(self, client: str) -> None:
        key = self._keys.episodes(client)
        self._clients.pop(key, None)
        self._unsettled.discard(key)
        if client not in self._aside:
            self._aside.add(client)
            self._refusals.append(Refusal(client, Reason.WRONG_TYPE))
            logger.warning("%s is not a stream any more: client %s is left out until it is", key, client)

    def take_refusals(self) -> list[Refusal]:
        """Return the streams newly set aside since the last call."""
        refusals, self._refusals = self._refusals, []
        return refusals

    def read(self, connection: redis.Redis, block_ms: int) -> list[Entry]:
        """Return the next entries: first what was delivered before and never acknowledged.

        Args:
            connection: The server.
            block_ms: How long to wait for new ones when there are none; 0 does not wait.
        """
        if self._unsettled:
            entries = self._read(connection, sorted(self._unsettled), "0", 0)
            self._unsettled &= {self._keys.episodes(entry.client) for entry in entries}
            if entries:
                return entries
        return self._read(connection, list(self._clients), ">", block_ms)

    def _read(self, connection: redis.Redis, streams: list[str], after: str, block_ms: int) -> list[Entry]:
        if not streams:
            return []
        count = max(_LEAST_PER_STREAM, BATCH_ENTRIES // len(streams))
        try:
            return self._read_group(connection, streams, after, count, block_ms)
        except redis.ResponseError as error:
            if not (_says(error, "WRONGTYPE") or _says(error, "NOGROUP")):
                raise
        entries = []
        for stream in streams:
            entries += self._read_alone(connection, stream, after, count)
        return entries

    def _read_alone(self, connection: redis.Redis, stream: str, after: str, count: int) -> list[Entry]:
        """Read one stream of which one among many is broken; mend or set aside the one that is."""
        client = self._clients[stream]
        try:
            return self._read_group(connection, [stream], after, count, 0)
        except redis.ResponseError as error:
            if _says(error, "WRONGTYPE"):
                self._set_aside(client)
            elif _says(error, "NOGROUP"):
                logger.info("%s has no group any more: reading it from its beginning", stream)
                del self._clients[stream]
                self._add(connection, [client])
            else:
                raise
        return []

    def _read_group(
        self, connection: redis.Redis, streams: list[str], after: str, count: int, block_ms: int
    ) -> list[Entry]:
        reply = connection.xreadgroup(
            TELEMETRY_GROUP, _CONSUMER, dict.fromkeys(streams, after), count=count, block=block_ms or None
        )
        entries = []
        for name, found in cast("_Reply", reply or []):
            client = self._clients[name.decode()]
            entries += [Entry(client, EntryId.parse(entry), fields or {}) for entry, fields in found]
        return entries

    def settle(self, connection: redis.Redis, entries: Iterable[Entry]) -> None:
        """Acknowledge entries and remove everything up to them.

        All before them is acknowledged too, since a stream is read in order: nothing unread is removed.
        """
        by_client: dict[str, list[EntryId]] = {}
        pipeline = connection.pipeline(transaction=True)
        for entry in entries:
            by_client.setdefault(entry.client, []).append(entry.id)
        for client, ids in by_client.items():
            key = self._keys.episodes(client)
            pipeline.xack(key, TELEMETRY_GROUP, *map(str, ids))
            pipeline.xtrim(key, minid=str(_after(max(ids))), approximate=False)
        for reply in pipeline.execute(raise_on_error=False):
            if isinstance(reply, redis.ResponseError):
                self.distrust()
                logger.info("an acknowledgement was refused: %s", reply)


def _after(entry: EntryId) -> EntryId:
    if entry.seq < _LARGEST:
        return entry.next
    return EntryId(min(entry.ms + 1, _LARGEST), 0)


def _says(error: Exception, code: str) -> bool:
    return isinstance(error, redis.ResponseError) and str(error).startswith(code)
