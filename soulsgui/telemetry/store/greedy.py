"""Greedy episodes in the store: in a table of their own, so that they are on no curve of the training."""

import sqlite3
import struct
from collections.abc import Iterator

from soulsgui.telemetry.greedy import Complete, Played, enough
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.messages.session import GreedyOrder

TABLES = """
CREATE TABLE IF NOT EXISTS greedy_episodes (
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
    cut INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (attempt, model_id, number),
    UNIQUE (client, entry)
);
"""

_ENTRY = struct.Struct(">QQ")


class GreedyEpisodes:
    """The greedy episodes of one store.

    Args:
        db: The store, open for writing.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        columns = {name for _, name, *_ in db.execute("PRAGMA table_info(greedy_episodes)")}
        if "cut" not in columns:  # it is of an earlier version
            db.execute("ALTER TABLE greedy_episodes ADD COLUMN cut INTEGER NOT NULL DEFAULT 0")

    def knows(self, client: str, entry: EntryId) -> bool:
        """Whether an entry is stored already."""
        found = self._db.execute(
            "SELECT 1 FROM greedy_episodes WHERE client = ? AND entry = ?", (client, _ENTRY.pack(*entry))
        )
        return found.fetchone() is not None

    def add(self, played: Played, now: float) -> bool:
        """Store an episode; return whether it is the first one of its number in its evaluation.

        Args:
            played: The episode.
            now: Wall time.
        """
        (client, entry, episode), order = played
        stored = self._db.execute(
            f"INSERT OR IGNORE INTO greedy_episodes VALUES ({', '.join('?' * 13)})",
            (
                client,
                _ENTRY.pack(*entry),
                episode.attempt,
                episode.model_id,
                episode.number,
                now,
                episode.total_return,
                episode.length,
                episode.terminated,
                episode.seconds,
                episode.env_index,
                order.to_json(),
                episode.cut,
            ),
        )
        return stored.rowcount > 0

    def newest_complete(self) -> Complete | None:
        """Return the newest evaluation of which enough episodes are stored; None before the first."""
        for (asked,) in self._orders():
            order = GreedyOrder.read(asked)
            if order is None:
                continue
            episodes = self._of(order)
            count = enough(order, [total_return for total_return, *_ in episodes])
            if count is not None:
                returns, lengths, seconds, cut = zip(*episodes[:count], strict=True)
                return Complete(order, returns, lengths, sum(seconds), sum(cut))
        return None

    def _orders(self) -> Iterator[tuple[str]]:
        """Iterate over what was asked for, newest first."""
        return self._db.execute(
            "SELECT asked FROM greedy_episodes WHERE number = 0 ORDER BY attempt DESC, model_id DESC"
        )

    def _of(self, order: GreedyOrder) -> list[tuple[float, int, float, int]]:
        """Return what came of an evaluation, up to the first episode that is missing."""
        found = self._db.execute(
            "SELECT number, total_return, length, seconds, cut FROM greedy_episodes"
            " WHERE attempt = ? AND model_id = ? ORDER BY number",
            (order.attempt, order.model_id),
        )
        return [told for index, (number, *told) in enumerate(found) if number == index]
