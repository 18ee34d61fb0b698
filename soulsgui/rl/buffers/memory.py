"""What every replay memory offers to who learns off-policy, and the one of the DQN family.

Segments of one episode are stitched together as they come in (`EpisodeLinks`).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.experience.segments import Bools, Ints, Segments
from soulsgui.rl.buffers.prioritised import PrioritisedReplay
from soulsgui.rl.buffers.replay import OR_WITHOUT, UniformReplay


class Drawn(NamedTuple):
    """What the agent learns from, and numbers `[B]` by which the memory knows it again; None: it need not."""

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

    def remove(self, origin: int) -> int:
        """Learn nothing more from what came from an origin (`Segments.origin`); return its steps."""

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
        """Give a file up, or leave it there for whom is given what `state` returned last; memory stays."""


_NO_LINKS: Ints = np.zeros(0, np.int64)


class WindowReplay:
    """Gives windows of up to n steps out of a ring of transitions, as `memory.Memory`.

    Windows are stitched over the segments of an episode as they arrive (`EpisodeLinks`), summed when they
    are drawn (`returns.n_step`), and end early where their episode, or what has arrived of it, ends.

    Attributes:
        beta: How much of the bias of drawing by priority the weights undo, 0 to 1.

    Args:
        ring: An empty memory; from now on filled through `add` here.
        n: Most steps of a window.
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
        """Return the number of steps that can be drawn."""
        return len(self.ring) - self.ring.removed

    def drawn_with(self, count: int) -> int:
        """Return `count`: each window teaches one transition."""
        return count

    def add(self, segments: Segments) -> int:
        """Take segments in (`UniformReplay.add`); return the steps added."""
        before = self.ring.stored
        added = self._store.add(
            segments.obs,
            segments.length,
            segments.action,
            segments.reward,
            segments.terminated,
            segments.action_mask,
            segments.origin,
        )
        if self._links is not None:
            self._links.added(segments, before)
        return added

    def remove(self, origin: int) -> int:
        """Draw nothing of an origin any more, as `ReplayMemory` says."""
        return len(self._store.remove(origin))

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
        """Give what was drawn by these numbers the priority of its newest error `[B]`, which is finite."""
        if self._priorities is not None:
            self._priorities.update_priorities(number, error)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what the ring and, where there are any, priorities and chains return."""
        chains = {} if self._links is None else self._links.state()
        return self._store.state() | chains

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned, as `ReplayMemory` says."""
        if self._links is not None:
            self._links.check(state)
        self._store.load_state(state)
        if self._links is not None:
            self._links.load_state(state)

    def close(self, leave: bool = False) -> None:
        """Keep nothing in a file any more (`UniformReplay.close`)."""
        self.ring.close(leave)


class EpisodeLinks:
    """Follows the steps of a ring from segment to segment of the same episode.

    A segment is joined to the newest one of its source when it belongs to the same episode and begins with
    the step after that one's last. After a gap (a segment was lost, dropped, or came out of order) a new
    chain begins, so that no window reaches over steps nobody has.

    Attributes:
        following: `[capacity]` int64, slot of the next step of the same episode; -1: none, or not yet.
    """

    def __init__(self, ring: UniformReplay) -> None:
        self._ring = ring
        self.following: Ints = np.full(ring.capacity, -1, np.int64)
        # Newest step of each source: episode, number within it, number in the ring.
        self._tails: dict[int, tuple[int, int, int]] = {}
        self._prune_at = 1_024

    def added(self, segments: Segments, before: int) -> Bools:
        """Take note of segments that were just added to the ring, which had stored `before` steps by then.

        Returns:
            `[S]`, True where the segment goes on where another ended.
        """
        lengths, source = segments.length, segments.source
        assert source is not None
        joined: Bools = np.zeros(len(lengths), np.bool_)
        if self._ring.stored == before:
            return joined
        capacity = self._ring.capacity
        numbers = np.arange(before, self._ring.stored)
        ends = np.cumsum(lengths) + (self._ring.stored - int(lengths.sum())) - 1  # numbers of last steps
        following = (numbers + 1) % capacity
        following[ends[ends >= before] - before] = -1
        self.following[numbers % capacity] = following
        starts = ends - lengths + 1
        columns = source, segments.episode, segments.first_step, starts, ends
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for index, (whose, number, first, start, end) in enumerate(rows):
            if end < before:
                continue  # gave way at once
            tail = self._tails.get(whose)
            joins = tail is not None and tail[:2] == (number, first - 1) and start >= before
            if joins and tail is not None and tail[2] >= self._ring.stored - len(self._ring):
                self.following[tail[2] % capacity] = start % capacity
                joined[index] = True
            self._tails[whose] = (number, first + end - start, end)
        self._prune()
        return joined

    def along(self, slots: Ints, steps: int) -> tuple[Ints, Bools]:
        """Follow chains from slots `[B]` on: slots `[steps, B]`, the last one repeated behind a chain's end,
        and `[steps, B]` bool, True up to there.
        """
        path: Ints = np.empty((steps, len(slots)), np.int64)
        valid: Bools = np.ones((steps, len(slots)), np.bool_)
        path[0] = slots
        for step in range(1, steps):
            ahead = self.following.take(path[step - 1])
            valid[step] = valid[step - 1] & (ahead >= 0)
            path[step] = np.where(valid[step], ahead, path[step - 1])
        return path, valid

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what a continuation needs beside the ring's state: `following`, `tails` `[sources, 4]`."""
        tails = [(source, *tail) for source, tail in self._tails.items()]
        return {"following": self.following.copy(), "tails": np.array(tails, np.int64).reshape(-1, 4)}

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned, which `check` found to fit."""
        self.check(state)
        self.following[:] = state["following"]
        tails = state["tails"].tolist()
        self._tails = {source: (episode, step, end) for source, episode, step, end in tails}

    def check(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Make sure that `load_state` can use a state.

        Raises:
            CheckpointError: It does not fit the ring.
        """
        following, tails = state.get("following"), state.get("tails")
        fits = following is not None and following.shape == self.following.shape
        if not fits or tails is None or tails.shape[1:] != (4,):
            reason = "do not fit"
            if following is None:
                reason = "are missing, which windows of several steps need in"
            raise CheckpointError(
                f"The saved chains of episodes {reason} a memory of {self._ring.capacity} transitions.",
                f"Resume with the dqn.n_step and the capacity it was saved with, {OR_WITHOUT}",
            )

    def _prune(self) -> None:
        """Forget sources whose newest step gave way: they may be gone for good."""
        if len(self._tails) < self._prune_at:
            return
        oldest = self._ring.stored - len(self._ring)
        self._tails = {source: tail for source, tail in self._tails.items() if tail[2] >= oldest}
        self._prune_at = max(1_024, 2 * len(self._tails))
