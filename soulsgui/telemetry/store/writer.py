"""Writing the store: only the telemetry node does."""

import sqlite3
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from soulsgui.telemetry.curve import Limits, Place
from soulsgui.telemetry.greedy import Complete, evaluation_row
from soulsgui.telemetry.store.attempts import attempt_starts
from soulsgui.telemetry.store.blocks import roll_up
from soulsgui.telemetry.store.evaluations import (
    Evaluated,
    add_evaluation,
    best_evaluated,
    is_stored,
    last_evaluation,
    newest_evaluation,
)
from soulsgui.telemetry.store.greedy import GreedyEpisodes
from soulsgui.telemetry.store.schema import damaged, open_for_writing
from soulsgui.telemetry.store.standing import STANDING, Standing, read_standing, read_state
from soulsgui.wire.control import AttemptStart
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.messages.metrics import AttemptRow, CheckpointRow, UpdateRow

_ENTRY = struct.Struct(">QQ")
_CURSOR = "metrics_cursor"
_MARKS = ", ".join("?" * 14)


class EpisodeRecord(NamedTuple):
    """One stored episode; the fields are those of `wire.messages.metrics.EpisodeRows` and of `Episode`."""

    row: int
    client: str
    entry: EntryId
    attempt: int
    episode: int
    env_steps: int
    time: float
    total_return: float
    length: int
    terminated: bool
    model_id: int
    seconds: float
    env_index: int
    mean_return: float


class StoreWriter:
    """The one writer of a store. Every change is made within `transaction`.

    Args:
        path: The file; it is made when there is none.

    Raises:
        DamagedStoreError: The file is damaged, or not a store.
        StoreError: It is one of a newer version.

    Attributes:
        greedy: The greedy episodes of clients.
    """

    def __init__(self, path: Path) -> None:
        self._db = open_for_writing(path)
        self.greedy = GreedyEpisodes(self._db)
        try:
            self._load()
            rolled_up = False
            while not rolled_up:  # An earlier version may have stored rows that are in no block.
                self._db.execute("BEGIN IMMEDIATE")
                rolled_up = roll_up(self._db)
                self._db.execute("COMMIT")
        except (sqlite3.DatabaseError, struct.error, TypeError) as error:
            self._db.close()
            if isinstance(error, sqlite3.OperationalError) and not str(error).startswith("no such "):
                raise  # in use, or the disk is full: it passes
            raise damaged(path, error) from error

    def _load(self) -> None:
        db = self._db
        self._clients: dict[str, int] = dict(db.execute("SELECT name, id FROM clients").fetchall())
        self._metrics: dict[str, int] = dict(db.execute("SELECT name, id FROM metrics").fetchall())
        self._last_row: int = db.execute("SELECT coalesce(max(row), 0) FROM episodes").fetchone()[0]
        newest = db.execute(
            "SELECT name, (SELECT max(entry) FROM episodes WHERE client = clients.id) FROM clients"
        )
        self._newest = {name: EntryId(*_ENTRY.unpack(entry)) for name, entry in newest if entry is not None}

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # --- what is in it -----------------------------------------------------------------------------

    @property
    def last_row(self) -> int:
        """Number of the last episode's row, 0 before the first."""
        return self._last_row

    @property
    def cursor(self) -> EntryId:
        """Last entry of the `metrics` stream that was taken in."""
        text = read_state(self._db, _CURSOR)
        return EntryId.parse(text) if text else EntryId(0, 0)

    @property
    def standing(self) -> Standing | None:
        """What the episodes amount to, None before the first."""
        return read_standing(self._db)

    @property
    def best_evaluated(self) -> Evaluated | None:
        """The best evaluation, None before the first."""
        return best_evaluated(self._db)

    @property
    def newest_evaluation(self) -> float | None:
        """Mean return of the newest evaluation that no later attempt overwrote, None before one."""
        return newest_evaluation(self._db)

    def evaluation_due(self, run_id: str, found: Complete) -> UpdateRow | None:
        """Return the row of an evaluation by a client; None when it is stored already."""
        row = evaluation_row(run_id, found, last_evaluation(self._db))
        return None if is_stored(self._db, row) else row

    def starts(self) -> list[AttemptStart]:
        """Where each attempt begins, in order."""
        return attempt_starts(self._db)

    def places(self) -> dict[int, Place]:
        """How far each attempt with episodes has come."""
        found = self._db.execute("SELECT attempt, env_steps, episodes FROM places")
        return {attempt: Place(env_steps, episodes) for attempt, env_steps, episodes in found}

    def knows(self, client: str, entry: EntryId) -> bool:
        """Whether an entry is stored already."""
        newest = self._newest.get(client)
        if newest is None or entry > newest:
            return False
        found = self._db.execute(
            "SELECT 1 FROM episodes WHERE client = ? AND entry = ?",
            (self._clients[client], _ENTRY.pack(*entry)),
        )
        return found.fetchone() is not None

    def curve_end(self, n: int) -> list[tuple[int, float, int]]:
        """Return (attempt, return, model id) of the last `n` episodes nothing overwrote, oldest first."""
        limits = Limits(self.starts())
        found: list[tuple[int, float, int]] = []
        rows = self._db.execute(
            "SELECT attempt, total_return, model_id, env_steps, episode FROM episodes ORDER BY row DESC"
        )
        for attempt, total_return, model_id, env_steps, episode in rows:
            if not limits.of(attempt).overwrites_episode(env_steps, episode):
                found.append((attempt, total_return, model_id))
                if len(found) == n:
                    break
        rows.close()
        return found[::-1]

    def returns(self) -> Iterable[tuple[int, float, int]]:
        """Iterate over (attempt, return, model id) of every episode, in the order of storing."""
        return self._db.execute("SELECT attempt, total_return, model_id FROM episodes ORDER BY row")

    def episodes_after(self, row: int, n: int) -> list[EpisodeRecord]:
        """Return up to `n` episodes behind a row, oldest first."""
        found = self._db.execute(
            "SELECT row, name, entry, attempt, episode, env_steps, time, total_return, length, terminated,"
            " model_id, seconds, env_index, mean_return FROM episodes JOIN clients ON clients.id = client"
            " WHERE row > ? ORDER BY row LIMIT ?",
            (row, n),
        )
        return [
            EpisodeRecord(row, name, EntryId(*_ENTRY.unpack(entry)), *rest)
            for row, name, entry, *rest in found
        ]

    # --- changes -----------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes made within become visible together, or none.

        Raises:
            sqlite3.Error: They could not be stored (disk full, …); nothing has changed.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            roll_up(self._db)
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk rolls back by itself
                self._db.execute("ROLLBACK")
            self._load()
            raise

    def add_episodes(self, records: Sequence[EpisodeRecord]) -> None:
        """Store episodes; their rows follow on `last_row` without gaps."""
        if not records:
            return
        assert records[0].row == self._last_row + 1
        clients = {name: self._client(name) for name in {record.client for record in records}}
        self._db.executemany(
            f"INSERT INTO episodes VALUES ({_MARKS})",
            ((record[0], clients[record[1]], _ENTRY.pack(*record[2]), *record[3:]) for record in records),
        )
        self._last_row = records[-1].row
        for record in records:
            if record.entry > self._newest.get(record.client, (-1, -1)):
                self._newest[record.client] = record.entry

    def set_places(self, places: dict[int, Place]) -> None:
        """Note how far attempts have come."""
        self._db.executemany(
            "INSERT OR REPLACE INTO places VALUES (?, ?, ?)",
            ((attempt, *place) for attempt, place in places.items()),
        )

    def set_standing(self, standing: Standing) -> None:
        """Note what the episodes amount to."""
        self._set_state(STANDING, standing.to_json())

    def set_cursor(self, cursor: EntryId) -> None:
        """Note how far the `metrics` stream was taken in."""
        self._set_state(_CURSOR, str(cursor))

    def _set_state(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, value))

    def add_update(self, row: UpdateRow) -> None:
        """Store one update; one that is stored already stays as it is."""
        stored = self._db.execute(
            "INSERT OR IGNORE INTO updates VALUES (NULL, ?, ?, ?, ?, ?, ?)",
            (row.attempt, row.update, row.env_steps, row.episodes, row.model_id, row.time),
        )
        if stored.rowcount:
            self._db.executemany(
                "INSERT INTO update_values VALUES (?, ?, ?)",
                ((self._metric(name), stored.lastrowid, value) for name, value in row.values.items()),
            )

    def add_evaluation(self, row: UpdateRow) -> None:
        """Store one evaluation, as `evaluations.add_evaluation` does."""
        add_evaluation(self._db, row)

    def add_attempt(self, row: AttemptRow) -> None:
        """Store where an attempt begins; one that is stored already stays as it is."""
        self._db.execute(
            "INSERT OR IGNORE INTO attempts VALUES (?, ?, ?, ?, ?, ?)",
            (row.attempt, row.update, row.env_steps, row.episodes, row.model_id, row.time),
        )

    def add_checkpoint(self, row: CheckpointRow) -> None:
        """Store that a checkpoint was saved."""
        self._db.execute(
            "INSERT OR IGNORE INTO checkpoints VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row.attempt,
                row.update,
                row.env_steps,
                row.episodes,
                row.model_id,
                row.time,
                row.saved,
                row.path,
            ),
        )

    def _client(self, name: str) -> int:
        return self._numbered("clients", self._clients, name)

    def _metric(self, name: str) -> int:
        return self._numbered("metrics", self._metrics, name)

    def _numbered(self, table: str, known: dict[str, int], name: str) -> int:
        number = known.get(name)
        if number is None:
            number = self._db.execute(f"INSERT INTO {table} VALUES (NULL, ?)", (name,)).lastrowid
            assert number is not None
            known[name] = number
        return number
