"""Writing the store: only the telemetry node does."""

import sqlite3
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from soulsgui.telemetry.aggregate import Limits, Place
from soulsgui.telemetry.intake import Complete
from soulsgui.telemetry.store.evaluations import GreedyEpisodes, is_stored, last_evaluation, place_of
from soulsgui.telemetry.store.schema import (
    SUMMARY,
    ScoreSummary,
    attempt_starts,
    damaged,
    open_for_writing,
    read_state,
    roll_up,
)
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.metrics import (
    AttemptStart,
    CheckpointRow,
    UpdateRow,
    evaluation_row,
    evaluation_values,
)

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
    values: dict[str, float] = {}  # noqa: RUF012  never changed; of `telemetry.metrics`, in tables of their own


class StoreWriter:
    """The one writer of a store. Every change is made within `transaction`."""

    def __init__(self, path: Path) -> None:
        self.db = open_for_writing(path)
        self.greedy = GreedyEpisodes(self.db)
        try:
            self._load()
            rolled_up = False
            while not rolled_up:  # An earlier version may have stored rows that are in no block.
                self.db.execute("BEGIN IMMEDIATE")
                rolled_up = roll_up(self.db)
                self.db.execute("COMMIT")
        except (sqlite3.DatabaseError, struct.error, TypeError) as error:
            self.db.close()
            if isinstance(error, sqlite3.OperationalError) and not str(error).startswith("no such "):
                raise  # in use, or the disk is full: it passes
            raise damaged(path, error) from error

    def _load(self) -> None:
        db = self.db
        self._clients: dict[str, int] = dict(db.execute("SELECT name, id FROM clients").fetchall())
        self._metrics: dict[str, int] = dict(db.execute("SELECT name, id FROM metrics").fetchall())
        self._values: dict[str, int] = dict(db.execute("SELECT name, id FROM episode_metrics").fetchall())
        # Number of the last episode's row, 0 before the first.
        self.last_row: int = db.execute("SELECT coalesce(max(row), 0) FROM episodes").fetchone()[0]
        newest = db.execute(
            "SELECT name, (SELECT max(entry) FROM episodes WHERE client = clients.id) FROM clients"
        )
        self._newest = {name: EntryId(*_ENTRY.unpack(entry)) for name, entry in newest if entry is not None}

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    @property
    def cursor(self) -> EntryId:
        """Last entry of the `metrics` stream that was taken in."""
        text = read_state(self.db, _CURSOR)
        return EntryId.parse(text) if text else EntryId(0, 0)

    def evaluation_due(self, run_id: str, found: Complete) -> UpdateRow | None:
        """Return the row of an evaluation by a client; None when it is stored already."""
        values = evaluation_values(found.returns, found.lengths, found.seconds, found.cut)
        order, last = found.order, last_evaluation(self.db)
        row = evaluation_row(run_id, order, last, values, order.confirms, time.time())
        return None if is_stored(self.db, row) else row

    def places(self) -> dict[int, Place]:
        """How far each attempt with episodes has come."""
        found = self.db.execute("SELECT attempt, env_steps, episodes FROM places")
        return {attempt: Place(env_steps, episodes) for attempt, env_steps, episodes in found}

    def knows(self, client: str, entry: EntryId) -> bool:
        """Whether an entry is stored already."""
        newest = self._newest.get(client)
        if newest is None or entry > newest:
            return False
        found = self.db.execute(
            "SELECT 1 FROM episodes WHERE client = ? AND entry = ?",
            (self._clients[client], _ENTRY.pack(*entry)),
        )
        return found.fetchone() is not None

    def curve_end(self, n: int) -> list[tuple[int, float, int, str]]:
        """Return (attempt, return, model id, client) of the last `n` episodes nothing overwrote, in order."""
        limits = Limits(attempt_starts(self.db))
        found: list[tuple[int, float, int, str]] = []
        rows = self.db.execute(
            "SELECT attempt, total_return, model_id, name, env_steps, episode FROM episodes"
            " JOIN clients ON clients.id = client ORDER BY row DESC"
        )
        for *one, env_steps, episode in rows:
            if not limits.of(one[0]).overwrites_episode(env_steps, episode):
                found.append((one[0], one[1], one[2], one[3]))
                if len(found) == n:
                    break
        rows.close()
        return found[::-1]

    def returns(self) -> Iterable[tuple[int, float, int, str]]:
        """Iterate over (attempt, return, model id, client) of every episode, in the order of storing."""
        return self.db.execute(
            "SELECT attempt, total_return, model_id, name FROM episodes"
            " JOIN clients ON clients.id = client ORDER BY row"
        )

    def players(self) -> set[str]:
        """Return everybody of whom an episode is stored."""
        return {name for (name,) in self.db.execute("SELECT name FROM clients")}

    def episodes_after(self, row: int, n: int) -> list[EpisodeRecord]:
        """Return up to `n` episodes behind a row, oldest first."""
        found = self.db.execute(
            "SELECT row, name, entry, attempt, episode, env_steps, time, total_return, length, terminated,"
            " model_id, seconds, env_index, mean_return FROM episodes JOIN clients ON clients.id = client"
            " WHERE row > ? ORDER BY row LIMIT ?",
            (row, n),
        )
        values: defaultdict[int, dict[str, float]] = defaultdict(dict)
        told = self.db.execute(
            "SELECT row, name, value FROM episode_metrics CROSS JOIN episode_values ON metric = id"
            " AND row > ? AND row <= ?",
            (row, row + n),
        )
        for number, name, value in told:
            values[number][name] = value
        return [
            EpisodeRecord(row, name, EntryId(*_ENTRY.unpack(entry)), *rest)._replace(values=values[row])
            for row, name, entry, *rest in found
        ]

    def last_values(self, metric: str, n: int) -> list[float]:
        """Return the last `n` values of a configured metric, oldest first."""
        found = self.db.execute(
            "SELECT value FROM episode_values WHERE metric = ? ORDER BY row DESC LIMIT ?",
            (self._values.get(metric, 0), n),
        )
        return [value for (value,) in found][::-1]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All changes made within become visible together, or none."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            roll_up(self.db)
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:  # a full disk rolls back by itself
                self.db.execute("ROLLBACK")
            self._load()
            raise

    def add_episodes(self, records: Sequence[EpisodeRecord]) -> None:
        """Store episodes; their rows follow on `last_row` without gaps."""
        if not records:
            return
        assert records[0].row == self.last_row + 1
        names = {record.client for record in records}
        clients = {name: self._numbered("clients", self._clients, name) for name in names}
        self.db.executemany(
            f"INSERT INTO episodes VALUES ({_MARKS})",
            ((record[0], clients[record[1]], _ENTRY.pack(*record[2]), *record[3:-1]) for record in records),
        )
        self.db.executemany(
            "INSERT INTO episode_values VALUES (?, ?, ?)",
            (
                (self._numbered("episode_metrics", self._values, name), record.row, value)
                for record in records
                for name, value in record.values.items()
            ),
        )
        self.last_row = records[-1].row
        for record in records:
            if record.entry > self._newest.get(record.client, (-1, -1)):
                self._newest[record.client] = record.entry

    def set_places(self, places: dict[int, Place]) -> None:
        """Note how far attempts have come."""
        self.db.executemany(
            "INSERT OR REPLACE INTO places VALUES (?, ?, ?)",
            ((attempt, *place) for attempt, place in places.items()),
        )

    def set_state(self, cursor: EntryId, summary: ScoreSummary) -> None:
        """Note how far the `metrics` stream was taken in, and what the episodes amount to."""
        state = [(_CURSOR, str(cursor)), (SUMMARY, summary.to_json())]
        self.db.executemany("INSERT OR REPLACE INTO state VALUES (?, ?)", state)

    def add_update(self, row: UpdateRow) -> None:
        """Store one update; one that is stored already stays as it is."""
        stored = self.db.execute(
            "INSERT OR IGNORE INTO updates VALUES (NULL, ?, ?, ?, ?, ?, ?)", place_of(row)
        )
        if stored.rowcount:
            self.db.executemany(
                "INSERT INTO update_values VALUES (?, ?, ?)",
                (
                    (self._numbered("metrics", self._metrics, name), stored.lastrowid, value)
                    for name, value in row.values.items()
                ),
            )

    def last_update(self, attempt: int) -> int:
        """Return the last update of an attempt, that of its beginning where none followed; 0 for none."""
        found = self.db.execute(
            "SELECT coalesce(max(update_count), 0) FROM (SELECT attempt, update_count FROM updates"
            " UNION ALL SELECT attempt, update_count FROM attempts) WHERE attempt = ?",
            (attempt,),
        )
        return int(found.fetchone()[0])

    def add_attempt(self, start: AttemptStart, model_id: int) -> None:
        """Store where an attempt begins; one that is stored already stays as it is."""
        self.db.execute(
            "INSERT OR IGNORE INTO attempts VALUES (?, ?, ?, ?, ?, ?)",
            (start.attempt, start.update, start.env_steps, start.episodes, model_id, start.time),
        )

    def add_checkpoint(self, row: CheckpointRow) -> None:
        """Store that a checkpoint was saved."""
        self.db.execute(
            "INSERT OR IGNORE INTO checkpoints VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*place_of(row), row.saved, row.path),
        )

    def _numbered(self, table: str, known: dict[str, int], name: str) -> int:
        number = known.get(name)
        if number is None:
            number = self.db.execute(f"INSERT INTO {table} VALUES (NULL, ?)", (name,)).lastrowid
            assert number is not None
            known[name] = number
        return number
