"""The moments of a run that stand as lines on its curves."""

import math
from collections.abc import Collection, Iterable

from soulsgui.gui import text
from soulsgui.gui.plotting.rows import Mark, attempt_start
from soulsgui.gui.states import kind_look
from soulsgui.wire.control import CheckpointInfo, Event, History
from soulsgui.wire.messages.live import LiveChange
from soulsgui.wire.messages.metrics import (
    EVALUATION_RETURN,
    AttemptRow,
    AttemptStart,
    CheckpointRow,
    Row,
    UpdateRow,
)

CHECKPOINTS, RESUMES, CHANGES, TROUBLE, EVALUATIONS = (
    "checkpoints",
    "resumes",
    "changes",
    "trouble",
    "evaluations",
)
MARK_KINDS = {
    CHECKPOINTS: "Checkpoints",
    RESUMES: "Resumes",
    CHANGES: "Changed settings",
    TROUBLE: "Crashes and warnings",
    EVALUATIONS: "Evaluations",
}
"""What may be marked, as it is offered."""

_MANUAL = "manual"


class RunMarks:
    """The moments of one run that stand as lines on its curve, from lists and from live rows.

    A current and a best checkpoint take the place of the one before, as on the disk; those saved by hand
    stay.
    """

    def __init__(self) -> None:
        self._saved: dict[str, Mark] = {}
        self._attempts: dict[int, AttemptStart] = {}
        self._told: dict[str, list[Mark]] = {}

    def take_list(self, checkpoints: Iterable[CheckpointInfo]) -> None:
        """Take the list of all checkpoints."""
        self._saved = {}
        for info in checkpoints:
            self._save(info.kind, info.id, info.updates, info.episodes, info.env_steps, info.created)

    def take_attempts(self, attempts: Iterable[AttemptStart]) -> None:
        """Take the beginnings of attempts."""
        self._attempts |= {start.attempt: start for start in attempts}

    def take_changes(self, changes: Iterable[LiveChange]) -> None:
        """Take the settings that were changed while the run went on."""
        # Not at the top: it reads the schema of all settings, for changes that few runs have.
        from soulsgui.gui.settings.spec import change_words

        self._told[CHANGES] = [
            Mark(math.nan, one.env_steps, one.time, change_words(one), one.update) for one in changes
        ]

    def take_events(self, events: Iterable[Event]) -> None:
        """Take the events of the run: what went wrong is marked."""
        wrong = [event for event in events if event.level != "info"]
        self._told[TROUBLE] = [Mark(math.nan, math.nan, one.time, one.what) for one in wrong]

    def take_evaluations(self, history: History) -> None:
        """Take the returns of its evaluations."""
        columns = history.episode, history.env_steps, history.time, history.row, history.value
        self._told[EVALUATIONS] = [
            Mark(episode, env_steps, time, f"Evaluation: {text.value(value)}", update)
            for episode, env_steps, time, update, value in zip(*columns, strict=True)
        ]

    def take_rows(self, rows: Iterable[Row], run: str) -> bool:
        """Take live rows of a run, and return whether one of them was a moment to be marked."""
        found = False
        for row in rows:
            is_judged = isinstance(row, UpdateRow) and EVALUATION_RETURN in row.values
            if row.run_id != run or not (isinstance(row, CheckpointRow | AttemptRow) or is_judged):
                continue
            found = True
            if isinstance(row, UpdateRow):
                words = f"Evaluation: {text.value(row.values[EVALUATION_RETURN])}"
                judged = Mark(row.episodes, row.env_steps, row.time, words, row.update)
                self._told.setdefault(EVALUATIONS, []).append(judged)
            elif isinstance(row, CheckpointRow):
                self._save(row.saved, row.path, row.update, row.episodes, row.env_steps, row.time)
            elif isinstance(row, AttemptRow):
                self._attempts[row.attempt] = attempt_start(row)
        return found

    def _save(self, kind: str, path: str, update: int, episodes: int, env_steps: int, time: float) -> None:
        word = "Quicksave" if kind == _MANUAL else f"{kind_look(kind).word} checkpoint"
        mark = Mark(episodes, env_steps, time, f"{word}, update {text.count(update)}", update)
        self._saved[path if kind == _MANUAL else kind] = mark

    @property
    def marks(self) -> list[Mark]:
        """The lines of checkpoints and resumes, in the order of time."""
        return self.of((CHECKPOINTS, RESUMES))

    def of(self, kinds: Collection[str]) -> list[Mark]:
        """Return the lines of some kinds, in the order of time."""
        first = min(self._attempts, default=0)
        resumed = [
            Mark(
                start.episodes,
                start.env_steps,
                start.time,
                f"Attempt {start.attempt} from update {text.count(start.update)}",
                start.update,
            )
            for start in self._attempts.values()
            if start.attempt > first
        ]
        found = self._told | {CHECKPOINTS: list(self._saved.values()), RESUMES: resumed}
        chosen = [mark for kind in kinds for mark in found.get(kind, [])]
        return sorted(chosen, key=lambda mark: mark.time)
