"""How old the weights were that segments were played with, counted in fixed buckets."""

import numpy as np
from numpy.typing import NDArray

from soulsgui.training.checks import CODES, GOOD, Codes
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness

_BUCKETS = len(STALENESS_BOUNDS) + 1


class StalenessCount:
    """Counts the lag of the accepted segments and of the late ones, in model ids."""

    def __init__(self) -> None:
        self._accepted = np.zeros(_BUCKETS, np.int64)
        self._late = np.zeros(_BUCKETS, np.int64)

    def take(self, model_ids: NDArray[np.int64], newest: int, codes: Codes) -> None:
        """Count segments.

        Args:
            model_ids: Weights that chose the first action of each, `[S]`; ids that were never published are
                left out.
            newest: The newest weights.
            codes: What was said of each, `[S]`.
        """
        published = (model_ids >= 0) & (model_ids <= newest)
        for counts, code in ((self._accepted, GOOD), (self._late, CODES[Reason.LATE])):
            lags = newest - model_ids[published & (codes == code)]
            if len(lags):
                buckets = np.searchsorted(STALENESS_BOUNDS, lags)
                counts += np.bincount(buckets, minlength=_BUCKETS)

    @property
    def told(self) -> Staleness:
        """What is told of it, as of now."""
        return Staleness(accepted=self._accepted.tolist(), late=self._late.tolist())
