"""From the clients' streams to well-formed segments: sessions, credits, refusals."""

import logging
import time
from collections.abc import Iterable, Sequence
from typing import cast

import redis

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.training.intake.chunks import Arrivals, Chunks, Ingest, RejectRing, SampleSink, sort_out
from soulsgui.training.intake.roster import Readmission, Roster
from soulsgui.training.intake.sessions import LEFT, NEW_SESSION, OFF_THE_LIST, Session, Sessions
from soulsgui.training.publisher import Publisher
from soulsgui.wire.group_reader import GroupReader, StreamPart
from soulsgui.wire.keys import TRAINER_GROUP, EntryId, Keys
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import SessionHello

logger = logging.getLogger(__name__)

# What is read is copied several times on its way into the memory of the learner. As long as that stays in
# the caches, and the same memory serves for the next read, it costs little beside reading.
READ_BYTES = 4 * 2**20
_LEAST_ENTRIES = 8
_UNKNOWN_ENTRY_BYTES = 16384.0


class ReadSize:
    """Says how many entries to read of each stream: many slow clients don't shorten reads of a fast one."""

    def __init__(self) -> None:
        self.entries = _LEAST_ENTRIES  # most that the last read could bring of each stream
        self.full: int | None = None  # streams that brought so many; None before the first read
        self._entry_bytes = _UNKNOWN_ENTRY_BYTES

    def next(self, streams: int, most: int) -> int:
        """Return how many entries to read next of each stream, at least 1."""
        sharing = streams if self.full is None else self.full
        fitting = int(READ_BYTES / (self._entry_bytes * sharing)) if sharing else most
        self.entries = max(1, min(most, max(fitting, _LEAST_ENTRIES)))
        return self.entries

    def note(self, parts: Sequence[StreamPart]) -> None:
        """Take note of what the last read brought."""
        self.full = sum(len(part.ids) >= self.entries for part in parts)
        newest = [sum(map(len, part.fields[-1] or ())) for part in parts]
        if any(newest):
            self._entry_bytes = sum(newest) / len(newest)


# What the server needs beside the payload of an entry, and how it rounds its blocks up.
_OVERHEAD = 1.25
_ALWAYS_BYTES = 2**20
_MOST_HELLOS, _HELLOS_WITHIN_S = 50, 10.0


class FloodGuard:
    """Looks at how much waits on the streams of clients.

    Nobody is ever granted more than all clients together may have on their way; a stream that holds more was
    filled against the rules. As long as the whole server uses less than that, no stream is looked at.
    """

    def __init__(self, keys: Keys, bytes_ahead: int) -> None:
        self.most_bytes = int(bytes_ahead * _OVERHEAD) + _ALWAYS_BYTES
        self._keys = keys

    def look(self, connection: redis.Redis, clients: Sequence[str]) -> dict[str, int]:
        """Return the clients whose stream holds more than may be, with its bytes."""
        used = cast("dict[str, int]", connection.info("memory"))["used_memory"]
        if used <= self.most_bytes:
            return {}
        pipeline = connection.pipeline(transaction=False)
        for client in clients:
            pipeline.memory_usage(self._keys.chunks(client), samples=0)  # all of it: it may begin small
        sizes = pipeline.execute(raise_on_error=False)
        return {
            client: size
            for client, size in zip(clients, sizes, strict=True)
            if isinstance(size, int) and size > self.most_bytes
        }

    def gone(self, connection: redis.Redis, clients: Iterable[str]) -> list[str]:
        """Return the clients that have no stream any more; an empty one is one."""
        return [client for client in clients if not connection.exists(self._keys.chunks(client))]

    def sweep(self, connection: redis.Redis, clients: Iterable[str]) -> dict[str, int]:
        """Take everything off the streams of clients, streams or not; return how many entries it was."""
        names = sorted(clients)
        pipeline = connection.pipeline(transaction=False)
        for client in names:
            pipeline.xtrim(self._keys.chunks(client), maxlen=0, approximate=False)
        counts = pipeline.execute(raise_on_error=False) if names else []
        no_streams = [
            self._keys.chunks(client)
            for client, reply in zip(names, counts, strict=True)
            if isinstance(reply, redis.ResponseError) and str(reply).startswith("WRONGTYPE")
        ]
        if no_streams:
            connection.unlink(*no_streams)
        return {client: n for client, n in zip(names, counts, strict=True) if isinstance(n, int) and n}


class HelloCounter:
    """Counts the hellos of each client: one that begins session after session floods the server too."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int]] = {}  # since when, and how many

    def too_many(self, client: str, now: float) -> bool:
        """Count a hello; return whether these are more than a client that crashes all the time would send."""
        since, count = self._seen.get(client, (now, 0))
        if now - since > _HELLOS_WITHIN_S:
            since, count = now, 0
        self._seen[client] = since, count + 1
        return count >= _MOST_HELLOS

    def forget(self, client: str) -> None:
        """Count from the next hello on."""
        self._seen.pop(client, None)


PER_STREAM = 200  # most entries that are read at once of each client

_ROSTER_EVERY_S = 0.5
_ROSTER_EVERY_WHILE_WAITING_S = 0.1
# Of many clients a look takes a while: most of the time is for their samples, and for learning.
_ROSTER_AT_LEAST_EVERY_S = 1.0
_PAUSE_AFTER_LOOK = 15
_DECADES_WHEN_DIVERGED = 1.0  # something did go wrong: less than `chunks` asks for is enough
# No run publishes so often; a beat that says more would push the ids of the run there.
_BELIEVABLE_MODEL_ID = 2**40


class Intake:
    """Everything that comes from clients."""

    def __init__(
        self,
        keys: Keys,
        config: ServerConfig,
        spaces: SpacesSpec,
        publisher: Publisher,
        bytes_ahead: int,
        sink: SampleSink,
    ) -> None:
        least = config.settings.get("clients.min_versions", {})
        self.sessions = Sessions(config.run_id, config.contract, bytes_ahead, least)
        self.rejects = RejectRing(keys, config.run_id)
        self.ingest = Ingest(config, spaces, self.sessions, sink, self.rejects)
        self.reader = GroupReader(TRAINER_GROUP, keys.chunks, self._per_stream)
        self._keys, self._run_id = keys, config.run_id
        self._publisher, self._sink = publisher, sink
        self._guard = FloodGuard(keys, bytes_ahead)
        self._arrived: list[Arrivals] = []
        self._to_tell: set[str] = set()
        self._outdated: set[str] = set()
        self._flooding: set[str] = set()
        self._left_over: dict[str, EntryId] = {}  # newest entry of each stream before this trainer came
        # Who says that it goes, and why: it may have sent more before.
        self._going: dict[str, tuple[Session, str]] = {}
        self._hellos = HelloCounter()
        self.roster = Roster(keys)
        self._readmission = Readmission(keys, config.run_id, self.roster, self.sessions)
        self._next_look = self._look_s = 0.0
        self._most_entries = PER_STREAM
        self._read_size = ReadSize()
        self._beats_are_new = False

    def begin(self, connection: redis.Redis) -> int:
        """Go on with the sessions of an earlier trainer; return the newest model id that clients know."""
        self.roster.read(connection)
        self.rejects.load(connection)
        self._to_tell |= self._readmission.look(connection)
        self._readmission.keep_out(connection)
        self._left_over = self._readmission.newest_entries(connection, self.roster.clients)
        ours = [beat.model_id for beat in self.roster.beats.values() if beat.run_id == self._run_id]
        return max([0, *(model_id for model_id in ours if model_id < _BELIEVABLE_MODEL_ID)])

    def rest(self, connection: redis.Redis, resting: bool) -> None:
        """Tell every client that the run is paused, or goes on."""
        if changed := resting != self.sessions.resting:
            self.sessions.resting = resting
            self._to_tell.update(self.sessions.by_client)
        if changed or resting:  # in a pause nothing else tells what could not be told at once
            self._tell(connection)

    def start_over(self, connection: redis.Redis) -> None:
        """After the server was away: sessions whose hello it lost are over; their clients begin others."""
        newest = self._readmission.newest_entries(connection, list(self.sessions.by_client))
        for client, session in list(self.sessions.by_client.items()):
            # Else smaller ids would be passed over: the server's clock may have gone back.
            if newest.get(client, EntryId(0, 0)) < EntryId.parse(session.id):
                self.sessions.end(client)
        self.reader.start_over()
        self.roster.start_over()
        self._left_over.clear()  # of a server that came back without its data, newer entries may be smaller
        # Who waits for a grant that the server has forgotten would wait for ever.
        self._to_tell.update(self.sessions.by_client)
        self._next_look = 0.0

    def refused(self) -> None:
        """After the server refused something: what was not acknowledged comes again; it may be a flood."""
        self.reader.unsettle()
        self._next_look = 0.0

    def eligible(self) -> dict[str, Session]:
        """Return the sessions that can take part in a round now."""
        return {
            client: session
            for client, session in self.sessions.by_client.items()
            if not self.why_absent(client)
        }

    def look_around(self, connection: redis.Redis, often: bool) -> None:
        """Now and then: who is there, and who is gone."""
        now = time.monotonic()
        if now < self._next_look:
            return
        every_s = _ROSTER_EVERY_WHILE_WAITING_S if often else _ROSTER_EVERY_S
        self._next_look = now + max(every_s, min(_PAUSE_AFTER_LOOK * self._look_s, _ROSTER_AT_LEAST_EVERY_S))
        before = set(self.roster.clients)
        self.roster.read(connection)
        for client in before.difference(self.roster.clients):
            self.ingest.forget(client)
        self._hold_back_floods(connection)
        self._tell(connection)
        listed = [client for client in self.roster.clients if client not in self._flooding]
        self.reader.set_clients(connection, listed)
        self._to_tell |= self._readmission.look(connection)
        self.sessions.set_playing(self.eligible())
        self.sessions.measure(now)
        self._beats_are_new = True
        for client, session in list(self.sessions.by_client.items()):
            self._going.pop(client, None)
            reason = self.roster.gone(session)
            if reason == OFF_THE_LIST:  # its stream is read no more
                self._sink.lost(client, reason)
            elif reason:
                self._going[client] = session, reason
        self.sessions.forget_all_but(self.roster.clients)
        # Those who can send nothing: what they sent was lost, or credits were held.
        sessions = self.sessions.by_client.items()
        self._to_tell |= {client for client, session in sessions if self.sessions.needs_credit(session)}
        self._tell(connection)
        self._look_s = time.monotonic() - now

    def why_absent(self, client: str) -> str:
        """Return why a client can take no part in a round now; empty when it can."""
        session = self.sessions.by_client.get(client)
        if session is None:
            return LEFT  # nobody loses its session but by a goodbye, or by being taken off the list
        return self.roster.why_not(session) if session.status == "accepted" else session.status

    def cut_off(self, connection: redis.Redis, client: str, reason: str) -> int:
        """Take nothing of a client any more, and what it has sent off the server; return how many entries."""
        self.sessions.cut_off(client, reason)
        self._exclude(client)
        taken_off = self._guard.sweep(connection, [client]).get(client, 0)
        self.sessions.count_unadmitted(client, Reason.CUT_OFF, taken_off)
        self._tell(connection)
        return taken_off

    def cut_off_outliers(self, connection: redis.Redis) -> str:
        """After the training has diverged: cut those off whose rewards stand out; say who and why."""
        found = self.ingest.sizes["rewards"].outliers(_DECADES_WHEN_DIVERGED)
        names = [client for client in found if not self.sessions.is_cut_off(client)]
        for client in names:
            self.cut_off(connection, client, f"the training diverged, and its rewards are {found[client]}")
        named = "".join(f"; {client} is cut off: its rewards are {found[client]}" for client in names)
        apart = self.ingest.sizes["rewards"].two_apart(_DECADES_WHEN_DIVERGED)
        return (
            f"; the rewards of {apart}, and nobody else plays, so it is unclear who is right"
            if apart
            else named
        )

    def _exclude(self, client: str) -> None:
        """Expect nothing of a client any more that was cut off, and tell it."""
        self._sink.lost(client, "quarantined")
        self._to_tell.add(client)

    def _hold_back_floods(self, connection: redis.Redis) -> None:
        """Cut clients off that fill the server, and keep their streams empty from then on."""
        for client, size in self._guard.look(connection, self.roster.clients).items():
            if client not in self._flooding:
                self._hold_back(client, f"{size / 1e6:,.0f} MB wait on its stream")
        self._flooding &= set(self.roster.clients)
        for client in self._guard.gone(connection, self._flooding):
            self._begin_anew(client)
        for client, count in self._guard.sweep(connection, self._flooding).items():
            self.sessions.count_unadmitted(client, Reason.NOT_ADMITTED, count)

    def _begin_anew(self, client: str) -> None:
        """Know nothing of a client any more: its stream was taken away, and whoever comes is another."""
        self.sessions.forget(client)
        self.ingest.forget(client)
        self._flooding.discard(client)
        self._hellos.forget(client)
        self._left_over.pop(client, None)
        self._outdated.add(client)
        self._sink.lost(client, OFF_THE_LIST)

    def _hold_back(self, client: str, how: str) -> None:
        """Cut a client off that floods the server, and read its stream no longer."""
        self._flooding.add(client)
        reason = f"it floods the server: {how}"
        logger.warning("%s was cut off: %s", client, reason)
        self.sessions.cut_off(client, reason)
        self._exclude(client)
        self._next_look = 0.0

    def release(self, client: str) -> bool:
        """Let a client that was cut off send again, from the next look around on; return whether it was."""
        if not self.sessions.release(client):
            return False
        logger.info("%s was released", client)
        for sizes in self.ingest.sizes.values():
            sizes.release(client)
        self._flooding.discard(client)
        if client in self.sessions.by_client:
            self._to_tell.add(client)
        else:
            self._outdated.add(client)  # the grant of a session that is over
        self._next_look = 0.0
        return True

    def take(self, connection: redis.Redis, block_ms: int, per_stream: int = PER_STREAM) -> None:
        """Read what came, take it over and acknowledge it."""
        self._most_entries = per_stream
        parts = self.reader.read_parts(connection, block_ms)
        self._read_size.note(parts)
        for client in self.reader.take_unusable():
            self.sessions.count_unadmitted(client, Reason.WRONG_TYPE)
            self._sink.lost(client, "its stream can't be read")
        for client in self.reader.take_begun_anew():
            self._begin_anew(client)
        heard = {part.client for part in parts}
        self._look_for_losses(heard)
        if self.reader.up_to_date:
            for client in self._going.keys() - heard:  # all is read that they sent before
                session, reason = self._going.pop(client)
                if self.sessions.by_client.get(client) is session:
                    self._sink.lost(client, reason)
                    if reason == LEFT:
                        self.sessions.end(client)
        if not parts:
            return
        for part in parts:
            for found in sort_out(part.ids, part.fields):
                if isinstance(found, Chunks):
                    self._arrive(part.client, found)
                else:
                    self._welcome(part.client, *found)
        self._use_arrived()
        self._tell(connection)
        self.reader.acknowledge_parts(connection, parts)

    @property
    def busy(self) -> int:
        """How many clients may have more waiting than was read last."""
        return self._read_size.full or 0

    def _per_stream(self, streams: int) -> int:
        return self._read_size.next(streams, self._most_entries)

    def _look_for_losses(self, heard: set[str]) -> None:
        """Once for each look around, right after a read: what those of whom nothing came have lost."""
        if not self._beats_are_new:
            return
        self._beats_are_new = False
        for client, session in self.sessions.by_client.items():
            beat = self.roster.beats.get(client)
            if client not in heard and beat is not None and beat.session == session.id:
                session.look_for_losses(beat)

    def _welcome(self, client: str, entry: EntryId, payload: bytes) -> None:
        """Begin a session, once for each hello; its grant is written before that is acknowledged."""
        if client in self._flooding:
            return
        session = self.sessions.by_client.get(client)
        if session is None or EntryId.parse(session.id) < entry:
            if self._hellos.too_many(client, time.monotonic()):
                self._hold_back(client, "it starts one session after the other")
                return
            if any(arrived.session is session for arrived in self._arrived):
                self._use_arrived()  # what it sent before belongs to the session before
            hello = SessionHello.read(payload)
            if self.sessions.is_of_another_run(hello):
                # No answer: it reads this run's description next, and says hello again.
                logger.info("%s greets another run; it is waited for", client)
                self.sessions.end(client)
                return
            self.sessions.hello(client, entry, hello, time.monotonic())
            self._sink.lost(client, NEW_SESSION)
        self._to_tell.add(client)

    def _arrive(self, client: str, chunks: Chunks) -> None:
        """Keep what may be used of a client's chunks for `_use_arrived`; count the rest."""
        session = self.sessions.by_client.get(client)
        if session is None:
            # What was on its way when an earlier trainer took no more is no fault of anybody.
            chunks = chunks.after(self._left_over.get(client, EntryId(0, 0)))
        if session is None or session.status == "refused":
            self.sessions.count_unadmitted(client, Reason.NOT_ADMITTED, len(chunks))
            return
        of_session = chunks.after(EntryId.parse(session.id))
        if len(of_session) < len(chunks):
            self.sessions.count_unadmitted(client, Reason.NOT_ADMITTED, len(chunks) - len(of_session))
        # What was taken over, and comes again because its acknowledgement was lost, is nothing new.
        new = of_session.after(session.taken)
        if not len(new):
            return
        if session.status == "accepted":
            self._arrived.append(Arrivals(session, new))
            return
        self.sessions.count_unadmitted(client, Reason.NOT_ADMITTED, len(new))
        session.taken = EntryId.parse(new.ids[-1])
        counted = new.after(session.since)
        session.passed_over(counted.size, counted.numbers)

    def _use_arrived(self) -> None:
        """Take over the chunks that came, and take note of whom to tell of it."""
        arrived, self._arrived = self._arrived, []
        if not arrived:
            return
        for session in self.ingest.use(arrived):
            self._exclude(session.client)
        for arrival in arrived:
            session = arrival.session
            if session.overdrew(len(arrival.chunks.payloads[-1])):
                self._hold_back(
                    session.client, f"{session.size / 1e6:,.0f} MB came, more than it was granted"
                )
            elif session.status == "accepted" and self.sessions.needs_credit(session):
                self._to_tell.add(session.client)

    def _tell(self, connection: redis.Redis) -> None:
        """Write the grants that have changed, and take those away that are of nobody any more."""
        if self._outdated:
            connection.delete(*map(self._keys.grant, self._outdated))
            self._outdated.clear()
        grants = {name: grant for name in self._to_tell if (grant := self.sessions.grant_of(name))}
        if grants:
            self._publisher.tell_all(connection, grants)
        self._to_tell.clear()
