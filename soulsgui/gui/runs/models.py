"""Runs, their checkpoints and their events as tables show them. Pure but for the models."""

import time
from collections.abc import Iterable
from datetime import datetime

from PySide6.QtCore import QObject

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.models.records import Column, RecordsModel, number
from soulsgui.gui.models.rules import algorithm_title, why_not_resumed
from soulsgui.gui.states import Look, level_look, run_is_active, run_look
from soulsgui.wire.control import CheckpointInfo, Event, RunStatus, RunSummary
from soulsgui.wire.manifest import ScoredBy

_FOLLOWED = ("state", "reached", "name", "env_steps", "episodes", "best_mean_return", "seconds", "error")


def with_status(run: RunSummary, status: RunStatus) -> RunSummary:
    """Return a run of the library with what the newest status says of it."""
    if status.id != run.id:
        return run
    return run.model_copy(update={name: getattr(status, name) for name in _FOLLOWED})


def reached_words(run: RunSummary) -> str:
    """Return how a run ended, or what went wrong with it."""
    if run.error:
        return run.error
    words = {
        "mean_return": "Reached the return it was to reach.",
        "env_steps": "Made the steps it was to make.",
        "stopped": "Was stopped.",
        "failed": "Failed.",
    }
    return words.get(run.reached, run_look(run.state).word)


def _name(run: RunSummary) -> str:
    """Return what tells a run from the others; ids of one day begin alike."""
    return run.name or (f"{datetime.fromtimestamp(run.created):%Y-%m-%d %H:%M:%S}" if run.created else run.id)


_BEST = (
    "The highest mean return during the run, that of its best model. "
    "The mean return at its end may be lower: it goes up and down while a run learns."
)
RUN_COLUMNS: tuple[Column[RunSummary], ...] = (
    Column(
        "state",
        "State",
        lambda run: run_look(run.state).word,
        lambda run: run_look(run.state).rank,
        tip=reached_words,
        look=lambda run: run_look(run.state),
        width=12,
    ),
    Column("name", "Name", _name, tip=lambda run: run.id, width=23),
    Column("env", "Environment", lambda run: run.env_id or text.NOTHING, width=15),
    Column("algorithm", "Algorithm", lambda run: algorithm_title(run) or text.NOTHING, width=9),
    number("steps", "Steps", lambda run: text.compact(run.env_steps), lambda run: run.env_steps),
    number("episodes", "Episodes", lambda run: text.count(run.episodes), lambda run: run.episodes),
    number(
        "best",
        "Best mean",
        lambda run: text.value(run.best_mean_return),
        lambda run: run.best_mean_return,
        width=11,
        about=_BEST,
        tip=lambda _: _BEST,
    ),
    number("seconds", "Duration", lambda run: text.duration(run.seconds), lambda run: run.seconds),
    number("size", "Size", lambda run: text.size(run.size_bytes), lambda run: run.size_bytes),
    number(
        "created",
        "Created",
        lambda run: text.clock(run.created, time.time()) if run.created else text.NOTHING,
        lambda run: run.created,
        width=19,
    ),
    Column("note", "Note", lambda run: " ".join(run.note.split()), tip=lambda run: run.note, width=13),
)


class RunsModel(RecordsModel[RunSummary]):
    """Every run: the active one on top, then the past ones in the order the user chose."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(RUN_COLUMNS, lambda run: run.id, lambda run: run_is_active(run.state), parent)

    def take(self, runs: Iterable[RunSummary], status: RunStatus) -> None:
        """Take the library anew, with what the newest status says of one of them."""
        self.replace(with_status(run, status) for run in runs)

    def follow(self, status: RunStatus) -> bool:
        """Take the newest status and return whether its run is in the table."""
        run = self.find(status.id)
        if run is not None:
            self.change(with_status(run, status))
        return run is not None or not status.id

    def find(self, run_id: str) -> RunSummary | None:
        """Return a run, None when it is not in the table."""
        return next((run for run in self.records if run.id == run_id), None)


# What each kind of checkpoint looks like, and is.
_KINDS = {
    "current": (
        Look("save", Tone.TEXT, "Current", 0),
        "Saved every few rounds by itself, and at the end of the run",
    ),
    "previous": (Look("save", Tone.IDLE, "Previous", 1), "Current until a newer one was saved"),
    "best": (Look("star", Tone.TEXT, "Best", 2), "The model with the best mean return so far"),
    "manual": (Look("pin", Tone.TEXT, "Quicksave", 3), "Saved by hand"),
    "history": (Look("save", Tone.IDLE, "History", 4), "Kept from the length of the run, thinned"),
}


def kind_look(kind: str) -> Look:
    """Return how a kind of checkpoint looks, also one of a newer server."""
    return _KINDS[kind][0] if kind in _KINDS else Look("help", Tone.IDLE, kind.capitalize(), 5)


def condition_look(checkpoint: CheckpointInfo) -> Look:
    """Return how the condition of a checkpoint looks."""
    if not checkpoint.valid:
        return Look("state-bad", Tone.BAD, "Damaged", 2)
    if not checkpoint.resumable:
        return Look("state-info", Tone.IDLE, "Weights only", 1)
    return Look("state-good", Tone.GOOD, "Complete", 0)


def described(checkpoint: CheckpointInfo) -> str:
    """Return a checkpoint in one line: `Quicksave, update 410, 12,288 steps`."""
    updates, steps = text.count(checkpoint.updates), text.count(checkpoint.env_steps)
    words = f"{kind_look(checkpoint.kind).word}, update {updates}, {steps} steps"
    if checkpoint.memory_in_file:
        return (
            f"{words}; the observations of its replay memory lie in the run's folder, of use only if "
            "training stops right there, with checkpoint.with_buffer"
        )
    return f"{words}, with its replay memory" if checkpoint.memory else words


def _scored(info: CheckpointInfo, by: ScoredBy) -> float | None:
    """Return its score if it is the mean of that; one of which nobody knows counts as training's."""
    return info.score if (info.scored_by or "training") == by else None


CHECKPOINT_COLUMNS: tuple[Column[CheckpointInfo], ...] = (
    Column(
        "kind",
        "Kind",
        lambda info: kind_look(info.kind).word,
        lambda info: kind_look(info.kind).rank,
        tip=lambda info: _KINDS[info.kind][1] if info.kind in _KINDS else info.kind,
        look=lambda info: kind_look(info.kind),
        width=15,
    ),
    number(
        "time",
        "Saved",
        lambda info: text.clock(info.created, time.time()),
        lambda info: info.created,
        tip=lambda info: text.ago(max(time.time() - info.created, 0.0)),
        width=19,
    ),
    number("steps", "Steps", lambda info: text.count(info.env_steps), lambda info: info.env_steps),
    number("updates", "Updates", lambda info: text.count(info.updates), lambda info: info.updates),
    number("episodes", "Episodes", lambda info: text.count(info.episodes), lambda info: info.episodes),
    number(
        "score",
        "Training return",
        lambda info: text.value(_scored(info, "training")),
        lambda info: _scored(info, "training"),
        width=13,
        about="Mean return of the last training episodes when it was saved",
    ),
    number(
        "evaluation",
        "Evaluation",
        lambda info: text.value(_scored(info, "evaluation")),
        lambda info: _scored(info, "evaluation"),
        width=11,
        about="Mean return of the evaluation that made it the best model",
    ),
    number("size", "Size", lambda info: text.size(info.size_bytes), lambda info: info.size_bytes),
    Column(
        "condition",
        "Condition",
        lambda info: condition_look(info).word,
        lambda info: condition_look(info).rank,
        tip=lambda info: why_not_resumed(info) or "Every file is as it was saved.",
        look=condition_look,
        width=17,
    ),
    Column("note", "Note", lambda info: " ".join(info.note.split()), tip=lambda info: info.note, width=28),
)


_LEVELS = ("error", "warning", "info")
EVENT_COLUMNS: tuple[Column[Event], ...] = (
    number(
        "time",
        "Time",
        lambda event: text.clock(event.time, time.time()),
        lambda event: event.number,
        width=16,
    ),
    Column(
        "level",
        "Level",
        lambda event: level_look(event.level).word,
        lambda event: _LEVELS.index(event.level) if event.level in _LEVELS else len(_LEVELS),
        look=lambda event: level_look(event.level),
        width=16,
    ),
    Column("what", "What happened", lambda event: event.what, width=54),
    Column("cause", "Why", lambda event: event.cause, width=40),
    Column("remedy", "What to do", lambda event: event.remedy, width=30),
)


class EventsModel(RecordsModel[Event]):
    """What happened to one run."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(EVENT_COLUMNS, lambda event: str(event.number), parent=parent)
        self._run = ""

    def show_run(self, run: str, events: Iterable[Event]) -> None:
        """Show the events of a run and no others."""
        self._run = run
        self.replace(event for event in events if run and event.run_id == run)

    def add(self, event: Event) -> None:
        """Show a new event if it is of this run and not shown yet."""
        if self._run and event.run_id == self._run:
            self.replace([*self.records, event])
