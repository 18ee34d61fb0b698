"""Where the segments of an on-policy round are collected, in memory that is laid out once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec
from soulsgui.rl.buffers.rollout import Bools, Ints, RolloutBatch


class CollectedSegments(NamedTuple):
    """`S` segments with `N` steps in all, as they came.

    | field | shape, dtype | meaning |
    |---|---|---|
    | client | `[S]` int | who sent it, as a number |
    | env_index, episode, first_step | `[S]` int | where it belongs among those of its client |
    | lengths | `[S]` int | steps of each, at least 1 |
    | terminated, truncated | `[S]` bool | how its last step ended |
    | obs | `[N + S, *shape]` | raw |
    | action | `[N]` int | |
    | log_prob, reward | `[N]` float | |
    """

    client: NDArray[np.integer[Any]]
    env_index: NDArray[np.integer[Any]]
    episode: NDArray[np.integer[Any]]
    first_step: NDArray[np.integer[Any]]
    lengths: NDArray[np.integer[Any]]
    terminated: Bools
    truncated: Bools
    obs: NDArray[Any]
    action: NDArray[np.integer[Any]]
    log_prob: NDArray[Any]
    reward: NDArray[Any]


_OF_SEGMENTS = ("client", "env_index", "episode", "first_step", "lengths", "terminated", "truncated")
_OF_STEPS = ("action", "log_prob", "reward")


class RolloutStore:
    """Collects one round after the other.

    Args:
        observation: What an observation is.

    Attributes:
        steps: Transitions in it.
    """

    def __init__(self, observation: BoxSpec) -> None:
        self.steps = 0
        self._observation = observation
        self._capacity = 0
        self._segments = 0
        self._lay_out(1)

    def begin(self, capacity: int) -> None:
        """Empty it for another round.

        Args:
            capacity: Most transitions of that round.
        """
        self.steps = self._segments = 0
        if capacity > self._capacity:
            self._lay_out(capacity)

    def add(self, found: CollectedSegments) -> None:
        """Take segments in.

        Raises:
            ValueError: There are more transitions than the round was to have.
        """
        steps, segments = len(found.action), len(found.lengths)
        if self.steps + steps > self._capacity:
            raise ValueError(f"{self.steps} and {steps} transitions are more than {self._capacity}")
        for names, begin, count in ((_OF_SEGMENTS, self._segments, segments), (_OF_STEPS, self.steps, steps)):
            for name in names:
                self._columns[name][begin : begin + count] = getattr(found, name)
        rows = self.steps + self._segments
        self._columns["obs"][rows : rows + steps + segments] = found.obs
        self.steps += steps
        self._segments += segments

    def batch(self, names: Sequence[str]) -> RolloutBatch:
        """Return what was collected in an order that does not depend on when it came.

        Args:
            names: Name of each client, by its number; segments are ordered by name, environment, episode and
                step.

        Raises:
            ValueError: There is nothing in it.
        """
        column = {name: self._columns[name][: self._segments] for name in _OF_SEGMENTS}
        rank = np.empty(max(len(names), 1), np.int64)
        rank[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        order = np.lexsort(
            (column["first_step"], column["episode"], column["env_index"], rank[column["client"]])
        )
        lengths = column["lengths"]
        starts = np.cumsum(lengths) - lengths
        steps = _laid_end_to_end(starts[order], lengths[order])
        rows = _laid_end_to_end((starts + np.arange(len(lengths)))[order], lengths[order] + 1)
        return RolloutBatch(
            obs=self._columns["obs"][rows],
            lengths=lengths[order],
            action=self._columns["action"][steps],
            log_prob=self._columns["log_prob"][steps],
            reward=self._columns["reward"][steps],
            terminated=column["terminated"][order],
            truncated=column["truncated"][order],
        )

    @property
    def clients(self) -> list[int]:
        """The numbers of clients of whom there is something."""
        numbers: list[int] = np.unique(self._columns["client"][: self._segments]).tolist()
        return numbers

    def _lay_out(self, capacity: int) -> None:
        """Lay out memory; an operating system provides what is written to only."""
        shape, dtype = self._observation.shape, np.dtype(self._observation.dtype)
        self._capacity = capacity
        self._columns: dict[str, NDArray[Any]] = {
            name: np.empty(capacity, np.bool_ if name in ("terminated", "truncated") else np.int64)
            for name in (*_OF_SEGMENTS, "action")
        }
        self._columns |= {name: np.empty(capacity, np.float32) for name in ("log_prob", "reward")}
        self._columns["obs"] = np.empty((2 * capacity, *shape), dtype)


def _laid_end_to_end(starts: Ints, sizes: Ints) -> Ints:
    """Return the indices of runs that begin at `starts` and are so long, one after the other."""
    ends = np.cumsum(sizes)
    indices: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return indices
