"""Chunks of many clients into a learner's hands: opened and judged together, booked client by client.

Almost all chunks are good, and those of a client follow each other: then a client's chunks of one read are
booked in one step. A client of whom anything is refused, repeated or not wanted is booked chunk by chunk,
with the very same outcome as if every chunk had come alone.
"""

import hashlib
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import LARGEST
from soulsgui.errors import printable
from soulsgui.experience.segments import ORIGIN_BIT, Ints, Segments
from soulsgui.training.intake.arrived import ArrivedEpisodes
from soulsgui.training.intake.checks import CODES, GOOD, LEFT_OUT, Codes, count_refused
from soulsgui.training.intake.outliers import Sizes
from soulsgui.training.intake.sessions import REFUSED, Session, Sessions
from soulsgui.wire.group_reader import Fields, as_dict
from soulsgui.wire.keys import EntryId, Keys, is_own_name
from soulsgui.wire.messages.chunk import NUMBER_FIELD, Reason
from soulsgui.wire.messages.chunk_decoder import ChunkForm, OpenedChunks
from soulsgui.wire.messages.node import HEAD_BYTES, Reject, Rejects
from soulsgui.wire.messages.server_config import ServerConfig, state_of
from soulsgui.wire.messages.session import CHUNK_FIELD, HELLO_FIELD

logger = logging.getLogger(__name__)

_LONGEST_NUMBER = 18
_DECADES = 3.0  # who sends rewards so many powers of ten larger than those of the others is cut off
_MEASURED_FROM = 10.0  # episodes


@dataclass
class Chunks:
    """Chunks of one stream, in their order."""

    ids: list[bytes] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)  # within the session; None: unreadable

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ids)

    @property
    def size(self) -> int:
        """Their bytes."""
        return sum(map(len, self.payloads))

    def part(self, begin: int, end: int | None = None) -> "Chunks":
        """Return those from `begin` up to `end`."""
        return Chunks(self.ids[begin:end], self.payloads[begin:end], self.numbers[begin:end])

    def after(self, newest: EntryId) -> "Chunks":
        """Return those that came after an entry."""
        if not self.ids or EntryId.parse(self.ids[0]) > newest:
            return self
        return self.part(sum(EntryId.parse(entry) <= newest for entry in self.ids))


@dataclass(frozen=True)
class Arrivals:
    """Chunks of one session that may send."""

    session: Session
    chunks: Chunks


def sort_out(ids: list[bytes], fields: list[Fields]) -> list[Chunks | tuple[EntryId, bytes]]:
    """Return what stands in the entries of one stream: chunks together, each hello (id, payload) alone."""
    odd = [
        at
        for at, found in enumerate(fields)
        if found is None or len(found) != 4 or found[0] != CHUNK_FIELD or found[2] != NUMBER_FIELD
    ]
    parts: list[Chunks | tuple[EntryId, bytes]] = []
    begin = 0
    for at in odd:
        _add_plain(parts, ids[begin:at], fields[begin:at])
        begin = at + 1
        named = as_dict(fields[at])
        if HELLO_FIELD in named:
            parts.append((EntryId.parse(ids[at]), named[HELLO_FIELD]))
        elif named:
            number = named.get(NUMBER_FIELD, b"")
            _add_plain(parts, [ids[at]], [[CHUNK_FIELD, named.get(CHUNK_FIELD, b""), NUMBER_FIELD, number]])
    _add_plain(parts, ids[begin:], fields[begin:])
    return parts


def _add_plain(
    parts: list[Chunks | tuple[EntryId, bytes]], ids: list[bytes], fields: Sequence[Fields]
) -> None:
    """Put entries that hold a chunk and its number behind what is there, with the chunks before them."""
    if not ids:
        return
    plain = [found for found in fields if found is not None]
    more = Chunks(ids, [found[1] for found in plain], _numbers([found[3] for found in plain]))
    last = parts[-1] if parts else None
    if isinstance(last, Chunks):
        last.ids += more.ids
        last.payloads += more.payloads
        last.numbers += more.numbers
    else:
        parts.append(more)


def _numbers(texts: list[bytes]) -> list[int | None]:
    if b"".join(texts).isdigit() and min(map(len, texts)) > 0 and max(map(len, texts)) <= _LONGEST_NUMBER:
        return list(map(int, texts))
    return [int(text) if text.isdigit() and len(text) <= _LONGEST_NUMBER else None for text in texts]


Steps = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Owned:
    """Segments of several clients, those of one after those of the other: `counts` of each session."""

    segments: Segments
    sessions: Sequence[Session]
    counts: Ints

    @property
    def num_envs(self) -> Ints:
        """Environments that the client of each segment announced, `[S]`."""
        return np.repeat(np.array([one.num_envs for one in self.sessions], np.int64), self.counts)


@dataclass(frozen=True)
class Accepted:
    """What the learner takes over: segments with their `source`, those of one client after the other's."""

    segments: Segments
    clients: Ints  # of each segment, as a position in `names`
    names: Sequence[str]
    chunks: int  # in how many they came


def _number_of(session: Session) -> int:
    """Return a number below `ORIGIN_BIT`, the same in every process: a saved memory goes on with sessions.

    It has bits left for the environments of the session (`heartbeat.MAX_ENVS`), to be counted from there.
    """
    name = f"{session.client} {session.id}".encode()
    return int.from_bytes(hashlib.blake2b(name, digest_size=4).digest(), "big") >> 9 << 17


class SampleSink(Protocol):
    """Takes samples over: a learner's side of the intake, which calls nobody else back."""

    def judge(self, owned: Owned) -> Codes:
        """Say of each segment whether it is good, and why not, as far as it does not depend on others."""

    def wants(self, session: Session) -> float:
        """Return how many transitions of a client would be let in now."""

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let segments of one client in, and count them as delivered."""

    def insert(self, accepted: Accepted) -> None:
        """Take over what was let in."""

    def refused_late(self, model_ids: Ints, lengths: Steps) -> None:
        """Take note of segments that are refused as late."""

    def lost(self, client: str, reason: str) -> None:
        """Take note that a client won't deliver all of what it was asked for."""

    def forget(self, client: str) -> int:
        """Learn no more from what a client has sent; return how many transitions these are."""


KEPT = 64
KEPT_OF_A_KIND = 8
"""Of each client and reason: one client that fails all the time must not hide what others sent."""

_EVERY_S = 0.5


class RejectRing:
    """Keeps the last refused chunks and writes them where the runner finds them."""

    def __init__(self, keys: Keys, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self._key, self._run_id, self._clock = keys.rejects, run_id, clock
        self._ring: deque[Reject] = deque()
        self._kinds: Counter[tuple[str, str]] = Counter()
        self._changed = False
        self._next_write = 0.0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._ring)

    def add(
        self, client: str, entry: bytes, payload: bytes, reason: str, segments: int = 1, detail: str = ""
    ) -> None:
        """Keep a refused chunk."""
        kind = (client, reason)
        full = self._kinds[kind] >= KEPT_OF_A_KIND
        if full or len(self._ring) >= KEPT:
            gone = next(one for one in self._ring if not full or (one.client, one.reason) == kind)
            self._ring.remove(gone)
            self._kinds[gone.client, gone.reason] -= 1
        self._ring.append(
            Reject(
                client=client,
                entry=entry.decode(errors="replace"),
                reason=reason,
                segments=segments,
                time=self._clock(),
                size=len(payload),
                head=payload[:HEAD_BYTES].hex(),
                detail=printable(detail),
            )
        )
        self._kinds[kind] += 1
        self._changed = True

    def load(self, connection: redis.Redis) -> None:
        """Go on with what an earlier trainer of this run kept."""
        # MGET answers nil for a key of another type.
        (data,) = connection.mget([self._key])
        found = Rejects.read(data)
        if found is not None and found.run_id == self._run_id:
            self._ring = deque(found.rejects[-KEPT:])
            self._kinds = Counter((one.client, one.reason) for one in self._ring)

    def flush(self, connection: redis.Redis, now: float) -> None:
        """Write the ring when it has changed, but not too often."""
        if not self._changed or now < self._next_write:
            return
        self._next_write = now + _EVERY_S
        connection.set(self._key, Rejects(run_id=self._run_id, rejects=list(self._ring)).to_json())
        self._changed = False


# Memory up to this size is used again by the next read instead of being asked for anew.
_OPENED_AT_ONCE = 16 * 2**20


@dataclass(frozen=True)
class _Opened:
    """The chunks of one call, opened and judged."""

    found: OpenedChunks
    codes: Codes  # of each segment, `[S]`; booking changes it
    starts: Ints  # first segment of each chunk, and their number, `[C + 1]`
    first: Sequence[int]  # first chunk of each arrival, and their number
    names: Sequence[str]  # the client of each arrival, then those that were served by some of them
    owners: Ints  # who played each segment, as a position in `names`, `[S]`

    def codes_of(self, chunk: int) -> Codes:
        """Return what is said of the segments of one chunk, to be changed in place."""
        return self.codes[self.starts[chunk] : self.starts[chunk + 1]]


class Ingest:
    """Hands what is good of the chunks to a learner and books the rest."""

    def __init__(
        self,
        config: ServerConfig,
        spaces: SpacesSpec,
        sessions: Sessions,
        sink: SampleSink,
        rejects: RejectRing,
    ) -> None:
        box = spaces.observation
        self._form = ChunkForm(
            config.run_id,
            config.contract,
            box.shape,
            box.dtype,
            spaces.masked_actions,
            state_of(config.policy),
            spaces.action.shape,
            spaces.action.dtype,
        )
        self._sessions = sessions
        self._sink = sink
        self._rejects = rejects
        self.sizes = {
            "rewards": Sizes(),
            "returns": Sizes(_MEASURED_FROM),
            "episode lengths": Sizes(_MEASURED_FROM),
        }
        self.arrived = ArrivedEpisodes()
        self.origins: dict[str, int] = {}  # a number for each client (`Segments.origin`)

    def use(self, arrivals: Sequence[Arrivals]) -> list[Session]:
        """Take chunks over; return the sessions that were cut off by what came of them."""
        cut_off: list[Session] = []
        for together in self._portions(arrivals):
            self._use_together(together, cut_off)
        return cut_off

    def forget(self, client: str) -> None:
        """Measure whoever comes under a client's name by what comes from now on."""
        if not is_own_name(client):  # such a name is given to nobody else
            for sizes in self.sizes.values():
                sizes.forget(client)
            self.arrived.forget(client)

    def _portions(self, arrivals: Sequence[Arrivals]) -> Iterator[Sequence[Arrivals]]:
        """Yield the chunks in order, as many at once as fit into memory once they are opened."""
        # Compressed ones may be a thousand times as large then.
        if not self._form.is_compressed:
            yield arrivals
            return
        portion: list[Arrivals] = []
        size = 0
        for arrival in arrivals:
            sizes = [self._form.opened_size(payload) for payload in arrival.chunks.payloads]
            begin = 0
            for at, more in enumerate(sizes):
                if size and size + more > _OPENED_AT_ONCE:
                    if at > begin:
                        portion.append(Arrivals(arrival.session, arrival.chunks.part(begin, at)))
                    yield portion
                    portion, begin, size = [], at, 0
                size += more
            portion.append(Arrivals(arrival.session, arrival.chunks.part(begin)))
        if portion:
            yield portion

    def _use_together(self, arrivals: Sequence[Arrivals], cut_off: list[Session]) -> None:
        opened = self._open(arrivals)
        cut_off += self._outliers(opened, arrivals)
        for number, arrival in enumerate(arrivals):
            if not self._book_together(opened, number, arrival):
                self._book_one_by_one(opened, number, arrival, cut_off)
        segments, codes = opened.found.segments, opened.codes
        late = codes == CODES[Reason.LATE]
        if late.any():
            self._sink.refused_late(segments.model_id_first[late], segments.length[late])
        good = codes == GOOD
        if good.any():
            self._hand_over(opened, arrivals, good)

    def _open(self, arrivals: Sequence[Arrivals]) -> _Opened:
        found = self._form.open([payload for arrival in arrivals for payload in arrival.chunks.payloads])
        starts = np.concatenate(([0], np.cumsum(found.counts)))
        first = list(accumulate((len(arrival.chunks) for arrival in arrivals), initial=0))
        counts = np.diff(starts[first])
        codes = self._sink.judge(Owned(found.segments, [one.session for one in arrivals], counts))
        names = [one.session.client for one in arrivals]
        owners = np.repeat(np.arange(len(arrivals)), counts)
        for number, arrival in enumerate(arrivals):
            if served := arrival.session.served:
                here = slice(starts[first[number]], starts[first[number + 1]])
                env = found.segments.env_index[here]
                at = np.searchsorted(list(served.values()), env, side="right") - 1
                owners[here] = np.where(at < 0, number, len(names) + at)
                names += served
        return _Opened(found, codes, starts, first, names, owners)

    def _outliers(self, opened: _Opened, arrivals: Sequence[Arrivals]) -> list[Session]:
        """Cut those off whose numbers are of another size than those of the others; nothing of it is used."""
        self._measure(opened)
        found: dict[str, str] = {}
        for what, sizes in self.sizes.items():
            for client, words in sizes.outliers(_DECADES).items():
                found.setdefault(client, f"its {what} are {words}")
        named = []
        for client in dict.fromkeys(opened.names) if found else ():
            if client not in found:
                continue
            session = self._sessions.by_client.get(client)
            if session is not None and session.status == "accepted":
                named.append(session)
                session.cut_off(found[client])
                gone = self._sink.forget(client)
                logger.warning(
                    "%s was cut off: %s; %d of its transitions left the memory", client, session.reason, gone
                )
        for owner in range(len(arrivals), len(opened.names)):
            if self._sessions.is_cut_off(client := opened.names[owner]):
                its = opened.owners == owner
                opened.codes[its] = LEFT_OUT
                self._sessions.count_unadmitted(client, Reason.NOT_ADMITTED, int(np.count_nonzero(its)))
        return named

    def _measure(self, opened: _Opened) -> None:
        """Take note of the size of what each client has sent."""
        segments, size = opened.found.segments, np.abs(opened.found.segments.reward)
        of_step, counted = np.repeat(opened.owners, segments.length), size <= LARGEST

        def of_each(owners: Ints, values: NDArray[Any]) -> list[float]:
            sums: list[float] = np.bincount(owners, values, len(opened.names)).tolist()
            return sums

        of_rewards, totals = (
            of_each(of_step, np.where(counted, one, 0.0)) for one in (size, segments.reward)
        )
        counts, ended = of_each(of_step, counted & (size > 0)), of_each(opened.owners, segments.ended)
        steps = of_each(opened.owners, segments.length)
        told = zip(opened.names, of_rewards, counts, ended, steps, totals, strict=True)
        for client, rewards, count, episodes, length, total in told:
            if not length:  # an inference server sends nothing of its own
                continue
            self.sizes["rewards"].note(client, rewards, count)
            self.sizes["returns"].note(client, abs(total), episodes)
            self.sizes["episode lengths"].note(client, length, episodes)
            self.arrived.note(client, int(episodes), length, total, rewards)

    def _book_together(self, opened: _Opened, number: int, arrival: Arrivals) -> bool:
        """Book all chunks of a client in one step, if they are good and in order; return whether they are."""
        first, last = opened.first[number], opened.first[number + 1]
        begin, end = opened.starts[first], opened.starts[last]
        if not opened.found.counts[first:last].all() or opened.codes[begin:end].any():
            return False
        session, chunks = arrival.session, arrival.chunks
        if session.status != "accepted":
            return False
        numbers = session.expected(chunks.numbers, EntryId.parse(chunks.ids[0]))
        segments = opened.found.segments
        steps = int(segments.starts[end] - segments.starts[begin])
        if numbers is None or self._sink.wants(session) < steps:
            return False
        lengths, model_ids = segments.length[begin:end], segments.model_id_first[begin:end]
        self._sink.admit(session, lengths, model_ids, opened.codes[begin:end])
        session.received_run(chunks.size, steps, numbers)
        session.taken = EntryId.parse(chunks.ids[-1])
        return True

    def _book_one_by_one(
        self, opened: _Opened, number: int, arrival: Arrivals, cut_off: list[Session]
    ) -> None:
        session, chunks = arrival.session, arrival.chunks
        for chunk, (entry, payload, at) in enumerate(
            zip(chunks.ids, chunks.payloads, chunks.numbers, strict=True), start=opened.first[number]
        ):
            session.taken = EntryId.parse(entry)
            new = session.received(len(payload), at, session.taken)
            if session.status != "accepted":
                self._sessions.count_unadmitted(session.client, Reason.NOT_ADMITTED)
                opened.codes_of(chunk)[:] = LEFT_OUT
            elif not new:
                session.rejected[Reason.REPEATED] += 1
                self._rejects.add(session.client, entry, payload, Reason.REPEATED)
                opened.codes_of(chunk)[:] = LEFT_OUT
            elif self._book(opened, chunk, session, entry, payload):
                logger.warning("%s was cut off: %s", session.client, session.reason)
                cut_off.append(session)

    def _book(self, opened: _Opened, chunk: int, session: Session, entry: bytes, payload: bytes) -> bool:
        """Book one chunk that is new; return whether its client is cut off by it."""
        error = opened.found.errors.get(chunk)
        if error is not None:
            logger.info("a chunk of %s was refused: %s", session.client, error)
            self._rejects.add(session.client, entry, payload, error.reason, detail=str(error))
            cut_off = session.refuse({error.reason.value: 1}, 0)
            if not cut_off:
                self._sink.lost(session.client, REFUSED)
            return cut_off
        session.received_steps(int(opened.found.steps[chunk]), session.taken)
        codes, segments = opened.codes_of(chunk), opened.found.segments
        here = slice(opened.starts[chunk], opened.starts[chunk + 1])
        self._sink.admit(session, segments.length[here], segments.model_id_first[here], codes)
        refused, accepted = count_refused(codes), int(np.count_nonzero(codes == GOOD))
        if refused:
            worst = max(refused, key=lambda reason: refused[reason])
            self._rejects.add(session.client, entry, payload, worst, sum(refused.values()))
        return session.refuse(refused, accepted) if refused or accepted else False

    def _hand_over(self, opened: _Opened, arrivals: Sequence[Arrivals], good: NDArray[np.bool_]) -> None:
        counts = np.diff(opened.starts[opened.first])
        chunks = np.repeat(np.arange(len(opened.found.counts)), opened.found.counts)[good]
        clients = np.repeat(np.arange(len(arrivals)), counts)[good]
        numbers = np.array([_number_of(arrival.session) for arrival in arrivals], np.int64)
        origins = [self.origins.setdefault(name, len(self.origins) + 1) for name in opened.names]
        origin = np.array(origins, np.int64)[opened.owners[good]]
        segments = opened.found.segments.take(good)
        source = (origin << ORIGIN_BIT) + numbers[clients] + segments.env_index
        self._sink.insert(
            Accepted(
                replace(segments, source=source),
                clients,
                [arrival.session.client for arrival in arrivals],
                int(np.count_nonzero(np.bincount(chunks))),
            )
        )
