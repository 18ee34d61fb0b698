"""Experiments: runs that differ in their seed, with statistics over them; read from the library."""

from collections import Counter
from collections.abc import Iterable
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import UsageError
from soulsgui.runner.run.library import named
from soulsgui.telemetry.statistics import bootstrap_interval, interquartile_mean, probability_of_improvement
from soulsgui.wire.control import (
    Comparison,
    Experiment,
    Improvement,
    QueuedRun,
    RunSummary,
    ScoreName,
)


def experiments(
    runs: Iterable[RunSummary], queue: Iterable[QueuedRun], score: ScoreName = "mean_return"
) -> list[Experiment]:
    """Return the experiments of a library, the newest first, as its runs are; those of `queue` wait."""
    found: dict[str, list[RunSummary]] = {}
    for run in runs:
        if run.experiment:
            found.setdefault(run.experiment, []).append(run)
    waiting = Counter(one.experiment for one in queue if not one.run_id)
    return [_experiment(name, found[name][::-1], waiting[name], score) for name in found]


def _experiment(name: str, runs: list[RunSummary], waiting: int, score: ScoreName) -> Experiment:
    scores = _scores(runs, score)
    told: dict[str, Any] = {key: getattr(runs[0], key) for key in ("env_id", "algorithm", "agent")}
    if len(scores):
        low, high = bootstrap_interval(interquartile_mean, [scores])
        told |= {"mean": float(scores.mean()), "iqm": interquartile_mean([scores]), "low": low, "high": high}
        told["deviation"] = float(scores.std(ddof=1)) if len(scores) > 1 else None
    return Experiment(id=name, score=score, scored=len(scores), waiting=waiting, runs=runs, **told)


def _scores(runs: Iterable[RunSummary], score: ScoreName) -> NDArray[np.float64]:
    """Return the scores of the runs that are over and have one."""
    told = (getattr(run, score) for run in runs if run.reached)
    return np.array([one for one in told if one is not None], float)


def find(found: list[Experiment], name: str) -> Experiment:
    """Return an experiment by its id, by how it begins, by the name behind its time, or `latest`."""
    chosen = named([one.id for one in found], name, "experiment", "run start --seeds 5")
    return next(one for one in found if one.id == chosen)


def compare(chosen: list[Experiment]) -> Comparison:
    """Return experiments side by side, and how probably each is better than each other one.

    Raises:
        UsageError: They play different environments, or one has no run that is over.
    """
    if len({one.env_id for one in chosen}) > 1:
        played = ", ".join(f"{one.id} plays {one.env_id}" for one in chosen)
        raise UsageError(f"Returns of different environments can't be compared: {played}.")
    empty = next((one.id for one in chosen if not one.scored), None)
    if empty is not None:
        raise UsageError(f"No run of {empty} has ended with a score yet.", "Wait until one has ended.")
    pairs = permutations(chosen, 2)
    return Comparison(experiments=chosen, improvements=[_improvement(*pair) for pair in pairs])


def _improvement(mine: Experiment, other: Experiment) -> Improvement:
    pair = [[_scores(one.runs, one.score)] for one in (mine, other)]
    low, high = bootstrap_interval(probability_of_improvement, *pair)
    probability = probability_of_improvement(*pair)
    return Improvement(better=mine.id, than=other.id, probability=probability, low=low, high=high)
