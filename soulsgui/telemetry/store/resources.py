"""What the processes of a run used, in the store: tables that older stores don't have."""

import sqlite3

from soulsgui.telemetry.store.evaluations import PLACE
from soulsgui.wire.messages.metrics import ResourceRow

TABLES = f"""
CREATE TABLE IF NOT EXISTS resources (row INTEGER PRIMARY KEY, {PLACE}, UNIQUE (attempt, time));
CREATE TABLE IF NOT EXISTS resource_values (
    metric TEXT NOT NULL,
    resource_row INTEGER NOT NULL REFERENCES resources (row),
    value REAL NOT NULL,
    PRIMARY KEY (metric, resource_row)
) WITHOUT ROWID;
"""
ROWS = (
    "SELECT metric, row, attempt, update_count AS number, episodes AS episode, env_steps, time, value"
    " FROM resource_values CROSS JOIN resources ON row = resource_row"
)


def has_resources(db: sqlite3.Connection) -> bool:
    """Whether a store has the tables: one of an earlier version gets them when it is written."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'resources'").fetchone() is not None


def add_resources(db: sqlite3.Connection, row: ResourceRow) -> None:
    """Store one row; one that is stored already stays as it is."""
    place = row.attempt, row.update, row.env_steps, row.episodes, row.model_id, row.time
    stored = db.execute("INSERT OR IGNORE INTO resources VALUES (NULL, ?, ?, ?, ?, ?, ?)", place)
    if stored.rowcount:
        values = ((name, stored.lastrowid, value) for name, value in row.values.items())
        db.executemany("INSERT INTO resource_values VALUES (?, ?, ?)", values)


def resource_metrics(db: sqlite3.Connection) -> list[str]:
    """Return the names of what the newest row tells, sorted."""
    if not has_resources(db):
        return []
    found = db.execute(
        "SELECT metric FROM resource_values WHERE resource_row = (SELECT max(row) FROM resources)"
    )
    return sorted(name for (name,) in found)
