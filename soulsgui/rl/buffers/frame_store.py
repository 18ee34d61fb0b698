"""Room for the observations of a replay memory; of stacked frames each is kept once."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.frame_stacks import (
    IMAGE,
    NUMBERS,
    FrameStacks,
    Images,
    Observations,
    Pictures,
    field_of,
)
from soulsgui.rl.buffers.array_storage import IN_FILE, ArrayColumn, Arrays, ArrayStorage

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Shorter runs of neighbours on average are quicker written row by row.
_LEAST_RUN = 16


class FrameStore:
    """Keeps observations in room that is laid out once; those that are given up first were put first.

    A row holds a whole observation. Where the first observations ever put are stacks of frames, it holds a
    frame: an observation is found by its newest frame, and each frame knows the one before it. So rows of
    any place serve, and stacks that are no continuation of each other only take more of them.

    Rows that fell free are taken before those that were never used: an operating system provides no memory
    for the latter.

    Args:
        count: Most observations to keep.
        masked_actions: Number of actions, where there are masks; 0 where there are none.
        storage: Where they lie; None: in memory.
    """

    def __init__(
        self,
        count: int,
        shape: tuple[int, ...],
        dtype: str,
        masked_actions: int,
        storage: ArrayStorage | None = None,
    ) -> None:
        self.shape = shape
        self.masked_actions = masked_actions
        self._count = count
        self.dtype = np.dtype(dtype)
        self._numbers_dtype: np.dtype[Any] | None = None
        if self.dtype.fields is not None:  # an image with numbers beside it: they are kept apart
            image, self._numbers_dtype = (self.dtype.fields[name][0] for name in (IMAGE, NUMBERS))
            shape, dtype = image.shape, str(image.base)
        self._image_shape, self._image_dtype = shape, dtype
        self._storage = storage or ArrayStorage()
        # Room is laid out with the first ones.
        self._give(ArrayStorage().lay_out(0, 0, self._columns(shape)))
        self._laid_out = False
        self._depth = self._axis = 1
        self._free: Ints = np.zeros(0, np.int64)
        self._free_count = 0
        self._fresh = 0  # the first row that was never used

    def _lay_out(self, depth: int, axis: int, left: tuple[str, int] | None = None) -> None:
        """Lay memory out for observations of so many frames along an axis, 1 where they are kept whole.

        `left` is what `ArrayStorage.lay_out_again` takes, where observations lie there already.
        """
        rows = self._count * depth
        frame = self._image_shape
        if depth > 1:
            frame = frame[1:] if axis == 1 else frame[:-1]
        # Room is for two rows a transition, of which long segments use one.
        expected = self._count // 2
        columns = self._columns(frame)
        if left is None:
            self._give(self._storage.lay_out(rows, expected, columns))
        else:
            self._give(self._storage.lay_out_again(*left, expected, columns))
        self._laid_out, self._depth, self._axis = True, depth, axis
        self._before: Ints = np.zeros(rows if depth > 1 else 0, np.int64)
        self._own = np.zeros(rows if depth > 1 else 0, np.uint8)
        self._free = np.zeros(rows, np.int64)  # a stack of the rows that fell free

    def _columns(self, frame: tuple[int, ...]) -> list[ArrayColumn]:
        """Return what a row holds: a frame or a whole observation, the numbers beside it, its mask."""
        columns = [ArrayColumn(frame, self._image_dtype)]
        if self._numbers_dtype is not None:
            columns.append(ArrayColumn(self._numbers_dtype.shape, str(self._numbers_dtype.base)))
        if self.masked_actions:
            columns.append(ArrayColumn((self.masked_actions,), "bool"))
        return columns

    def _give(self, arrays: Arrays) -> None:
        """Take what `_columns` names, `[rows, ...]` each."""
        self._frames = arrays[0]
        self._numbers = None if self._numbers_dtype is None else arrays[1]
        self._masks: Bools | None = arrays[-1] if self.masked_actions else None

    @property
    def in_file(self) -> bool:
        """Whether they lie in a file."""
        return bool(self._storage.token)

    def takes(self, dtype: np.dtype[Any]) -> bool:
        """Whether observations of a dtype can be kept: an image with numbers where there are such."""
        return dtype == self.dtype or (dtype.fields is None and self.dtype.fields is None)

    def put(self, obs: Observations, masks: Bools | None) -> Ints:
        """Keep observations `[R, *shape]` with their masks `[R, A]`; return where each is found, `[R]`."""
        rows = self._put_images(field_of(obs, IMAGE))
        if self._numbers is not None:
            self._numbers[rows] = field_of(obs, NUMBERS)
        if masks is not None and self._masks is not None:
            self._masks[rows] = masks
        return rows

    def _put_images(self, obs: Images) -> Ints:
        if not self._laid_out:
            # How many frames an observation owns is kept in a byte.
            if isinstance(obs, FrameStacks) and 1 < obs.depth < 256:
                self._lay_out(obs.depth, obs.axis)
            else:
                self._lay_out(1, 1)
        if self._depth > 1:
            return self._put_frames(self._as_stacks(obs))
        rows = self._take(len(obs))
        _write(self._frames, rows, np.asarray(obs))
        return rows

    def _as_stacks(self, obs: Images) -> FrameStacks:
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
        _write(self._frames, rows, frames)
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
        images = self._images(rows)
        if self._numbers is None:
            return images
        found = np.empty(rows.shape, self.dtype)
        found[IMAGE], found[NUMBERS] = images, self._numbers.take(rows, axis=0)
        return found

    def _images(self, rows: Ints) -> NDArray[Any]:
        if self._depth == 1:
            whole: NDArray[Any] = self._frames.take(rows, axis=0)
            return whole
        stacks: NDArray[Any] = self._frames.take(self._stacked(rows), axis=0)
        return stacks if self._axis == 1 else np.moveaxis(stacks, rows.ndim, -1)

    def masks(self, rows: Ints) -> Bools | None:
        """Return the masks `[..., A]` of rows `[...]`, None where there are none."""
        return None if self._masks is None else self._masks.take(rows, axis=0)

    def _take(self, count: int) -> Ints:
        """Take rows `[count]`, those that fell free in their order there: neighbours stay neighbours."""
        again = min(count, self._free_count)
        self._storage.reserve(self._fresh + count - again)
        self._free_count -= again
        freed = self._free[self._free_count : self._free_count + again]
        rows = np.concatenate((freed, np.arange(self._fresh, self._fresh + count - again)))
        self._fresh += count - again
        return rows

    def state(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """Return what is kept of observations `[R]` in the order they were put, as copies.

        Whole ones are `obs` `[R, *shape]`; of stacks `frames` `[F, *frame_shape]`, `first` `[R]` and
        `stacking` `[2]`, depth and axis (`FrameStacks`). `numbers` `[R, K]` beside images, `action_mask`
        `[R, A]` where there are masks.

        What lies in a file stays there: `file` is its token as bytes, `row` `[R]` where each is, and of
        stacks `frame` `[F]`, `own` `[R]` and `stacking`; nothing else.
        """
        found: dict[str, NDArray[Any]]
        if self.in_file:
            found = {IN_FILE: np.frombuffer(self._storage.token.encode(), np.uint8), "row": rows}
            if self._depth == 1:
                return found
            found |= {"frame": self._owned(rows), "own": self._own[rows]}
            return found | {"stacking": np.array([self._depth, self._axis])}
        masks = self.masks(rows)
        found = {} if masks is None else {"action_mask": masks}
        if self._numbers is not None:
            found["numbers"] = self._numbers[rows]
        if self._depth == 1:
            return found | {"obs": self._frames[rows]}
        own = self._own[rows].astype(np.int64)
        return found | {
            "frames": self._frames[self._owned(rows)],
            "first": np.cumsum(own) - own,
            "stacking": np.array([self._depth, self._axis]),
        }

    def take_up(self, state: Mapping[str, NDArray[Any]], stored: int) -> Ints:
        """Go on with observations that lie in a file, of which `state` told where; return their rows `[R]`.

        Raises:
            KeyError: Something is missing.
            MemoryGoneError: The file is not what it was left with (`close`); nothing has changed.
        """
        rows: Ints = state["row"]
        depth, axis = (int(number) for number in state.get("stacking", (1, 1)))
        frames = state["frame"] if depth > 1 else rows
        self._lay_out(depth, axis, (state[IN_FILE].tobytes().decode(), stored))
        if depth > 1:
            self._own[rows] = state["own"]
            self._before[frames[1:]] = frames[:-1]
        self._fresh = int(frames.max(initial=-1)) + 1
        free = np.setdiff1d(np.arange(self._fresh), frames)
        self._free[: len(free)], self._free_count = free, len(free)
        return rows

    def close(self, stored: int | None = None) -> None:
        """Give the file up, or leave it there, if `stored` is told (`ArrayStorage.close`)."""
        self._give(ArrayStorage().lay_out(0, 0, self._columns(self._image_shape)))
        self._laid_out = False
        self._storage.close(stored)


def _write(target: NDArray[Any], rows: Ints, values: NDArray[Any]) -> None:
    """Put values `[R, ...]` into rows `[R]` of a target; neighbours are written in one go."""
    begins = np.flatnonzero(np.diff(rows) != 1) + 1
    if len(begins) * _LEAST_RUN > len(rows):
        target[rows] = values
        return
    bounds = [0, *begins.tolist(), len(rows)]
    for begin, end in pairwise(bounds):
        first = int(rows[begin]) if end > begin else 0
        target[first : first + end - begin] = values[begin:end]


def saved_observations(state: Mapping[str, NDArray[Any]]) -> Observations:
    """Return the observations of what `FrameStore.state` returned.

    Raises:
        KeyError: There are none.
        ValueError: They are damaged.
    """
    images: Images
    if "stacking" in state:
        depth, axis = (int(number) for number in state["stacking"])
        frames, first = state["frames"], state["first"]
        follow = np.diff(first).min(initial=1) >= 1
        if len(first) and not (first[0] >= 0 and follow and first[-1] + depth <= len(frames)):
            raise ValueError(f"{len(frames)} frames are not those of {len(first)} stacks")
        images = FrameStacks(frames, first, depth, axis)
    else:
        images = state["obs"]
    return Pictures(images, state["numbers"]) if "numbers" in state else images
