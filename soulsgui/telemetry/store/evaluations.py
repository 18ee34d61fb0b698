"""Evaluations in the store: rows of their own beside the updates, in tables that older stores don't have."""

import sqlite3
import struct
from collections.abc import Callable, Iterator

from soulsgui.telemetry.aggregate import Best
from soulsgui.telemetry.intake import Complete, Played, enough
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.metrics import EVALUATION_RETURN, CheckpointRow, UpdateRow
from soulsgui.wire.messages.session import GreedyOrder

# The columns that say where a row stands, as `place_of` returns them.
PLACE = (
    "attempt INTEGER NOT NULL, update_count INTEGER NOT NULL, env_steps INTEGER NOT NULL,"
    " episodes INTEGER NOT NULL, model_id INTEGER NOT NULL, time REAL NOT NULL"
)
PLACE_NAMES = "attempt, update_count, env_steps, episodes, model_id, time"
TABLES = f"""
CREATE TABLE IF NOT EXISTS evaluations (row INTEGER PRIMARY KEY, {PLACE}, UNIQUE (attempt, update_count));
CREATE TABLE IF NOT EXISTS evaluation_values (
    metric TEXT NOT NULL,
    evaluation_row INTEGER NOT NULL REFERENCES evaluations (row),
    value REAL,
    PRIMARY KEY (metric, evaluation_row)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS greedy_played (
    client TEXT NOT NULL,
    entry BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    model_id INTEGER NOT NULL,
    number INTEGER NOT NULL,
    time REAL NOT NULL,
    total_return REAL NOT NULL,
    length INTEGER NOT NULL,
    terminated INTEGER NOT NULL,
    seconds REAL NOT NULL,
    env_index INTEGER NOT NULL,
    asked TEXT NOT NULL,
    cut INTEGER NOT NULL,
    PRIMARY KEY (attempt, model_id, client, number),
    UNIQUE (client, entry)
);
"""


def place_of(row: UpdateRow | CheckpointRow) -> tuple[int | float, ...]:
    """Return where a row stands, in the order of the columns of its table."""
    return row.attempt, row.update, row.env_steps, row.episodes, row.model_id, row.time


def has_evaluations(db: sqlite3.Connection) -> bool:
    """Whether a store has the tables: one of an earlier version gets them when it is written."""
    found = db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'evaluations'")
    return found.fetchone() is not None


def add_evaluation(db: sqlite3.Connection, row: UpdateRow) -> None:
    """Store one evaluation; of one that is stored already only what confirms a goal: it has more episodes."""
    if row.confirms is None and is_stored(db, row):
        return
    stored = db.execute(
        "INSERT INTO evaluations VALUES (NULL, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (attempt, update_count) DO UPDATE SET time = excluded.time RETURNING row",
        place_of(row),
    ).fetchone()
    db.executemany(
        "INSERT OR REPLACE INTO evaluation_values VALUES (?, ?, ?)",
        ((name, stored[0], value) for name, value in row.values.items()),
    )


def is_stored(db: sqlite3.Connection, row: UpdateRow) -> bool:
    """Whether there is an evaluation of this update already."""
    found = db.execute(
        "SELECT 1 FROM evaluations WHERE attempt = ? AND update_count = ?", (row.attempt, row.update)
    )
    return found.fetchone() is not None


def best_evaluated(db: sqlite3.Connection) -> Best | None:
    """Return the best evaluation, the earliest of equal ones; None before the first."""
    found = db.execute(
        "SELECT value, model_id FROM evaluation_values JOIN evaluations ON evaluations.row = evaluation_row"
        " WHERE metric = ? AND value IS NOT NULL ORDER BY value DESC, evaluations.row LIMIT 1",
        (EVALUATION_RETURN,),
    ).fetchone()
    return Best(*found) if found else None


def newest_evaluation(db: sqlite3.Connection) -> float | None:
    """Return the mean return of the newest evaluation that no later attempt overwrote; None before one."""
    found = db.execute(
        "SELECT value FROM evaluations JOIN evaluation_values ON evaluation_row = evaluations.row"
        " WHERE metric = ? AND value IS NOT NULL AND NOT EXISTS ("
        "SELECT 1 FROM attempts WHERE attempts.attempt > evaluations.attempt"
        " AND attempts.update_count < evaluations.update_count)"
        " ORDER BY evaluations.attempt DESC, evaluations.update_count DESC LIMIT 1",
        (EVALUATION_RETURN,),
    ).fetchone()
    return found[0] if found else None


def evaluation_metrics(db: sqlite3.Connection) -> list[str]:
    """Return the names of what evaluations tell, sorted."""
    if not has_evaluations(db):
        return []
    return [name for (name,) in db.execute("SELECT DISTINCT metric FROM evaluation_values ORDER BY metric")]


def last_evaluation(db: sqlite3.Connection) -> tuple[int, int]:
    """Return attempt and update of the last stored evaluation; zeros before the first."""
    if not has_evaluations(db):
        return 0, 0
    found = db.execute("SELECT attempt, update_count FROM evaluations ORDER BY row DESC LIMIT 1")
    return found.fetchone() or (0, 0)


_ENTRY = struct.Struct(">QQ")


class GreedyEpisodes:
    """The greedy episodes of one store: in a table of their own, on no curve of the training."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def knows(self, client: str, entry: EntryId) -> bool:
        """Whether an entry is stored already."""
        found = self._db.execute(
            "SELECT 1 FROM greedy_played WHERE client = ? AND entry = ?", (client, _ENTRY.pack(*entry))
        )
        return found.fetchone() is not None

    def add(self, played: Played, now: float) -> bool:
        """Store an episode; return whether it is its client's first one of its number in its evaluation."""
        (client, entry, one), order = played
        name = one.attempt, one.model_id, one.number
        figures = one.total_return, one.length, one.terminated, one.seconds, one.env_index
        stored = self._db.execute(
            f"INSERT OR IGNORE INTO greedy_played VALUES ({', '.join('?' * 13)})",
            (client, _ENTRY.pack(*entry), *name, now, *figures, order.to_json(), one.cut),
        )
        return stored.rowcount > 0

    def newest_complete(self, wanted: Callable[[GreedyOrder], bool] | None = None) -> Complete | None:
        """Return the newest evaluation of which enough is stored, as the median client played it, or None."""
        for order, whole in self._evaluations(wanted):
            if len(whole) >= order.players:
                in_order = sorted(whole.values(), key=lambda one: sum(one.returns) / len(one.returns))
                return in_order[(len(in_order) - 1) // 2]
        return None

    def newest_played(self) -> dict[str, Complete]:
        """Return what each client has played whole of the newest evaluation."""
        return next((whole for _, whole in self._evaluations()), {})

    def _evaluations(
        self, wanted: Callable[[GreedyOrder], bool] | None = None
    ) -> Iterator[tuple[GreedyOrder, dict[str, Complete]]]:
        """Iterate over the evaluations, newest first, with what each client has played whole."""
        orders = self._db.execute(
            "SELECT asked, group_concat(client) FROM greedy_played WHERE number = 0"
            " GROUP BY attempt, model_id ORDER BY attempt DESC, model_id DESC"
        )
        for asked, clients in orders:
            order = GreedyOrder.read(asked)
            if order is not None and (wanted is None or wanted(order)):
                played = ((client, self._played(order, client)) for client in clients.split(","))
                yield order, {client: one for client, one in played if one is not None}

    def _played(self, order: GreedyOrder, client: str) -> Complete | None:
        """Return what a client has played of an evaluation, when that is enough."""
        found = self._db.execute(
            "SELECT number, total_return, length, seconds, cut FROM greedy_played"
            " WHERE attempt = ? AND model_id = ? AND client = ? ORDER BY number",
            (order.attempt, order.model_id, client),
        )
        episodes = [told for index, (number, *told) in enumerate(found) if number == index]
        count = enough(order, [total_return for total_return, *_ in episodes])
        if count is None:
            return None
        returns, lengths, seconds, cut = zip(*episodes[:count], strict=True)
        return Complete(order, returns, lengths, sum(seconds), sum(cut))
