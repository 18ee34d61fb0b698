"""Smoothing that never changes what is drawn already: each value depends on earlier ones alone."""

import numpy as np
from numpy.typing import NDArray

_PARTS = 20
SHORTEST = 2 * _PARTS
"""Values of the shortest curve that is smoothed at all."""


def exponential_mean(
    values: NDArray[np.float64], counts: NDArray[np.int64], weight: float
) -> NDArray[np.float64]:
    """Return the exponential moving mean with bias correction: the first values are no worse than later ones.

    s_t = Σ w^(t-i) x_i / Σ w^(t-i), over the values that are not missing (Adam, arXiv 1412.6980, section 3).
    A value that stands for n rows counts as n rows with this value. Both sums are recursions
    y_t = a_t y_(t-1) + b_t, solved for all t at once by doubling the rows that each y holds (Hillis and
    Steele, Data parallel algorithms, 1986).

    Args:
        values: `[N]`; NaN is missing, and missing in the answer.
        counts: `[N]` rows that each stands for.
        weight: w, 0 (no smoothing) to below 1.

    Returns:
        `[N]` float64.
    """
    known = np.isfinite(values)
    decay = weight ** counts.astype(np.float64)
    norms = np.where(known, 1.0 - decay, 0.0)
    sums = np.stack((norms * np.where(known, values, 0.0), norms))
    reach = 1
    while reach < values.size and decay.any():
        sums[:, reach:] += decay[reach:] * sums[:, :-reach]
        decay[reach:] *= decay[:-reach].copy()
        decay[:reach] = 0.0
        reach *= 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(known, sums[0] / sums[1], np.nan)


def memory(weight: float) -> int:
    """Return after how many rows an old value no longer matters: its share is below what can be seen."""
    return 1 if weight <= 0 else max(1, int(np.ceil(np.log(1e-3) / np.log(weight))))


def fitting_weight(weight: float, count: int) -> float:
    """Return the weight that suits a curve: a mean over most of its values would be nearly straight.

    A mean with the weight w is one over about 1 / (1 - w) values: here over a twentieth of the curve at most,
    and below `SHORTEST` over none. The limit doubles whenever the curve does: what is drawn already changes
    seldom.

    Args:
        weight: w for a long curve, 0 to below 1.
        count: Values on the curve.
    """
    longest = 1 << max((count // _PARTS).bit_length() - 1, 0)
    return min(weight, 1.0 - 1.0 / longest)
