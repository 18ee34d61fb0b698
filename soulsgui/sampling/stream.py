"""Writing to one stream so that nothing is stored twice and nothing is lost in silence.

A session begins with `XADD … * hello`; the server's id `E-n` makes the ids `E-(n+1)`, `E-(n+2)` … ours
alone. What was sent again after a lost reply is refused by the server as "equal or smaller".
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import redis

from soulsgui.sampling.backlog import Credit, Parcel, covered
from soulsgui.wire.connection import AWAY
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.messages.session import HELLO_FIELD

_REFUSED_ID = "equal or smaller"


class Fenced(Exception):
    """Somebody else wrote to this stream: nothing more can be sent in this session."""


@dataclass(eq=False)
class _Item:
    fields: dict[Any, Any]
    size: int
    steps: int
    sent_as: EntryId | None = None
    tries: int = 0
    stored: bool = False


class StreamSession:
    """One client's session on one stream. Used by one thread.

    Args:
        key: The stream.
        hello: Returns the payload of a hello.
        number_field: Field that carries the number of an entry within its session; empty for none.

    Attributes:
        session: Id of the hello; None before it, and when the server has lost it.
        stored: Entries stored since the hello.
        stored_bytes: Their bytes.
        stored_steps: Their transitions.
        waiting_bytes: Bytes of the entries not known to be stored.
        waiting_steps: Their transitions.
        unsure: Whether replies may be missing, so that `settle` has to ask the server.
    """

    def __init__(self, key: str, hello: Callable[[], str], number_field: bytes = b"") -> None:
        self.key = key
        self.session: EntryId | None = None
        self.stored = 0
        self.stored_bytes = 0
        self.stored_steps = 0
        self.waiting_bytes = 0
        self.waiting_steps = 0
        self.unsure = False
        self._hello = hello
        self._number_field = number_field
        self._last = EntryId(0, 0)
        self._waiting: deque[_Item] = deque()
        self._next_number = 0
        self._fenced = False

    @property
    def waiting(self) -> int:
        """Entries not known to be stored."""
        return len(self._waiting)

    def add(self, field: bytes, parcel: Parcel) -> None:
        """Queue an entry."""
        self._waiting.append(_Item({field: parcel.payload}, parcel.size, parcel.steps))
        self.waiting_bytes += parcel.size
        self.waiting_steps += parcel.steps

    def begin(self, connection: redis.Redis) -> None:
        """Begin a session: say hello.

        Raises:
            redis.RedisError: Not done; try again.
        """
        entry = connection.xadd(self.key, {HELLO_FIELD: self._hello()})
        self.session = self._last = EntryId.parse(entry)
        self.stored = self.stored_bytes = self.stored_steps = self._next_number = 0
        self.unsure = False
        for item in self._waiting:
            item.sent_as, item.tries = None, 0
            item.fields.pop(self._number_field, None)

    def start_over(self) -> int:
        """Give up a session that somebody disturbed without taking the name over; `begin` comes next.

        Entries that may have been stored already are given up with it, for nothing is stored twice.

        Returns:
            How many those are.
        """
        doubtful = [item for item in self._waiting if item.tries]
        for item in doubtful:
            self._waiting.remove(item)
            self._no_longer_waiting(item)
        self.session, self.unsure, self._fenced = None, False, False
        return len(doubtful)

    def connection_lost(self) -> None:
        """Note that replies may be missing: the next `settle` asks the server."""
        self.unsure = True

    def settle(self, connection: redis.Redis) -> None:
        """After a lost connection: find out what was stored, and whether the session still stands.

        Raises:
            Fenced: Another session took the place of this one.
            redis.RedisError: The server is away.
        """
        if self._fenced:
            raise Fenced
        if not self.unsure:
            return
        if self.session is not None:
            last = self._server_last(connection)
            if last < self.session:
                self.session = None  # the server came back without our data
            elif self._is_ours(last):
                self._take_off(item for item in self._waiting if item.sent_as and item.sent_as <= last)
                self._last = last
            else:
                self._fenced = True
                raise Fenced
        self.unsure = False

    def flush(self, connection: redis.Redis, credit: Credit) -> int:
        """Send what waits, within a credit; the session must stand (`settle`, `begin`).

        Args:
            connection: The server.
            credit: At most so much; while any of it is left, one entry at least.

        Returns:
            How many entries were stored.

        Raises:
            Fenced: Another session took the place of this one.
            redis.ResponseError: The server refused some (out of memory, disk full); they go again.
            redis.RedisError: The server is away; call `connection_lost` and come back.
        """
        batch = self._next_batch(credit)
        if not batch:
            return 0
        self.unsure = True
        pipeline = connection.pipeline(transaction=False)
        for item in batch:
            item.tries += 1
            pipeline.xadd(self.key, item.fields, id=str(item.sent_as))
        replies = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, AWAY):
                raise reply
        self.unsure = False
        return self._sort_out(connection, batch, replies)

    def _next_batch(self, credit: Credit) -> list[_Item]:
        """Give ids and numbers to the next entries."""
        batch = list(itertools.islice(self._waiting, covered(self._waiting, credit)))
        for item in batch:
            if item.sent_as is None:
                item.sent_as = self._last.next
                if self._number_field and self._number_field not in item.fields:
                    item.fields[self._number_field] = self._next_number
                    self._next_number += 1
            self._last = max(self._last, item.sent_as)
        return batch

    def _sort_out(self, connection: redis.Redis, batch: list[_Item], replies: list[object]) -> int:
        stored: list[_Item] = []
        refused: list[Exception] = []
        repeated: list[_Item] = []
        for item, reply in zip(batch, replies, strict=True):
            if not isinstance(reply, Exception):
                stored.append(item)
            elif _REFUSED_ID in str(reply):
                repeated.append(item)
            else:  # out of memory, disk full …: not stored, goes again under the next free id
                item.sent_as, item.tries = None, 0
                refused.append(reply)
        self._take_off(stored)
        if any(item.tries == 1 for item in repeated):
            for item in repeated:
                item.tries -= 1  # this try stored nothing
            self._fenced = True  # its id was never used by us: somebody else writes here
            raise Fenced
        if repeated:
            self.unsure = True
            self.settle(connection)  # stored before its reply was lost: the last id tells
        if refused:
            raise refused[0]
        return len(stored)

    def _is_ours(self, last: EntryId) -> bool:
        """Whether the newest entry of the stream is one that we sent."""
        return self.session is not None and last.ms == self.session.ms and last <= self._last

    def _server_last(self, connection: redis.Redis) -> EntryId:
        try:
            info = connection.xinfo_stream(self.key)
        except redis.ResponseError as error:
            if "no such key" not in str(error):
                raise
            return EntryId(0, 0)
        return EntryId.parse(info["last-generated-id"])

    def _take_off(self, stored: Iterable[_Item]) -> None:
        """Count entries as stored and forget them."""
        for item in stored:
            item.stored = True
            self.stored += 1
            self.stored_bytes += item.size
            self.stored_steps += item.steps
            self._no_longer_waiting(item)
        while self._waiting and self._waiting[0].stored:
            self._waiting.popleft()
        if any(item.stored for item in self._waiting):  # one before them was refused
            self._waiting = deque(item for item in self._waiting if not item.stored)

    def _no_longer_waiting(self, item: _Item) -> None:
        self.waiting_bytes -= item.size
        self.waiting_steps -= item.steps
