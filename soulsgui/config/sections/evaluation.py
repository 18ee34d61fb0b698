"""Settings of the evaluation during a run."""

import math
from collections.abc import Sequence
from typing import Literal

from soulsgui.config.declaring import Section, setting

EVERY = {"ppo": 10, "dqn": 5_000, "sac": 5_000, "vtrace": 500}
"""Updates between two evaluations of each algorithm, where nothing else is set."""

LEAST_TO_CONFIRM, MOST_TO_CONFIRM = 20, 100
"""Greedy episodes that say whether a goal is reached: as many as it takes."""


def settles(returns: Sequence[float], goal: float) -> bool:
    """Whether returns say on which side of a goal a policy is: three standard errors away, or by number.

    Args:
        returns: Return of each greedy episode, at least one.
        goal: Mean return to reach.
    """
    count = len(returns)
    if not LEAST_TO_CONFIRM <= count < MOST_TO_CONFIRM:
        return count >= MOST_TO_CONFIRM
    mean = sum(returns) / count
    variance = sum((one - mean) * (one - mean) for one in returns) / (count - 1)
    return abs(mean - goal) >= 3 * math.sqrt(variance / count)


class EvaluationSettings(Section):
    """Greedy episodes, played beside the training by a process of their own (the evaluator).

    Where the environment can't be made on the server, algorithms whose clients sample freely (dqn, sac,
    vtrace) ask one client at a time to play them.
    """

    every_updates: int | None = setting(
        None,
        "Updates between two evaluations. Empty: "
        + ", ".join(f"{every} for {algorithm}" for algorithm, every in EVERY.items())
        + ", and never more than a tenth of the time. 0 switches evaluations off: goal and best model "
        "then go by training episodes alone, where chance has a part.",
        unit="updates",
        ge=0,
        le=1_000_000_000,
    )
    episodes: int = setting(
        10,
        "Episodes of each evaluation; they begin from the same seeds every time, unless a client plays them "
        "because the server can't make the environment.",
        unit="episodes",
        ge=1,
        le=10_000,
    )
    max_steps: int = setting(
        10_000,
        "Steps after which a greedy episode is cut where the environment sets no limit (Gymnasium's "
        "`max_episode_steps`): a policy that walks in circles would never end it.",
        unit="steps",
        to_clients=True,
        ge=1,
        le=1_000_000_000,
    )
    best_by: Literal["auto", "evaluation", "training"] = setting(
        "auto",
        "What the best model is chosen by: the mean return of its evaluation, or that of `stop.window` "
        "training episodes, most of which it played; `auto` takes the evaluation where there are any.",
    )
