"""The memory of R2D2: sequences by priority, as a node that learns off-policy fills and draws it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.buffers.memory import Drawn, StepSegments
from soulsgui.rl.buffers.replay import Ints
from soulsgui.rl.buffers.sequences import SequenceReplay


class SequenceMemory:
    """Gives sequences with the state they were begun with, as `memory.Memory`.

    Attributes:
        beta: How much of the bias of drawing by priority the weights undo, 0 to 1.

    Args:
        sequences: An empty memory of sequences.
        field: Name of the state that segments bring.
        length: Steps that are learned from in a sequence: so many transitions a sequence counts for.
    """

    def __init__(self, sequences: SequenceReplay, field: str, length: int) -> None:
        self.beta = 1.0
        self._sequences, self._field, self._length = sequences, field, length

    @property
    def capacity(self) -> int:
        """Most steps that are kept."""
        return self._sequences.ring.capacity

    @property
    def inserted(self) -> int:
        """Steps ever added."""
        return self._sequences.ring.inserted

    def __len__(self) -> int:
        """Return the number of steps that are kept; 0 while no sequence of them can be drawn."""
        return len(self._sequences.ring) if self._sequences.drawable else 0

    def drawn_with(self, count: int) -> int:
        """Return how many transitions a draw of about `count` learns from: whole sequences."""
        return max(1, round(count / self._length)) * self._length

    def add(self, segments: StepSegments) -> int:
        """Take segments in; return the steps added.

        Raises:
            ValueError: The arrays don't fit together, or the observations are of another shape.
        """
        return self._sequences.add(
            segments.obs,
            segments.length,
            segments.action,
            segments.reward,
            segments.terminated,
            segments.source,
            segments.episode,
            segments.first_step,
            segments.state[self._field],
            segments.action_mask,
        )

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw sequences for about `count` transitions, at least one: a `SequenceBatch`.

        Raises:
            ValueError: There is none yet.
        """
        batch = self._sequences.sample(self.drawn_with(count) // self._length, self.beta, rng)
        return Drawn(batch, batch.number)

    def learned(self, number: Ints, error: NDArray[Any]) -> None:
        """Give sequences the priority of their newest error `[B]`.

        Raises:
            ValueError: An error is not finite; nothing has changed.
        """
        self._sequences.update_priorities(number, error)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that is needed for the same draws to follow."""
        return self._sequences.state()

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned.

        Raises:
            CheckpointError: It does not fit; nothing has changed.
        """
        self._sequences.load_state(state)

    def close(self, leave: bool = False) -> None:
        """Keep nothing in a file any more (`UniformReplay.close`)."""
        self._sequences.ring.close(leave)
