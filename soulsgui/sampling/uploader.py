"""The thread that brings chunks and episodes to the server; a push never touches the network.

A session on a stream begins with `XADD … * hello`; the server's id `E-n` makes the ids `E-(n+1)`, `E-(n+2)` …
ours alone. What was sent again after a lost reply is refused by the server as "equal or smaller": nothing is
stored twice, and nothing is lost in silence.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis

from soulsgui.errors import ClientRegistrationError, ServiceError, SoulsGuiError
from soulsgui.sampling.progress import Progress
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import PROTOCOL, EntryId, Keys
from soulsgui.wire.messages.chunk import NUMBER_FIELD
from soulsgui.wire.messages.session import CHUNK_FIELD, EPISODE_FIELD, HELLO_FIELD, Grant, SessionHello

logger = logging.getLogger(__name__)

_REFUSED_ID = "equal or smaller"
_NO_LIMIT = 2**62
# What was sent without an answer can't be dropped any more: little enough to leave the buffer its room.
_BYTES_AT_ONCE = 2**20
_LINGER_S = 2.0
_RETRY_S = 0.5
_TAKEN_OVER_WITHIN_S = 1.0


class Credit(NamedTuple):
    """How much may be sent; nothing where any of it is used up."""

    entries: int
    size: int
    steps: int


@dataclass(eq=False)
class StreamEntry:
    """What becomes one entry of a stream: its bytes, and the transitions in them.

    `tries` counts how often it was sent as `sent_as` without an answer.
    """

    payload: bytes
    steps: int = 0
    model_id: int | None = None
    number: int | None = None
    sent_as: EntryId | None = None
    tries: int = 0

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.payload)

    def is_new(self) -> None:
        """Forget under which id it was sent: nothing was stored under it."""
        self.sent_as, self.tries = None, 0


class Backlog:
    """Stream entries that wait, in the order they came, with their bytes and transitions. Pure."""

    def __init__(self) -> None:
        self.size = 0
        self.steps = 0
        self._entries: deque[StreamEntry] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[StreamEntry]:
        return iter(self._entries)

    def add(self, entry: StreamEntry) -> None:
        """Put an entry behind the others."""
        self._entries.append(entry)
        self.size += entry.size
        self.steps += entry.steps

    def remove(self, entry: StreamEntry) -> None:
        """Take an entry out, quickly when it is among the oldest."""
        self._entries.remove(entry)
        self.size -= entry.size
        self.steps -= entry.steps

    def take_oldest(self) -> StreamEntry:
        """Take the oldest entry out; there must be one."""
        entry = self._entries[0]
        self.remove(entry)
        return entry

    def covered(self, credit: Credit) -> list[StreamEntry]:
        """Return the oldest entries that a credit covers; while any of it is left, one at least.

        An entry can't be cut in two: held back until it is covered whole, it might wait forever.
        """
        found: list[StreamEntry] = []
        size = steps = 0
        for entry in self._entries if min(credit) > 0 else ():
            size, steps = size + entry.size, steps + entry.steps
            if found and (len(found) >= credit.entries or size > credit.size or steps > credit.steps):
                break
            found.append(entry)
        return found


class StreamTakenOver(Exception):
    """Somebody else wrote to this stream: nothing more can be sent in this session."""


class StreamSession:
    """One client's session on one stream. Used by one thread.

    `StreamTakenOver` is raised when another session took its place, `redis.RedisError` when the server is
    away: then set `unsure` and come back.
    """

    def __init__(self, key: str, hello: Callable[[], str], field: bytes, number_field: bytes = b"") -> None:
        self.key = key
        self.session: EntryId | None = None
        self.stored = 0
        self.stored_bytes = 0
        self.stored_steps = 0
        self.pushed = Backlog()  # not taken up yet; filled by other threads, under the uploader's lock
        self.waiting = Backlog()  # taken up, and not known to be stored
        self.unsure = False  # whether replies may be missing: `settle` then asks the server
        self._hello = hello
        self._field, self._number_field = field, number_field
        self._last = EntryId(0, 0)
        self._next_number = 0
        self._is_taken_over = False

    def begin(self, connection: redis.Redis) -> None:
        """Begin a session: say hello."""
        self.session = self._last = EntryId.parse(connection.xadd(self.key, {HELLO_FIELD: self._hello()}))
        self.stored = self.stored_bytes = self.stored_steps = self._next_number = 0
        self.unsure = False
        for entry in self.waiting:
            entry.is_new()
            entry.number = None

    def start_over(self) -> int:
        """Give up a disturbed session, with the entries that may be stored already; return how many."""
        doubtful = [entry for entry in self.waiting if entry.tries]
        for entry in doubtful:
            self.waiting.remove(entry)
        self.session, self.unsure, self._is_taken_over = None, False, False
        return len(doubtful)

    def settle(self, connection: redis.Redis) -> None:
        """After a lost connection: find out whether the session still stands.

        Its hello is said once more, under the id that it had: where that was stored, it is refused. Which
        entries were stored is found out in the same way, when they are sent again.
        """
        if self._is_taken_over:
            raise StreamTakenOver
        if not self.unsure:
            return
        if self.session is not None:
            fields: dict[Any, Any] = {HELLO_FIELD: self._hello()}
            try:
                connection.xadd(self.key, fields, id=str(self.session), nomkstream=True)
            except redis.ResponseError as error:
                if _REFUSED_ID not in str(error):
                    raise
            else:
                self.session = None  # the server came back without our data
        self.unsure = False

    def flush(self, connection: redis.Redis, credit: Credit) -> int:
        """Send what waits, within a credit, in a session that stands; return how many were stored.

        What the server refused (`redis.ResponseError`: out of memory, disk full) is sent again.
        """
        batch = self._next_batch(credit)
        if not batch:
            return 0
        self.unsure = True
        pipeline = connection.pipeline(transaction=False)
        for entry in batch:
            entry.tries += 1
            fields: dict[Any, Any] = {self._field: entry.payload}
            if entry.number is not None:
                fields[self._number_field] = entry.number
            pipeline.xadd(self.key, fields, id=str(entry.sent_as))
        replies = pipeline.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, AWAY):
                raise reply
        self.unsure = False
        return self._sort_out(batch, replies)

    def _next_batch(self, credit: Credit) -> list[StreamEntry]:
        """Give ids and numbers to the next entries."""
        batch = self.waiting.covered(credit)
        for entry in batch:
            if entry.sent_as is None:
                entry.sent_as = self._last.next
                if self._number_field and entry.number is None:
                    entry.number = self._next_number
                    self._next_number += 1
            self._last = max(self._last, entry.sent_as)
        return batch

    def _sort_out(self, batch: list[StreamEntry], replies: list[object]) -> int:
        stored: list[StreamEntry] = []
        refused: list[Exception] = []
        repeated: list[StreamEntry] = []
        for entry, reply in zip(batch, replies, strict=True):
            if not isinstance(reply, Exception):
                stored.append(entry)
            elif _REFUSED_ID in str(reply):
                repeated.append(entry)
            else:  # out of memory, disk full …: not stored, goes again under the next free id
                entry.is_new()
                refused.append(reply)
        self._stored(stored)
        if any(entry.tries == 1 for entry in repeated):
            for entry in repeated:
                entry.tries -= 1  # this try stored nothing
            self._is_taken_over = True  # its id was never used by us: somebody else writes here
            raise StreamTakenOver
        self._stored(repeated)  # before their replies were lost
        if refused:
            raise refused[0]
        return len(stored)

    def _stored(self, entries: list[StreamEntry]) -> None:
        """Count entries as stored and forget them."""
        for entry in entries:
            self.waiting.remove(entry)
            self.stored += 1
            self.stored_bytes += entry.size
            self.stored_steps += entry.steps


_EPISODES_AT_ONCE = Credit(1000, _NO_LIMIT, _NO_LIMIT)


class Uploader(threading.Thread):
    """Owns the client's two streams.

    A push only queues. The queue is bounded by those who ask `full` or `has_room` between two steps, or
    (`drops`) by dropping the oldest chunks when it is full, or holds more than the granted steps cover; the
    newest chunk always stays. `on_session` is called in this thread when a session has begun.
    """

    def __init__(
        self,
        address: Address,
        progress: Progress,
        contract: str,
        buffer_bytes: int,
        on_session: Callable[[], None],
        drops: bool = False,
        spaces: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(name="uploader", daemon=True)
        keys = Keys(address.prefix)
        self.failure: SoulsGuiError | None = None
        self._progress = progress
        self._buffer_bytes = buffer_bytes
        self._drops = drops
        self._contract = contract
        self._spaces = spaces
        self._on_session = on_session
        self._chunks = StreamSession(keys.chunks(progress.client), self._hello, CHUNK_FIELD, NUMBER_FIELD)
        self._episodes = StreamSession(keys.episodes(progress.client), self._hello, EPISODE_FIELD)
        self._streams = self._chunks, self._episodes
        self.session_steps = 0  # transitions of the present session: stored, and waiting to be
        self._grant: Grant | None = None
        self._refusal = ""
        self._changed = threading.Condition()
        self._closing = False
        self._distrusted = False
        self._stop_event = threading.Event()
        self._link = Link(address, self._stop_event, "uploader")

    def push_chunk(self, payload: bytes, steps: int, model_id: int | None = None) -> None:
        """Queue a chunk of so many transitions; raise the error that this thread has ended by.

        `model_id` is that of the newest weights that any of its segments begins with.
        """
        self._push(self._chunks, StreamEntry(payload, steps, model_id))

    def push_episode(self, payload: bytes) -> None:
        """Queue a finished episode; as `push_chunk`."""
        self._push(self._episodes, StreamEntry(payload))

    @property
    def full(self) -> bool:
        """Whether more waits to be stored than the buffer should hold."""
        return self._progress.buffered_bytes > self._buffer_bytes

    def has_room(self, open_steps: int) -> bool:
        """Whether another step may be made: the buffer is not full, and the session's grant covers it.

        A step of several environments may go beyond the grant with all of them but one.
        """
        # Without the lock, before every step: a new session is known here only after its steps were counted.
        grant = self._session_grant()
        if grant is None or self.full:
            return False
        return grant.credit_steps is None or self.session_steps + open_steps < grant.credit_steps

    def granted(self, grant: Grant | None) -> None:
        """Take over what the trainer allows."""
        with self._changed:
            if grant != self._grant:
                self._grant = grant
                self._changed.notify_all()

    def drop_older(self, model_id: int) -> None:
        """Drop the chunks whose samples are all of weights before these: the server takes none of them."""
        with self._changed:
            dropped = 0
            for entry in list(self._chunks.pushed):
                if entry.model_id is not None and entry.model_id < model_id:
                    self._chunks.pushed.remove(entry)
                    dropped += entry.steps
            if dropped:
                self.session_steps -= dropped
                self._progress.drop(dropped)
                self._progress.buffered_bytes = self._buffered()
                self._changed.notify_all()
                logger.info("%d transitions are too old for the server: they are not sent", dropped)

    def distrust(self) -> None:
        """The server was away: find out whether the session still stands, also when nothing waits."""
        with self._changed:
            self._distrusted = True
            self._changed.notify_all()

    def close(self) -> None:
        """Send what waits, for a moment, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self.join(_LINGER_S)
        self._stop_event.set()
        self.join()
        self._link.close()
        left = sum(len(stream.pushed) + len(stream.waiting) for stream in self._streams)
        if left:
            logger.info("ended with %d entries unsent", left)

    def run(self) -> None:
        """Send until closed."""
        try:
            while self._step():
                pass
        except Stopped:
            logger.debug("stopped while the server was away")
        except StreamTakenOver:
            self._fail(
                ClientRegistrationError(
                    f"Another process took over the name {self._progress.client}.",
                    "Give this client another name (--name).",
                )
            )
        except Exception as error:
            logger.exception("the uploader ended by an error")
            self._fail(ServiceError(f"Samples can't be sent any more: {error!r}"))

    def _fail(self, failure: SoulsGuiError) -> None:
        self._progress.error = failure.message
        with self._changed:
            self.failure = failure
            self._changed.notify_all()

    def _push(self, stream: StreamSession, entry: StreamEntry) -> None:
        with self._changed:
            if self.failure is not None:
                raise self.failure
            stream.pushed.add(entry)
            self.session_steps += entry.steps
            if self._drops:
                self._make_room()
            self._progress.buffered_bytes = self._buffered()
            self._changed.notify_all()

    def _make_room(self) -> None:
        """Drop the oldest chunks, and where there are none the oldest episodes, until the rest may stay."""
        dropped, grant = 0, self._session_grant()
        covered = _NO_LIMIT if grant is None or grant.credit_steps is None else grant.credit_steps
        chunks, episodes = self._chunks.pushed, self._episodes.pushed
        while len(chunks) > 1 and (self.session_steps > covered or self._buffered() > self._buffer_bytes):
            dropped += (steps := chunks.take_oldest().steps)
            self.session_steps -= steps
        while len(episodes) > 1 and self._buffered() > self._buffer_bytes:
            episodes.take_oldest()
        self._progress.drop(dropped)

    def _hello(self) -> str:
        progress = self._progress
        return SessionHello(
            client=progress.client,
            instance=progress.instance,
            protocol=PROTOCOL,
            run_id=progress.run_id,
            contract=self._contract,
            num_envs=progress.num_envs,
            serves=progress.inference is not None,
            served=progress.served,
            versions=progress.versions,
            spaces=self._spaces,
        ).to_json()

    def _session_grant(self) -> Grant | None:
        """Return the grant that lets the present session send, None while there is none."""
        grant, session = self._grant, self._progress.session
        if grant is None or grant.session != session or grant.status != "accepted":
            return None
        return grant

    def _credit(self) -> Credit:
        """Return how much may be sent now."""
        grant, chunks = self._session_grant(), self._chunks
        if grant is None:
            return Credit(0, 0, 0)
        return Credit(
            grant.credit_entries - chunks.stored,
            grant.credit_bytes - chunks.stored_bytes,
            _NO_LIMIT if grant.credit_steps is None else grant.credit_steps - chunks.stored_steps,
        )

    def _step(self) -> bool:
        """Take over what was pushed and send what may be sent; return whether to go on."""
        with self._changed:
            while not self._work():
                if self._closing:
                    return False
                self._changed.wait()
            if self._distrusted:
                self._distrusted = False
                self._chunks.unsure = self._episodes.unsure = True
        try:
            self._send()
        except StreamTakenOver:
            if not self._look_who_wrote():
                return False
        except AWAY as error:
            self._chunks.unsure = self._episodes.unsure = True
            self._link.lost(error)
        except redis.ResponseError as error:
            self._link.refused(error)
            self._progress.error = self._refusal = f"the server refuses samples: {error}"
            if self._stop_event.wait(_RETRY_S):
                return False
        else:
            self._link.back()
            if self._refusal and self._progress.error == self._refusal:
                self._progress.error = self._refusal = ""
        with self._changed:
            self._progress.buffered_bytes = self._buffered()
            self._changed.notify_all()
        return not self._stop_event.is_set()

    def _look_who_wrote(self) -> bool:
        """Somebody else wrote to our streams: find out whether the name was taken over, or it was garbage.

        Returns whether to go on, in a new session; where the name was taken over, no hello is said again.
        """
        logger.warning("somebody else wrote to the streams of %s", self._progress.client)
        deadline = time.monotonic() + _TAKEN_OVER_WITHIN_S
        with self._changed:
            while (left_s := deadline - time.monotonic()) > 0:
                if self._name_taken_over():
                    raise StreamTakenOver
                if self._closing:
                    return False
                self._changed.wait(left_s)
        lost = sum(stream.start_over() for stream in self._streams)
        logger.warning("nobody took over the name: a new session starts; entries dropped: %d", lost)
        return True

    def _name_taken_over(self) -> bool:
        """Whether the trainer has admitted a session that is newer than ours."""
        grant, session = self._grant, self._chunks.session
        if grant is None or session is None or self._progress.was_in(grant.session):
            return False
        return EntryId.parse(grant.session) > session

    def _work(self) -> bool:
        """Whether there is something that can be done now."""
        chunks, episodes = self._streams
        if self._distrusted or chunks.session is None or chunks.unsure or episodes.unsure:
            return True
        if episodes.waiting or episodes.pushed:
            return True
        return bool(chunks.waiting or chunks.pushed) and min(self._credit()) > 0

    def _buffered(self) -> int:
        return sum(stream.pushed.size + stream.waiting.size for stream in self._streams)

    def _send(self) -> None:
        connection = self._link.redis
        self._chunks.settle(connection)
        if self._chunks.session is None:
            # Until it is known here, a grant for the new session must not look like somebody else's.
            self._progress.end_session()
            self._chunks.begin(connection)
            with self._changed:
                self.session_steps = self._chunks.waiting.steps + self._chunks.pushed.steps
                # Before the session is told: a beat must not give it what was stored in the one before.
                self._progress.sent_chunks = self._progress.sent_bytes = self._progress.sent_steps = 0
                self._progress.session = str(self._chunks.session)
            self._on_session()
        credit = self._credit()
        credit = credit._replace(size=min(credit.size, _BYTES_AT_ONCE))
        self._take_up(self._chunks, credit)
        try:
            self._chunks.flush(connection, credit)
        finally:
            self._progress.sent_chunks = self._chunks.stored
            self._progress.sent_bytes = self._chunks.stored_bytes
            self._progress.sent_steps = self._chunks.stored_steps
        self._episodes.settle(connection)
        if self._episodes.waiting or self._episodes.pushed:
            if self._episodes.session is None:
                self._episodes.begin(connection)
            self._take_up(self._episodes, _EPISODES_AT_ONCE)
            self._episodes.flush(connection, _EPISODES_AT_ONCE)

    def _take_up(self, stream: StreamSession, credit: Credit) -> None:
        """Take up what was pushed and may be sent now, once nothing is left of what was taken up before."""
        with self._changed:
            if not stream.waiting:
                for entry in stream.pushed.covered(credit):
                    stream.pushed.remove(entry)
                    stream.waiting.add(entry)
