"""How old samples are, in updates, counted in fixed buckets."""

import numpy as np
from numpy.typing import NDArray

from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness

_BUCKETS = len(STALENESS_BOUNDS) + 1


class StalenessCount:
    """Counts transitions by the updates between the weights they were made with and the newest ones."""

    def __init__(self) -> None:
        self._accepted = np.zeros(_BUCKETS, np.int64)
        self._late = np.zeros(_BUCKETS, np.int64)

    def accept(self, lags: NDArray[np.int64], steps: NDArray[np.int32]) -> None:
        """Count what is learned from.

        Args:
            lags: Updates since the weights of each segment, `[S]`.
            steps: Transitions of each, `[S]`.
        """
        self._accepted += _in_buckets(lags, steps)

    def refuse(self, lags: NDArray[np.int64], steps: NDArray[np.int32]) -> None:
        """Count what came too late, as `accept`."""
        self._late += _in_buckets(lags, steps)

    @property
    def told(self) -> Staleness:
        """What is told of it, as of now."""
        return Staleness(accepted=self._accepted.tolist(), late=self._late.tolist())


def _in_buckets(lags: NDArray[np.int64], steps: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(STALENESS_BOUNDS, lags), steps, _BUCKETS).astype(np.int64)
