"""What a run has come to, in a few numbers: for the library of runs."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soulsgui.telemetry.store.schema import open_for_reading
from soulsgui.telemetry.store.standing import read_standing


@dataclass(frozen=True)
class StoreSummary:
    """A run in a few numbers; those of its newest attempt, which goes on where it was resumed from.

    Attributes:
        env_steps: Environment steps on the curve.
        episodes: Finished episodes on the curve.
        updates: Updates on the curve.
        best_mean_return: Best mean of `stop.window` episodes of any attempt, None before there is one.
        mean_return: Mean of the last `stop.window` episodes, None before the first.
        first_time: When the first row was written, seconds since the epoch; None without rows.
        last_time: When the last row was written.
    """

    env_steps: int = 0
    episodes: int = 0
    updates: int = 0
    best_mean_return: float | None = None
    mean_return: float | None = None
    first_time: float | None = None
    last_time: float | None = None


def summary(path: Path) -> StoreSummary:
    """Return the summary of a store; all zero when there is none.

    Raises:
        StoreError: The store is damaged, or of a newer version.
    """
    with open_for_reading(path) as db:
        return StoreSummary() if db is None else _summarise(db)


def _summarise(db: sqlite3.Connection) -> StoreSummary:
    attempt = _newest_attempt(db)
    start = _found(db, "SELECT env_steps, episodes, update_count FROM attempts WHERE attempt = ?", attempt)
    place = _found(db, "SELECT env_steps, episodes FROM places WHERE attempt = ?", attempt)
    update = _found(db, "SELECT max(env_steps), max(update_count) FROM updates WHERE attempt = ?", attempt)
    standing = read_standing(db)
    times = _times(db)
    return StoreSummary(
        # The trainer also counts the steps of unfinished episodes: the larger number is the later one.
        env_steps=max(_whole(start[0]), _whole(place[0]), _whole(update[0])),
        episodes=_whole(start[1] if place[1] is None else place[1]),
        updates=max(_whole(start[2]), _whole(update[1])),
        best_mean_return=standing.best_score if standing else None,
        mean_return=standing.mean_return if standing else None,
        first_time=min(times, default=None),
        last_time=max(times, default=None),
    )


def _found(db: sqlite3.Connection, sql: str, value: Any) -> tuple[Any, ...]:
    """Return the one row of a query, with None for each column when there is none."""
    row: tuple[Any, ...] | None = db.execute(sql, (value,)).fetchone()
    return (None, None, None) if row is None else row


def _whole(number: int | None) -> int:
    return number or 0


def _newest_attempt(db: sqlite3.Connection) -> int:
    found = db.execute("SELECT max(attempt) FROM attempts UNION ALL SELECT max(attempt) FROM places")
    return max(_whole(attempt) for (attempt,) in found)


def _times(db: sqlite3.Connection) -> list[float]:
    """Return the times of the first and the last row of each kind: one look-up each, however long the run."""
    times: list[float] = []
    for table in ("episodes", "updates", "attempts", "checkpoints"):
        for order in ("ASC", "DESC"):
            row = db.execute(f"SELECT time FROM {table} ORDER BY rowid {order} LIMIT 1").fetchone()
            times += row or ()
    return times
