"""Guards the disk of the data folder: full, it would take neither checkpoints nor what Redis keeps.

It warns while little is free; before nothing is, the run is saved and rests. It goes on by itself when there
is room again.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from soulsgui.runner.events import EventLog
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.status_text import size_words
from soulsgui.system import kept_free_bytes
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.node_commands import CommandName, NodeCommand

Level = Literal["", "low", "full"]

_LOW, _CHECKPOINTS = 5, 3  # times what is kept free, and times the last checkpoint
_ABOVE = 1.25
_WAIT_S = 15.0
_ANSWER_S = 5.0
_SAVED = {True: "is saved", False: "is not saved yet (see: soulsgui logs trainer)"}
_RESTS = {True: "rests", False: "does not rest"}


def level_of(free: int, kept: int, checkpoint_bytes: int, before: Level) -> Level:
    """Return how full the disk is, of which `kept` is left free; a level is left a little above its limit."""
    limits: dict[Level, int] = {"full": kept, "low": max(_LOW * kept, _CHECKPOINTS * checkpoint_bytes)}
    held = ("full", "low", "").index(before)
    for place, (level, limit) in enumerate(limits.items()):
        if free < (limit * _ABOVE if place >= held and before else limit):
            return level
    return ""


class DiskGuard:
    """Looks at the free space, and does what is needed.

    `free` tells how many bytes are, `checkpoint_bytes` how large the last checkpoint is.
    """

    def __init__(
        self,
        bus: Bus,
        events: EventLog,
        folder: Path,
        free: Callable[[Path], int],
        checkpoint_bytes: Callable[[], int],
        run_id: Callable[[], str],
    ) -> None:
        self._bus, self._events, self._folder = bus, events, folder
        self._free, self._checkpoint_bytes, self._run_id = free, checkpoint_bytes, run_id
        self._level: Level = ""

    async def look(self, trainer_runs: bool) -> None:
        """Look once."""
        free, before = self._free(self._folder), self._level
        self._level = level_of(free, kept_free_bytes(self._folder), self._checkpoint_bytes(), before)
        done = ""
        if self._level == "full" and trainer_runs:
            why = f"the disk is nearly full: {size_words(free)} are free"
            rests = await self._ask("wait", seconds=_WAIT_S, why=why)
            if before != "full":
                saved = await self._ask("save", kind="current")
                done = f" The run {_SAVED[saved]} and {_RESTS[rests]}."
        if self._level != before:
            self._tell(free, before, done)

    async def _ask(self, command: CommandName, **args: Any) -> bool:
        return await self._bus.tell(TRAINER, NodeCommand(command=command, args=args), _ANSWER_S)

    def _tell(self, free: int, before: Level, done: str) -> None:
        place = f"on the disk of the data folder ({self._folder})"
        words, run_id = f"{size_words(free)} are free {place}", self._run_id()
        if self._level == "full":
            remedy = "Free some space; it continues by itself. To empty the bin: soulsgui runs purge"
            self._events.add("error", f"Only {words}.{done}", "", remedy, run_id=run_id, topic="disk_low")
        elif self._level == "low":
            goes_on = " The run continues." if before == "full" and run_id else ""
            remedy = (
                f"Below {size_words(kept_free_bytes(self._folder))} a run pauses: free some space before "
                "that."
            )
            self._events.add(
                "warning", f"Only {words}.{goes_on}", "", remedy, run_id=run_id, topic="disk_low"
            )
        else:
            self._events.add("info", f"There is enough space again: {words}.", run_id=run_id)
