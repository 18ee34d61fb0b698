"""Rows of the store rolled up, so that a curve of a million of them is read in a moment.

Every 16, 256 and 4096 rows of each metric and attempt are summed up in one row of `blocks`, in the
transaction that stores them. Stores of earlier versions have none until they are written again; they are read
row by row.
"""

import sqlite3
from itertools import pairwise

SIZES = (16, 256, 4096)
"""Rows in a block."""

_MOST_AT_ONCE = 200_000

EPISODE_METRICS = {"return": "total_return", "length": "length", "mean_return": "mean_return"}
"""Metrics of episodes, by the column that holds them; every other metric is one of updates or evaluations."""

# `first` and `last` are rows, `number` is what names the last one on the curve. Each axis has its first and
# its last place.
TABLES = """
CREATE TABLE IF NOT EXISTS blocks (
    metric TEXT NOT NULL,
    size INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    block INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    number INTEGER NOT NULL,
    first_episode INTEGER NOT NULL,
    episode INTEGER NOT NULL,
    first_env_steps INTEGER NOT NULL,
    env_steps INTEGER NOT NULL,
    first_time REAL NOT NULL,
    time REAL NOT NULL,
    count INTEGER NOT NULL,
    low REAL NOT NULL,
    high REAL NOT NULL,
    total REAL NOT NULL,
    PRIMARY KEY (metric, size, attempt, block)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS rolled_up (source TEXT PRIMARY KEY, row INTEGER NOT NULL) WITHOUT ROWID;
"""


def episode_rows(metric: str) -> str:
    """Return the query for the rows of one metric of episodes."""
    return (
        f"SELECT '{metric}' AS metric, row, attempt, row AS number, episode, env_steps, time, client,"
        f" CAST({EPISODE_METRICS[metric]} AS REAL) AS value FROM episodes"
    )


UPDATE_ROWS = (
    "SELECT name AS metric, row, attempt, update_count AS number, episodes AS episode, env_steps, time, value"
    " FROM metrics CROSS JOIN update_values ON metric = metrics.id CROSS JOIN updates ON row = update_row"
    " WHERE value IS NOT NULL"
)
EVALUATION_ROWS = (
    "SELECT metric, row, attempt, update_count AS number, episodes AS episode, env_steps, time, value"
    " FROM evaluation_values CROSS JOIN evaluations ON row = evaluation_row WHERE value IS NOT NULL"
)

_SOURCES = {
    "episodes": ("row", [episode_rows(metric) + " WHERE" for metric in EPISODE_METRICS]),
    "updates": ("update_row", [UPDATE_ROWS + " AND"]),
}
_METRICS = {
    "episodes": ", ".join(f"'{metric}'" for metric in EPISODE_METRICS),
    "updates": "SELECT name FROM metrics",
}


def rolled_up_to(db: sqlite3.Connection, source: str) -> int:
    """Return the last row of `episodes` or `updates` that is in a block; -1 for a store without blocks."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'rolled_up'").fetchone():
        return -1
    found = db.execute("SELECT row FROM rolled_up WHERE source = ?", (source,)).fetchone()
    return found[0] if found else 0


def roll_up(db: sqlite3.Connection) -> bool:
    """Bring the blocks up to the last stored row, within the transaction that is open.

    Returns:
        Whether they are; of a long store without blocks only so much is done at once.
    """
    whole = True
    for source, (row, queries) in _SOURCES.items():
        done = rolled_up_to(db, source)
        last = db.execute(f"SELECT coalesce(max(row), 0) FROM {source}").fetchone()[0]
        if last == done:
            continue
        whole &= last <= done + _MOST_AT_ONCE
        last = min(last, done + _MOST_AT_ONCE)
        for query in queries:
            db.execute(
                f"INSERT OR REPLACE INTO blocks SELECT metric, {SIZES[0]}, attempt, (row - 1) / {SIZES[0]},"
                " min(row), max(row), max(number), min(episode), max(episode), min(env_steps),"
                " max(env_steps), min(time), max(time), count(*), min(value), max(value), sum(value)"
                f" FROM ({query} {row} > ? AND {row} <= ?) GROUP BY 1, 3, 4",
                # The block that is not full yet is summed up anew.
                (done // SIZES[0] * SIZES[0], last),
            )
        for below, size in pairwise(SIZES):
            db.execute(
                f"INSERT OR REPLACE INTO blocks SELECT metric, {size}, attempt, (first - 1) / {size},"
                " min(first), max(last), max(number), min(first_episode), max(episode),"
                " min(first_env_steps), max(env_steps), min(first_time), max(time), sum(count), min(low),"
                f" max(high), sum(total) FROM blocks WHERE metric IN ({_METRICS[source]})"
                f" AND size = {below} AND block >= ?1 / {below}"
                f" AND attempt IN (SELECT attempt FROM {source} WHERE row > ?1) GROUP BY 1, 3, 4",
                (done // size * size,),
            )
        db.execute("INSERT OR REPLACE INTO rolled_up VALUES (?, ?)", (source, last))
    return whole
