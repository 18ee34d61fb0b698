"""Statistics over the runs of an experiment, as rliable defines them (arXiv 2108.13264). Pure.

The scores of an algorithm are given by task: an array `[runs]` for each environment. With one environment
there is one task.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = Sequence[NDArray[np.float64]]

RESAMPLES = 2000
CONFIDENCE = 0.95
_CUT = 0.25  # of the scores at each end


def interquartile_mean(scores: Scores) -> float:
    """Return the mean of the middle half of all scores: a quarter is cut off at each end, rounded down."""
    pooled = np.sort(np.concatenate(scores))
    cut = int(_CUT * len(pooled))
    return float(np.mean(pooled[cut : len(pooled) - cut]))


def probability_of_improvement(scores: Scores, others: Scores) -> float:
    """Return how probable it is that a run scores more than one of the others, on a task drawn at random.

    It is the Mann-Whitney U statistic over the number of pairs, equal scores counting half, as a mean over
    the tasks, which both have in the same order.
    """
    chances = [
        np.mean(np.sign(mine[:, None] - other[None, :]) / 2 + 0.5)
        for mine, other in zip(scores, others, strict=True)
    ]
    return float(np.mean(chances))


def bootstrap_interval(
    statistic: Callable[..., float], *samples: Scores, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float]:
    """Return the percentile interval of a statistic by a stratified bootstrap.

    Args:
        statistic: Takes as many scores as there are samples.
        *samples: What it is computed of; runs are drawn anew, with replacement, within each task.
        resamples: How often.
        seed: Of the drawing: the same scores have the same interval.

    Returns:
        Its lower and upper end, at a confidence of 95 %.
    """
    random = np.random.default_rng(seed)
    found = [
        statistic(*([task[random.integers(len(task), size=len(task))] for task in one] for one in samples))
        for _ in range(resamples)
    ]
    low, high = np.quantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
