"""What a run has recorded, read from its store in order, behind a cursor."""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from soulsgui.telemetry.store import evaluations, resources
from soulsgui.telemetry.store.evaluations import PLACE_NAMES
from soulsgui.telemetry.store.schema import open_for_reading, value_metrics
from soulsgui.wire.messages.base import Message

_MOST_EPISODES = 20_000  # read at once
_MOST_UPDATES = 2_000


class Record(NamedTuple):
    """One thing that was recorded.

    `env_steps`, `episodes` and `update` say where on the curve; of an episode no update is known, of an event
    none of them.
    """

    kind: Literal["episode", "update", "evaluation", "resources", "checkpoint", "attempt", "event"]
    time: float
    values: dict[str, float] = {}  # noqa: RUF012  never changed
    attempt: int = 0
    update: int = 0
    env_steps: int = 0
    episodes: int = 0
    model_id: int = -1
    client: str = ""
    text: str = ""


class Cursor(Message):
    """The last rows of the store, and the last event, that were taken."""

    episodes: int = 0
    updates: int = 0
    evaluations: int = 0
    resources: int = 0
    checkpoints: int = 0
    attempts: int = 0
    event: int = 0


def end_of(path: Path) -> Cursor:
    """Return the cursor behind everything that a store holds."""
    with open_for_reading(path) as db:
        if db is None:
            return Cursor()
        columns = {"episodes": "row", "updates": "row", "checkpoints": "row", "attempts": "attempt"}
        if evaluations.has_evaluations(db):
            columns["evaluations"] = "row"
        if resources.has_resources(db):
            columns["resources"] = "row"
        ends = {table: f"SELECT coalesce(max({column}), 0) FROM {table}" for table, column in columns.items()}
        return Cursor(**{table: db.execute(query).fetchone()[0] for table, query in ends.items()})


def read_records(path: Path, cursor: Cursor) -> tuple[list[Record], Cursor]:
    """Return what is behind the cursor, a bounded number, and the cursor behind that.

    Raises:
        StoreError: The store can't be read.
    """
    with open_for_reading(path) as db:
        if db is None:
            return [], cursor
        last = db.execute("SELECT coalesce(max(row), 0) FROM episodes").fetchone()[0]
        if last < cursor.episodes:  # the store was damaged, and begun anew
            cursor = Cursor(event=cursor.event)
        found, rows = list[Record](), cursor.model_dump()
        for kind, read in _READERS.items():
            for row, record in read(db, rows[kind]):
                found.append(record)
                rows[kind] = row
        found.sort(key=lambda record: record.time)  # stable: of one moment, as they were stored
        return found, Cursor(**rows)


def read_markers(path: Path) -> list[Record]:
    """Return all attempts and checkpoints of a store.

    Raises:
        StoreError: It can't be read.
    """
    with open_for_reading(path) as db:
        return [] if db is None else [one for read in (_attempts, _checkpoints) for _, one in read(db, 0)]


def _episodes(db: sqlite3.Connection, after: int) -> Iterator[tuple[int, Record]]:
    rows = db.execute(
        "SELECT row, time, total_return, length, seconds, mean_return, attempt, env_steps, episode, model_id,"
        " name FROM episodes JOIN clients ON clients.id = client WHERE row > ? ORDER BY row LIMIT ?",
        (after, _MOST_EPISODES),
    )
    configured: defaultdict[int, dict[str, float]] = defaultdict(dict)
    if value_metrics(db):
        told = db.execute(
            "SELECT row, name, value FROM episode_metrics CROSS JOIN episode_values ON metric = id"
            " AND row > ? AND row <= ?",
            (after, after + _MOST_EPISODES),
        )
        for row, name, value in told:
            configured[row][name] = value
    for row, time, total, length, seconds, mean, attempt, env_steps, episode, model_id, client in rows:
        values = {"return": total, "length": float(length), "seconds": seconds, "mean_return": mean}
        values |= configured[row]
        yield row, Record("episode", time, values, attempt, 0, env_steps, episode, model_id, client)


def _updates(db: sqlite3.Connection, after: int) -> Iterator[tuple[int, Record]]:
    values = (
        "SELECT update_row, name, value FROM metrics CROSS JOIN update_values ON metric = metrics.id"
        " AND update_row > ? AND update_row <= ? WHERE value IS NOT NULL"
    )
    return _points(db, "update", "updates", values, after)


def _evaluations(db: sqlite3.Connection, after: int) -> Iterator[tuple[int, Record]]:
    if not evaluations.has_evaluations(db):
        return iter(())
    values = (
        "SELECT evaluation_row, metric, value FROM evaluation_values"
        " WHERE evaluation_row > ? AND evaluation_row <= ? AND value IS NOT NULL"
    )
    return _points(db, "evaluation", "evaluations", values, after)


def _resources(db: sqlite3.Connection, after: int) -> Iterator[tuple[int, Record]]:
    last = db.execute("SELECT max(row) FROM resources").fetchone()[0] if resources.has_resources(db) else 0
    if not last or last <= after:  # nothing new: to find that out by their values takes long
        return iter(())
    values = (
        "SELECT resource_row, metric, value FROM resource_values WHERE resource_row > ? AND resource_row <= ?"
    )
    return _points(db, "resources", "resources", values, after)


def _points(
    db: sqlite3.Connection,
    kind: Literal["update", "evaluation", "resources"],
    table: str,
    values: str,
    after: int,
) -> Iterator[tuple[int, Record]]:
    """Yield rows of a table after one, with their values: by row, name and value, of rows between two."""
    between = after, after + _MOST_UPDATES
    told: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for row, name, value in db.execute(values, between):
        told[row][name] = value
    rows = db.execute(
        f"SELECT row, {PLACE_NAMES} FROM {table} WHERE row > ? AND row <= ? ORDER BY row", between
    )
    for row, attempt, update, env_steps, episodes, model_id, time in rows:
        yield row, Record(kind, time, told[row], attempt, update, env_steps, episodes, model_id)


def _checkpoints(db: sqlite3.Connection, after: int) -> Iterator[tuple[int, Record]]:
    rows = db.execute(
        f"SELECT row, {PLACE_NAMES}, saved FROM checkpoints WHERE row > ? ORDER BY row", (after,)
    )
    for row, attempt, update, env_steps, episodes, model_id, time, saved in rows:
        text = f"checkpoint saved ({saved})"
        yield row, Record("checkpoint", time, {}, attempt, update, env_steps, episodes, model_id, text=text)


def _attempts(db: sqlite3.Connection, after: int) -> Iterator[tuple[int, Record]]:
    rows = db.execute(f"SELECT {PLACE_NAMES} FROM attempts WHERE attempt > ? ORDER BY attempt", (after,))
    for attempt, update, env_steps, episodes, model_id, time in rows:
        text = f"attempt {attempt} begins"
        yield attempt, Record("attempt", time, {}, attempt, update, env_steps, episodes, model_id, text=text)


_READERS = {
    "attempts": _attempts,
    "episodes": _episodes,
    "updates": _updates,
    "evaluations": _evaluations,
    "resources": _resources,
    "checkpoints": _checkpoints,
}
"""By the field of the cursor."""


def thinned(records: Iterable[Record], points: int) -> list[Record]:
    """Return records with the episodes of each kind summed up, as means, in at most so many points."""
    records = list(records)
    episodes = [record for record in records if record.kind == "episode"]
    if len(episodes) <= points:
        return records
    others = [record for record in records if record.kind != "episode"]
    size = -(-len(episodes) // points)
    for first in range(0, len(episodes), size):
        part = episodes[first : first + size]
        told = {name: [one.values[name] for one in part if name in one.values] for name in part[-1].values}
        means = {name: sum(told[name]) / len(told[name]) for name in told if name != "mean_return"}
        others.append(part[-1]._replace(values=part[-1].values | means, client=""))
    return sorted(others, key=lambda record: record.time)
