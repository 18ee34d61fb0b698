"""How long the goal is still away, and where the time goes (no Qt)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from soulsgui.gui import text
from soulsgui.gui.states import is_inference_server, run_is_active
from soulsgui.wire.control import ClientStatus, RunStatus

_FEWEST = 40
_LONGEST_S = 30 * 86_400.0
_CERTAIN = 2.0  # standard errors above 0
_WORTH_TELLING = 0.03


def seconds_to(goal: float, times: NDArray[np.float64], values: NDArray[np.float64]) -> float | None:
    """Return how long a curve takes to a value if it goes on to rise as over the newer half of its rows.

    Times `[N]` rise. The rise is that of the straight line with the least squares. None while there are too
    few rows, or while nobody can tell it from none: below two standard errors, or more than a month away.
    """
    known = np.isfinite(values)
    x, y = times[known], values[known]
    x, y = x[x.size // 2 :], y[y.size // 2 :]
    if x.size < _FEWEST or x[-1] <= x[0]:
        return None
    apart = x - x.mean()
    spread = float(apart @ apart)
    slope = float(apart @ y) / spread
    rest = y - y.mean() - slope * apart
    error = float(np.sqrt(rest @ rest / (x.size - 2) / spread))
    present = float(y.mean() + slope * apart[-1])
    if present >= goal:
        return 0.0
    if slope <= _CERTAIN * error or (goal - present) > slope * _LONGEST_S:
        return None
    return (goal - present) / slope


def seconds_left(run: RunStatus, to_return: float | None) -> float | None:
    """Return how long a run goes on until one of its goals is reached, None while nobody can tell.

    At the goal it ends, or that is being confirmed: nobody can tell how long that takes.
    """
    if not run_is_active(run.state) or run.state == "saving":
        return None
    found = [] if to_return is None else [to_return]
    if run.goal_env_steps is not None and run.env_steps_per_s:
        found.append(max(run.goal_env_steps - run.env_steps, 0) / run.env_steps_per_s)
    return min(found, default=None) or None


def gain_of_one_more(waits: float, clients: int, in_rounds: bool) -> float:
    """Return by which part there are more steps a second with one more client like the others.

    In rounds the trainer waits for w of the time and learns in the rest, which grows with the samples: with
    n + 1 clients a round has (n + 1) / n as many and takes w + (1 - w) (n + 1) / n. Else both work at the
    same time, and the trainer can take 1 / (1 - w) as many as now.
    """
    more = (clients + 1) / clients
    if in_rounds:
        return more / (waits + (1.0 - waits) * more) - 1.0
    return min(more, 1.0 / (1.0 - waits) if waits < 1.0 else more) - 1.0


def bottleneck_words(run: RunStatus, clients: Sequence[ClientStatus]) -> str:
    """Return where the time goes, and what one more client would give; empty while nobody knows."""
    playing = [one for one in clients if one.state == "online" and not is_inference_server(one)]
    learner, samples = run.learner_waits, run.clients_wait
    if run.state != "running" or not playing or learner is None:
        return ""
    gain = gain_of_one_more(learner, len(playing), in_rounds=run.algorithm == "ppo")
    more = f"one more client would give {text.percent(100 * gain)} more steps a second"
    if gain < _WORTH_TELLING:
        more = "one more client would give no more steps"
    if learner >= _WORTH_TELLING and learner >= (samples or 0.0):
        return f"The trainer waits for samples {text.percent(100 * learner)} of the time; {more}."
    if (samples or 0.0) >= _WORTH_TELLING:
        return f"Samples wait for the trainer {text.percent(100 * (samples or 0.0))} of the time; {more}."
    return f"Trainer and clients keep each other busy; {more}."


def shares_of_time(run: RunStatus) -> dict[str, float]:
    """Return who waits for which part of the time; together they are 1."""
    learner, samples = run.learner_waits or 0.0, run.clients_wait or 0.0
    rest = max(1.0 - learner - samples, 0.0)
    shares = {
        "The trainer waits for samples": learner,
        "Samples wait for the trainer": samples,
        "Neither waits": rest,
    }
    return {who: part / (learner + samples + rest) for who, part in shares.items()}
