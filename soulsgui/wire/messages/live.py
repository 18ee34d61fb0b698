"""What a run has changed of its settings while it went on: `changes.jsonl` in its folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from soulsgui.wire.messages.base import Keyed, Message, Moment, Whole


class LiveChange(Message):
    """Settings that a trainer has taken over between two updates.

    Attributes:
        attempt: Attempt in which it did.
        update: The last update that was made with the settings before.
        before: What they were, by dotted key.
        after: What they are from then on.
        undoes: Whether it takes back the last change that was not taken back yet.
    """

    time: Moment
    attempt: Whole
    update: Whole
    env_steps: Whole
    before: Keyed[Any] = Field(default_factory=dict)
    after: Keyed[Any] = Field(default_factory=dict)
    undoes: bool = False

    def append_to(self, path: Path) -> None:
        """Write it behind those that a run has noted already."""
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{self.to_json()}\n")


def read_changes(path: Path) -> list[LiveChange]:
    """Return the changes of a run, oldest first; what can't be read is left out."""
    from soulsgui.system import (
        read_small,
    )  # late: it loads psutil, which commands that ask a runner do without

    try:
        lines = read_small(path).splitlines()
    except OSError:  # most runs have none
        return []
    return [change for line in lines if (change := LiveChange.read(line)) is not None]


def undoable(changes: Sequence[LiveChange]) -> LiveChange | None:
    """Return the change that is taken back next, None when there is none."""
    standing: list[LiveChange] = []
    for change in changes:
        if not change.undoes:
            standing.append(change)
        elif standing:
            standing.pop()
    return standing[-1] if standing else None
