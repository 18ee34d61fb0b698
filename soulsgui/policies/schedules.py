"""Schedules: how a setting changes over a run."""

from typing import Literal

ScheduleName = Literal["constant", "linear"]


def scheduled(initial: float, schedule: ScheduleName, progress: float) -> float:
    """Return the value of a setting at a point of the run.

    Args:
        initial: The value at the start.
        schedule: `constant` keeps it, `linear` takes it to 0 at the end.
        progress: Part of the run that is done; outside of 0 to 1 the nearer end counts.

    Raises:
        ValueError: There is no such schedule.
    """
    if schedule == "constant":
        return initial
    if schedule == "linear":
        return initial * (1.0 - min(max(progress, 0.0), 1.0))
    raise ValueError(f"no schedule {schedule!r}")
