"""Reading where each attempt begins: needed wherever rows are told from overwritten ones."""

import sqlite3

from soulsgui.wire.control import AttemptStart


def attempt_starts(db: sqlite3.Connection) -> list[AttemptStart]:
    """Return where each attempt begins, in order."""
    found = db.execute(
        "SELECT attempt, update_count, env_steps, episodes, time FROM attempts ORDER BY attempt"
    )
    return [
        AttemptStart(attempt=attempt, update=update, env_steps=env_steps, episodes=episodes, time=time)
        for attempt, update, env_steps, episodes, time in found
    ]
