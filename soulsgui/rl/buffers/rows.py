"""Room for the observations of a replay memory; of stacked frames each is kept once."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.frame_stacks import FrameStacks, Observations

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class ObservationRows:
    """Keeps observations in memory that is laid out once; those that are given up first were put first.

    A row holds a whole observation. Where the first observations ever put are stacks of frames, it holds a
    frame: an observation is found by its newest frame, and each frame knows the one before it. So rows of
    any place serve, and stacks that are no continuation of each other only take more of them.

    Rows that fell free are taken before those that were never used: an operating system provides no memory
    for the latter.

    Args:
        count: Most observations to keep.
        shape: Of one.
        dtype: Its numbers.
        masked_actions: Number of actions, where there are masks; 0 where there are none.
    """

    def __init__(self, count: int, shape: tuple[int, ...], dtype: str, masked_actions: int) -> None:
        self.shape = shape
        self.masked_actions = masked_actions
        self._count = count
        self._whole: NDArray[Any] = np.zeros((count, *shape), dtype)
        self._laid_out = False
        self._lay_out(1, 1)

    def _lay_out(self, depth: int, axis: int) -> None:
        """Say how many frames an observation is made of, 1 where it is kept whole."""
        self._depth, self._axis = depth, axis
        rows = self._count * depth
        frame = self.shape
        if depth > 1:
            frame = self.shape[1:] if axis == 1 else self.shape[:-1]
        self._frames: NDArray[Any] = self._whole.reshape(rows, *frame)
        self._before: Ints = np.zeros(rows if depth > 1 else 0, np.int64)
        self._own = np.zeros(rows if depth > 1 else 0, np.uint8)
        self._masks: Bools = np.zeros((rows if self.masked_actions else 0, self.masked_actions), np.bool_)
        self._free: Ints = np.zeros(rows, np.int64)  # a stack of the rows that fell free
        self._free_count = 0
        self._fresh = 0  # the first of those that were never used

    @property
    def in_use(self) -> int:
        """Rows that hold something."""
        return self._fresh - self._free_count

    @property
    def touched(self) -> int:
        """Rows that ever held something."""
        return self._fresh

    def put(self, obs: Observations, masks: Bools | None) -> Ints:
        """Keep observations `[R, *shape]` with their masks `[R, A]`; return where each is found, `[R]`."""
        if not self._laid_out:
            self._laid_out = True
            # How many frames an observation owns is kept in a byte.
            if isinstance(obs, FrameStacks) and 1 < obs.depth < 256:
                self._lay_out(obs.depth, obs.axis)
        if self._depth == 1:
            rows = self._take(len(obs))
            self._frames[rows] = np.asarray(obs)
        else:
            rows = self._put_frames(self._as_stacks(obs))
        if masks is not None:
            self._masks[rows] = masks
        return rows

    def _as_stacks(self, obs: Observations) -> FrameStacks:
        if isinstance(obs, FrameStacks) and (obs.depth, obs.axis) == (self._depth, self._axis):
            return obs
        stacks = np.moveaxis(np.asarray(obs), self._axis, 1)
        first = np.arange(len(stacks)) * self._depth
        return FrameStacks(stacks.reshape(-1, *self._frames.shape[1:]), first, self._depth, self._axis)

    def _put_frames(self, stacks: FrameStacks) -> Ints:
        own = stacks.own
        oldest = np.cumsum(own) - own  # of each observation, among the frames that are kept
        kept = int(own.sum())
        frames = stacks.frames
        if kept != len(frames):
            frames = frames[np.repeat(stacks.first - oldest, own) + np.arange(kept)]
        rows = self._take(kept)
        self._frames[rows] = frames
        self._before[rows[1:]] = rows[:-1]
        newest: Ints = rows[oldest + self._depth - 1]
        self._own[newest] = own
        return newest

    def give_up(self, rows: Ints) -> None:
        """Keep these observations no longer, `[R]`; they were put before all that are kept."""
        freed = self._owned(rows)
        self._free[self._free_count : self._free_count + len(freed)] = freed
        self._free_count += len(freed)

    def _owned(self, rows: Ints) -> Ints:
        """Return the rows of the frames that the observations after each of these don't need, in order."""
        if self._depth == 1:
            return rows
        mine: Ints = self._stacked(rows)[np.arange(self._depth) < self._own[rows][:, None]]
        return mine

    def _stacked(self, rows: Ints) -> Ints:
        """Return the rows of all frames `[..., depth]` of observations `[...]`, the oldest first."""
        found: Ints = np.empty((*rows.shape, self._depth), np.int64)
        found[..., -1] = rows
        for place in range(self._depth - 2, -1, -1):
            found[..., place] = self._before.take(found[..., place + 1])
        return found

    def obs(self, rows: Ints) -> NDArray[Any]:
        """Return observations `[..., *shape]` of rows `[...]`."""
        if self._depth == 1:
            whole: NDArray[Any] = self._frames.take(rows, axis=0)
            return whole
        stacks: NDArray[Any] = self._frames.take(self._stacked(rows), axis=0)
        return stacks if self._axis == 1 else np.moveaxis(stacks, rows.ndim, -1)

    def masks(self, rows: Ints) -> Bools | None:
        """Return the masks `[..., A]` of rows `[...]`, None where there are none."""
        return self._masks.take(rows, axis=0) if self.masked_actions else None

    def _take(self, count: int) -> Ints:
        """Take rows `[count]`, those that fell free in their order there: neighbours stay neighbours."""
        again = min(count, self._free_count)
        self._free_count -= again
        rows = np.concatenate(
            (
                self._free[self._free_count : self._free_count + again],
                np.arange(self._fresh, self._fresh + count - again),
            )
        )
        self._fresh += count - again
        return rows

    def state(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """Return what is kept of observations `[R]` in the order they were put, as copies.

        Whole ones are `obs` `[R, *shape]`; of stacks `frames` `[F, *frame_shape]`, `first` `[R]` and
        `stacking` `[2]`, depth and axis (`FrameStacks`). `action_mask` `[R, A]` where there are masks.
        """
        masks = self.masks(rows)
        found: dict[str, NDArray[Any]] = {} if masks is None else {"action_mask": masks}
        if self._depth == 1:
            return found | {"obs": self._frames[rows]}
        own = self._own[rows].astype(np.int64)
        return found | {
            "frames": self._frames[self._owned(rows)],
            "first": np.cumsum(own) - own,
            "stacking": np.array([self._depth, self._axis]),
        }


def saved_observations(state: Mapping[str, NDArray[Any]]) -> Observations:
    """Return the observations of what `ObservationRows.state` returned.

    Raises:
        KeyError: There are none.
        ValueError: They are damaged.
    """
    if "stacking" not in state:
        found: NDArray[Any] = state["obs"]
        return found
    depth, axis = (int(number) for number in state["stacking"])
    frames, first = state["frames"], state["first"]
    if len(first) and (first[0] < 0 or np.diff(first).min(initial=1) < 1 or first[-1] + depth > len(frames)):
        raise ValueError(f"{len(frames)} frames are not those of {len(first)} stacks")
    return FrameStacks(frames, first, depth, axis)
