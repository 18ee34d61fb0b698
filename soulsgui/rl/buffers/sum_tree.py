"""Sums over non-negative numbers that change one by one: draws an index in proportion to its number."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]

# Children of a node. Wider nodes need fewer, longer passes: 16 is the quickest for 256 draws out of 10⁶.
_WIDTH = 16


class SumTree:
    """Draws leaves in proportion to their values; all operations take whole batches.

    Each node is the sum of its 16 children, computed anew from them whenever one changes: no rounding error
    builds up over millions of changes, and an index that occurs several times in a batch counts once.

    Args:
        leaves: How many numbers it holds, at least 1; all are 0 at first.
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
        """Give leaves new values; of an index that occurs several times, the last value holds.

        Args:
            index: `[B]`.
            value: `[B]`, finite and not negative.

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
        """Find the leaf that each position falls into when all values are laid end to end.

        A leaf of value 0 is never found, however the sums were rounded.

        Args:
            position: `[B]` float64, from 0 up to `total`.

        Returns:
            Leaves `[B]` int64.

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
        appendix B.2.1).

        Args:
            count: How many.
            rng: Draws as many numbers.

        Returns:
            Leaves `[count]` int64, ascending; repeats may occur.

        Raises:
            ValueError: All leaves are 0.
        """
        return self.find((np.arange(count) + rng.random(count)) * (self.total / count))
