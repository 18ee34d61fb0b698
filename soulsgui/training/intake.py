"""From the clients' streams to well-formed segments: sessions, credits, refusals."""

import logging
import time
from collections.abc import Callable
from typing import cast

import redis

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.training.publisher import Publisher
from soulsgui.training.roster import Roster
from soulsgui.training.sessions import Session, Sessions
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.group_reader import Entry, GroupReader
from soulsgui.wire.keys import TRAINER_GROUP, Keys
from soulsgui.wire.messages.chunk import NUMBER_FIELD, ChunkForm, Reason, Segments
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import CHUNK_FIELD, HELLO_FIELD, Grant, Hello

logger = logging.getLogger(__name__)

PER_STREAM = 200
"""Most entries that are read at once of each client."""

_ROSTER_EVERY_S = 0.5
_ROSTER_EVERY_WHILE_WAITING_S = 0.1
# No run publishes so often; a beat that says more would push the ids of the run there.
_BELIEVABLE_MODEL_ID = 2**40

Use = Callable[[Session, Segments], tuple[int, dict[str, int]]]
Ended = Callable[[str, str], None]


class Intake:
    """Everything that comes from clients.

    Args:
        keys: Key names.
        config: The run as clients see it.
        spaces: Its spaces.
        publisher: Sends grants.
        bytes_ahead: Bytes all clients together may have on the way.
        use: Takes over the segments of one chunk; returns how many were accepted and how many were
            refused by reason.
        ended: Called with a client that won't deliver what it was asked for, and the reason.
    """

    def __init__(
        self,
        keys: Keys,
        config: ServerConfig,
        spaces: SpacesSpec,
        publisher: Publisher,
        bytes_ahead: int,
        use: Use,
        ended: Ended,
    ) -> None:
        self.sessions = Sessions(config.run_id, config.contract, bytes_ahead)
        self.ingest = GroupReader(TRAINER_GROUP, keys.chunks, lambda _: self._per_stream)
        self._keys = keys
        self._config = config
        obs = spaces.observation
        self._form = ChunkForm(config.run_id, config.contract, obs.shape, obs.dtype)
        self._publisher = publisher
        self._use = use
        self._ended = ended
        self._roster = Roster(keys)
        self._next_look = 0.0
        self._per_stream = PER_STREAM
        self._beats_are_new = False

    def begin(self, connection: redis.Redis) -> int:
        """Go on with the sessions that an earlier trainer admitted; return the newest model id clients know.

        Raises:
            redis.RedisError: The server is away.
        """
        self._roster.read(connection)
        self._readmit(connection)
        ours = [beat.model_id for beat in self._roster.beats.values() if beat.run_id == self._config.run_id]
        return max([0, *(model_id for model_id in ours if model_id < _BELIEVABLE_MODEL_ID)])

    def _readmit(self, connection: redis.Redis) -> None:
        """Go on with sessions that nobody here knows, but were admitted before."""
        beats, known = self._roster.beats, self.sessions.by_client
        strangers = [client for client, beat in beats.items() if beat.session and client not in known]
        if not strangers:
            return
        grants = cast("list[bytes | None]", connection.mget([self._keys.grant(name) for name in strangers]))
        pipeline = connection.pipeline(transaction=False)
        for client in strangers:
            pipeline.xinfo_stream(self._keys.chunks(client))
        streams = pipeline.execute(raise_on_error=False)
        for client, data, stream in zip(strangers, grants, streams, strict=True):
            grant = Grant.read(data)
            if grant is None or isinstance(stream, Exception):
                continue  # no stream, or something else under its name: there is nothing to go on with
            last = EntryId.parse(stream["last-generated-id"])
            if self.sessions.readmit(client, grant, beats[client], last, time.monotonic()):
                logger.info("%s goes on with session %s", client, grant.session)

    def start_over(self) -> None:
        """After the server was away."""
        self.ingest.start_over()
        self._next_look = 0.0

    def unsettle(self) -> None:
        """After the server refused something: what was read and not acknowledged comes again."""
        self.ingest.unsettle()

    def eligible(self) -> dict[str, Session]:
        """Return the sessions that can take part in a round now."""
        return {
            client: session
            for client, session in self.sessions.by_client.items()
            if session.status == "accepted" and not self._roster.why_not(session)
        }

    def look_around(self, connection: redis.Redis, often: bool) -> None:
        """Now and then: who is there, and who is gone.

        Args:
            connection: The server.
            often: Whether somebody waits for clients to come.

        Raises:
            redis.RedisError: The server is away.
        """
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + (_ROSTER_EVERY_WHILE_WAITING_S if often else _ROSTER_EVERY_S)
        self._roster.read(connection)
        self.ingest.set_clients(connection, self._roster.clients)
        self._readmit(connection)
        self.sessions.set_playing(self.eligible())
        self.sessions.measure(now)
        self._beats_are_new = True
        for client, session in list(self.sessions.by_client.items()):
            reason = self._roster.gone(session)
            if reason:
                self._ended(client, reason)
            if reason == "left":
                self.sessions.end(client)
        self.sessions.forget_all_but(self._roster.clients)

    def take(self, connection: redis.Redis, block_ms: int, per_stream: int = PER_STREAM) -> None:
        """Read what came, take it over and acknowledge it.

        Args:
            connection: The server.
            block_ms: Longest wait for the first entry; 0 does not wait.
            per_stream: Most entries of each client.

        Raises:
            redis.RedisError: The server is away; what was not acknowledged is read again.
        """
        self._per_stream = per_stream
        entries = self.ingest.read(connection, block_ms)
        for client in self.ingest.take_unusable():
            self.sessions.count_unadmitted(client, Reason.WRONG_TYPE)
            self._ended(client, "its stream can't be read")
        self._look_for_losses({entry.client for entry in entries})
        if not entries:
            return
        for entry in entries:
            if HELLO_FIELD in entry.fields:
                self._welcome(connection, entry)
            elif entry.fields:
                self._take_chunk(connection, entry)
        self.ingest.acknowledge(connection, entries)

    def _look_for_losses(self, heard: set[str]) -> None:
        """Once for each look around, right after a read: what those of whom nothing came have lost.

        Args:
            heard: Clients of whom something came.
        """
        if not self._beats_are_new:
            return
        self._beats_are_new = False
        for client, session in self.sessions.by_client.items():
            beat = self._roster.beats.get(client)
            if client not in heard and beat is not None and beat.session == session.id:
                session.look_for_losses(beat)

    def _welcome(self, connection: redis.Redis, entry: Entry) -> None:
        """Begin a session; its grant is written before the hello is acknowledged.

        A hello that is read a second time, because its acknowledgement was lost, changes nothing.
        """
        session = self.sessions.by_client.get(entry.client)
        if session is None or EntryId.parse(session.id) < entry.id:
            self._ended(entry.client, "began a new session")
            hello = Hello.read(entry.fields[HELLO_FIELD])
            if self.sessions.is_of_another_run(hello):
                # No answer: it reads this run's description next, and says hello again.
                logger.info("%s greets another run; it is waited for", entry.client)
                self.sessions.end(entry.client)
                return
            session = self.sessions.hello(entry.client, entry.id, hello, time.monotonic())
        self._publisher.tell(connection, entry.client, self.sessions.grant(session))

    def _take_chunk(self, connection: redis.Redis, entry: Entry) -> None:
        session = self.sessions.by_client.get(entry.client)
        if session is None or session.status != "accepted" or entry.id < EntryId.parse(session.id):
            self.sessions.count_unadmitted(entry.client, Reason.NOT_ADMITTED)
            return
        payload = entry.fields.get(CHUNK_FIELD, b"")
        if not session.received(len(payload), _number(entry.fields), entry.id):
            session.rejected[Reason.REPEATED] += 1
            return
        accepted, refused = self._open_chunk(session, entry.id, payload)
        cut_off = session.refuse(refused, accepted) if refused or accepted else False
        if cut_off:
            logger.warning("%s was cut off: %s", entry.client, session.reason)
            self._ended(entry.client, "quarantined")
        if cut_off or self.sessions.needs_credit(session):
            self._publisher.tell(connection, entry.client, self.sessions.grant(session))

    def _open_chunk(self, session: Session, entry: EntryId, payload: bytes) -> tuple[int, dict[str, int]]:
        """Return how many segments of a chunk were accepted, and how many refused by reason."""
        opened = self._form.open([payload])
        for error in opened.errors.values():
            logger.info("a chunk of %s was refused: %s", session.client, error)
            return 0, {error.reason.value: 1}
        segments = opened.segments
        session.received_steps(segments.steps, entry)
        return self._use(session, segments)


def _number(fields: dict[bytes, bytes]) -> int | None:
    """Return a chunk's number, None when it has none that can be read."""
    text = fields.get(NUMBER_FIELD, b"")
    return int(text) if text.isdigit() and len(text) < 19 else None
