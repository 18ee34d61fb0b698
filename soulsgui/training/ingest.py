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

_Reply = list[tuple[bytes, list[tuple[bytes, dict[bytes, bytes]]]]]


class Entry(NamedTuple):
    """One entry of one client's stream; `fields` is empty when its client took it back before it was read."""

    client: str
    id: EntryId
    fields: dict[bytes, bytes]


class Ingest:
    """Reads `in:<client>` of every client.

    Args:
        keys: Key names.

    Attributes:
        high_water: Newest entry id that was acknowledged, by client.
    """

    def __init__(self, keys: Keys) -> None:
        self.high_water: dict[str, str] = {}
        self._keys = keys
        self._clients: dict[str, bool] = {}  # whether what was delivered and not acknowledged was read
        self._unusable: set[str] = set()
        self._newly_unusable: list[str] = []

    @property
    def idle(self) -> bool:
        """Whether there is no stream to read, so that a read does not wait for anything."""
        return not self._clients

    def set_clients(self, connection: redis.Redis, clients: Iterable[str]) -> None:
        """Read these clients' streams from now on; those that were unusable are tried again.

        Raises:
            redis.ConnectionError: The server is away.
        """
        wanted = set(clients)
        for client in sorted(wanted - set(self._clients)):
            if self._make_group(connection, client):
                self._clients[client] = False
                self._unusable.discard(client)
        for client in set(self._clients) - wanted:
            del self._clients[client]
        self._unusable &= wanted
        for client in set(self.high_water) - wanted:
            del self.high_water[client]

    def take_unusable(self) -> list[str]:
        """Return the clients whose stream has become unusable since the last call."""
        found, self._newly_unusable = self._newly_unusable, []
        return found

    def start_over(self) -> None:
        """After a lost connection: make groups anew where they are gone and read pending entries first."""
        self._clients.clear()

    def unsettle(self) -> None:
        """Read first what was delivered and not acknowledged."""
        self._clients = dict.fromkeys(self._clients, False)

    def read(self, connection: redis.Redis, block_ms: int) -> list[Entry]:
        """Return new entries, oldest first within each client, waiting a moment for the first.

        Args:
            connection: The server.
            block_ms: Longest wait; 0 does not wait. Servers look at it ten times a second.

        Raises:
            redis.ConnectionError: The server is away.
        """
        pending = [client for client, settled in self._clients.items() if not settled]
        if not pending:
            return self._read(connection, list(self._clients), ">", block_ms) or []
        entries = self._read(connection, pending, "0", 0)
        if entries is None:
            return []
        delivered = {entry.client for entry in entries}
        self._clients.update({client: True for client in pending if client not in delivered})
        return entries

    def acknowledge(self, connection: redis.Redis, entries: list[Entry]) -> None:
        """Tell the server that entries were taken over, and take them off their streams.

        Raises:
            redis.RedisError: The server is away or refuses; the entries are then read again.
        """
        by_client: dict[str, list[EntryId]] = {}
        for entry in entries:
            by_client.setdefault(entry.client, []).append(entry.id)
        pipeline = connection.pipeline(transaction=True)
        for client, ids in by_client.items():
            key = self._keys.chunks(client)
            pipeline.xack(key, TRAINER_GROUP, *[str(entry_id) for entry_id in ids])
            pipeline.xtrim(key, minid=str(max(ids).next), approximate=False)
        try:
            replies = pipeline.execute(raise_on_error=False)
        except redis.ResponseError:
            self.unsettle()
            raise
        for (client, ids), reply in zip(by_client.items(), replies[::2], strict=True):
            if isinstance(reply, Exception):
                self._clients[client] = False
            else:
                self.high_water[client] = str(max(ids))

    def _read(
        self, connection: redis.Redis, clients: list[str], position: str, block_ms: int
    ) -> list[Entry] | None:
        """Read these streams at one position; None when one of them could not be read."""
        if not clients:
            return []
        streams: dict[Any, Any] = {self._keys.chunks(client): position for client in clients}
        try:
            reply = connection.xreadgroup(
                TRAINER_GROUP, _CONSUMER, streams, count=_BATCH, block=block_ms or None
            )
        except AWAY:
            raise
        except redis.ResponseError:
            self._isolate(connection, clients)
            return None
        names = {self._keys.chunks(client).encode(): client for client in clients}
        return [
            Entry(names[stream], EntryId.parse(entry), fields or {})
            for stream, entries in cast("_Reply", reply or [])
            for entry, fields in entries
        ]

    def _isolate(self, connection: redis.Redis, clients: list[str]) -> None:
        """Find the streams that make a read fail; make their group anew, or leave them out."""
        for client in clients:
            try:
                connection.xreadgroup(TRAINER_GROUP, _CONSUMER, {self._keys.chunks(client): "0"}, count=1)
            except AWAY:
                raise
            except redis.ResponseError as error:
                del self._clients[client]
                if "NOGROUP" not in str(error):
                    self._leave_out(client, error)
                elif self._make_group(connection, client):
                    self._clients[client] = False

    def _make_group(self, connection: redis.Redis, client: str) -> bool:
        """Create the group of one stream; return whether the stream can be used."""
        try:
            connection.xgroup_create(self._keys.chunks(client), TRAINER_GROUP, id="0", mkstream=True)
        except AWAY:
            raise
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                self._leave_out(client, error)
                return False
        return True

    def _leave_out(self, client: str, error: redis.ResponseError) -> None:
        if client not in self._unusable:
            self._unusable.add(client)
            self._newly_unusable.append(client)
            logger.warning("the stream of %s can't be read and is left out: %s", client, error)
