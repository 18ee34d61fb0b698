"""An experiment with statistics over its runs, and a sweep with its trials."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QModelIndex, Qt, Signal
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.records import Column, RecordsModel, number
from soulsgui.gui.models.rules import SCORE_TITLES, STOP_SWEEP, run_title
from soulsgui.gui.runs.models import GroupRow, statistics_words
from soulsgui.gui.settings.spec import as_yaml
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.shell.pages import PLOTS, RUNS
from soulsgui.gui.states import Look, run_look
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import NO_MARGINS, TAB_MARGINS, column, row, split, stack
from soulsgui.gui.widgets.command_button import Words
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.geometry import Memory
from soulsgui.gui.widgets.inputs import ChoiceBox
from soulsgui.gui.widgets.labels import Heading, caption, muted, wrapped
from soulsgui.gui.widgets.table import Deed, Table
from soulsgui.wire.control import ApiError, Experiment, RunSummary, SweepStatus, SweepTrial

if TYPE_CHECKING:
    from soulsgui.gui.runs.parallel import ParallelPlot

SEED_COLUMNS: tuple[Column[RunSummary], ...] = (
    number("seed", "Seed", lambda run: str(run.seed), lambda run: run.seed),
    Column(
        "state", "State", lambda run: run_look(run.state).word, look=lambda run: run_look(run.state), width=14
    ),
    number(
        "mean", "Last mean", lambda run: text.value(run.mean_return), lambda run: run.mean_return, width=11
    ),
    number(
        "best",
        "Best model",
        lambda run: text.value(run.best_mean_return),
        lambda run: run.best_mean_return,
        width=11,
    ),
    number(
        "evaluation",
        "Evaluation",
        lambda run: text.value(run.evaluation_return),
        lambda run: run.evaluation_return,
        width=11,
    ),
    number("steps", "Steps", lambda run: text.compact(run.env_steps), lambda run: run.env_steps),
    Column("name", "Run", run_title, tip=lambda run: run.id, width=26),
)


class ExperimentPart(QWidget):
    """Statistics over the runs of an experiment, by the score that is chosen.

    Signals:
        run_wanted: A run was opened; with its id.
    """

    run_wanted = Signal(str)

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._experiment = ""
        self.score = ChoiceBox("", self, [(title, name) for name, title in SCORE_TITLES.items()])
        self.score.currentIndexChanged.connect(self.refresh)
        self.words = wrapped("", self, selectable=True)
        self.model = RecordsModel(SEED_COLUMNS, lambda run: run.id, parent=self)
        self.table = Table("experimentTable", "Runs of the experiment", self)
        self.table.setModel(self.model)
        self.table.sort_by(self.model.column_number("seed"))
        self.table.row_opened.connect(self._open)
        head = row(caption("&Judged by the", self.score, self), self.score, None)
        column(head, self.words, (self.table, 1), on=self, margins=NO_MARGINS)
        self._fetch = Fetch(self, self._ask, came=self._take, failed=self._failed, late=True)

    def show_experiment(self, name: str) -> None:
        """Show an experiment."""
        if name != self._experiment:
            self._fetch.forget()
            self._experiment = name
            self.model.replace(())
            self.words.setText("Reading …")
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Ask for it again."""
        if self._experiment:
            self._fetch.request()

    def _open(self, *_: object) -> None:
        run = self.model.at(self.table.currentIndex().row())
        if run is not None:
            self.run_wanted.emit(run.id)

    def _ask(self) -> Call | None:
        params = {"experiment": self._experiment, "score": self.score.currentData()}
        return self._feed.ask("experiments.show", params) if self._experiment else None

    def _take(self, found: Experiment) -> None:
        waits = text.plural(found.waiting, " One run waits.", " {n} runs wait.") if found.waiting else ""
        self.words.setText(statistics_words(found) + waits)
        self.model.replace(found.runs)

    def _failed(self, error: ApiError) -> None:
        self.words.setText(error.words(" "))


_TRIAL_LOOKS = {
    "waiting": Look("state-waiting", Tone.IDLE, "Waits", 3),
    "running": Look("state-good", Tone.GOOD, "Running", 0),
    "complete": Look("state-finished", Tone.GOOD, "Complete", 1),
    "pruned": Look("state-idle", Tone.IDLE, "Pruned", 2),
    "failed": Look("state-bad", Tone.BAD, "Failed", 4),
}
_SWEEP_WORDS = {
    "running": "It is running.",
    "finished": "All its trials are done.",
    "stopped": "It was stopped.",
    "failed": "It was stopped: three trials in a row failed.",
}


def _look(trial: SweepTrial) -> Look:
    return _TRIAL_LOOKS.get(trial.state) or Look("help", Tone.IDLE, trial.state.capitalize())


def _comparable(value: Any) -> tuple[bool, Any]:
    """Return what a value is sorted by: numbers by size, before words."""
    is_number = isinstance(value, int | float)
    return (not is_number, value if is_number else str(value))


def value_words(value: Any) -> str:
    """Return a value that was drawn in words; of a number with many digits the first ones."""
    return f"{value:.4g}" if isinstance(value, float) else as_yaml(value)


def _setting_column(key: str, about: str) -> Column[SweepTrial]:
    return Column(
        key,
        key,
        lambda trial: value_words(trial.values[key]) if key in trial.values else text.NOTHING,
        lambda trial: _comparable(trial.values.get(key)),
        width=16,
        about=about,
    )


def trial_columns(sweep: SweepStatus) -> list[Column[SweepTrial]]:
    """Return the columns of the trials of a sweep: what each came to, and the settings that are searched."""
    best = sweep.best.number if sweep.best is not None else None
    columns: list[Column[SweepTrial]] = [
        number("number", "Trial", lambda trial: str(trial.number), lambda trial: trial.number),
        Column(
            "state",
            "State",
            lambda trial: _look(trial).word,
            lambda trial: _look(trial).rank,
            look=_look,
            width=13,
        ),
        number(
            "score",
            "Score",
            lambda trial: text.value(trial.score),
            lambda trial: trial.score,
            width=12,
            about=f"The {SCORE_TITLES.get(sweep.score, sweep.score)} of its run; the star marks the best one",
            look=lambda trial: Look(
                "star" if trial.number == best else "", Tone.ACCENT if trial.number == best else Tone.TEXT, ""
            ),
        ),
    ]
    for key in sweep.space:
        mattered = sweep.importance.get(key)
        about = key if mattered is None else f"{key}: importance {100 * mattered:.0f} %"
        columns.append(_setting_column(key, about))
    return columns


def sweep_words(sweep: SweepStatus) -> str:
    """Return how a sweep stands, what its best trial is, and which settings mattered."""
    made = sum(trial.state in ("complete", "pruned", "failed") for trial in sweep.trials)
    lines = [f"{_SWEEP_WORDS.get(sweep.state, sweep.state)} {made} of {sweep.wanted} trials are over."]
    if sweep.best is not None:
        values = _values_words(sweep.best.values)
        lines.append(f"Best: trial {sweep.best.number} with {text.value(sweep.best.score)}: {values}.")
    if sweep.importance:
        ordered = sorted(sweep.importance.items(), key=lambda item: -item[1])
        shares = ", ".join(f"{key} {100 * share:.0f} %" for key, share in ordered)
        lines.append(f"Importance: {shares}.")
    elif sweep.state == "running":
        lines.append("Importance is shown once four trials are complete.")
    return "\n".join(lines)


def _values_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} = {value_words(value)}" for key, value in values.items())


class SweepPart(QWidget):
    """The trials of a sweep.

    Signals:
        run_wanted: A trial was opened; with the id of its run.
    """

    run_wanted = Signal(str)

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._name = ""
        self.sweep: SweepStatus | None = None
        self.model: RecordsModel[SweepTrial] | None = None
        self.words = wrapped("", self, selectable=True)
        self.table = Table("sweepTable", "Trials of the sweep", self)
        self.table.row_opened.connect(self._open)
        self.table.setMouseTracking(True)
        self.table.entered.connect(self._mark)
        self.table.viewportEntered.connect(lambda: self._mark(self.table.currentIndex()))
        self.parallel: ParallelPlot | None = None
        self._memory = Memory(shell.settings(), RUNS)
        self._split = split("sweepSplitter", Qt.Orientation.Horizontal, self, self.table)
        self.use = FittingButton("Use the best for a new run", "play", self)
        self.use.clicked.connect(self._use)
        words = Words("Stop the sweep…", "Ending its trial …", "Stopped")
        self.stop = AskingButton(words, "stop", lambda: feed.call("sweep.stop"), lambda: STOP_SWEEP, self)
        self.stop.problem.connect(partial(notify_problem, shell))
        self.stop.finished.connect(self.refresh)
        column(self.words, row(self.use, self.stop, None), (self._split, 1), on=self, margins=NO_MARGINS)
        self._fetch = Fetch(self, self._ask, came=self._take, failed=self._failed, late=True)

    def show_sweep(self, name: str) -> None:
        """Show a sweep."""
        if name != self._name:
            self._fetch.forget()
            self._name, self.sweep = name, None
            self.words.setText("Reading …")
        self._allow()
        self.refresh()

    def refresh(self, *_: object) -> None:
        """Ask for it again."""
        if self._name:
            self._fetch.request()

    def _ask(self) -> Call | None:
        return self._feed.ask("sweep.status", {"sweep": self._name}) if self._name else None

    def _take(self, found: SweepStatus) -> None:
        others = self.sweep is None or (self.sweep.space, self.sweep.best) != (found.space, found.best)
        self.sweep = found
        self.words.setText(sweep_words(found))
        if others or self.model is None:
            before, self.model = (
                self.model,
                RecordsModel(trial_columns(found), lambda trial: str(trial.number), parent=self.table),
            )
            if before is not None:
                self._memory.keep(self.table)
            self.table.setModel(self.model)
            self.table.sort_by(self.model.column_number("score"), downwards=True)
            self._memory.restore(self.table)
            self.table.selectionModel().currentRowChanged.connect(self._mark)
            if before is not None:
                before.deleteLater()
        self.model.replace(found.trials)
        self._draw(found)
        self._allow()

    def _draw(self, found: SweepStatus) -> None:
        if self.parallel is None:
            # Not at the top: with it pyqtgraph is imported.
            from soulsgui.gui.runs.parallel import ParallelPlot

            self.parallel = ParallelPlot(self)
            self.parallel.chosen.connect(self._choose)
            self._split.addWidget(self.parallel)
            self._split.setSizes([2, 3])
            self._memory.restore(self._split)
        self.parallel.show_sweep(found)

    def _mark(self, index: QModelIndex, *_: object) -> None:
        trial = self.model.at(index.row()) if self.model is not None else None
        if self.parallel is not None:
            self.parallel.mark(trial.number if trial is not None else -1)

    def _choose(self, number: int) -> None:
        row = self.model.row_of(str(number)) if self.model is not None else None
        if row is not None:
            self.table.selectRow(row)

    def _failed(self, error: ApiError) -> None:
        self.words.setText(error.words(" "))

    def _allow(self) -> None:
        away = why_not(self._feed.connection)
        best = self.sweep.best if self.sweep is not None else None
        none = away or ("" if best is not None else "No trial is complete yet.")
        self.use.allow(none, "Open New run with what it found")
        goes_on = self.sweep is not None and self.sweep.state == "running"
        self.stop.setVisible(goes_on)
        self.stop.allow(away, "End it, and the runs of its trials")

    def _use(self) -> None:
        if self.sweep is not None and self.sweep.best is not None:
            self._shell.open_new_run(self.sweep.overrides | self.sweep.best.values, self.sweep.preset)

    def _open(self, *_: object) -> None:
        trial = self.model.at(self.table.currentIndex().row()) if self.model is not None else None
        if trial is not None and trial.run_id:
            self.run_wanted.emit(trial.run_id)

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the arrangement, once there is one."""
        super().hideEvent(event)
        if self.parallel is not None:
            self._memory.keep(self._split, self.table)


class GroupPanel(QWidget):
    """The chosen experiment or sweep."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._drawn: dict[str, list[str]] = {}
        self._title = Heading("", 1, self)
        self._facts = muted(wrapped("", self, selectable=True))
        self.curves = FittingButton("Curves", "page-plots", self)
        self.curves.clicked.connect(lambda: shell.show_page(PLOTS, **self._drawn))
        self.experiment = ExperimentPart(feed, self)
        self.sweep = SweepPart(feed, shell, self)
        self._stack = stack(self.experiment, self.sweep)
        head = row(self._title, (self._facts, 1), self.curves)
        column(head, (self._stack, 1), on=self, margins=TAB_MARGINS)

    def deeds(self) -> list[Deed]:
        """Return what the menu of the row repeats."""
        of_sweep: list[Deed] = [self.sweep.use, self.sweep.stop]
        return [self.curves, *(of_sweep if self._stack.currentIndex() else [])]

    def show_row(self, group: GroupRow) -> None:
        """Show an experiment or a sweep."""
        averaged = bool(group.experiment) and group.total > 1
        self._drawn = {"experiments": [group.experiment]} if averaged else {"runs": group.runs}
        how = "the mean of its runs, with a band" if averaged else "its runs over each other"
        self.curves.explain(f"Show {how} on the page of plots")
        self._title.setText(group.name)
        kind = "sweep" if group.sweep and not group.experiment else "experiment"
        self._facts.setText(f"{kind} {group.id} · {group.env_id} · {text.size(group.size_bytes)}")
        if kind == "sweep":
            self.sweep.show_sweep(group.sweep)
        else:
            self.experiment.show_experiment(group.experiment)
        self._stack.setCurrentIndex(int(kind == "sweep"))
