"""Segments for tests: columns that a test says nothing of are zeros."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments


def segments_of(
    length: ArrayLike,
    obs: Any,
    terminated: ArrayLike = False,
    truncated: ArrayLike = False,
    **columns: Any,
) -> Segments:
    """Return segments of these lengths; the last step of each ends its episode as told."""
    sizes = np.asarray(length)
    count, steps = len(sizes), int(sizes.sum())
    ids: dict[str, NDArray[Any]] = {
        name: np.zeros(count, dtype)
        for name, dtype in {
            "env_index": np.int32,
            "episode": np.int64,
            "first_step": np.int64,
            "model_id_first": np.int64,
            "model_id_last": np.int64,
            "digest": np.uint64,
        }.items()
    }
    of_steps = {
        "action": np.zeros(steps, np.int64),
        "reward": np.zeros(steps, np.float32),
        "log_prob": np.zeros(steps, np.float32),
    }
    ended, cut = (np.asarray(one, np.uint8) for one in (terminated, truncated))
    flags = np.zeros(count, np.uint8) + ended * np.uint8(TERMINATED) + cut * np.uint8(TRUNCATED)
    return Segments(**(ids | of_steps | {"length": sizes, "obs": obs, "flags": flags} | columns))
