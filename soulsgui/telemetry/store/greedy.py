"""Greedy episodes in the store: in a table of their own, so that they are on no curve of the training."""

import sqlite3
import struct
from collections.abc import Iterator

from soulsgui.telemetry.greedy import Complete, Played
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
            f"INSERT OR IGNORE INTO greedy_episodes VALUES ({', '.join('?' * 12)})",
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
            ),
        )
        return stored.rowcount > 0

    def newest_complete(self) -> Complete | None:
        """Return the newest evaluation all of whose episodes are stored; None before the first."""
        for (asked,) in self._orders():
            order = GreedyOrder.read(asked)
            episodes = [] if order is None else self._of(order)
            if order is not None and len(episodes) == order.count:
                returns, lengths, seconds = zip(*episodes, strict=True)
                return Complete(order, returns, lengths, sum(seconds))
        return None

    def _orders(self) -> Iterator[tuple[str]]:
        """Iterate over what was asked for, newest first."""
        return self._db.execute(
            "SELECT asked FROM greedy_episodes WHERE number = 0 ORDER BY attempt DESC, model_id DESC"
        )

    def _of(self, order: GreedyOrder) -> list[tuple[float, int, float]]:
        return self._db.execute(
            "SELECT total_return, length, seconds FROM greedy_episodes"
            " WHERE attempt = ? AND model_id = ? ORDER BY number",
            (order.attempt, order.model_id),
        ).fetchall()
