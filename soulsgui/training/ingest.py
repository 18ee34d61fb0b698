"""Chunks of many clients into a learner's hands: opened and judged together, booked client by client.

Almost all chunks are good, and those of a client follow each other: then a client's chunks of one read are
booked in one step. A client of whom anything is refused, repeated or not wanted is booked chunk by chunk,
with the very same outcome as if every chunk had come alone.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.training.arrivals import Arrivals
from soulsgui.training.batch import Accepted, Ints, Owned, Taker
from soulsgui.training.checks import CODES, GOOD, LEFT_OUT, Codes, count_refused, select
from soulsgui.training.rejects import RejectRing
from soulsgui.training.session import Session
from soulsgui.training.sessions import Sessions
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.chunk_form import ChunkForm, OpenedChunks
from soulsgui.wire.messages.server_config import ServerConfig, state_of

logger = logging.getLogger(__name__)

# Memory up to this size is used again by the next read instead of being asked for anew.
_OPENED_AT_ONCE = 16 * 2**20


@dataclass(frozen=True)
class _Opened:
    """The chunks of one call, opened and judged.

    Attributes:
        found: All of them, opened as one.
        codes: What is said of each segment, `[S]`; booking changes it.
        starts: First segment of each chunk, and the number of segments, `[C + 1]`.
        steps: First step of each segment, and the number of steps, `[S + 1]`.
        first: Position of the first chunk of each arrival.
    """

    found: OpenedChunks
    codes: Codes
    starts: Ints
    steps: Ints
    first: Sequence[int]

    def codes_of(self, chunk: int) -> Codes:
        """Return what is said of the segments of one chunk, to be changed in place."""
        return self.codes[self.starts[chunk] : self.starts[chunk + 1]]


class Ingest:
    """Hands what is good of the chunks to a learner and books the rest.

    Args:
        config: The run as clients see it.
        spaces: Spaces of the run.
        sessions: The clients' sessions.
        taker: The learner's side.
        rejects: Keeps refused chunks.

    """

    def __init__(
        self,
        config: ServerConfig,
        spaces: SpacesSpec,
        sessions: Sessions,
        taker: Taker,
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
        self._taker = taker
        self._rejects = rejects

    def use(self, arrivals: Sequence[Arrivals], cut_off: Callable[[Session], None]) -> None:
        """Take chunks over.

        Args:
            arrivals: Chunks of sessions that may send, those of one client after those of the other.
            cut_off: Called with a session that may not send any more.
        """
        for together in self._portions(arrivals):
            self._use_together(together, cut_off)

    def _portions(self, arrivals: Sequence[Arrivals]) -> Iterator[Sequence[Arrivals]]:
        """Yield the chunks in their order, no more at once than fit into the memory meant for them.

        Compressed ones may be a thousand times as large when they are opened.
        """
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
                    yield [*portion, *arrival.part(begin, at)]
                    portion, begin, size = [], at, 0
                size += more
            portion += arrival.part(begin, len(sizes))
        if portion:
            yield portion

    def _use_together(self, arrivals: Sequence[Arrivals], cut_off: Callable[[Session], None]) -> None:
        opened = self._open(arrivals)
        for number, arrival in enumerate(arrivals):
            if not self._book_together(opened, number, arrival):
                self._book_one_by_one(opened, number, arrival, cut_off)
        segments, codes = opened.found.segments, opened.codes
        late = codes == CODES[Reason.LATE]
        if late.any():
            self._taker.came_late(segments.model_id_first[late], segments.length[late])
        good = codes == GOOD
        if good.any():
            self._hand_over(opened, arrivals, good)

    def _open(self, arrivals: Sequence[Arrivals]) -> _Opened:
        found = self._form.open([payload for arrival in arrivals for payload in arrival.chunks.payloads])
        starts = np.concatenate(([0], np.cumsum(found.counts)))
        first = [0]
        for arrival in arrivals:
            first.append(first[-1] + len(arrival.chunks))
        counts = np.diff(starts[first])
        codes = self._taker.judge(Owned(found.segments, [one.session for one in arrivals], counts))
        steps = np.concatenate(([0], np.cumsum(found.segments.length, dtype=np.int64)))
        return _Opened(found, codes, starts, steps, first)

    # --- booking -----------------------------------------------------------------------------------

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
        steps = int(opened.steps[end] - opened.steps[begin])
        if numbers is None or not self._taker.admit_all(session, steps):
            return False
        session.received_run(chunks.size, steps, numbers)
        session.taken = EntryId.parse(chunks.ids[-1])
        return True

    def _book_one_by_one(
        self, opened: _Opened, number: int, arrival: Arrivals, cut_off: Callable[[Session], None]
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
                cut_off(session)

    def _book(self, opened: _Opened, chunk: int, session: Session, entry: bytes, payload: bytes) -> bool:
        """Book one chunk that is new; return whether its client is cut off by it."""
        error = opened.found.errors.get(chunk)
        if error is not None:
            logger.info("a chunk of %s was refused: %s", session.client, error)
            self._rejects.add(session.client, entry, payload, error.reason, detail=str(error))
            return session.refuse({error.reason.value: 1}, 0)
        session.received_steps(int(opened.found.steps[chunk]), session.taken)
        codes, segments = opened.codes_of(chunk), opened.found.segments
        here = slice(opened.starts[chunk], opened.starts[chunk + 1])
        self._taker.admit(session, segments.length[here], segments.model_id_first[here], codes)
        refused, accepted = count_refused(codes), int(np.count_nonzero(codes == GOOD))
        if refused:
            worst = max(refused, key=lambda reason: refused[reason])
            self._rejects.add(session.client, entry, payload, worst, sum(refused.values()))
        return session.refuse(refused, accepted) if refused or accepted else False

    # --- handing over ------------------------------------------------------------------------------

    def _hand_over(self, opened: _Opened, arrivals: Sequence[Arrivals], good: NDArray[np.bool_]) -> None:
        counts = np.diff(opened.starts[opened.first])
        chunks = np.repeat(np.arange(len(opened.found.counts)), opened.found.counts)[good]
        self._taker.take_in(
            Accepted(
                select(opened.found.segments, good),
                np.repeat(np.arange(len(arrivals)), counts)[good],
                [arrival.session.client for arrival in arrivals],
                int(np.count_nonzero(np.bincount(chunks))),
                [arrival.session.id for arrival in arrivals],
            )
        )
