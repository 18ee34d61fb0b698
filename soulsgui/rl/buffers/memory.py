"""What every replay memory offers to a node that learns off-policy, and the one of the DQN family."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.segments import Ints, Segments
from soulsgui.rl.buffers.episode_links import EpisodeLinks
from soulsgui.rl.buffers.prioritised import PrioritisedReplay
from soulsgui.rl.buffers.replay import UniformReplay


class Drawn(NamedTuple):
    """What a memory gives for one update.

    Attributes:
        batch: What the agent learns from, in whatever form both have agreed on.
        number: `[B]`, by which the memory knows again what was drawn; None when it need not.
    """

    batch: Any
    number: Ints | None


class ReplayMemory(Protocol):
    """Keeps steps, and gives batches of them."""

    @property
    def capacity(self) -> int:
        """Most steps that are kept."""

    @property
    def inserted(self) -> int:
        """Steps ever added."""

    def __len__(self) -> int:
        """Return the number of steps that are kept; 0 while there is nothing to draw."""

    def drawn_with(self, count: int) -> int:
        """Return how many transitions a draw of `count` really gives."""

    def add(self, segments: Segments) -> int:
        """Take segments in; return the steps added."""

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw `count` of what the agent learns from."""

    def learned(self, number: Ints, error: NDArray[Any]) -> None:
        """Take note of how wrong the agent was, `[B]`, about what was drawn by these numbers."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that is needed for the same draws to follow."""

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned.

        Raises:
            CheckpointError: It does not fit; nothing has changed.
            MemoryGoneError: A part of it lay in a file, which is gone; nothing has changed.
        """

    def close(self, leave: bool = False) -> None:
        """Keep nothing in a file any more; what lies in memory stays.

        Args:
            leave: Leave the file there: it belongs to what `state` returned last.
        """


_NO_LINKS: Ints = np.zeros(0, np.int64)


class WindowReplay:
    """Gives windows of up to n steps out of a ring of transitions, as `memory.Memory`.

    Windows are stitched over the segments of an episode as they arrive (`EpisodeLinks`), summed when they
    are drawn (`returns.n_step`), and end early where their episode, or what has arrived of it, ends.

    Attributes:
        ring: Where the steps are.
        beta: How much of the bias of drawing by priority the weights undo, 0 to 1.

    Args:
        ring: An empty memory; from now on filled through `add` here.
        n: Most steps of a window.
        gamma: Discount of one step.
        alpha: How much priorities count (`PrioritisedReplay`); None draws all alike.
    """

    def __init__(self, ring: UniformReplay, n: int, gamma: float, alpha: float | None = None) -> None:
        self.ring = ring
        self.beta = 1.0
        self._n, self._gamma = n, gamma
        self._links = EpisodeLinks(ring) if n > 1 else None
        self._priorities = None if alpha is None else PrioritisedReplay(ring, alpha)
        self._store = ring if self._priorities is None else self._priorities

    @property
    def capacity(self) -> int:
        """Most steps that are kept."""
        return self.ring.capacity

    @property
    def inserted(self) -> int:
        """Steps ever added."""
        return self.ring.inserted

    def __len__(self) -> int:
        """Return the number of steps that are kept."""
        return len(self.ring)

    def drawn_with(self, count: int) -> int:
        """Return `count`: each window teaches one transition."""
        return count

    def add(self, segments: Segments) -> int:
        """Take segments in; return the steps added.

        Raises:
            ValueError: The arrays don't fit together, or the observations are of another shape.
        """
        before = self.ring.stored
        added = self._store.add(
            segments.obs,
            segments.length,
            segments.action,
            segments.reward,
            segments.terminated,
            segments.action_mask,
        )
        if self._links is not None:
            self._links.added(segments, before)
        return added

    def draw(self, count: int, rng: np.random.Generator) -> Drawn:
        """Draw windows, with replacement: an `NStepBatch`.

        Raises:
            ValueError: There is none yet.
        """
        following = _NO_LINKS if self._links is None else self._links.following
        if self._priorities is None:
            slots = self.ring.draw(count, rng)
            return Drawn(self.ring.windows(slots, following, self._n, self._gamma), None)
        number, weight = self._priorities.draw(count, self.beta, rng)
        windows = self.ring.windows(self.ring.slot(number), following, self._n, self._gamma)
        return Drawn(windows._replace(weight=weight), number)

    def learned(self, number: Ints, error: NDArray[Any]) -> None:
        """Give what was drawn by these numbers the priority of its newest error `[B]`.

        Raises:
            ValueError: An error is not finite; nothing has changed.
        """
        if self._priorities is not None:
            self._priorities.update_priorities(number, error)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what the ring and, where there are any, priorities and chains return."""
        chains = {} if self._links is None else self._links.state()
        return self._store.state() | chains

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned: the same draws follow.

        Raises:
            CheckpointError: It does not fit this memory; nothing has changed.
        """
        if self._links is not None:
            self._links.check(state)
        self._store.load_state(state)
        if self._links is not None:
            self._links.load_state(state)

    def close(self, leave: bool = False) -> None:
        """Keep nothing in a file any more (`UniformReplay.close`)."""
        self.ring.close(leave)
