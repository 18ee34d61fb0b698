"""The moments of a run that stand as lines on its curves."""

from collections.abc import Iterable

from soulsgui.gui import text
from soulsgui.gui.plotting.rows import Mark, attempt_start
from soulsgui.gui.runs.models import kind_look
from soulsgui.wire.control import CheckpointInfo
from soulsgui.wire.messages.metrics import AttemptRow, AttemptStart, CheckpointRow, Row

_MANUAL = "manual"


class RunMarks:
    """The moments of one run that stand as lines on its curve, from lists and from live rows.

    A current and a best checkpoint take the place of the one before, as on the disk; those saved by hand
    stay.
    """

    def __init__(self) -> None:
        self._saved: dict[str, Mark] = {}
        self._attempts: dict[int, AttemptStart] = {}

    def take_list(self, checkpoints: Iterable[CheckpointInfo]) -> None:
        """Take the list of all checkpoints."""
        self._saved = {}
        for info in checkpoints:
            self._save(info.kind, info.id, info.updates, info.episodes, info.env_steps, info.created)

    def take_attempts(self, attempts: Iterable[AttemptStart]) -> None:
        """Take the beginnings of attempts."""
        self._attempts |= {start.attempt: start for start in attempts}

    def take_rows(self, rows: Iterable[Row], run: str) -> bool:
        """Take live rows of a run, and return whether one of them was a moment to be marked."""
        found = False
        for row in rows:
            if row.run_id != run or not isinstance(row, CheckpointRow | AttemptRow):
                continue
            found = True
            if isinstance(row, CheckpointRow):
                self._save(row.saved, row.path, row.update, row.episodes, row.env_steps, row.time)
            else:
                self._attempts[row.attempt] = attempt_start(row)
        return found

    def _save(self, kind: str, path: str, update: int, episodes: int, env_steps: int, time: float) -> None:
        word = "Quicksave" if kind == _MANUAL else f"{kind_look(kind).word} checkpoint"
        mark = Mark(episodes, env_steps, time, f"{word}, update {text.count(update)}")
        self._saved[path if kind == _MANUAL else kind] = mark

    @property
    def marks(self) -> list[Mark]:
        """The lines to be drawn, in the order of time."""
        resumed = [
            Mark(
                start.episodes,
                start.env_steps,
                start.time,
                f"Attempt {start.attempt} from update {text.count(start.update)}",
            )
            for start in self._attempts.values()
            if start.attempt > min(self._attempts)
        ]
        return sorted([*self._saved.values(), *resumed], key=lambda mark: mark.time)
