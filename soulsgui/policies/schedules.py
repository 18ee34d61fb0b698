"""Schedules: what a setting is worth at a point of a run. Pure; their words stand in `config.schedules`."""

from dataclasses import dataclass

import numpy as np

from soulsgui.config.schedules import Points, Scheduled, parsed


@dataclass(frozen=True)
class Moment:
    """A point of a run: all that a schedule looks at, so that a resumed run goes on with the same values.

    Attributes:
        env_steps: Environment steps that were taken in before it.
        goal: Environment steps of the whole run (`stop.env_steps`), where that is known.
    """

    env_steps: int = 0
    goal: int | None = None

    def value(self, scheduled: Scheduled) -> float:
        """Return what a setting is worth now.

        With t the part of the ramp that is done, 0 to 1: `linear` gives `from + (to - from) t`, `exponential`
        `from (to / from)^t`; `piecewise` goes evenly from point to point, and stays before the first and
        behind the last. A ramp without `over` takes the whole run, and stands at its start where nobody knows
        how long that is.

        Raises:
            ValueError: It is no schedule.
        """
        if not isinstance(scheduled, dict):
            return scheduled
        told = parsed(scheduled)
        if isinstance(told, Points):
            return float(np.interp(self.env_steps, told.steps, told.values))
        over = told.over or self.goal
        done = min(self.env_steps / over, 1.0) if over else 0.0
        if told.kind == "exponential":
            return float(told.first * (told.last / told.first) ** done)
        return told.first * (1.0 - done) + told.last * done


START = Moment()
"""The beginning of a run of unknown length."""
