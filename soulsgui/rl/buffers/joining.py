"""Which segments belong together: those of one episode without a gap, however it was cut on its way."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def joined(
    of: Sequence[NDArray[Any]],
    first_step: NDArray[np.integer[Any]],
    lengths: NDArray[np.integer[Any]],
    ended: Bools,
    obs: NDArray[Any],
) -> Bools:
    """Return which segments `[S]` go on where the ones before them ended.

    Args:
        of: Columns `[S]` that are alike for segments of one episode.
        first_step: `[S]`, number of the first step of each within its episode.
        lengths: Steps of each, `[S]`.
        ended: `[S]`: the last step ended the episode, in a final state or cut off.
        obs: Their observations `[N + S, *shape]`. Those at both sides of a seam are the same: the numbers
            alone may be equal by chance where a client began anew.
    """
    goes_on: Bools = np.zeros(len(lengths), np.bool_)
    goes_on[1:] = (first_step[1:] == (first_step + lengths)[:-1]) & ~ended[:-1]
    for column in of:
        goes_on[1:] &= column[1:] == column[:-1]
    seams = np.flatnonzero(goes_on)
    first = (np.cumsum(lengths + 1) - lengths - 1)[seams]
    goes_on[seams] = (obs[first - 1] == obs[first]).all(axis=tuple(range(1, obs.ndim)))
    return goes_on


def laid_end_to_end(starts: Ints, sizes: Ints) -> Ints:
    """Return the indices of runs that begin at `starts` and are so long, one after the other."""
    ends = np.cumsum(sizes)
    indices: Ints = np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return indices
