"""The recurrent states that sequences begin with, in memory for as many as there are."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_AT_FIRST = 64


class StateRows:
    """States of sequences by their number, which grows by one; the oldest are given up first.

    Sequences are as many as segments, not as steps: room for one at each step would be gigabytes of a memory
    as wide as Atari games need.

    Args:
        size: Numbers of a state.
    """

    def __init__(self, size: int) -> None:
        self._rows: Floats = np.zeros((_AT_FIRST, size), np.float32)

    @property
    def size(self) -> int:
        """Numbers of a state."""
        return int(self._rows.shape[1])

    @property
    def room(self) -> int:
        """States that there is room for now."""
        return len(self._rows)

    def put(self, number: int, state: Floats, oldest: int) -> None:
        """Keep the state `[S]` of the next sequence; those before `oldest` are no longer asked for."""
        if number - oldest >= len(self._rows):
            held = np.arange(oldest, number)
            rows = np.zeros((2 * len(self._rows), self.size), np.float32)
            rows[held % len(rows)] = self.of(held)
            self._rows = rows
        self._rows[number % len(self._rows)] = state

    def of(self, numbers: NDArray[np.int64]) -> Floats:
        """Return the states `[B, S]` of sequences `[B]`, copied."""
        found: Floats = self._rows[numbers % len(self._rows)]
        return found
