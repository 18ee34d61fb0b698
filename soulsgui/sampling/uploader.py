"""The thread that brings chunks and episodes to the server; a push never touches the network."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import redis

from soulsgui.errors import ClientRegistrationError, ServiceError, SoulsGuiError
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.stream import Fenced, StreamSession
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import PROTOCOL, Keys
from soulsgui.wire.messages.chunk import NUMBER_FIELD
from soulsgui.wire.messages.session import CHUNK_FIELD, EPISODE_FIELD, Grant, Hello

logger = logging.getLogger(__name__)

_EPISODE_BATCH = 1000
_NO_LIMIT = 2**62
_LINGER_S = 2.0
_RETRY_S = 0.5
_LOOK_FOR_STOP_S = 0.1
_TAKEN_OVER_WITHIN_S = 1.0


class Uploader(threading.Thread):
    """Owns the client's two streams.

    Args:
        address: The server.
        progress: Counters of this client.
        contract: Contract hash of the run it plays for.
        buffer_bytes: Most bytes that may wait; a push beyond it waits in turn.
        stop: Set when the process should stop: no push waits any longer.
        on_session: Called in this thread when a session has begun.
    """

    def __init__(
        self,
        address: Address,
        progress: Progress,
        contract: str,
        buffer_bytes: int,
        stop: threading.Event,
        on_session: Callable[[], None],
    ) -> None:
        super().__init__(name="uploader", daemon=True)
        keys = Keys(address.prefix)
        self.failure: SoulsGuiError | None = None
        self._progress = progress
        self._buffer_bytes = buffer_bytes
        self._contract = contract
        self._on_session = on_session
        self._chunks = StreamSession(keys.chunks(progress.client), self._hello, NUMBER_FIELD)
        self._episodes = StreamSession(keys.episodes(progress.client), self._hello)
        self._inbox: deque[tuple[StreamSession, bytes, bytes]] = deque()
        self._inbox_bytes = 0
        self._grant: Grant | None = None
        self._refusal = ""
        self._changed = threading.Condition()
        self._closing = False
        self._distrusted = False
        self._process_stop = stop
        self._stop_event = threading.Event()
        self._link = Link(address, self._stop_event, "uploader")

    def push_chunk(self, payload: bytes) -> None:
        """Queue a chunk; waits while the buffer is full.

        Raises:
            ClientRegistrationError: Another process took over the name.
            ServiceError: The thread has ended by an error.
            Stopped: The process was asked to stop while the buffer was full.
        """
        self._push(self._chunks, CHUNK_FIELD, payload)

    def push_episode(self, payload: bytes) -> None:
        """Queue a finished episode; as `push_chunk`."""
        self._push(self._episodes, EPISODE_FIELD, payload)

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

    def _push(self, stream: StreamSession, field: bytes, payload: bytes) -> None:
        with self._changed:
            while self.failure is None and self._full():
                if self._process_stop.is_set() or self._closing:
                    raise Stopped
                self._changed.wait(_LOOK_FOR_STOP_S)  # signals only set the event
            if self.failure is not None:
                raise self.failure
            self._inbox.append((stream, field, payload))
            self._inbox_bytes += len(payload)
            self._changed.notify_all()

    def _full(self) -> bool:
        return self._inbox_bytes + self._progress.buffered_bytes > self._buffer_bytes

    def _hello(self) -> str:
        progress = self._progress
        return Hello(
            client=progress.client,
            instance=progress.instance,
            protocol=PROTOCOL,
            run_id=progress.run_id,
            contract=self._contract,
            num_envs=progress.num_envs,
        ).to_json()

    def _credit(self) -> tuple[int, int]:
        """Return how many chunk entries and bytes may be sent now."""
        grant, session = self._grant, self._progress.session
        if grant is None or grant.session != session or grant.status != "accepted":
            return 0, 0
        return grant.credit_entries - self._chunks.stored, grant.credit_bytes - self._chunks.stored_bytes

    def _step(self) -> bool:
        """Take over what was pushed and send what may be sent; return whether to go on."""
        with self._changed:
            while not self._work():
                if self._closing:
                    return False
                self._changed.wait()
            self._take_over()
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
        return grant is not None and session is not None and EntryId.parse(grant.session) > session

    def _work(self) -> bool:
        """Whether there is something that can be done now."""
        if self._inbox or self._distrusted or self._episodes.waiting or self._chunks.session is None:
            return True
        if self._chunks.unsure or self._episodes.unsure:
            return True
        entries, size = self._credit()
        return bool(self._chunks.waiting) and entries > 0 and size > 0

    def _take_over(self) -> None:
        while self._inbox:
            stream, field, payload = self._inbox.popleft()
            stream.add(field, payload)
        self._inbox_bytes = 0
        self._count_buffered()
        if self._distrusted:
            self._distrusted = False
            self._chunks.connection_lost()
            self._episodes.connection_lost()

    def _count_buffered(self) -> None:
        self._progress.buffered_bytes = self._chunks.waiting_bytes + self._episodes.waiting_bytes

    def _send(self) -> None:
        connection = self._link.redis
        self._chunks.settle(connection)
        if self._chunks.session is None:
            # Until it is known here, a grant for the new session must not look like somebody else's.
            self._progress.session = ""
            self._chunks.begin(connection)
            self._progress.session = str(self._chunks.session)
            self._on_session()
        entries, size = self._credit()
        if entries > 0 and size > 0:
            try:
                self._chunks.flush(connection, entries, size)
            finally:
                self._progress.sent_chunks = self._chunks.stored
                self._progress.sent_bytes = self._chunks.stored_bytes
        self._episodes.settle(connection)
        if self._episodes.waiting:
            if self._episodes.session is None:
                self._episodes.begin(connection)
            self._episodes.flush(connection, _EPISODE_BATCH, _NO_LIMIT)
