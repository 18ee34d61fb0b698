"""Reading all clients' streams in batches, and acknowledging what was taken over.

One bad stream (a wrong type, a missing group) makes a read over all of them fail: it is found, mended
or left out, and the others go on.
"""

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import redis

from soulsgui.wire.connection import AWAY
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import TRAINER_GROUP, Keys

logger = logging.getLogger(__name__)

_CONSUMER = "trainer"
_BATCH = 200


class Entry(NamedTuple):
    """One entry of one client's stream."""

    client: str
    id: EntryId
    fields: dict[bytes, bytes]


class Ingest:
    """Reads `in:<client>` of every client.

    Args:
        keys: Key names.
    """

    def __init__(self, keys: Keys) -> None:
        self.unusable: set[str] = set()
        self.high_water: dict[str, str] = {}
        self._keys = keys
        self._clients: dict[str, bool] = {}  # whether its own pending entries were read

    def set_clients(self, connection: redis.Redis, clients: Iterable[str]) -> None:
        """Read these clients' streams from now on.

        Raises:
            redis.ConnectionError: The server is away.
        """
        wanted = set(clients)
        for client in wanted - set(self._clients) - self.unusable:
            if self._make_group(connection, client):
                self._clients[client] = False
        for client in set(self._clients) - wanted:
            del self._clients[client]
        self.unusable &= wanted

    def start_over(self) -> None:
        """After a lost connection: make groups anew where they are gone and read pending entries first."""
        self._clients.clear()
        self.unusable.clear()

    def read(self, connection: redis.Redis, block_ms: int) -> list[Entry]:
        """Return new entries, oldest first within each client, waiting a moment for the first.

        Raises:
            redis.ConnectionError: The server is away.
        """
        pending = [client for client, read in self._clients.items() if not read]
        if pending:
            entries = self._read(connection, pending, "0", None)
            empty = set(pending) - {entry.client for entry in entries}
            self._clients.update(dict.fromkeys(empty & set(self._clients), True))
            return entries
        return self._read(connection, list(self._clients), ">", block_ms)

    def acknowledge(self, connection: redis.Redis, entries: list[Entry]) -> None:
        """Tell the server that entries were taken over, and take them off their streams.

        Raises:
            redis.ConnectionError: The server is away; the entries are then read again.
        """
        by_client: dict[str, list[EntryId]] = {}
        for entry in entries:
            by_client.setdefault(entry.client, []).append(entry.id)
        pipeline = connection.pipeline(transaction=True)
        for client, ids in by_client.items():
            key = self._keys.chunks(client)
            pipeline.xack(key, TRAINER_GROUP, *[str(entry_id) for entry_id in ids])
            pipeline.xtrim(key, minid=str(max(ids).next), approximate=False)
            self.high_water[client] = str(max(ids))
        pipeline.execute(raise_on_error=False)

    def _read(
        self, connection: redis.Redis, clients: list[str], position: str, block_ms: int | None
    ) -> list[Entry]:
        if not clients:
            return []
        streams: dict[Any, Any] = {self._keys.chunks(client): position for client in clients}
        try:
            reply = connection.xreadgroup(
                TRAINER_GROUP,
                _CONSUMER,
                streams,
                count=_BATCH,
                block=block_ms,
            )
        except AWAY:
            raise
        except redis.ResponseError:
            self._isolate(connection, clients)
            return []
        names = {self._keys.chunks(client).encode(): client for client in clients}
        found = []
        for stream, entries in cast(
            "list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]", reply or []
        ):
            client = names[stream]
            found += [Entry(client, EntryId.parse(entry), fields or {}) for entry, fields in entries]
        return found

    def _isolate(self, connection: redis.Redis, clients: list[str]) -> None:
        """Find the streams that make a read fail; make their group anew, or leave them out."""
        for client in clients:
            try:
                connection.xreadgroup(TRAINER_GROUP, _CONSUMER, {self._keys.chunks(client): "0"}, count=1)
            except AWAY:
                raise
            except redis.ResponseError as error:
                del self._clients[client]
                if "NOGROUP" in str(error) and self._make_group(connection, client):
                    self._clients[client] = False
                else:
                    self.unusable.add(client)
                    logger.warning("the stream of %s can't be read and is left out: %s", client, error)

    def _make_group(self, connection: redis.Redis, client: str) -> bool:
        """Create the group of one stream; return whether the stream can be used."""
        try:
            connection.xgroup_create(self._keys.chunks(client), TRAINER_GROUP, id="0", mkstream=True)
        except AWAY:
            raise
        except redis.ResponseError as error:
            if "BUSYGROUP" in str(error):
                return True
            self.unusable.add(client)
            logger.warning("the stream of %s can't be used: %s", client, error)
            return False
        return True
