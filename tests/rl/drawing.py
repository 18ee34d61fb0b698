"""Transitions out of a ring, as the memory of an agent gives them: windows of one step, not discounted."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.buffers.replay import NStepBatch, UniformReplay


def in_slots(ring: UniformReplay, slots: NDArray[np.integer[Any]]) -> NStepBatch:
    """Return the transitions in slots `[B]`; their discount is 1, or 0 where they ended finally."""
    return ring.windows(slots.astype(np.int64), np.zeros(0, np.int64), 1, 1.0)


def drawn(ring: UniformReplay, count: int, rng: np.random.Generator) -> NStepBatch:
    """Draw transitions uniformly, as `in_slots` returns them.

    Raises:
        ValueError: There is none yet.
    """
    return in_slots(ring, ring.draw(count, rng))
