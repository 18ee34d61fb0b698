"""Moments worth a line on a curve: checkpoints, configuration changes, crashes, resumes."""

from collections.abc import Sequence
from dataclasses import dataclass

from soulsgui.gui.plotting.rows import Axis


@dataclass(frozen=True)
class Mark:
    """One moment.

    Attributes:
        episode: Episodes finished by then.
        env_steps: Environment steps by then.
        time: Seconds since the epoch.
        text: What happened, translated.
    """

    episode: int
    env_steps: int
    time: float
    text: str

    def x(self, axis: Axis) -> float:
        """Return where it stands."""
        return {Axis.EPISODE: self.episode, Axis.ENV_STEP: self.env_steps, Axis.TIME: self.time}[axis]


def mark_at(marks: Sequence[Mark], axis: Axis, x: float, reach: float) -> Mark | None:
    """Return the mark nearest to a position, None when none is within reach."""
    near = [mark for mark in marks if abs(mark.x(axis) - x) <= reach]
    return min(near, key=lambda mark: abs(mark.x(axis) - x), default=None)
