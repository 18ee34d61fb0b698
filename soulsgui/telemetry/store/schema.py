"""Tables of the store, its rows summed up in blocks, and opening it to write or to read only."""

import functools
import logging
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

from soulsgui.errors import SoulsGuiError
from soulsgui.telemetry.store import evaluations, resources
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.metrics import AttemptStart

logger = logging.getLogger(__name__)

FORMAT = 1  # version of the tables, kept in `PRAGMA user_version`

# `row` is given by the writer, one by one, so that committed rows have no gaps. An entry id is stored as two
# big-endian unsigned 64-bit numbers: it sorts as the server sorts it. Values of updates stand in a table of
# their own, metric by metric: reading one curve touches only that curve.
_TABLES = f"""
CREATE TABLE clients (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE episodes (
    row INTEGER PRIMARY KEY,
    client INTEGER NOT NULL REFERENCES clients (id),
    entry BLOB NOT NULL,
    attempt INTEGER NOT NULL,
    episode INTEGER NOT NULL,
    env_steps INTEGER NOT NULL,
    time REAL NOT NULL,
    total_return REAL NOT NULL,
    length INTEGER NOT NULL,
    terminated INTEGER NOT NULL,
    model_id INTEGER NOT NULL,
    seconds REAL NOT NULL,
    env_index INTEGER NOT NULL,
    mean_return REAL NOT NULL
);
CREATE UNIQUE INDEX episode_entries ON episodes (client, entry);
CREATE TABLE updates (row INTEGER PRIMARY KEY, {evaluations.PLACE}, UNIQUE (attempt, update_count));
CREATE TABLE metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE update_values (
    metric INTEGER NOT NULL REFERENCES metrics (id),
    update_row INTEGER NOT NULL REFERENCES updates (row),
    value REAL,
    PRIMARY KEY (metric, update_row)
) WITHOUT ROWID;
CREATE TABLE attempts ({evaluations.PLACE}, PRIMARY KEY (attempt));
CREATE TABLE checkpoints (
    row INTEGER PRIMARY KEY,
    {evaluations.PLACE},
    saved TEXT NOT NULL,
    path TEXT NOT NULL,
    UNIQUE (attempt, model_id, time, saved)
);
CREATE TABLE places (attempt INTEGER PRIMARY KEY, env_steps INTEGER NOT NULL, episodes INTEGER NOT NULL);
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""

# What stores of earlier versions have in its place.
_EARLIER_ATTEMPTS = f"CREATE TABLE attempts ({evaluations.PLACE.replace('NOT NULL', 'PRIMARY KEY', 1)})"

_BUSY_S = 5.0
# A stranger may have written it.
_LONGEST_READ_S = 60.0
_LONGEST_VALUE_BYTES = 2**20
_OPERATIONS_BETWEEN_LOOKS = 1_000_000


class StoreError(SoulsGuiError):
    """The store of a run is damaged or of a newer version of the program."""


class DamagedStoreError(StoreError):
    """The store of a run can't be read any more, and won't ever be."""


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is damaged, not that it is in use or that the disk is full."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGE


def set_aside(path: Path) -> Path:
    """Move a damaged store, which nobody has open, out of the way with its log; return its new place."""
    aside, number = path.with_name(f"{path.name}.damaged"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.damaged-{number}")
    for end in ("", "-wal", "-shm"):
        part = path.with_name(path.name + end)
        if part.exists():
            part.replace(aside.with_name(aside.name + end))
    return aside


def damaged(path: Path, error: Exception) -> DamagedStoreError:
    """Return the error for a damaged store."""
    return DamagedStoreError(
        f"{path} is damaged: {error}.",
        "Telemetry sets it aside and begins a new one when the run is resumed; training is not affected.",
    )


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the store, making it when there is none."""
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA cache_size = -500")  # KiB; rows are added, and hardly read again
        version = _version(connection)
        if version not in (0, FORMAT):
            raise _newer(path, version)
        # Whole or not at all: somebody may read between two statements.
        tables = f"{_TABLES} PRAGMA user_version = {FORMAT};" if version == 0 else ""
        connection.executescript(f"BEGIN IMMEDIATE; {tables} {_later_tables()} COMMIT;")
        _refuse_other_tables(connection)
    except sqlite3.DatabaseError as error:
        connection.close()
        if is_damage(error):
            raise damaged(path, error) from error
        raise StoreError(
            f"{path} can't be used: {error}.",
            "Move the file away; telemetry then begins a new one, and training is not affected.",
        ) from error
    except StoreError:
        connection.close()
        raise
    return connection


@contextmanager
def open_for_reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open the store read-only, as of this moment: later writes are not seen, and are not held up."""
    if not path.exists():
        yield None
        return
    for part in (path.with_name(path.name + end) for end in ("", "-wal", "-shm")):
        if part.exists() and not part.is_file():  # to open a pipe might never end
            raise StoreError(f"{part} is not a file.", "Remove it: its run can still be resumed.")
    connection = None
    try:
        connection = _connect_read_only(path)
        connection.execute("BEGIN")
        version = _version(connection)
        if version not in (0, FORMAT):
            raise _newer(path, version)
        _refuse_other_tables(connection)
        yield connection if version else None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} can't be read: {error}.", "Its run can still be resumed.") from error
    finally:
        if connection is not None:
            connection.close()


def _connect_read_only(path: Path) -> sqlite3.Connection:
    until = time.monotonic() + _LONGEST_READ_S

    def connect(how: str) -> sqlite3.Connection:
        uri = f"{path.absolute().as_uri()}?{how}"
        connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, isolation_level=None)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE_BYTES)
        connection.set_progress_handler(lambda: time.monotonic() > until, _OPERATIONS_BETWEEN_LOOKS)
        return connection

    connection = connect("mode=ro")
    try:
        _version(connection)
    except sqlite3.OperationalError:
        # In a folder we can't write to, a store closed cleanly has no index of its log and none can be made.
        connection.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise
        return connect("immutable=1")
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _later_tables() -> str:
    return _BLOCK_TABLES + evaluations.TABLES + VALUE_TABLES + resources.TABLES


def _statements(connection: sqlite3.Connection) -> list[str]:
    # The names and kinds that stand beside them are their writer's word alone.
    found = connection.execute("SELECT CAST(sql AS TEXT) FROM sqlite_master WHERE sql NOT NULL")
    return [sql for (sql,) in found]


def _without_blanks(sql: str) -> str:
    return "".join(sql.split())


@functools.cache
def _own_statements() -> list[str]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_TABLES + _later_tables())
        return [_without_blanks(sql) for sql in (*_statements(db), _EARLIER_ATTEMPTS)]


def _refuse_other_tables(connection: sqlite3.Connection) -> None:
    """Raise unless the tables are ours, but for what nothing reads: tables of other names.

    A view, a trigger or a column that is computed might take any time and memory.
    """
    own = _own_statements()
    for sql in _statements(connection):
        table = re.match(r"CREATE TABLE [a-z_]+ ?\(", sql)
        is_other = table and not any(one.startswith(_without_blanks(table[0])) for one in own)
        if not is_other and _without_blanks(sql) not in own:
            raise sqlite3.DatabaseError("it holds tables, views or triggers that no run writes")


def _newer(path: Path, version: int) -> StoreError:
    return StoreError(
        f"{path} has format {version}; this version of SoulsGUI knows format {FORMAT}.",
        "Use the version that wrote it, or a newer one.",
    )


def attempt_starts(db: sqlite3.Connection) -> list[AttemptStart]:
    """Return where each attempt begins, in order."""
    columns = "attempt, update_count, env_steps, episodes, time"
    found = db.execute(f"SELECT {columns} FROM attempts ORDER BY attempt")
    return [AttemptStart(**dict(zip(AttemptStart.model_fields, row, strict=True))) for row in found]


SUMMARY = "standing"  # key of the newest `ScoreSummary` in the table `state`


class ScoreSummary(Message):
    """What the episodes amounted to after the last stored one."""

    window: int
    goal: float | None = None
    attempt: int = 0
    mean_return: float | None = None
    best_score: float | None = None
    best_model_id: int | None = None
    reached: bool = False
    reached_with: float | None = None
    refuted: int = -1
    claims_in: int = 0


def read_state(db: sqlite3.Connection, key: str) -> str | None:
    """Return what the table `state` holds under a key."""
    found = db.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
    return found[0] if found else None


def read_summary(db: sqlite3.Connection) -> ScoreSummary | None:
    """Return where the run stands, None before the first row."""
    return ScoreSummary.read(read_state(db, SUMMARY))


# Every 16, 256 and 4096 rows of each metric and attempt are summed up in one row of `blocks`, in the
# transaction that stores them, so that a curve of a million rows is read quickly. Stores of earlier versions
# have no blocks until they are written again; they are read row by row.
BLOCK_SIZES = (16, 256, 4096)  # rows in a block

_MOST_AT_ONCE = 200_000

# Of `telemetry.metrics`: values by metric, as those of updates are.
VALUE_TABLES = """
CREATE TABLE IF NOT EXISTS episode_metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS episode_values (
    metric INTEGER NOT NULL REFERENCES episode_metrics (id),
    row INTEGER NOT NULL REFERENCES episodes (row),
    value REAL NOT NULL,
    PRIMARY KEY (metric, row)
) WITHOUT ROWID;
"""

EPISODE_METRICS = {"return": "total_return", "length": "length", "mean_return": "mean_return"}
"""Metrics of episodes, by the column that holds them; every other metric is one of updates or evaluations."""

# `first` and `last` are rows, `number` is what names the last one on the curve. Each axis has its first and
# its last place.
_BLOCK_TABLES = """
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
VALUE_ROWS = (
    "SELECT name AS metric, row, attempt, row AS number, episode, env_steps, time, client, value"
    " FROM episode_metrics CROSS JOIN episode_values ON metric = id CROSS JOIN episodes USING (row)"
)
EVALUATION_ROWS = (
    "SELECT metric, row, attempt, update_count AS number, episodes AS episode, env_steps, time, value"
    " FROM evaluation_values CROSS JOIN evaluations ON row = evaluation_row WHERE value IS NOT NULL"
)

_SOURCES = {
    "episodes": (
        "row",
        [*(episode_rows(metric) + " WHERE" for metric in EPISODE_METRICS), VALUE_ROWS + " WHERE"],
    ),
    "updates": ("update_row", [UPDATE_ROWS + " AND"]),
}
_METRICS = {
    "episodes": " UNION ALL ".join([f"SELECT '{metric}'" for metric in EPISODE_METRICS])
    + " UNION ALL SELECT name FROM episode_metrics",
    "updates": "SELECT name FROM metrics",
}


def value_metrics(db: sqlite3.Connection) -> list[str]:
    """Return the names of the metrics of episodes that were configured, sorted; older stores have none."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'episode_metrics'").fetchone():
        return []
    return [name for (name,) in db.execute("SELECT name FROM episode_metrics ORDER BY name")]


def rolled_up_to(db: sqlite3.Connection, source: str) -> int:
    """Return the last row of `episodes` or `updates` that is in a block; -1 for a store without blocks."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'rolled_up'").fetchone():
        return -1
    found = db.execute("SELECT row FROM rolled_up WHERE source = ?", (source,)).fetchone()
    return found[0] if found else 0


def roll_up(db: sqlite3.Connection) -> bool:
    """Bring the blocks up to the last row, in the open transaction; return whether all of it was done."""
    whole, smallest = True, BLOCK_SIZES[0]
    for source, (row, queries) in _SOURCES.items():
        done = rolled_up_to(db, source)
        last = db.execute(f"SELECT coalesce(max(row), 0) FROM {source}").fetchone()[0]
        if last == done:
            continue
        whole &= last <= done + _MOST_AT_ONCE
        last = min(last, done + _MOST_AT_ONCE)
        for query in queries:
            db.execute(
                f"INSERT OR REPLACE INTO blocks SELECT metric, {smallest}, attempt, (row - 1) / {smallest},"
                " min(row), max(row), max(number), min(episode), max(episode), min(env_steps),"
                " max(env_steps), min(time), max(time), count(*), min(value), max(value), sum(value)"
                f" FROM ({query} {row} > ? AND {row} <= ?) GROUP BY 1, 3, 4",
                # The block that is not full yet is summed up anew.
                (done // smallest * smallest, last),
            )
        for below, size in pairwise(BLOCK_SIZES):
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
