"""Where a run stands, kept beside its episodes: told without reading them all."""

import sqlite3

from soulsgui.wire.messages.base import Message

STANDING = "standing"
"""Key of the newest `Standing` in the table `state`."""


class Standing(Message):
    """What the episodes amounted to after the last stored one.

    Attributes:
        window: Episodes over which means were taken.
        goal: The goal that `reached` is about.
        attempt: The attempt that `reached` is about.
        mean_return: Mean of the last `window` episodes.
        best_score: Best mean of a full window.
        best_model_id: The model that earned it.
        reached: Whether the goal was reached.
        reached_with: The mean that reached it.
        refuted: Weights that did not confirm the last claim of the goal, -1 before.
        claims_in: Episodes that are yet to come before a window claims it again.
    """

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


def read_standing(db: sqlite3.Connection) -> Standing | None:
    """Return where the run stands, None before the first row."""
    return Standing.read(read_state(db, STANDING))
