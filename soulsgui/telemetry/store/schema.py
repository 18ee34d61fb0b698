"""Tables of the store, and the two ways to open it: to write and to read only."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soulsgui.errors import SoulsGuiError
from soulsgui.telemetry.store import blocks, evaluations, greedy

logger = logging.getLogger(__name__)

FORMAT = 1
"""Version of the tables, kept in `PRAGMA user_version`."""

# `row` is given by the writer, one by one, so that committed rows have no gaps. An entry id is stored as two
# big-endian unsigned 64-bit numbers: it sorts as the server sorts it. Values of updates stand in a table of
# their own, metric by metric: reading one curve touches only that curve.
_TABLES = """
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
CREATE TABLE updates (
    row INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    update_count INTEGER NOT NULL,
    env_steps INTEGER NOT NULL,
    episodes INTEGER NOT NULL,
    model_id INTEGER NOT NULL,
    time REAL NOT NULL,
    UNIQUE (attempt, update_count)
);
CREATE TABLE metrics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE update_values (
    metric INTEGER NOT NULL REFERENCES metrics (id),
    update_row INTEGER NOT NULL REFERENCES updates (row),
    value REAL,
    PRIMARY KEY (metric, update_row)
) WITHOUT ROWID;
CREATE TABLE attempts (
    attempt INTEGER PRIMARY KEY,
    update_count INTEGER NOT NULL,
    env_steps INTEGER NOT NULL,
    episodes INTEGER NOT NULL,
    model_id INTEGER NOT NULL,
    time REAL NOT NULL
);
CREATE TABLE checkpoints (
    row INTEGER PRIMARY KEY,
    attempt INTEGER NOT NULL,
    update_count INTEGER NOT NULL,
    env_steps INTEGER NOT NULL,
    episodes INTEGER NOT NULL,
    model_id INTEGER NOT NULL,
    time REAL NOT NULL,
    saved TEXT NOT NULL,
    path TEXT NOT NULL,
    UNIQUE (attempt, model_id, time, saved)
);
CREATE TABLE places (attempt INTEGER PRIMARY KEY, env_steps INTEGER NOT NULL, episodes INTEGER NOT NULL);
CREATE TABLE state (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""

_BUSY_S = 5.0


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
    """Move a damaged store, which nobody has open, out of the way with its log; return its new place.

    Raises:
        OSError: It can't be moved.
    """
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
    """Return what is said of a store that is damaged."""
    return DamagedStoreError(
        f"{path} is damaged: {error}.",
        "Telemetry sets it aside and begins a new one when the run is resumed; training is not affected.",
    )


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the store, making it when there is none.

    Raises:
        DamagedStoreError: It is damaged, or no store at all.
        StoreError: It can't be used, or is one of a newer version.
    """
    connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        version = _version(connection)
        if version not in (0, FORMAT):
            raise _newer(path, version)
        # Whole or not at all: somebody may read between two statements.
        tables = f"{_TABLES} PRAGMA user_version = {FORMAT};" if version == 0 else ""
        later = blocks.TABLES + evaluations.TABLES + greedy.TABLES
        connection.executescript(f"BEGIN IMMEDIATE; {tables} {later} COMMIT;")
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
    """Open the store read-only, as of this moment: later writes are not seen, and are not held up.

    Yields:
        The connection inside one read transaction; None when there is no store yet or it has no tables yet.

    Raises:
        StoreError: It is damaged, or of a newer version.
    """
    if not path.exists():
        yield None
        return
    connection = None
    try:
        connection = _connect_read_only(path)
        connection.execute("BEGIN")
        version = _version(connection)
        if version not in (0, FORMAT):
            raise _newer(path, version)
        yield connection if version else None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} can't be read: {error}.", "Its run can still be resumed.") from error
    finally:
        if connection is not None:
            connection.close()


def _connect_read_only(path: Path) -> sqlite3.Connection:
    uri = path.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=_BUSY_S, isolation_level=None)
    try:
        _version(connection)
    except sqlite3.OperationalError:
        # In a folder we can't write to, a store closed cleanly has no index of its log and none can be made.
        connection.close()
        if path.with_name(f"{path.name}-wal").exists():
            raise
        return sqlite3.connect(f"{uri}?immutable=1", uri=True, isolation_level=None)
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _newer(path: Path, version: int) -> StoreError:
    return StoreError(
        f"{path} has format {version}; this version of SoulsGUI knows format {FORMAT}.",
        "Use the version that wrote it, or a newer one.",
    )
