"""Runs, their checkpoints and their events as tables show them. Pure but for the models."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from PySide6.QtCore import QObject

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.models.records import Column, RecordsModel, number
from soulsgui.gui.models.rules import algorithm_title, short_name, why_not_resumed
from soulsgui.gui.states import Look, kind_look, level_look, run_is_active, run_look
from soulsgui.wire.control import (
    CheckpointInfo,
    Evaluated,
    Event,
    Experiment,
    KeptEvaluation,
    QueuedRun,
    RunStatus,
    RunSummary,
)
from soulsgui.wire.manifest import ScoredBy

_FOLLOWED = ("state", "reached", "name", "env_steps", "episodes", "best_mean_return", "seconds", "error")


def with_status(run: RunSummary, status: RunStatus) -> RunSummary:
    """Return a run of the library with what the newest status says of it."""
    if status.id != run.id:
        return run
    return run.model_copy(update={name: getattr(status, name) for name in _FOLLOWED})


class QueuedRow(RunSummary):
    """A run that waits in the queue; in the place of a note it has which of its settings differ."""

    number: int  # what its commands call it
    place: int  # 1 begins next


def queued_id(number: int) -> str:
    """Return what the row of a run that waits is called."""
    return f"queued {number}"


def queued_rows(queue: Iterable[QueuedRun]) -> list[QueuedRow]:
    """Return the runs that wait, as rows among the others."""
    return [
        QueuedRow(id=queued_id(one.number), place=place, note=one.config_summary, **one.model_dump())
        for place, one in enumerate(queue, start=1)
    ]


class GroupRow(RunSummary):
    """The runs of an experiment or of a sweep, as one row above them."""

    runs: list[str]  # their ids
    over: int
    waiting: int  # further ones, in the queue
    open: bool  # whether its runs are shown
    statistics: Experiment | None = None  # of an experiment, over the best mean returns of its runs
    # Sums, which may be larger than what one run can tell.
    env_steps: int = 0
    episodes: int = 0
    size_bytes: int = 0

    @property
    def total(self) -> int:
        """How many of its runs have begun."""
        return len(self.runs)


def group_of(run: RunSummary) -> str:
    """Return the experiment or the sweep that a run is of; empty for none."""
    return "" if isinstance(run, QueuedRow | GroupRow) else run.experiment or run.sweep


def group_row(
    runs: Sequence[RunSummary], waiting: int, opened: bool | None, statistics: Experiment | None
) -> GroupRow:
    """Return the row above the runs of a group, which is open where one of them goes on, unless told."""
    active = next((run for run in runs if run_is_active(run.state)), None)
    name = group_of(runs[0])
    best = [run.best_mean_return for run in runs if run.best_mean_return is not None]
    told: dict[str, Any] = {key: getattr(runs[0], key) for key in ("env_id", "algorithm", "agent")}
    told |= {key: sum(getattr(run, key) for run in runs) for key in _SUMMED}
    return GroupRow(
        id=name,
        name=short_name(name),
        experiment=runs[0].experiment,
        sweep=runs[0].sweep,
        state=active.state if active is not None else "finished",
        created=min(run.created for run in runs),
        best_mean_return=statistics.mean if statistics is not None else max(best, default=None),
        runs=[run.id for run in runs],
        over=sum(not run_is_active(run.state) for run in runs),
        waiting=waiting,
        open=active is not None if opened is None else opened,
        statistics=statistics,
        **told,
    )


_SUMMED = ("env_steps", "episodes", "seconds", "size_bytes")


def row_look(run: RunSummary) -> Look:
    """Return how the state of a row looks."""
    if isinstance(run, QueuedRow):
        word = "Next" if run.place == 1 else f"Place {run.place}"
        return Look("state-waiting", Tone.IDLE, word, 3)
    if not isinstance(run, GroupRow):
        return run_look(run.state)
    icon = "arrow-down" if run.open else "arrow-right"
    runs = run.total + run.waiting
    word = text.plural(runs, "{n} run", "{n} runs") if run.over == runs else f"{run.over} of {runs} ended"
    return Look(icon, Tone.TEXT, word, run_look(run.state).rank)


def _state_tip(run: RunSummary) -> str:
    if isinstance(run, QueuedRow):
        return "It begins when those before it have ended."
    if isinstance(run, GroupRow):
        return "A click here, or Enter, shows its runs, or hides them."
    return reached_words(run)


def statistics_words(found: Experiment) -> str:
    """Return what an experiment has come to, in a line."""
    if found.mean is None:
        return "None of its runs has ended with such a score yet."
    spread = f" ± {text.value(found.deviation)}" if found.deviation is not None else ""
    over = text.plural(found.scored, "one run", "{n} runs")
    interval = f"{text.value(found.low)} to {text.value(found.high)}"
    mean, iqm = text.value(found.mean), text.value(found.iqm)
    return f"Mean {mean}{spread} over {over}; interquartile mean {iqm}, with 95 % within {interval}."


def _best_words(run: RunSummary) -> str:
    if isinstance(run, QueuedRow):
        return ""
    told = run.statistics if isinstance(run, GroupRow) else None
    spread = f" ± {text.value(told.deviation)}" if told is not None and told.deviation is not None else ""
    return f"{text.value(run.best_mean_return)}{spread}"


def _best_tip(run: RunSummary) -> str:
    told = run.statistics if isinstance(run, GroupRow) else None
    return _BEST if told is None else statistics_words(told)


def reached_words(run: RunSummary) -> str:
    """Return how a run ended, or what went wrong with it."""
    if run.error:
        return run.error
    words = {
        "mean_return": "Reached its goal return",
        "env_steps": "Made all its steps",
        "stopped": "Stopped",
        "failed": "Failed",
    }
    return words.get(run.reached, run_look(run.state).word)


def _name(run: RunSummary) -> str:
    """Return what tells a run from the others; ids of one day begin alike."""
    return run.name or (f"{datetime.fromtimestamp(run.created):%Y-%m-%d %H:%M:%S}" if run.created else run.id)


def _counted(
    name: str,
    title: str,
    words: Callable[[Any], str],
    key: Callable[[RunSummary], float],
    **more: Any,
) -> Column[RunSummary]:
    """Return a column of what runs that have begun have made."""
    return number(name, title, lambda run: "" if isinstance(run, QueuedRow) else words(key(run)), key, **more)


_BEST = (
    "The highest mean return during the run, that of its best model. "
    "The mean return at its end may be lower: it goes up and down while a run learns."
)
_PINNED = "Pinned: it can't be deleted."
RUN_COLUMNS: tuple[Column[RunSummary], ...] = (
    Column(
        "state",
        "State",
        lambda run: row_look(run).word,
        lambda run: row_look(run).rank,
        tip=_state_tip,
        look=row_look,
        width=15,
    ),
    Column(
        "name",
        "Name",
        lambda run: f"      {_name(run)}" if group_of(run) else _name(run),
        tip=lambda run: "\n".join(filter(None, (run.id, _PINNED if run.pinned else "", run.note))),
        look=lambda run: Look("pin" if run.pinned else "", Tone.TEXT, ""),
        width=23,
    ),
    Column("env", "Environment", lambda run: run.env_id or text.NOTHING, width=15),
    Column("algorithm", "Algorithm", lambda run: algorithm_title(run) or text.NOTHING, width=9),
    _counted("steps", "Steps", text.compact, lambda run: run.env_steps),
    _counted("episodes", "Episodes", text.count, lambda run: run.episodes),
    number(
        "best",
        "Best model",
        _best_words,
        lambda run: run.best_mean_return,
        width=13,
        about=_BEST,
        tip=_best_tip,
    ),
    _counted("seconds", "Duration", text.duration, lambda run: run.seconds, width=11),
    _counted("size", "Size", text.size, lambda run: run.size_bytes),
    number(
        "created",
        "Created",
        lambda run: text.clock(run.created, time.time()) if run.created else "",
        lambda run: run.created,
        width=19,
    ),
    Column("note", "Note", lambda run: " ".join(run.note.split()), tip=lambda run: run.note, width=7),
)


class RunsModel(RecordsModel[RunSummary]):
    """Every run: the active one on top, then the queue, then the past ones in the order the user chose.

    The runs of an experiment or a sweep stand below a row of their own, which opens and closes.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(RUN_COLUMNS, lambda run: run.id, parent=parent)
        self._experiments: dict[str, Experiment] = {}
        self._opened: dict[str, bool] = {}

    def take(self, runs: Iterable[RunSummary], status: RunStatus, queue: Iterable[QueuedRun] = ()) -> None:
        """Take the library anew, with what the newest status says of one of them, and the runs that wait."""
        found = [with_status(run, status) for run in runs]
        self._replace([*found, *queued_rows(queue)])

    def take_experiments(self, found: Iterable[Experiment]) -> None:
        """Take the statistics of experiments."""
        self._experiments = {one.id: one for one in found}
        self.regroup()

    def toggle(self, group: GroupRow) -> None:
        """Show the runs of a group, or show them no longer."""
        self._opened[group.id] = not group.open
        self.regroup()

    def show_queue(self, queue: Iterable[QueuedRun]) -> None:
        """Take the runs that wait."""
        begun = (row for row in self.records if not isinstance(row, GroupRow | QueuedRow))
        self._replace([*begun, *queued_rows(queue)])

    def regroup(self) -> None:
        """Sum up every group again."""
        self._replace([row for row in self.records if not isinstance(row, GroupRow)])

    def _replace(self, runs: Sequence[RunSummary]) -> None:
        self.replace([*runs, *self._groups(runs)])

    def _groups(self, runs: Sequence[RunSummary]) -> Iterator[GroupRow]:
        members: dict[str, list[RunSummary]] = {}
        waiting = Counter(run.experiment or run.sweep for run in runs if isinstance(run, QueuedRow))
        for run in runs:
            if name := group_of(run):
                members.setdefault(name, []).append(run)
        for name, together in members.items():
            row = group_row(together, waiting[name], self._opened.get(name), self._experiments.get(name))
            if row.open:
                self._opened[name] = True  # when its last run ends, it stays as it is
            yield row

    def arrange(self, rows: list[RunSummary]) -> list[RunSummary]:
        """Put the active run and the queue on top, and the runs of each open group below its row."""
        heads = {row.id: row for row in self.records if isinstance(row, GroupRow)}
        matching = {row.id for row in rows}
        below: dict[str, list[RunSummary]] = {}
        top = []
        for row in rows:
            name = group_of(row)
            if name not in heads:
                top.append(row)
                continue
            if name not in matching and name not in below:
                top.append(heads[name])  # what is looked for is one of its runs
            below.setdefault(name, []).append(row)
        top.sort(key=_place_on_top)
        shown = []
        for row in top:
            shown.append(row)
            if isinstance(row, GroupRow) and (row.open or row.id not in matching):
                shown += below.get(row.id, [])
        return shown

    def follow(self, status: RunStatus) -> bool:
        """Take the newest status and return whether its run is in the table."""
        run = self.find(status.id)
        if run is not None:
            self.change(with_status(run, status))
            if group_of(run):
                self.regroup()
        return run is not None or not status.id

    def find(self, run_id: str) -> RunSummary | None:
        """Return a run, None when it is not in the table."""
        return next((run for run in self.records if run.id == run_id), None)


def _place_on_top(row: RunSummary) -> tuple[int, int]:
    if isinstance(row, QueuedRow):
        return 1, row.place
    return (0, 0) if run_is_active(row.state) else (2, 0)


_KIND_TIPS = {
    "current": "Saved automatically every few rounds, and at the end of the run",
    "previous": "Current until a newer one was saved",
    "best": "The model with the best mean return so far",
    "manual": "Saved by hand",
    "history": "Kept at intervals over the whole run",
}


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


def evaluated_words(found: Evaluated | KeptEvaluation) -> str:
    """Return the mean return of an evaluation, of several episodes with its standard deviation."""
    spread = f" ± {text.value(found.std_return)}" if found.episodes > 1 else ""
    return f"{text.value(found.mean_return)}{spread}"


def _evaluation(info: CheckpointInfo) -> str:
    return evaluated_words(info.evaluated) if info.evaluated else text.value(_scored(info, "evaluation"))


def _evaluation_tip(info: CheckpointInfo) -> str:
    found = info.evaluated
    if found is None:
        return _EVALUATION
    played = text.plural(found.episodes, "1 episode", "{n} episodes")
    span = f"{text.value(found.min_return)} to {text.value(found.max_return)}"
    how = "the best actions" if found.greedy else "sampled actions"
    when = text.clock(found.time, time.time())
    return f"{when}: {played} from seed {found.seed} with {how}: {span}. {found.notes}".rstrip()


_EVALUATION = "Mean return ± deviation of an evaluation, or the mean that made it the best model"


def _scored(info: CheckpointInfo, by: ScoredBy) -> float | None:
    """Return its score if it is the mean of that; one of which nobody knows counts as training's."""
    return info.score if (info.scored_by or "training") == by else None


CHECKPOINT_COLUMNS: tuple[Column[CheckpointInfo], ...] = (
    Column(
        "kind",
        "Kind",
        lambda info: kind_look(info.kind).word,
        lambda info: kind_look(info.kind).rank,
        tip=lambda info: _KIND_TIPS.get(info.kind, info.kind),
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
        _evaluation,
        lambda info: info.evaluated.mean_return if info.evaluated else _scored(info, "evaluation"),
        width=14,
        about=_EVALUATION,
        tip=_evaluation_tip,
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
    Column(
        "pinned",
        "Pinned",
        lambda info: "yes" if info.pinned else "",
        lambda info: not info.pinned,
        look=lambda info: Look("pin" if info.pinned else "", Tone.TEXT, ""),
        width=8,
        about="It stays in the history however long that grows",
    ),
    Column("note", "Note", lambda info: " ".join(info.note.split()), tip=lambda info: info.note, width=13),
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
