"""How a round is cut for learning by backpropagation through time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.segments import Bools, Ints, Segments


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
        """Cut a round.

        Args:
            batch: The round.
            most: Most steps of a chunk, `L`.
        """
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
