"""On-policy experience: a round, or a queue for who learns as it comes, and how a round is cut for learning
by backpropagation through time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.segments import Bools, Ints, Segments


class RolloutStore:
    """Collects one round after the other; `steps` are the transitions in it."""

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, capacity: int) -> None:
        """Empty it for another round of at most `capacity` transitions."""
        self.steps, self._capacity = 0, capacity
        self._parts: list[Segments] = []
        self._clients: list[Ints] = []

    def add(self, segments: Segments, clients: Ints) -> None:
        """Take `S` segments in, sent by clients of these numbers `[S]`; the arrays are kept.

        Raises:
            ValueError: There are more transitions than the round was to have.
        """
        if self.steps + segments.steps > self._capacity:
            raise ValueError(f"{self.steps} and {segments.steps} transitions are more than {self._capacity}")
        self._parts.append(segments)
        self._clients.append(clients)
        self.steps += segments.steps

    def batch(self, names: Sequence[str]) -> Segments:
        """Take out what was collected, in an order that does not depend on when it came.

        Segments are ordered by the name of their client (given by its number), environment, episode and step,
        and those of an episode are joined. A ValueError says that there is nothing in it.
        """
        rank = np.empty(max(len(names), 1), np.int64)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        parts, ranks = self._parts, [rank[clients] for clients in self._clients]
        self.steps, self._parts, self._clients = 0, [], []
        return Segments.concat_in_order(parts, _whole(ranks), _whole([part.env_index for part in parts]))

    @property
    def clients(self) -> list[int]:
        """The numbers of clients of whom there is something."""
        return sorted({int(number) for part in self._clients for number in np.unique(part)})


class SegmentQueue:
    """A queue of segments; `steps` are the transitions that wait."""

    def __init__(self) -> None:
        self.steps = 0
        self._parts: deque[Segments] = deque()

    def add(self, segments: Segments) -> None:
        """Take segments in, behind all others; the arrays are kept."""
        self._parts.append(segments)
        self.steps += segments.steps

    def drop_older(self, oldest: int) -> int:
        """Let go of segments whose weights have a smaller id than this; return their transitions."""
        before = self.steps
        kept = [part.take(part.model_id_first >= oldest) for part in self._parts]
        self._parts = deque(part for part in kept if part.steps)
        self.steps = sum(part.steps for part in self._parts)
        return before - self.steps

    def take(self, steps: int) -> Segments:
        """Take the oldest segments out: as few whole ones as hold so many transitions, or all there are.

        Those of one episode stand behind each other, joined where there is no gap between them. Where nobody
        says where segments come from, they stay as they came, each for itself.

        Raises:
            ValueError: There is nothing in it.
        """
        parts: list[Segments] = []
        wanted = steps
        while wanted > 0 and self._parts:
            first = self._parts.popleft()
            if first.steps > wanted:
                count = int(np.searchsorted(first.starts[1:], wanted)) + 1
                if count < first.count:
                    self._parts.appendleft(first.cut(count, first.count))
                first = first.cut(0, count)
            parts.append(first)
            wanted -= first.steps
        self.steps -= sum(part.steps for part in parts)
        sources = [part.source for part in parts if part.source is not None]
        if len(sources) < len(parts) or not parts:
            return Segments.concat(parts)
        return Segments.concat_in_order(parts, _whole(sources))


def _whole(columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(columns) if columns else np.zeros(0, np.int64)


@dataclass(frozen=True)
class BPTTChunks:
    """`P` chunks of at most `L` steps that cover a round, each of one chain.

    A chain is what a round has of one episode without a gap, however it was cut into segments on its way.
    All chunks of a chain but its last have exactly `L` steps.

    | field | shape, dtype | meaning |
    |---|---|---|
    | length | `[P]` int64 | steps of each |
    | place | `[P]` int64 | number within its chain; one with a place above 0 goes on from the one before |
    | segment | `[P]` int64 | segment that its chain begins with, whose stored state it begins with |
    | steps | `[P, L]` int64 | number of each step in the round; the last one repeated behind the end |
    | rows | `[P, L + 1]` int64 | row of each observation, and of the one behind the last step; likewise |
    """

    length: Ints
    place: Ints
    segment: Ints
    steps: Ints
    rows: Ints

    @classmethod
    def of(cls, batch: Segments, most: int) -> "BPTTChunks":
        """Cut a round into chunks of at most `most` steps."""
        segments, sizes = _chains(batch)
        counts = -(-sizes // most)
        chain = np.repeat(np.arange(len(sizes)), counts)
        place = np.arange(len(chain)) - np.repeat(np.cumsum(counts) - counts, counts)
        begin = (np.cumsum(sizes) - sizes)[chain] + place * most
        length = np.minimum(sizes[chain] - place * most, most)
        ahead = np.arange(most + 1)
        steps = begin[:, None] + np.minimum(ahead[:-1], length[:, None] - 1)
        following = batch.step_rows[begin + length - 1] + 1
        rows = np.where(
            ahead < length[:, None],
            batch.step_rows[begin[:, None] + np.minimum(ahead, length[:, None] - 1)],
            following[:, None],
        )
        return cls(length, place, segments[chain], steps, rows)

    def valid(self, upto: int) -> Bools:
        """Return `[P, upto]`: True where a chunk has this step."""
        valid: Bools = np.arange(upto) < self.length[:, None]
        return valid

    @property
    def goes_on(self) -> Bools:
        """`[P]`: True where the next chunk goes on from this one's end."""
        return np.append(self.place[1:] > 0, False)

    def ends(self) -> Bools:
        """Return `[N]`: True at the last step of each chain."""
        ends = np.zeros(int(self.length.sum()), np.bool_)
        last = ~self.goes_on
        ends[self.steps[last, self.length[last] - 1]] = True
        return ends


def _chains(batch: Segments) -> tuple[Ints, NDArray[np.int64]]:
    """Return the first segment `[C]` and the number of steps `[C]` of each chain."""
    begins = np.ones(batch.count, np.bool_) if batch.joined is None else ~batch.joined
    first = np.flatnonzero(begins)
    return first, np.add.reduceat(batch.length, first, dtype=np.int64)
