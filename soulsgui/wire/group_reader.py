"""Reading one stream of every client as a group's only consumer, and acknowledging what was taken over.

One bad stream (a client made it into something else, or its group is gone) makes a read over all of them
fail: it is found, mended or set aside, and the others go on.
"""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple, cast

import redis

from soulsgui.wire.keys import EntryId

logger = logging.getLogger(__name__)

Fields = list[bytes] | None
"""Fields of an entry as they come: name, value, name, value …; None when it was trimmed before."""

_Reply = list[tuple[bytes, list[tuple[bytes, Fields]]]]


class StreamPart(NamedTuple):
    """What one read brought of one client's stream, oldest first; ids are as the server writes them."""

    client: str
    ids: list[bytes]
    fields: list[Fields]


def as_dict(fields: Fields) -> dict[bytes, bytes]:
    """Return the fields of an entry by name, empty when it was trimmed; the last of equal names counts."""
    pairs = iter(fields or ())
    return dict(zip(pairs, pairs, strict=True))


class Entry(NamedTuple):
    """One entry of one client's stream; `fields` are empty when it was trimmed before it was read."""

    client: str
    id: EntryId
    fields: dict[bytes, bytes]


class GroupReader:
    """Reads the streams of clients, each from its beginning. Used by one thread.

    Errors of redis-py pass through: the server is away, or refuses.

    Args:
        group: Name of the group and of its one consumer.
        per_stream: Returns how many entries are read of each stream, by the number of streams.

    Attributes:
        high_water: Newest entry id that was acknowledged, by client.
        up_to_date: Whether the last read asked for what is new: of whom nothing came is read to the end.
    """

    def __init__(self, group: str, key_of: Callable[[str], str], per_stream: Callable[[int], int]) -> None:
        self.high_water: dict[str, str] = {}
        self.up_to_date = False
        self._group = group
        self._key_of = key_of
        self._per_stream = per_stream
        self._clients: dict[str, str] = {}  # by key
        self._unsettled: dict[str, str] = {}  # by key, the entry behind which to go on
        self._aside: set[str] = set()
        self._newly_aside: list[str] = []
        self._begun_anew: list[str] = []

    @property
    def idle(self) -> bool:
        """Whether there is no stream to read, so that a read does not wait for anything."""
        return not self._clients

    def set_clients(self, connection: redis.Redis, clients: Iterable[str]) -> None:
        """Read these clients' streams from now on; those that were set aside are tried again."""
        wanted = set(clients)
        for key in [key for key, client in self._clients.items() if client not in wanted]:
            del self._clients[key]
        self._unsettled = {key: at for key, at in self._unsettled.items() if key in self._clients}
        self._aside &= wanted
        for client in set(self.high_water) - wanted:
            del self.high_water[client]
        self._add(connection, sorted(wanted - set(self._clients.values())))

    def take_unusable(self) -> list[str]:
        """Return the clients whose stream was set aside since the last call."""
        found, self._newly_aside = self._newly_aside, []
        return found

    def take_begun_anew(self) -> list[str]:
        """Return the clients whose stream, or group, was taken away since the last call."""
        found, self._begun_anew = self._begun_anew, []
        return found

    def start_over(self) -> None:
        """After a lost connection: forget the streams, so that groups are made anew where they are gone."""
        self._clients.clear()
        self._unsettled.clear()

    def unsettle(self) -> None:
        """Read first what was delivered and not acknowledged."""
        self._unsettled = dict.fromkeys(self._clients, "0")

    def read(self, connection: redis.Redis, block_ms: int) -> list[Entry]:
        """Return the next entries one by one, as `read_parts`."""
        return [
            Entry(part.client, EntryId.parse(entry), as_dict(fields))
            for part in self.read_parts(connection, block_ms)
            for entry, fields in zip(part.ids, part.fields, strict=True)
        ]

    def read_parts(self, connection: redis.Redis, block_ms: int) -> list[StreamPart]:
        """Return the next entries of each client: first those never acknowledged.

        For the first new one it waits `block_ms` at most, 0 for not at all; servers look at it every 100 ms.
        """
        if self._unsettled:
            parts = self._read(connection, dict(self._unsettled), 0)
            self._unsettled = {self._key_of(part.client): part.ids[-1].decode() for part in parts}
            if parts:
                self.up_to_date = False
                return parts
        self.up_to_date = True
        return self._read(connection, dict.fromkeys(self._clients, ">"), block_ms)

    def acknowledge(self, connection: redis.Redis, entries: Iterable[Entry]) -> None:
        """Acknowledge entries, as `acknowledge_parts`."""
        by_client: dict[str, list[bytes]] = {}
        for entry in sorted(entries, key=lambda entry: entry.id):
            by_client.setdefault(entry.client, []).append(str(entry.id).encode())
        self._acknowledge(connection, by_client)

    def acknowledge_parts(self, connection: redis.Redis, parts: Iterable[StreamPart]) -> None:
        """Tell the server that the `parts` of one read were taken over, and take all up to them off it.

        A stream is read in order, so all before them was acknowledged too. What the server refuses to
        acknowledge is read again.
        """
        self._acknowledge(connection, {part.client: part.ids for part in parts})

    def _acknowledge(self, connection: redis.Redis, ids_by_client: dict[str, list[bytes]]) -> None:
        """Acknowledge entries whose ids are in order, and trim the streams behind the last ones."""
        newest = {client: EntryId.parse(ids[-1]) for client, ids in ids_by_client.items()}
        pipeline = connection.pipeline(transaction=True)
        for client, ids in ids_by_client.items():
            pipeline.xack(self._key_of(client), self._group, *ids)
            pipeline.xtrim(self._key_of(client), minid=str(newest[client].next), approximate=False)
        try:
            replies = pipeline.execute(raise_on_error=False)
        except redis.ResponseError:
            self.unsettle()
            raise
        for (client, last), reply in zip(newest.items(), replies[::2], strict=True):
            if isinstance(reply, Exception):
                if (key := self._key_of(client)) in self._clients:
                    self._unsettled[key] = "0"
                logger.info("an acknowledgement to %s was refused: %s", client, reply)
            else:
                self.high_water[client] = str(last)

    def _read(self, connection: redis.Redis, positions: dict[str, str], block_ms: int) -> list[StreamPart]:
        if not positions:
            return []
        count = self._per_stream(len(positions))
        try:
            return self._read_together(connection, positions, count, block_ms)
        except redis.ResponseError as error:
            if not _says(error, "WRONGTYPE", "NOGROUP"):
                raise
        return [
            part
            for key, position in positions.items()
            for part in self._read_alone(connection, key, position, count)
        ]

    def _read_together(
        self, connection: redis.Redis, positions: dict[str, str], count: int, block_ms: int
    ) -> list[StreamPart]:
        block = ("BLOCK", block_ms) if block_ms else ()
        # The name as bytes: redis-py then hands the reply over as it came, and makes no dictionaries of it.
        reply = connection.execute_command(  # type: ignore[no-untyped-call]
            b"XREADGROUP", "GROUP", self._group, self._group, "COUNT", count, *block,
            "STREAMS", *positions, *positions.values(),
        )  # fmt: skip
        return [
            StreamPart(self._clients[key.decode()], *map(list, zip(*found, strict=True)))
            for key, found in cast("_Reply", reply or [])
            if found
        ]

    def _read_alone(self, connection: redis.Redis, key: str, position: str, count: int) -> list[StreamPart]:
        """Read one stream of which one among many is broken; mend or set aside the one that is."""
        client = self._clients[key]
        try:
            return self._read_together(connection, {key: position}, count, 0)
        except redis.ResponseError as error:
            if _says(error, "WRONGTYPE"):
                self._set_aside(client)
            elif _says(error, "NOGROUP"):
                logger.info("%s has no group any more: it is read from its beginning", key)
                del self._clients[key]
                self._begun_anew.append(client)
                self._add(connection, [client])
            else:
                raise
        return []

    def _add(self, connection: redis.Redis, clients: list[str]) -> None:
        """Make the group on these clients' streams."""
        if not clients:
            return
        pipeline = connection.pipeline(transaction=False)
        for client in clients:
            # From the beginning: at `$` what came before us would be lost.
            pipeline.xgroup_create(self._key_of(client), self._group, id="0", mkstream=True)
        for client, reply in zip(clients, pipeline.execute(raise_on_error=False), strict=True):
            if not isinstance(reply, Exception) or _says(reply, "BUSYGROUP"):
                self._clients[self._key_of(client)] = client
                self._unsettled[self._key_of(client)] = "0"
                self._aside.discard(client)
            elif _says(reply, "WRONGTYPE"):
                self._set_aside(client)
            else:
                raise reply

    def _set_aside(self, client: str) -> None:
        key = self._key_of(client)
        self._clients.pop(key, None)
        self._unsettled.pop(key, None)
        if client not in self._aside:
            self._aside.add(client)
            self._newly_aside.append(client)
            logger.warning("%s is not a stream any more: client %s is left out until it is", key, client)


def _says(error: Exception, *codes: str) -> bool:
    return isinstance(error, redis.ResponseError) and str(error).startswith(codes)
