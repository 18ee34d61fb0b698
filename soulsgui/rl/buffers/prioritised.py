"""Prioritised replay: what surprised most is drawn most (Schaul et al. 2016, arXiv 1511.05952)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.frame_stacks import Observations
from soulsgui.rl.buffers.replay import OR_WITHOUT, Ints, UniformReplay
from soulsgui.rl.buffers.sum_tree import SumTree

# Keeps what was learned to the last digit drawable (the paper's ε, "proportional prioritization").
_LEAST = 1e-6


class Draw(NamedTuple):
    """`B` transitions drawn by priority.

    | field | shape, dtype | meaning |
    |---|---|---|
    | number | `[B]` int64 | numbers of the transitions, for `update_priorities` |
    | weight | `[B]` float32 | importance weights, 0 to 1; each sample's loss is multiplied by it |
    """

    number: Ints
    weight: NDArray[np.float32]


class PrioritisedReplay:
    """Draws the transitions of a ring in proportion to `(|error| + 1e-6) ** alpha`.

    New transitions have the largest priority ever seen, so that each is likely to be drawn once.

    Attributes:
        ring: Where the transitions are.

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
    ) -> int:
        """Take in segments as `UniformReplay.add` does, with the largest priority."""
        before = self.ring.stored
        added = self.ring.add(obs, lengths, action, reward, terminated, action_mask)
        slots = self.ring.slot(np.arange(before, self.ring.stored))
        self._tree.update(slots, np.full(len(slots), self._largest**self._alpha))
        return added

    def draw(self, count: int, beta: float, rng: np.random.Generator) -> Draw:
        """Draw transitions by priority, with replacement.

        `w_i = (N * P(i)) ** -beta`, divided by the largest of the batch so that they only scale down
        (section 3.4, algorithm 1).

        Args:
            count: How many.
            beta: How much of the bias is undone: 0 nothing, 1 all; rises to 1 over a run.
            rng: Draws as many numbers.

        Raises:
            ValueError: There is none yet.
        """
        slots = self._tree.draw(count, rng)
        share = self._tree.values(slots) / self._tree.total
        weight = (len(self) * share) ** -beta
        newest = self.ring.stored - 1
        number = newest - (newest - slots) % self.ring.capacity
        return Draw(number, (weight / weight.max()).astype(np.float32))

    def update_priorities(self, number: Ints, error: NDArray[Any]) -> None:
        """Give transitions the priority of their newest error.

        What gave way since it was drawn is passed over: its slot belongs to another. Of a transition that
        occurs several times, the last error holds.

        Args:
            number: `[B]`, from `Draw`.
            error: `[B]`, temporal differences or another measure of surprise; the sign doesn't matter.

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
