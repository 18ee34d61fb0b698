"""Replay memory of transitions, drawn uniformly: the oldest give way."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.observations import ObservationSpec
from soulsgui.errors import CheckpointError
from soulsgui.experience.frame_stacks import Observations
from soulsgui.rl.buffers.array_storage import IN_FILE, ArrayStorage
from soulsgui.rl.buffers.frame_store import FrameStore, saved_observations
from soulsgui.rl.returns import n_step, one_step

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_REMOVED = -1

OR_WITHOUT = "or from a checkpoint without the replay memory (soulsgui run resume --checkpoint ID)."
"""What else can be done where a saved memory does not fit."""


class PathSteps(NamedTuple):
    """Steps that follow each other: `T` of them for each of `B` sequences, 0 where a sequence has ended.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[T + 1, B, *shape]` | raw; what followed the last step of a sequence is repeated up to the end |
    | action | `[T, B, *action_shape]` | as stored (`environments.actions`) |
    | reward | `[T, B]` float32 | |
    | terminated | `[T, B]` bool | the step ended its episode in a final state |
    | next_mask | `[T, B, A]` bool, or None | which actions are valid at `obs[1:]`; None: all are |
    """

    obs: NDArray[Any]
    action: NDArray[Any]
    reward: NDArray[np.float32]
    terminated: Bools
    next_mask: Bools | None


class NStepBatch(NamedTuple):
    """`B` windows of several steps, in no order.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[B, *shape]` | raw, at the first step |
    | action | `[B, *action_shape]` | of the first step, as stored (`environments.actions`) |
    | reward | `[B]` float32 | discounted sum over the window |
    | next_obs | `[B, *shape]` | raw; what followed the window |
    | discount | `[B]` float32 | of the value of `next_obs`: 0 after a final state |
    | next_mask | `[B, A]` bool, or None | which actions are valid at `next_obs`; None: all are |
    | weight | `[B]` float32, or None | what each one's loss is multiplied by; None: 1 |
    """

    obs: NDArray[Any]
    action: NDArray[Any]
    reward: NDArray[np.float32]
    next_obs: NDArray[Any]
    discount: NDArray[np.float32]
    next_mask: Bools | None = None
    weight: NDArray[np.float32] | None = None


class UniformReplay:
    """Keeps the newest transitions in memory that is laid out once; not for several threads at once.

    A transition holds the rows of its two observations; neighbours within a segment share one, so that a
    segment of `T` steps takes `T + 1` rows (`FrameStore`; of stacked frames each takes one). Short
    segments find room for up to two rows a transition, long ones leave the second half of that memory
    untouched.

    Transitions are numbered in the order they were stored, and keep their number for good: `slot` is its
    place as long as it is held.

    Attributes:
        capacity: Most transitions that are kept.
        inserted: Transitions ever added.
        stored: Transitions ever stored: those added, without what gave way at once. The next one's number.
        removed: Transitions that are held and not drawn any more.

    Args:
        capacity: Most transitions to keep.
        masked_actions: Number of actions, where there are masks; 0 where there are none.
        storage: Where the observations lie; None: in memory. `close` it.
    """

    def __init__(
        self,
        capacity: int,
        observation: ObservationSpec,
        masked_actions: int = 0,
        action_shape: tuple[int, ...] = (),
        action_dtype: str = "int64",
        storage: ArrayStorage | None = None,
    ) -> None:
        self.capacity = capacity
        self.inserted = 0
        self.stored = 0
        shape, dtype = observation.shape, observation.dtype
        self._rows = FrameStore(2 * capacity, shape, dtype, masked_actions, storage)
        fields = [
            ("row", np.int64),
            ("next_row", np.int64),
            ("action", action_dtype, action_shape),
            ("reward", np.float32),
            ("terminated", np.bool_),
            ("last", np.bool_),  # of its segment: nobody shares its next row
            ("origin", np.int32),  # whose it is
        ]
        # A record for each transition: a draw waits for memory once, not once for each field. Columns are
        # indexed, never taken from: `take` would copy the whole column first.
        self._transitions: NDArray[Any] = np.zeros(capacity, np.dtype(fields, align=True))
        self._count = 0
        self._oldest = 0  # moves once all is full
        self.removed = 0

    def __len__(self) -> int:
        """Return the number of transitions that are held."""
        return self._count

    def add(
        self,
        obs: Observations,
        lengths: NDArray[np.integer[Any]],
        action: NDArray[Any],
        reward: NDArray[Any],
        terminated: Bools,
        action_mask: Bools | None = None,
        origin: Ints | None = None,
    ) -> int:
        """Take in segments: steps of one environment within one episode each, laid end to end.

        | argument | shape | meaning |
        |---|---|---|
        | obs | `[N + S, *shape]` | raw; segment i has `lengths[i] + 1` rows, the last follows its last step |
        | lengths | `[S]` | steps of each segment, at least 1 |
        | action, reward | `[N, *action_shape]`, `[N]` | as stored |
        | terminated | `[S]` bool | the segment's last step ended its episode in a final state |
        | action_mask | `[N + S, A]` bool | valid actions at each observation, where there are masks |
        | origin | `[S]` int | whose each is, for `remove`; None: nobody's, 0 |

        Returns:
            Transitions added, `N`; those among them that gave way at once to later ones count as well.

        Raises:
            ValueError: The arrays don't fit together, or observations or actions are of another shape.
        """
        added = len(action)
        self._check(obs.shape, lengths, action, len(reward), len(terminated))
        self._check_dtype(obs.dtype)
        self._check_masks(len(obs), action_mask)
        if added:
            ends = np.zeros(added, np.bool_)
            ends[np.cumsum(lengths) - 1] = True
            # What does not fit would give way at once: the newest steps, and the segments they belong to.
            first = max(added - self.capacity, 0)
            ends = ends[first:]
            row = len(obs) - len(ends) - int(np.count_nonzero(ends))
            masks = None if action_mask is None else action_mask[row:]
            self._evict(self._count + len(ends) - self.capacity)
            rows = self._rows.put(obs[row:], masks)
            whose = np.repeat(np.zeros(len(lengths), np.int64) if origin is None else origin, lengths)[first:]
            ended = terminated[-np.count_nonzero(ends) :]
            self._write(rows, ends, action[first:], reward[first:], ended, whose)
            self.inserted += added
        return added

    def draw(self, count: int, rng: np.random.Generator) -> Ints:
        """Draw slots `[count]` uniformly, with replacement.

        Raises:
            ValueError: There is no transition yet.
        """
        if self._count == self.removed:
            raise ValueError("no transition to draw yet")
        if self.removed > self._count / 2:  # most draws would be in vain
            return rng.choice(np.flatnonzero(self._transitions["origin"][: self._count] != _REMOVED), count)
        slots = rng.integers(self._count, size=count)
        while self.removed and (gone := self.is_removed(slots)).any():
            slots[gone] = rng.integers(self._count, size=np.count_nonzero(gone))
        return slots

    def remove(self, origin: int) -> Ints:
        """Draw nothing of an origin any more; return the slots. They are held until they give way."""
        slots = np.flatnonzero(self._transitions["origin"][: self._count] == origin)
        self._transitions["origin"][slots] = _REMOVED
        self.removed += len(slots)
        return slots

    def is_removed(self, slots: Ints) -> Bools:
        """Say which slots hold what was removed."""
        removed: Bools = self._transitions["origin"][slots] == _REMOVED
        return removed

    def slot(self, number: NDArray[np.integer[Any]]) -> Ints:
        """Return the slots of numbered transitions, of any shape; those of what gave way hold another."""
        slots: Ints = number.astype(np.int64) % self.capacity
        return slots

    def holds(self, number: NDArray[np.integer[Any]]) -> Bools:
        """Say which numbered transitions have not given way yet."""
        return (number >= self.stored - self._count) & (number < self.stored)

    def windows(self, slots: Ints, following: Ints, n: int, gamma: float) -> NStepBatch:
        """Return what n steps from slots `[B]` on gave, along `following` (see `returns.n_step`)."""
        first = last = self._transitions.take(slots)
        if n == 1:
            reward, discount = one_step(first["reward"], first["terminated"], gamma)
        else:
            every = self._transitions
            window = n_step(slots, following, every["reward"], every["terminated"], n, gamma)
            reward, discount, last = window.reward, window.discount, every.take(window.last)
        return NStepBatch(
            obs=self._rows.obs(first["row"]),
            action=first["action"].copy(),
            reward=reward,
            next_obs=self._rows.obs(last["next_row"]),
            discount=discount,
            next_mask=self._rows.masks(last["next_row"]),
        )

    def steps(self, path: Ints, valid: Bools) -> PathSteps:
        """Return the steps of sequences, given as `EpisodeLinks.along` does."""
        steps = self._transitions.take(path)
        rows = np.where(valid, steps["row"], steps["next_row"])
        rows = np.concatenate((rows, steps["next_row"][-1:]))
        action = steps["action"].copy()
        action[~valid] = 0
        return PathSteps(
            obs=self._rows.obs(rows),
            action=action,
            reward=np.where(valid, steps["reward"], np.float32(0)),
            terminated=steps["terminated"] & valid,
            next_mask=self._rows.masks(rows[1:]),
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is held, as copies: `N` transitions, the oldest first, in `S` segments.

        | name | shape, dtype |
        |---|---|
        | obs and action_mask, or what stands for them | of `N + S` observations, `FrameStore.state` |
        | ends | `[N]` bool, last step of its segment |
        | action | `[N, *action_shape]` |
        | reward | `[N]` |
        | terminated | `[S]` bool |
        | origin | `[N]` int32; -1 of what was removed |
        | counters | `[3]` int64: inserted, stored, capacity |
        """
        slots = (self._oldest + np.arange(self._count)) % self.capacity
        held = self._transitions.take(slots)
        ends = held["last"].copy()
        return self._rows.state(_rows_of(held)) | {
            "ends": ends,
            "action": held["action"].copy(),
            "reward": held["reward"].copy(),
            "terminated": held["terminated"][ends],
            "origin": held["origin"].copy(),
            "counters": np.array([self.inserted, self.stored, self.capacity]),
        }

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned: the same draws follow.

        Raises:
            CheckpointError: It does not fit this memory; nothing has changed.
            MemoryGoneError: Its observations lay in a file, which is not what it was; nothing has changed.
        """
        try:
            inserted, stored, capacity = (int(counter) for counter in state["counters"])
            ends, in_file = state["ends"], IN_FILE in state
            obs = None if in_file else saved_observations(state)
            shape = (len(state["row"]), *self._rows.shape) if obs is None else obs.shape
            lengths = np.diff(np.flatnonzero(ends), prepend=-1)
            self._check(shape, lengths, state["action"], len(state["reward"]), len(state["terminated"]))
            if capacity != self.capacity or len(state["action"]) != len(ends):
                raise ValueError(f"{len(state['action'])} transitions of a memory of {capacity}")
            if obs is not None:
                self._check_dtype(obs.dtype)
                self._check_masks(shape[0], state.get("action_mask"))
            origin = state.get("origin", np.zeros(len(ends), np.int32))  # one of an earlier version has none
            if len(origin) != len(ends):
                raise ValueError(f"{len(origin)} origins of {len(ends)} transitions")
            rows = self._rows.take_up(state, stored) if in_file else None
        except (KeyError, ValueError) as error:
            raise CheckpointError(
                f"The saved replay memory does not fit one of {self.capacity} transitions: {error}.",
                f"Resume with the capacity and the environment it was saved with, {OR_WITHOUT}",
            ) from error
        if obs is not None:
            self._evict(self._count)
            rows = self._rows.put(obs, state.get("action_mask")) if len(ends) else np.zeros(0, np.int64)
        self.inserted, self.stored, self._count = inserted, stored - len(ends), 0
        self.removed = int(np.count_nonzero(origin == _REMOVED))
        self._oldest = self.stored % self.capacity
        if rows is not None and len(ends):
            self._write(rows, ends, state["action"], state["reward"], state["terminated"], origin)

    def close(self, leave: bool = False) -> None:
        """Give a file up, or leave it there for whom is given what `state` returned last; memory stays."""
        if self._rows.in_file:
            self._rows.close(self.stored if leave else None)
            self._count = 0

    def _check(
        self, obs: tuple[int, ...], lengths: NDArray[Any], action: NDArray[Any], rewards: int, flags: int
    ) -> None:
        """Raise a ValueError unless the arrays given to `add` fit together; nothing has changed by then."""
        segments, steps = len(lengths), len(action)
        right = (steps + segments, steps, segments)
        if (segments and lengths.min() < 1) or lengths.sum() != steps or (obs[0], rewards, flags) != right:
            raise ValueError(
                f"{segments} segments of {lengths.sum()} steps don't fit obs, action, reward, terminated: "
                f"{(obs[0], steps, rewards, flags)}"
            )
        if obs[1:] != self._rows.shape:
            raise ValueError(f"observations of shape {obs[1:]}, {self._rows.shape} is needed")
        wanted = self._transitions["action"].shape[1:]
        if action.shape[1:] != wanted:
            raise ValueError(f"actions of shape {action.shape[1:]}, {wanted} is needed")

    def _check_dtype(self, dtype: np.dtype[Any]) -> None:
        if not self._rows.takes(dtype):
            raise ValueError(f"observations of {dtype}, {self._rows.dtype} is needed")

    def _check_masks(self, rows: int, masks: Bools | None) -> None:
        """Raise a ValueError unless there is a mask for each row where there are masks, and else none."""
        wanted = (rows, self._rows.masked_actions) if self._rows.masked_actions else None
        found = None if masks is None else masks.shape
        if found != wanted:
            raise ValueError(f"masks of shape {found}, {wanted} is needed")

    def _write(
        self,
        rows: Ints,
        ends: Bools,
        action: NDArray[Any],
        reward: NDArray[Any],
        terminated: Bools,
        origin: NDArray[np.integer[Any]],
    ) -> None:
        """Write steps `[N]`, whose observations lie in rows `[N + S]`."""
        count = len(ends)
        # Each segment before has one row more than steps.
        step = np.arange(count) + np.cumsum(ends) - ends
        first = (self._oldest + self._count) % self.capacity
        for slots, steps in self._pieces(first, count):
            to = self._transitions[slots]
            to["row"] = rows.take(step[steps])
            to["next_row"] = rows.take(step[steps] + 1)
            to["last"] = ends[steps]
            to["action"] = action[steps]
            to["reward"] = reward[steps]
            to["origin"] = origin[steps]
            to["terminated"] = False
        self._transitions["terminated"][(first + np.flatnonzero(ends)) % self.capacity] = terminated
        self._count += count
        self.stored += count

    def _evict(self, count: int) -> None:
        """Give the `count` oldest transitions up, and the rows that no other one needs."""
        if count <= 0:
            return
        for slots, _ in self._pieces(self._oldest, count):
            self._rows.give_up(_rows_of(self._transitions[slots]))
            if self.removed:
                self.removed -= int(np.count_nonzero(self._transitions["origin"][slots] == _REMOVED))
        self._oldest = (self._oldest + count) % self.capacity
        self._count -= count

    def _pieces(self, first: int, count: int) -> list[tuple[slice, slice]]:
        """Return where `count` transitions lie from a slot on: slots, and which of the transitions."""
        until_end = min(count, self.capacity - first)
        pieces = [(slice(first, first + until_end), slice(0, until_end))]
        if until_end < count:
            pieces.append((slice(0, count - until_end), slice(until_end, count)))
        return pieces


def _rows_of(transitions: NDArray[Any]) -> Ints:
    """Return the rows of transitions that follow each other, in the order they were put."""
    # What follows a step is what the next one begins with, but at the end of a segment.
    ends = np.flatnonzero(transitions["last"])
    rows: Ints = np.insert(transitions["row"], ends + 1, transitions["next_row"][ends])
    return rows
