"""Observations that are stacks of frames, each frame held once: what two of them share is not copied.

And observations of an image with numbers beside it.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

IMAGE, NUMBERS = "f0", "f1"
"""Fields of an observation that is an image with numbers beside it: numpy's names for a dtype of two."""


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


Images = NDArray[Any] | FrameStacks  # images `[R, *shape]`, or what can be made into them


@dataclass(frozen=True)
class Pictures:
    """`R` images with numbers beside them; `numpy.asarray` makes the array `[R]` of records of them.

    Attributes:
        images: `[R, *image_shape]` uint8.
        numbers: `[R, K]`.
    """

    images: Images
    numbers: NDArray[Any]

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Type of a record."""
        image = (self.images.dtype, self.images.shape[1:])
        return np.dtype([(IMAGE, *image), (NUMBERS, self.numbers.dtype, self.numbers.shape[1:])])

    @property
    def shape(self) -> tuple[int, ...]:
        """What the array of them has, `(R,)`."""
        return (len(self.numbers),)

    def __len__(self) -> int:
        """Return the number of observations."""
        return len(self.numbers)

    def __getitem__(self, which: Any) -> "Pictures":
        """Return some of the observations, of a slice or an array of booleans."""
        return Pictures(self.images[which], self.numbers[which])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return them as an array of their own."""
        if copy is False:
            raise ValueError("the array of images and numbers is a copy")
        found = np.empty(len(self), self.dtype)
        found[IMAGE], found[NUMBERS] = np.asarray(self.images), self.numbers
        return found if dtype is None else found.astype(dtype, copy=False)


Observations = NDArray[Any] | FrameStacks | Pictures
"""Observations `[R, *obs_shape]`, or what can be made into them."""


def field_of(obs: Any, name: str | None) -> Any:
    """Return a field of observations, one as another where they have none."""
    if isinstance(obs, Pictures) and name is not None:
        return obs.images if name == IMAGE else obs.numbers
    return obs[name] if name is not None and obs.dtype.names else obs
