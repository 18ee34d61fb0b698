"""Rows of one metric as columns, whatever message they came in, and moments worth a line."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from soulsgui.wire.control import History
from soulsgui.wire.messages.metrics import AttemptRow, AttemptStart, EpisodeRows, ResourceRow, UpdateRow


class Axis(StrEnum):
    """What x means."""

    ENV_STEP = "env_step"
    EPISODE = "episode"
    UPDATE = "update"
    TIME = "time"
    TRAINING = "training"  # wall time without what lies between two attempts


STORED: dict[Axis, Literal["env_step", "episode", "update", "time"]] = {
    Axis.ENV_STEP: "env_step",
    Axis.EPISODE: "episode",
    Axis.UPDATE: "update",
    Axis.TIME: "time",
    Axis.TRAINING: "time",
}
"""Along what the store answers for an axis."""


def axis_title(axis: Axis) -> str:
    """Return what x means."""
    titles = {
        Axis.EPISODE: "Episode",
        Axis.ENV_STEP: "Environment steps",
        Axis.UPDATE: "Updates",
        Axis.TIME: "Wall time",
        Axis.TRAINING: "Training time",
    }
    return titles[axis]


UNITS = {Axis.EPISODE: "episodes", Axis.ENV_STEP: "steps", Axis.UPDATE: "updates"}
"""What is counted along an axis; the others are time."""


UNKNOWN = -1
"""Updates that were made by then, where nobody asked for them."""

RETURN = "return"
LENGTH = "length"
MEAN_RETURN = "mean_return"
"""Mean return over the last episodes (`stop.window`)."""
EPISODE_FIELDS = {RETURN: "total_return", LENGTH: "length", MEAN_RETURN: "mean_return"}
"""Where the row of an episode has the metrics that every episode has."""


@dataclass(frozen=True)
class CurveRows:
    """Rows in the order of storing, as columns of equal length `[N]`; each may stand for several."""

    row: NDArray[np.int64]  # row number (episodes) or update count: with the attempt it names a row for good
    attempt: NDArray[np.int64]  # attempt of each row
    episode: NDArray[np.int64]  # episodes finished up to it
    env_steps: NDArray[np.int64]  # environment steps up to it
    time: NDArray[np.float64]  # seconds since the epoch
    update: NDArray[np.int64]  # updates made by then; of episodes known along that axis only
    value: NDArray[np.float64]  # the metric, the mean of several; what is not finite became NaN
    low: NDArray[np.float64]  # least value
    high: NDArray[np.float64]  # greatest value
    count: NDArray[np.int64]  # how many it stands for: itself and those before it

    def __len__(self) -> int:
        return int(self.row.size)

    def where(self, chosen: NDArray[Any] | slice) -> Self:
        """Return some of the rows."""
        return type(self)(*(column[chosen] for column in self._columns))

    def axis(self, axis: Axis) -> NDArray[np.float64]:
        """Return x of each row, `[N]` float64; along training time the wall time."""
        columns = {
            Axis.EPISODE: self.episode,
            Axis.ENV_STEP: self.env_steps,
            Axis.UPDATE: self.update,
            Axis.TIME: self.time,
            Axis.TRAINING: self.time,
        }
        return columns[axis].astype(np.float64)

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        return cls.of([], [], [], [], [], [], [])

    @classmethod
    def of(
        cls, row: Any, attempt: Any, episode: Any, env_steps: Any, time: Any, update: Any, value: Any
    ) -> Self:
        """Return single rows from anything that can become an array."""
        values = np.asarray(value, np.float64)  # None becomes NaN, too
        values = np.where(np.isfinite(values), values, np.nan)
        return cls(
            np.asarray(row, np.int64),
            np.asarray(attempt, np.int64),
            np.asarray(episode, np.int64),
            np.asarray(env_steps, np.int64),
            np.asarray(time, np.float64),
            np.asarray(update, np.int64),
            *3 * (values,),
            np.ones(values.size, np.int64),
        )

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, one after the other."""
        return cls(*map(np.concatenate, zip(*(part._columns for part in parts), strict=True)))

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return tuple(vars(self).values())


def from_history(history: History) -> CurveRows:
    """Return the buckets of an answer to `history.query`."""
    # Rows of updates have their number.
    update = history.update or ([UNKNOWN] * len(history.row) if history.of_episodes else history.row)
    place = history.row, history.attempt, history.episode, history.env_steps, history.time, update
    rows = CurveRows.of(*place, history.value)
    low, high = np.asarray(history.low, np.float64), np.asarray(history.high, np.float64)
    return replace(rows, low=low, high=high, count=np.asarray(history.count, np.int64))


def from_episodes(rows: EpisodeRows, metric: str, update: int) -> CurveRows:
    """Return a metric of live episodes that ended after an update, NaN where an episode has none."""
    name = EPISODE_FIELDS.get(metric)
    values = getattr(rows, name) if name else rows.values.get(metric, [None] * len(rows.row))
    updates = [update] * len(rows.row)
    return CurveRows.of(rows.row, rows.attempt, rows.episode, rows.env_steps, rows.time, updates, values)


def from_update(row: UpdateRow | ResourceRow, metric: str) -> CurveRows | None:
    """Return a metric of one live update, or of what was used then; None when the row does not have it."""
    if metric not in row.values:
        return None
    place = [row.update], [row.attempt], [row.episodes], [row.env_steps], [row.time], [row.update]
    return CurveRows.of(*place, [row.values[metric]])


def attempt_start(row: AttemptRow) -> AttemptStart:
    """Return what the row of an attempt tells, as the history has it."""
    return AttemptStart.model_validate(row.model_dump(include=set(AttemptStart.model_fields)))


@dataclass(frozen=True)
class Mark:
    """One moment; what of its place is not known is NaN until a series tells it (`Series.placed`)."""

    episode: float  # episodes finished by then
    env_steps: float  # environment steps by then
    time: float  # seconds since the epoch
    text: str  # what happened
    update: float = math.nan  # updates made by then
    trained: float = math.nan  # seconds of training by then

    def x(self, axis: Axis) -> float:
        """Return where it stands."""
        places = {
            Axis.EPISODE: self.episode,
            Axis.ENV_STEP: self.env_steps,
            Axis.UPDATE: self.update,
            Axis.TIME: self.time,
            Axis.TRAINING: self.trained,
        }
        return places[axis]


def mark_at(marks: Sequence[Mark], axis: Axis, x: float, reach: float) -> Mark | None:
    """Return the mark nearest to a position, None when none is within reach."""
    near = [mark for mark in marks if abs(mark.x(axis) - x) <= reach]
    return min(near, key=lambda mark: abs(mark.x(axis) - x), default=None)
