"""What the metrics of a run are called on screen. Pure."""

import math
from collections.abc import Iterable

from soulsgui.gui.i18n import tr
from soulsgui.gui.plotting.rows import LENGTH, RETURN
from soulsgui.wire.control import RunStatus
from soulsgui.wire.messages.metrics import EVALUATION_RETURN

MEAN_RETURN = "mean_return"
"""Mean return over the last episodes (`stop.window`)."""

_ABBREVIATIONS = {"kl": "KL", "q": "Q", "td": "TD", "s": "(s)"}


def metric_title(metric: str) -> str:
    """Return a metric's name in words: `approx_kl` becomes `Approx KL`."""
    titles = {
        RETURN: tr("Return"),
        LENGTH: tr("Episode length"),
        MEAN_RETURN: tr("Mean return"),
        "env_steps_per_s": tr("Steps/s"),
        "lr": tr("Learning rate"),
        "grad_norm": tr("Gradient norm"),
    }
    if metric in titles:
        return titles[metric]
    words = [_ABBREVIATIONS.get(word, word) for word in metric.split("_")]
    return " ".join([words[0][:1].upper() + words[0][1:], *words[1:]])


def metric_order(metrics: Iterable[str]) -> list[str]:
    """Return metrics as they are offered: evaluations and those of episodes first, the others by name."""
    offered = set(metrics)
    judged = [EVALUATION_RETURN] if EVALUATION_RETURN in offered else []
    first = [*judged, RETURN, LENGTH, MEAN_RETURN]
    others = sorted(offered - set(first), key=lambda metric: metric_title(metric).casefold())
    return [*first, *others]


def goal_metrics(run: RunStatus) -> tuple[str, ...]:
    """Return the metrics that the goal of a run is a value of; none where it has no such goal."""
    if run.goal_return is None:
        return ()
    return (EVALUATION_RETURN,) if run.goal_judged_by == "evaluation" else (RETURN, MEAN_RETURN)


def opening_metric(run: RunStatus) -> str:
    """Return the metric that the curves of a run open with: what judges it."""
    return EVALUATION_RETURN if run.goal_judged_by == "evaluation" else RETURN


def beside(metric: str) -> str:
    """Return the metric that is drawn beside another one; empty for none.

    An evaluation means little without the training that it is of.
    """
    return RETURN if metric == EVALUATION_RETURN else ""


def smoothing_weight(position: int) -> float:
    """Return the weight of the exponential mean for a position of the slider.

    Args:
        position: 0 (none) to 100; each third of the way means ten times as many values.

    Returns:
        0 to 0.999.
    """
    share = min(max(position, 0), 100) / 100
    return 1.0 - math.pow(10.0, -3.0 * share)


def smoothing_words(position: int) -> str:
    """Return what a position of the slider means: over about how many values it smooths."""
    if position <= 0:
        return tr("off")
    return tr("up to {count} values").format(count=f"{round(1 / (1 - smoothing_weight(position))):,}")
