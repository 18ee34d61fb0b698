"""The thread that brings chunks and episodes to the server; a push never touches the network."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import redis

from soulsgui.errors import ClientRegistrationError, ServiceError, SoulsGuiError
from soulsgui.sampling.backlog import Backlog, Credit, Parcel
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.stream import Fenced, StreamSession
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import PROTOCOL, Keys
from soulsgui.wire.messages.chunk import NUMBER_FIELD
from soulsgui.wire.messages.session import CHUNK_FIELD, EPISODE_FIELD, Grant, Hello

logger = logging.getLogger(__name__)

_NO_LIMIT = 2**62
_EPISODES_AT_ONCE = Credit(1000, _NO_LIMIT, _NO_LIMIT)
# What was sent without an answer can't be dropped any more: little enough to leave the buffer its room.
_BYTES_AT_ONCE = 2**20
_LINGER_S = 2.0
_RETRY_S = 0.5
_TAKEN_OVER_WITHIN_S = 1.0


class Uploader(threading.Thread):
    """Owns the client's two streams.

    What was pushed waits in a backlog until it may be sent; nobody who pushes waits. The buffer is bounded by
    those who ask `full` or `has_room` between two steps, or by dropping the oldest chunks.

    Args:
        address: The server.
        progress: Counters of this client.
        contract: Contract hash of the run it plays for.
        buffer_bytes: Most bytes that may wait, and one chunk.
        on_session: Called in this thread when a session has begun.
        drops: Whether the oldest chunks are dropped when the buffer is full, or more waits than the granted
            steps cover. The newest chunk always stays.
        spaces: What the environment shows and takes, where the server is to be told.
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
        self._chunks = StreamSession(keys.chunks(progress.client), self._hello, NUMBER_FIELD)
        self._episodes = StreamSession(keys.episodes(progress.client), self._hello)
        self._chunks_behind, self._episodes_behind = Backlog(), Backlog()
        self._steps = 0  # of this session: stored, and waiting to be
        self._grant: Grant | None = None
        self._refusal = ""
        self._changed = threading.Condition()
        self._closing = False
        self._distrusted = False
        self._stop_event = threading.Event()
        self._link = Link(address, self._stop_event, "uploader")

    def push_chunk(self, payload: bytes, steps: int) -> None:
        """Queue a chunk.

        Args:
            payload: Its bytes.
            steps: Transitions in it.

        Raises:
            ClientRegistrationError: Another process took over the name.
            ServiceError: The thread has ended by an error.
        """
        self._push(self._chunks_behind, Parcel(payload, steps))

    def push_episode(self, payload: bytes) -> None:
        """Queue a finished episode; as `push_chunk`."""
        self._push(self._episodes_behind, Parcel(payload))

    @property
    def full(self) -> bool:
        """Whether more waits to be stored than the buffer should hold."""
        return self._progress.buffered_bytes > self._buffer_bytes

    @property
    def session_steps(self) -> int:
        """Transitions of the present session: those that are stored, and those that wait to be."""
        return self._steps

    def has_room(self, open_steps: int) -> bool:
        """Whether another step may be made: the buffer is not full, and the session's grant covers it.

        A step of several environments may go beyond the grant with all of them but one.

        Args:
            open_steps: Transitions that were made, but not pushed yet.
        """
        # Without the lock, before every step: a new session is known here only after its steps were counted.
        grant = self._session_grant()
        if grant is None or self.full:
            return False
        return grant.credit_steps is None or self._steps + open_steps < grant.credit_steps

    def granted(self, grant: Grant | None) -> None:
        """Take over what the trainer allows."""
        with self._changed:
            if grant != self._grant:
                self._grant = grant
                self._changed.notify_all()

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
        left = self._chunks.waiting + self._episodes.waiting
        left += len(self._chunks_behind) + len(self._episodes_behind)
        if left:
            logger.info("ended with %d entries unsent", left)

    def run(self) -> None:
        """Send until closed."""
        try:
            while self._step():
                pass
        except Stopped:
            logger.debug("stopped while the server was away")
        except Fenced:
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

    def _push(self, backlog: Backlog, parcel: Parcel) -> None:
        with self._changed:
            if self.failure is not None:
                raise self.failure
            backlog.add(parcel)
            self._steps += parcel.steps
            if self._drops:
                self._make_room()
            self._count_buffered()
            self._changed.notify_all()

    def _make_room(self) -> None:
        """Drop the oldest chunks, and where there are none the oldest episodes, until the rest may stay."""
        dropped = 0
        while len(self._chunks_behind) > 1 and (
            self._beyond_credit() or self._buffered() > self._buffer_bytes
        ):
            dropped += (steps := self._chunks_behind.take_oldest().steps)
            self._steps -= steps
        while len(self._episodes_behind) > 1 and self._buffered() > self._buffer_bytes:
            self._episodes_behind.take_oldest()
        self._progress.drop(dropped)

    def _beyond_credit(self) -> bool:
        grant = self._session_grant()
        return grant is not None and grant.credit_steps is not None and self._steps > grant.credit_steps

    def _hello(self) -> str:
        progress = self._progress
        return Hello(
            client=progress.client,
            instance=progress.instance,
            protocol=PROTOCOL,
            run_id=progress.run_id,
            contract=self._contract,
            num_envs=progress.num_envs,
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
                self._chunks.connection_lost()
                self._episodes.connection_lost()
        try:
            self._send()
        except Fenced:
            if not self._look_who_wrote():
                return False
        except AWAY as error:
            self._chunks.connection_lost()
            self._episodes.connection_lost()
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
            self._count_buffered()
            self._changed.notify_all()
        return not self._stop_event.is_set()

    def _look_who_wrote(self) -> bool:
        """Somebody else wrote to our streams: find out whether the name was taken over, or it was garbage.

        Returns:
            Whether to go on, in a new session; False when this process is ending anyway.

        Raises:
            Fenced: It was taken over: this process never says hello again.
        """
        logger.warning("somebody else wrote to the streams of %s", self._progress.client)
        deadline = time.monotonic() + _TAKEN_OVER_WITHIN_S
        with self._changed:
            while (left_s := deadline - time.monotonic()) > 0:
                if self._taken_over():
                    raise Fenced
                if self._closing:
                    return False
                self._changed.wait(left_s)
        lost = sum(stream.start_over() for stream in (self._chunks, self._episodes))
        logger.warning("nobody took the name over: a new session begins; entries given up: %d", lost)
        return True

    def _taken_over(self) -> bool:
        """Whether the trainer has admitted a session that is newer than ours."""
        grant, session = self._grant, self._chunks.session
        if grant is None or session is None or self._progress.was_in(grant.session):
            return False
        return EntryId.parse(grant.session) > session

    def _work(self) -> bool:
        """Whether there is something that can be done now."""
        if self._distrusted or self._chunks.session is None:
            return True
        if self._chunks.unsure or self._episodes.unsure:
            return True
        if self._episodes.waiting or self._episodes_behind:
            return True
        return bool(self._chunks.waiting or self._chunks_behind) and self._credit().left

    def _buffered(self) -> int:
        behind = self._chunks_behind.size + self._episodes_behind.size
        return behind + self._chunks.waiting_bytes + self._episodes.waiting_bytes

    def _count_buffered(self) -> None:
        self._progress.buffered_bytes = self._buffered()

    def _send(self) -> None:
        connection = self._link.redis
        self._chunks.settle(connection)
        if self._chunks.session is None:
            # Until it is known here, a grant for the new session must not look like somebody else's.
            self._progress.end_session()
            self._chunks.begin(connection)
            with self._changed:
                self._steps = self._chunks.waiting_steps + self._chunks_behind.steps
                # Before the session is told: a beat must not give it what was stored in the one before.
                self._progress.sent_chunks = self._progress.sent_bytes = self._progress.sent_steps = 0
                self._progress.session = str(self._chunks.session)
            self._on_session()
        self._send_chunks(connection)
        self._episodes.settle(connection)
        if self._episodes.waiting or self._episodes_behind:
            if self._episodes.session is None:
                self._episodes.begin(connection)
            self._take_over(self._episodes, EPISODE_FIELD, self._episodes_behind, _EPISODES_AT_ONCE)
            self._episodes.flush(connection, _EPISODES_AT_ONCE)

    def _send_chunks(self, connection: redis.Redis) -> None:
        credit = self._credit()
        credit = credit._replace(size=min(credit.size, _BYTES_AT_ONCE))
        self._take_over(self._chunks, CHUNK_FIELD, self._chunks_behind, credit)
        try:
            self._chunks.flush(connection, credit)
        finally:
            self._progress.sent_chunks = self._chunks.stored
            self._progress.sent_bytes = self._chunks.stored_bytes
            self._progress.sent_steps = self._chunks.stored_steps

    def _take_over(self, stream: StreamSession, field: bytes, backlog: Backlog, credit: Credit) -> None:
        """Bring what may be sent now from its backlog to its stream, once that has nothing left."""
        with self._changed:
            if not stream.waiting:
                for parcel in backlog.take(credit):
                    stream.add(field, parcel)
