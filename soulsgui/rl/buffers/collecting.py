"""Where on-policy segments are collected: a round, or a queue for a learner that takes them as they come."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.segments import Ints, Segments


class RolloutStore:
    """Collects one round after the other.

    Attributes:
        steps: Transitions in it.
    """

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, capacity: int) -> None:
        """Empty it for another round.

        Args:
            capacity: Most transitions of that round.
        """
        self.steps, self._capacity = 0, capacity
        self._parts: list[Segments] = []
        self._clients: list[Ints] = []

    def add(self, segments: Segments, clients: Ints) -> None:
        """Take segments in; the arrays are kept.

        Args:
            segments: `S` segments.
            clients: Who sent each, as a number, `[S]`.

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

        Args:
            names: Name of each client, by its number; segments are ordered by name, environment, episode and
                step, and those of an episode are joined.

        Raises:
            ValueError: There is nothing in it.
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
    """A queue of segments.

    Attributes:
        steps: Transitions that wait.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._parts: deque[Segments] = deque()

    def add(self, segments: Segments) -> None:
        """Take segments in, behind all others; the arrays are kept."""
        self._parts.append(segments)
        self.steps += segments.steps

    def drop_older(self, oldest: int) -> int:
        """Let go of segments whose weights have a smaller id than this.

        Args:
            oldest: Smallest id that is still good.

        Returns:
            Transitions that were in them.
        """
        before = self.steps
        kept = [part.take(part.model_id_first >= oldest) for part in self._parts]
        self._parts = deque(part for part in kept if part.steps)
        self.steps = sum(part.steps for part in self._parts)
        return before - self.steps

    def take(self, steps: int) -> Segments:
        """Take the oldest segments out: as few whole ones as hold so many transitions, or all there are.

        Those of one episode stand behind each other, joined where there is no gap between them. Where nobody
        says where segments come from, they stay as they came, each for itself.

        Args:
            steps: Transitions that are wanted, at least 1.

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
