"""Prioritised replay: what surprised most is drawn most (Schaul et al. 2016, arXiv 1511.05952)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.experience.frame_stacks import Observations
from soulsgui.rl.buffers.replay import OR_WITHOUT, Ints, UniformReplay

Doubles = NDArray[np.float64]

# Children of a node. Wider nodes need fewer, longer passes: 16 is the quickest for 256 draws out of 10⁶.
_WIDTH = 16


class SumTree:
    """Draws leaves in proportion to their values; all operations take whole batches.

    Each node is the sum of its 16 children, computed anew from them whenever one changes: no rounding error
    builds up over millions of changes, and an index that occurs several times in a batch counts once. All
    leaves, at least 1, are 0 at first.
    """

    def __init__(self, leaves: int) -> None:
        if leaves < 1:
            raise ValueError(f"a sum tree needs at least one leaf, not {leaves}")
        self._leaves = leaves
        self._levels: list[Doubles] = []  # from the leaves up to one node: [nodes, children]
        nodes = leaves
        while nodes > 1 or not self._levels:
            nodes = -(-nodes // _WIDTH)
            self._levels.append(np.zeros((nodes, _WIDTH)))
        self._ones = np.ones(_WIDTH)

    def __len__(self) -> int:
        """Return the number of leaves."""
        return self._leaves

    @property
    def total(self) -> float:
        """Sum of all leaves."""
        return float(self._levels[-1].sum())

    def values(self, index: NDArray[np.integer[Any]]) -> Doubles:
        """Return the values `[B]` float64 of leaves `[B]`."""
        return self._levels[0].reshape(-1).take(index)

    def update(self, index: NDArray[np.integer[Any]], value: NDArray[Any]) -> None:
        """Give leaves `[B]` new values `[B]`; of an index that occurs several times, the last value holds.

        Raises:
            ValueError: A value is negative or not finite, which would spoil every sum above it; nothing has
                changed.
            IndexError: There is no such leaf; nothing has changed.
        """
        value = np.asarray(value, np.float64)
        if not (np.isfinite(value).all() and (value >= 0).all()):
            raise ValueError("the values of a sum tree must be finite and not negative")
        if len(index) and not (index.min() >= 0 and index.max() < self._leaves):
            raise IndexError(f"there are leaves 0 to {self._leaves - 1} only")
        if not len(index):
            return
        self._levels[0].reshape(-1)[index] = value
        node = index
        for children, parents in zip(self._levels, self._levels[1:], strict=False):
            node = node // _WIDTH
            # Neighbours, as appended or drawn here, share most nodes: one visit each is enough.
            node = node[np.append(True, node[1:] != node[:-1])]
            parents.reshape(-1)[node] = children.take(node, axis=0) @ self._ones

    def find(self, position: Doubles) -> Ints:
        """Find the leaves `[B]` that positions `[B]` from 0 to `total` fall into, all values laid end to end.

        A leaf of value 0 is never found, however the sums were rounded.

        Raises:
            ValueError: All leaves are 0.
        """
        if not self.total > 0:
            raise ValueError("nothing to draw: all leaves of the sum tree are 0")
        node: Ints = np.zeros(len(position), np.int64)
        first = np.arange(len(position)) * _WIDTH
        rest = position
        for level in reversed(self._levels):
            upto = level.take(node, axis=0).cumsum(axis=1)
            rest = np.minimum(rest, np.nextafter(upto[:, -1], 0.0))
            child = np.add.reduce(upto <= rest[:, None], axis=1, dtype=np.int64)
            before = upto.reshape(-1).take(first + np.maximum(child - 1, 0))
            rest = rest - np.where(child > 0, before, 0.0)
            node = node * _WIDTH + child
        return node

    def draw(self, count: int, rng: np.random.Generator) -> Ints:
        """Draw leaves in proportion to their values, one out of each of `count` equal parts of the total.

        The parts keep a batch spread over small and large values (Schaul et al. 2016, arXiv 1511.05952,
        appendix B.2.1). They are ascending; repeats may occur. A ValueError says that all are 0.
        """
        return self.find((np.arange(count) + rng.random(count)) * (self.total / count))


# Keeps what was learned to the last digit drawable (the paper's ε, "proportional prioritization").
_LEAST = 1e-6


class PriorityDraw(NamedTuple):
    """Numbers `[B]` of transitions, for `update_priorities`, and importance weights `[B]` float32, 0 to 1."""

    number: Ints
    weight: NDArray[np.float32]


class PrioritisedReplay:
    """Draws the transitions of a ring in proportion to `(|error| + 1e-6) ** alpha`.

    New transitions have the largest priority ever seen, so that each is likely to be drawn once.

    Args:
        ring: An empty memory; from now on filled through `add` here.
        alpha: 0 draws all alike, 1 in full proportion to the errors (0.6 in the paper, 0.5 in Rainbow).
    """

    def __init__(self, ring: UniformReplay, alpha: float) -> None:
        self.ring = ring
        self._alpha = alpha
        self._tree = SumTree(ring.capacity)
        self._largest = 1.0

    def __len__(self) -> int:
        """Return the number of transitions that can be drawn."""
        return len(self.ring)

    def add(
        self,
        obs: Observations,
        lengths: NDArray[np.integer[Any]],
        action: NDArray[Any],
        reward: NDArray[Any],
        terminated: NDArray[np.bool_],
        action_mask: NDArray[np.bool_] | None = None,
        origin: Ints | None = None,
    ) -> int:
        """Take in segments as `UniformReplay.add` does, with the largest priority."""
        before = self.ring.stored
        added = self.ring.add(obs, lengths, action, reward, terminated, action_mask, origin)
        slots = self.ring.slot(np.arange(before, self.ring.stored))
        self._tree.update(slots, np.full(len(slots), self._largest**self._alpha))
        return added

    def remove(self, origin: int) -> Ints:
        """Draw nothing of an origin any more, as `UniformReplay.remove`."""
        slots = self.ring.remove(origin)
        self._tree.update(slots, np.zeros(len(slots)))
        return slots

    def draw(self, count: int, beta: float, rng: np.random.Generator) -> PriorityDraw:
        """Draw transitions by priority, with replacement.

        `w_i = (N * P(i)) ** -beta`, divided by the largest of the batch so that they only scale down
        (section 3.4, algorithm 1). Beta says how much of the bias is undone: 0 nothing, 1 all; it rises to 1
        over a run. A ValueError says that there is no transition yet.
        """
        slots = self._tree.draw(count, rng)
        share = self._tree.values(slots) / self._tree.total
        weight = (len(self) * share) ** -beta
        newest = self.ring.stored - 1
        number = newest - (newest - slots) % self.ring.capacity
        return PriorityDraw(number, (weight / weight.max()).astype(np.float32))

    def update_priorities(self, number: Ints, error: NDArray[Any]) -> None:
        """Give transitions the priority of their newest error `[B]`, whatever its sign.

        What gave way since it was drawn is passed over: its slot belongs to another. Of a transition that
        occurs several times, the last error holds.

        Raises:
            ValueError: An error is not finite; nothing has changed.
        """
        priority = np.abs(np.asarray(error, np.float64)) + _LEAST
        held = self.ring.holds(number)
        self._tree.update(self.ring.slot(number[held]), priority[held] ** self._alpha)
        self._largest = max(self._largest, float(priority[held].max(initial=0.0)))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what `UniformReplay.state` does, and `priority` `[N]` (to the power of alpha), `largest`."""
        numbers = np.arange(self.ring.stored - len(self), self.ring.stored)
        return {
            **self.ring.state(),
            "priority": self._tree.values(self.ring.slot(numbers)),
            "largest": np.array(self._largest),
        }

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned: the same draws follow.

        Raises:
            CheckpointError: It does not fit this memory; nothing has changed.
        """
        priority, largest = state.get("priority"), state.get("largest")
        fresh = SumTree(self.ring.capacity)
        try:
            if priority is None or largest is None or priority.shape != state["ends"].shape:
                raise ValueError("the priorities are missing or too few")
            numbers = np.arange(len(priority)) + int(state["counters"][1]) - len(priority)
            fresh.update(self.ring.slot(numbers), priority)
        except (KeyError, ValueError) as error:
            raise CheckpointError(
                f"The saved priorities can't be used: {error}.",
                f"Resume with the settings it was saved with, {OR_WITHOUT}",
            ) from error
        self.ring.load_state(state)
        self._tree, self._largest = fresh, float(largest)
