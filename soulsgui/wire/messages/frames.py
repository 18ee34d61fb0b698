"""Image observations on their way: each frame sent once, all of a chunk compressed together.

Where every observation is a stack of frames that moves on by one frame a step (Gymnasium's
`FrameStackObservation`), only the new frame of each step travels. Whether that is so is checked on the
observations themselves, so that nothing is lost whatever an environment does. Zstandard at level 1 makes 39
bytes of a Pong frame (84×84), lz4 92, at about the same cost.
"""

import threading
from enum import IntEnum
from itertools import pairwise
from typing import Any

import numpy as np
import zstandard
from numpy.typing import NDArray

from soulsgui.experience.frame_stacks import FrameStacks

Frames = NDArray[np.uint8]


class _OfThread(threading.local):
    """What each thread compresses and decompresses with."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1)
        self.decompressor = zstandard.ZstdDecompressor(max_window_size=2**24)


_of_thread = _OfThread()


class Stacking(IntEnum):
    """Which axis of an observation counts the frames of a stack; `NONE`: observations travel whole."""

    NONE = 0
    FIRST = 1
    LAST = 2


class FramesError(ValueError):
    """Bytes that are not the frames they claim to be."""


def is_image(obs_shape: tuple[int, ...], obs_dtype: str) -> bool:
    """Return whether observations travel as compressed frames: bytes in two dimensions or more."""
    return np.dtype(obs_dtype) == np.uint8 and len(obs_shape) >= 2


def pack_frames(obs: Frames, lengths: NDArray[np.integer[Any]]) -> tuple[Stacking, bytes]:
    """Return the observations of segments compressed, and how they are stacked.

    Args:
        obs: `[N + S, *obs_shape]` uint8, segment after segment.
        lengths: `[S]`, steps of each segment; it has one observation more.
    """
    ends = np.cumsum(np.asarray(lengths, np.int64) + 1).tolist()
    rows = list(pairwise([0, *ends]))
    for stacking in (Stacking.FIRST, Stacking.LAST):
        # As [N + S, frames, *frame].
        stacks = obs if stacking == Stacking.FIRST else np.moveaxis(obs, -1, 1)
        if stacks.shape[1] > 1 and all(_moves_on(stacks[begin:end]) for begin, end in rows):
            parts = [part for begin, end in rows for part in (stacks[begin], stacks[begin + 1 : end, -1])]
            return stacking, _compress(b"".join([part.tobytes() for part in parts]))
    return Stacking.NONE, _compress(np.ascontiguousarray(obs).tobytes())


def unpack_frames(data: bytes, stacking: int, lengths: NDArray[np.integer[Any]], obs: Frames) -> None:
    """Write the observations that `pack_frames` was given.

    Never more memory is taken than these need; a caller checks beforehand that this is little enough.

    Args:
        data: The compressed frames.
        stacking: How they are stacked.
        lengths: `[S]`, steps of each segment, at least 1.
        obs: Where to write, `[N + S, *obs_shape]` uint8, two dimensions or more an observation.

    Raises:
        FramesError: They are damaged, or other frames than these; what was written is of no use.
    """
    if stacking == Stacking.NONE:
        obs[:] = np.frombuffer(_decompress(data, obs.size), np.uint8).reshape(obs.shape)
        return
    depth, frame = frames_of(stacking, obs.shape[1:])
    frames = np.empty((len(obs) + len(lengths) * (depth - 1), *frame), np.uint8)
    unpack_each_once(data, frames)
    obs[:] = np.asarray(stacks_of(frames, stacking, lengths, depth))


def frames_of(stacking: int, obs_shape: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """Return how many frames an observation stacks, and one's shape.

    Raises:
        FramesError: The observation is no stack of frames.
    """
    if stacking == Stacking.FIRST:
        return obs_shape[0], obs_shape[1:]
    if stacking == Stacking.LAST:
        return obs_shape[-1], obs_shape[:-1]
    raise FramesError(f"no stacking {stacking}")


def unpack_each_once(data: bytes, frames: Frames) -> None:
    """Write the frames themselves, each once, where just as many are expected; raises as `unpack_frames`."""
    frames[:] = np.frombuffer(_decompress(data, frames.size), np.uint8).reshape(frames.shape)


def stacks_of(frames: Frames, stacking: int, lengths: NDArray[np.integer[Any]], depth: int) -> FrameStacks:
    """Return the observations of segments over their frames, segment after segment.

    Args:
        frames: `[N + S * depth, *frame]`.
        stacking: How they are stacked.
        lengths: `[S]`, steps of each segment, at least 1.
        depth: Frames of an observation.
    """
    rows = np.asarray(lengths, np.int64) + 1
    skipped = np.repeat(np.arange(len(rows)) * (depth - 1), rows)
    return FrameStacks(
        frames, np.arange(len(skipped)) + skipped, depth, 1 if stacking == Stacking.FIRST else -1
    )


def _moves_on(stacks: Frames) -> bool:
    """Whether each stack is the one before without its oldest frame, and with a new one."""
    # The first pair alone: it already tells the channels of a picture from frames.
    return all(
        np.array_equal(stacks[begin:end, 1:], stacks[begin + 1 : end + 1, :-1])
        for begin, end in ((0, 1), (1, len(stacks) - 1))
    )


def _compress(data: bytes) -> bytes:
    return _of_thread.compressor.compress(data)


def _decompress(data: bytes, size: int) -> bytes:
    """Return exactly `size` bytes; what claims to be more is refused before memory is taken for it."""
    try:
        if zstandard.frame_content_size(data) != size:
            raise FramesError(f"not {size} bytes of frames")
        found = _of_thread.decompressor.decompress(data, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise FramesError(str(error)) from error
    if len(found) != size:
        raise FramesError(f"{len(found)} bytes of frames instead of {size}")
    return found
