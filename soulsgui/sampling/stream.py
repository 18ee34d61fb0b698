"""Writing to one stream so that nothing is stored twice and nothing is lost in silence.

A session begins with `XADD … * hello`; the server's id `E-n` makes the ids `E-(n+1)`, `E-(n+2)` … ours
alone. What was sent again after a lost reply is refused by the server as "equal or smaller".
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from soulsgui.wire.connection import AWAY
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.messages.session import HELLO_FIELD

logger = logging.getLogger(__name__)

_REFUSED_ID = "equal or smaller"


@dataclass
class _Item:
    fields: dict[Any, Any]
    size: int
    sent_as: EntryId | None = None


class StreamSession:
    """One client's session on one stream. Used by one thread.

    Args:
        key: The stream.
        hello: Returns the payload of a hello.
        number_field: Field that carries the number of an entry within its session; empty for none.
    """

    def __init__(self, key: str, hello: Callable[[], str], number_field: bytes = b"") -> None:
        self.key = key
        self.session: EntryId | None = None
        self.stored = 0
        self.stored_bytes = 0
        self._hello = hello
        self._number_field = number_field
        self._last: EntryId | None = None
        self._waiting: deque[_Item] = deque()
        self._unsure = False
        self._next_number = 0

    @property
    def waiting(self) -> int:
        """Entries not known to be stored."""
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the entries not known to be stored."""
        return sum(item.size for item in self._waiting)

    def add(self, field: bytes, payload: bytes) -> None:
        """Queue an entry."""
        self._waiting.append(_Item({field: payload}, len(payload)))

    def begin(self, connection: redis.Redis) -> None:
        """Begin a session: say hello.

        Raises:
            redis.RedisError: Not done; try again.
        """
        entry = connection.xadd(self.key, {HELLO_FIELD: self._hello()})
        self.session = self._last = EntryId.parse(entry)
        self.stored = self.stored_bytes = self._next_number = 0
        self._unsure = False
        for item in self._waiting:
            item.sent_as = None
            item.fields.pop(self._number_field, None)

    def connection_lost(self) -> None:
        """Note that replies may be missing: the next `flush` asks the server first."""
        self._unsure = True

    def flush(self, connection: redis.Redis, entries: int, size: int) -> int:
        """Send what waits, within a credit; the first call of a session only says hello.

        Args:
            connection: The server.
            entries: At most so many entries.
            size: At most so many bytes, but always one entry.

        Returns:
            How many entries were stored.

        Raises:
            redis.RedisError: The server is away; call `connection_lost` and come back.
        """
        if self._unsure:
            self._settle(connection)
        if self.session is None:
            self.begin(connection)
            return 0
        batch = self._take(entries, size)
        if not batch:
            return 0
        self._unsure = True
        pipeline = connection.pipeline(transaction=False)
        for item in batch:
            assert item.sent_as is not None
            pipeline.xadd(self.key, item.fields, id=str(item.sent_as))
        replies = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, AWAY):
                raise reply
        self._unsure = False
        return self._sort_out(connection, batch, replies)

    def _take(self, entries: int, size: int) -> list[_Item]:
        """Give ids and numbers to the next entries."""
        batch: list[_Item] = []
        total = 0
        for item in self._waiting:
            if len(batch) >= entries or (batch and total + item.size > size):
                break
            assert self._last is not None
            if item.sent_as is None:
                item.sent_as = self._last.next
                if self._number_field and self._number_field not in item.fields:
                    item.fields[self._number_field] = self._next_number
                    self._next_number += 1
            self._last = max(self._last, item.sent_as)
            total += item.size
            batch.append(item)
        return batch

    def _sort_out(self, connection: redis.Redis, batch: list[_Item], replies: list[object]) -> int:
        stored = set()
        refused: list[object] = []
        for item, reply in zip(batch, replies, strict=True):
            if not isinstance(reply, Exception):
                stored.add(id(item))
            elif _REFUSED_ID in str(reply):
                if self._reached(connection, item):
                    stored.add(id(item))
                else:
                    refused.append(reply)
            else:  # out of memory, disk full …: not stored, goes again under the next free id
                item.sent_as = None
                refused.append(reply)
        self._drop(stored)
        if refused:
            raise redis.ResponseError(str(refused[0]))
        return len(stored)

    def _reached(self, connection: redis.Redis, item: _Item) -> bool:
        """Whether a refused id is one of ours that was stored before its reply was lost."""
        last = self._server_last(connection)
        ours = last is not None and self.session is not None and last.ms == self.session.ms
        if ours and last is not None and item.sent_as is not None and last >= item.sent_as:
            return True
        self.session = None  # somebody else's session: say hello again or find out that we are fenced
        return False

    def _settle(self, connection: redis.Redis) -> None:
        """After a lost connection: find out what was stored."""
        last = self._server_last(connection)
        if self.session is None or last is None or last < self.session:
            self.session = None  # the server came back without our data
        elif last.ms == self.session.ms:
            self._drop(
                {id(item) for item in self._waiting if item.sent_as is not None and item.sent_as <= last}
            )
            self._last = last
        self._unsure = False

    def _server_last(self, connection: redis.Redis) -> EntryId | None:
        try:
            info = connection.xinfo_stream(self.key)
        except redis.ResponseError:
            return None
        return EntryId.parse(info["last-generated-id"])

    def _drop(self, stored: set[int]) -> None:
        kept: deque[_Item] = deque()
        for item in self._waiting:
            if id(item) in stored:
                self.stored += 1
                self.stored_bytes += item.size
            else:
                kept.append(item)
        self._waiting = kept
