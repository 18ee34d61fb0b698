"""Replay memory of transitions, drawn uniformly: the oldest give way."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec
from soulsgui.errors import CheckpointError
from soulsgui.frame_stacks import Observations
from soulsgui.rl.buffers.rows import ObservationRows, saved_observations
from soulsgui.rl.returns.n_step import n_step

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class TransitionBatch(NamedTuple):
    """`B` transitions, in no order.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[B, *shape]` | raw |
    | action | `[B, *action_shape]` | as stored (`environments.actions`): `[B]` int64 for Discrete |
    | reward | `[B]` float32 | |
    | next_obs | `[B, *shape]` | raw; what followed the step, also where it ended or cut off its episode |
    | terminated | `[B]` bool | the step ended its episode in a final state |
    | next_mask | `[B, A]` bool, or None | which actions are valid at `next_obs`; None: all are |
    """

    obs: NDArray[Any]
    action: NDArray[Any]
    reward: NDArray[np.float32]
    next_obs: NDArray[Any]
    terminated: Bools
    next_mask: Bools | None = None


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
    segment of `T` steps takes `T + 1` rows (`ObservationRows`; of stacked frames each takes one). Short
    segments find room for up to two rows a transition, long ones leave the second half of that memory
    untouched.

    Transitions are numbered in the order they were stored, and keep their number for good: `slot` is its
    place as long as it is held.

    Attributes:
        capacity: Most transitions that are kept.
        inserted: Transitions ever added.
        stored: Transitions ever stored: those added, without what gave way at once. The next one's number.

    Args:
        capacity: Most transitions to keep.
        observation: What an observation is.
        masked_actions: Number of actions, where there are masks; 0 where there are none.
        action_shape: Shape of one stored action.
        action_dtype: Its dtype.
    """

    def __init__(
        self,
        capacity: int,
        observation: BoxSpec,
        masked_actions: int = 0,
        action_shape: tuple[int, ...] = (),
        action_dtype: str = "int64",
    ) -> None:
        self.capacity = capacity
        self.inserted = 0
        self.stored = 0
        self._rows = ObservationRows(2 * capacity, observation.shape, observation.dtype, masked_actions)
        self._row: Ints = np.zeros(capacity, np.int64)
        self._next_row: Ints = np.zeros(capacity, np.int64)
        self._last: Bools = np.zeros(capacity, np.bool_)  # of its segment: nobody shares its next row
        self._action: NDArray[Any] = np.zeros((capacity, *action_shape), action_dtype)
        self._reward = np.zeros(capacity, np.float32)
        self._terminated: Bools = np.zeros(capacity, np.bool_)
        self._count = 0
        self._oldest = 0  # moves once all is full

    def __len__(self) -> int:
        """Return the number of transitions that can be drawn."""
        return self._count

    def add(
        self,
        obs: Observations,
        lengths: NDArray[np.integer[Any]],
        action: NDArray[Any],
        reward: NDArray[Any],
        terminated: Bools,
        action_mask: Bools | None = None,
    ) -> int:
        """Take in segments: steps of one environment within one episode each, laid end to end.

        Args:
            obs: `[N + S, *shape]`, raw; segment i has `lengths[i] + 1` rows, the last one follows its last
                step.
            lengths: `[S]`, steps of each segment, at least 1.
            action: `[N, *action_shape]`, as stored.
            reward: `[N]`.
            terminated: `[S]` bool, the segment's last step ended its episode in a final state.
            action_mask: `[N + S, A]` bool, valid actions at each observation, where there are masks.

        Returns:
            Transitions added, `N`; those among them that gave way at once to later ones count as well.

        Raises:
            ValueError: The arrays don't fit together, or observations or actions are of another shape.
        """
        added = len(action)
        self._check(obs, lengths, action, len(reward), len(terminated))
        self._check_masks(len(obs), action_mask)
        if added:
            ends = np.zeros(added, np.bool_)
            ends[np.cumsum(lengths) - 1] = True
            # What does not fit would give way at once: the newest steps, and the segments they belong to.
            kept = min(added, self.capacity)
            ends = ends[added - kept :]
            segments = int(np.count_nonzero(ends))
            self._store(
                obs[len(obs) - kept - segments :],
                ends,
                action[added - kept :],
                reward[added - kept :],
                terminated[len(terminated) - segments :],
                None if action_mask is None else action_mask[len(obs) - kept - segments :],
            )
            self.inserted += added
        return added

    def draw(self, count: int, rng: np.random.Generator) -> Ints:
        """Draw slots `[count]` uniformly, with replacement.

        Args:
            count: How many.
            rng: Draws as many whole numbers.

        Raises:
            ValueError: There is no transition yet.
        """
        if not self._count:
            raise ValueError("no transition to draw yet")
        return rng.integers(self._count, size=count)

    def sample(self, count: int, rng: np.random.Generator) -> TransitionBatch:
        """Draw transitions as `draw` does, and return them.

        Raises:
            ValueError: There is none yet.
        """
        return self.at(self.draw(count, rng))

    def slot(self, number: NDArray[np.integer[Any]]) -> Ints:
        """Return the slots of numbered transitions, of any shape; those of what gave way hold another."""
        slots: Ints = number.astype(np.int64) % self.capacity
        return slots

    def holds(self, number: NDArray[np.integer[Any]]) -> Bools:
        """Say which numbered transitions have not given way yet."""
        return (number >= self.stored - self._count) & (number < self.stored)

    def at(self, slots: NDArray[np.integer[Any]]) -> TransitionBatch:
        """Return the transitions in slots `[B]`."""
        next_row = self._next_row.take(slots)
        return TransitionBatch(
            obs=self._rows.obs(self._row.take(slots)),
            action=self._action.take(slots, axis=0),
            reward=self._reward.take(slots),
            next_obs=self._rows.obs(next_row),
            terminated=self._terminated.take(slots),
            next_mask=self._rows.masks(next_row),
        )

    def windows(self, slots: Ints, following: Ints, n: int, gamma: float) -> NStepBatch:
        """Return what n steps from slots `[B]` on gave, along `following` (see `returns.n_step`)."""
        window = n_step(slots, following, self._reward, self._terminated, n, gamma)
        next_row = self._next_row.take(window.last)
        return NStepBatch(
            obs=self._rows.obs(self._row.take(slots)),
            action=self._action.take(slots, axis=0),
            reward=window.reward,
            next_obs=self._rows.obs(next_row),
            discount=window.discount,
            next_mask=self._rows.masks(next_row),
        )

    def steps(self, path: Ints, valid: Bools) -> TransitionBatch:
        """Return steps that follow each other: `T` of them for each of `B` sequences.

        Args:
            path: `[T, B]`, slots; the last one repeated where a sequence has ended (`EpisodeChains.along`).
            valid: `[T, B]`, True up to there, and at least at first.

        Returns:
            Columns `[T, B, ...]`, 0 where the sequence has ended; `obs` is `[T + 1, B, *shape]` and holds
            `next_obs` as well: what followed a sequence's last step is repeated up to the end, and so is its
            mask.
        """
        rows = np.where(valid, self._row.take(path), self._next_row.take(path))
        rows = np.concatenate((rows, self._next_row.take(path[-1:])))
        obs = self._rows.obs(rows)
        return TransitionBatch(
            obs=obs,
            action=self._actions_along(path, valid),
            reward=np.where(valid, self._reward.take(path), np.float32(0)),
            next_obs=obs[1:],
            terminated=self._terminated.take(path) & valid,
            next_mask=self._rows.masks(rows[1:]),
        )

    def _actions_along(self, path: Ints, valid: Bools) -> NDArray[Any]:
        """Return the actions `[T, B, *action_shape]` in slots `[T, B]`, 0 where these are not valid."""
        action: NDArray[Any] = self._action.take(path, axis=0)
        action[~valid] = 0
        return action

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that is held, as copies: `N` transitions, the oldest first, in `S` segments.

        | name | shape, dtype |
        |---|---|
        | obs, or what stands for it; action_mask | of `N + S` observations, `ObservationRows.state` |
        | ends | `[N]` bool, last step of its segment |
        | action | `[N, *action_shape]` |
        | reward | `[N]` |
        | terminated | `[S]` bool |
        | counters | `[3]` int64: inserted, stored, capacity |
        """
        slots = (self._oldest + np.arange(self._count)) % self.capacity
        ends = self._last[slots]
        rows = np.empty(self._count + np.count_nonzero(ends), np.int64)
        step = np.arange(self._count) + np.cumsum(ends) - ends
        rows[step] = self._row[slots]
        rows[step[ends] + 1] = self._next_row[slots[ends]]
        return self._rows.state(rows) | {
            "ends": ends,
            "action": self._action[slots],
            "reward": self._reward[slots],
            "terminated": self._terminated[slots[ends]],
            "counters": np.array([self.inserted, self.stored, self.capacity]),
        }

    def load_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from what `state` returned: the same draws follow.

        Raises:
            CheckpointError: It does not fit this memory; nothing has changed.
        """
        try:
            inserted, stored, capacity = (int(counter) for counter in state["counters"])
            ends, obs = state["ends"], saved_observations(state)
            lengths = np.diff(np.flatnonzero(ends), prepend=-1)
            self._check(obs, lengths, state["action"], len(state["reward"]), len(state["terminated"]))
            if capacity != self.capacity or len(state["action"]) != len(ends):
                raise ValueError(f"{len(state['action'])} transitions of a memory of {capacity}")
            self._check_masks(len(obs), state.get("action_mask"))
        except (KeyError, ValueError) as error:
            raise CheckpointError(
                f"The saved replay memory does not fit one of {self.capacity} transitions: {error}.",
                "Resume with the capacity and the environment it was saved with, or without the memory.",
            ) from error
        self._evict(self._count)
        self.inserted, self.stored = inserted, stored - len(ends)
        self._oldest = self.stored % self.capacity
        if len(ends):
            masks = state.get("action_mask")
            self._store(obs, ends, state["action"], state["reward"], state["terminated"], masks)

    def _check(
        self, obs: Observations, lengths: NDArray[Any], action: NDArray[Any], rewards: int, flags: int
    ) -> None:
        """Raise a ValueError unless the arrays given to `add` fit together; nothing has changed by then."""
        segments, steps = len(lengths), len(action)
        right = (steps + segments, steps, segments)
        if (segments and lengths.min() < 1) or lengths.sum() != steps or (len(obs), rewards, flags) != right:
            raise ValueError(
                f"{segments} segments of {lengths.sum()} steps don't fit obs, action, reward, terminated: "
                f"{(len(obs), steps, rewards, flags)}"
            )
        if obs.shape[1:] != self._rows.shape:
            raise ValueError(f"observations of shape {obs.shape[1:]}, {self._rows.shape} is needed")
        if action.shape[1:] != self._action.shape[1:]:
            raise ValueError(f"actions of shape {action.shape[1:]}, {self._action.shape[1:]} is needed")

    def _check_masks(self, rows: int, masks: Bools | None) -> None:
        """Raise a ValueError unless there is a mask for each row where there are masks, and else none."""
        wanted = (rows, self._rows.masked_actions) if self._rows.masked_actions else None
        found = None if masks is None else masks.shape
        if found != wanted:
            raise ValueError(f"masks of shape {found}, {wanted} is needed")

    def _store(
        self,
        obs: Observations,
        ends: Bools,
        action: NDArray[Any],
        reward: NDArray[Any],
        terminated: Bools,
        masks: Bools | None,
    ) -> None:
        """Write steps `[N]` and their observations `[N + S, *shape]`; `ends` `[N]` marks the last of each."""
        count = len(ends)
        self._evict(self._count + count - self.capacity)
        rows = self._rows.put(obs, masks)
        # Each segment before has one row more than steps.
        step = np.arange(count) + np.cumsum(ends) - ends
        slots = (self._oldest + self._count + np.arange(count)) % self.capacity
        self._row[slots] = rows[step]
        self._next_row[slots] = rows[step + 1]
        self._last[slots] = ends
        self._action[slots] = action
        self._reward[slots] = reward
        self._terminated[slots] = False
        self._terminated[slots[ends]] = terminated
        self._count += count
        self.stored += count

    def _evict(self, count: int) -> None:
        """Give the `count` oldest transitions up, and the rows that no other one needs."""
        if count <= 0:
            return
        slots = (self._oldest + np.arange(count)) % self.capacity
        self._rows.give_up(np.concatenate((self._row[slots], self._next_row[slots[self._last[slots]]])))
        self._oldest = (self._oldest + count) % self.capacity
        self._count -= count
