"""Observations that are stacks of frames, each frame held once: what two of them share is not copied."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FrameStacks:
    """`R` observations over `F` frames; `numpy.asarray` makes the array `[R, *obs_shape]` of them.

    Attributes:
        frames: `[F, *frame_shape]`.
        first: `[R]`, position of the oldest frame of each observation; the others follow it. They grow.
        depth: Frames of an observation.
        axis: Which axis of `[R, *obs_shape]` counts them, 1 or -1.
    """

    frames: NDArray[Any]
    first: Ints
    depth: int
    axis: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of their numbers."""
        return self.frames.dtype

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """What the array of them has, `(R, *obs_shape)`."""
        frame = self.frames.shape[1:]
        observation = (self.depth, *frame) if self.axis == 1 else (*frame, self.depth)
        return len(self.first), *observation

    def __len__(self) -> int:
        """Return the number of observations."""
        return len(self.first)

    def __getitem__(self, which: Any) -> "FrameStacks":
        """Return some of the observations, of a slice or an array of booleans; the frames stay shared."""
        return replace(self, first=self.first[which])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return them as an array of their own."""
        if copy is False:
            raise ValueError("the array of stacked frames is a copy")
        stacks = self.frames.take(self.first[:, None] + np.arange(self.depth), axis=0)
        found = np.ascontiguousarray(np.moveaxis(stacks, 1, self.axis))
        return found if dtype is None else found.astype(dtype, copy=False)

    @property
    def own(self) -> Ints:
        """`[R]`: how many frames of each observation, its oldest, the one after it does not have."""
        if not len(self.first):
            return self.first
        return np.minimum(np.diff(self.first, append=self.first[-1] + self.depth), self.depth)


Observations = NDArray[Any] | FrameStacks
"""Observations `[R, *obs_shape]`, or what can be made into them."""
