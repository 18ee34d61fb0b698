"""Rows of one metric as columns, whatever message they came in."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from soulsgui.wire.control import History
from soulsgui.wire.messages.metrics import EpisodeRows, UpdateRow


class Axis(StrEnum):
    """What x means; the values are those of `history.query`."""

    ENV_STEP = "env_step"
    EPISODE = "episode"
    TIME = "time"


RETURN = "return"
LENGTH = "length"
_EPISODE_FIELDS = {RETURN: "total_return", LENGTH: "length", "mean_return": "mean_return"}


@dataclass(frozen=True)
class Rows:
    """Rows in the order of storing, as columns of equal length `[N]`.

    Attributes:
        row: Row number (episodes) or update count: with the attempt it names a row for good.
        attempt: Attempt of each row.
        episode: Episodes finished up to it.
        env_steps: Environment steps up to it.
        time: Seconds since the epoch.
        value: The metric; what is not finite became NaN.
    """

    row: NDArray[np.int64]
    attempt: NDArray[np.int64]
    episode: NDArray[np.int64]
    env_steps: NDArray[np.int64]
    time: NDArray[np.float64]
    value: NDArray[np.float32]

    def __len__(self) -> int:
        return int(self.row.size)

    def where(self, chosen: NDArray[Any] | slice) -> Self:
        """Return some of the rows.

        Args:
            chosen: Mask, index or slice of them; a slice shares memory.
        """
        return type(self)(
            self.row[chosen],
            self.attempt[chosen],
            self.episode[chosen],
            self.env_steps[chosen],
            self.time[chosen],
            self.value[chosen],
        )

    def axis(self, axis: Axis) -> NDArray[np.float64]:
        """Return x of each row, `[N]` float64."""
        columns = {Axis.EPISODE: self.episode, Axis.ENV_STEP: self.env_steps, Axis.TIME: self.time}
        return columns[axis].astype(np.float64)

    @classmethod
    def empty(cls) -> Self:
        """Return no rows."""
        return cls.of([], [], [], [], [], [])

    @classmethod
    def of(cls, row: Any, attempt: Any, episode: Any, env_steps: Any, time: Any, value: Any) -> Self:
        """Return rows from anything that can become an array."""
        values = np.asarray(value, np.float64)
        return cls(
            np.asarray(row, np.int64),
            np.asarray(attempt, np.int64),
            np.asarray(episode, np.int64),
            np.asarray(env_steps, np.int64),
            np.asarray(time, np.float64),
            np.where(np.isfinite(values), values, np.nan).astype(np.float32),
        )

    def __add__(self, more: Self) -> Self:
        """Return these rows followed by more."""
        return type(self)(*(np.concatenate(pair) for pair in zip(self._columns, more._columns, strict=True)))

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.row, self.attempt, self.episode, self.env_steps, self.time, self.value


def from_history(history: History) -> Rows:
    """Return the rows of an answer to `history.query`."""
    return Rows.of(
        history.row, history.attempt, history.episode, history.env_steps, history.time, history.value
    )


def from_episodes(rows: EpisodeRows, metric: str) -> Rows | None:
    """Return a metric of live episodes, None when it is not one of episodes."""
    name = _EPISODE_FIELDS.get(metric)
    if name is None:
        return None
    return Rows.of(rows.row, rows.attempt, rows.episode, rows.env_steps, rows.time, getattr(rows, name))


def from_update(row: UpdateRow, metric: str) -> Rows | None:
    """Return a metric of one live update, None when the update does not have it."""
    if metric not in row.values:
        return None
    return Rows.of(
        [row.update], [row.attempt], [row.episodes], [row.env_steps], [row.time], [row.values[metric]]
    )
