"""Runs or experiments side by side: what they have come to, and the settings that differ."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtWidgets import QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.records import Column, RecordsModel
from soulsgui.gui.models.rules import (
    SCORE_TITLES,
    algorithm_title,
    reward_words,
    run_title,
    short_name,
    why_run_not_trashed,
)
from soulsgui.gui.runs.models import GroupRow, QueuedRow, reached_words
from soulsgui.gui.settings.spec import as_yaml, specs
from soulsgui.gui.shell import Shell
from soulsgui.gui.shell.pages import PLOTS
from soulsgui.gui.widgets.boxes import TAB_MARGINS, column, row
from soulsgui.gui.widgets.command_button import ALSO
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import ElidedLabel, Heading, keep_place, muted, wrapped
from soulsgui.gui.widgets.table import Deed, Table
from soulsgui.wire.control import ApiError, Comparison, Experiment, RunComparison, RunSummary

_MOST = 50
_MOST_EXPERIMENTS = 20


@dataclass(frozen=True)
class Line:
    """One line of a comparison: what is compared, and what it is of each."""

    what: str
    values: tuple[str, ...]


def run_lines(found: RunComparison) -> list[Line]:
    """Return what runs have come to, then the settings in which they differ."""
    facts: dict[str, Callable[[RunSummary], str]] = {
        "State": reached_words,
        "Environment": lambda run: run.env_id,
        "Algorithm": algorithm_title,
        "Seed": lambda run: str(run.seed),
        "Steps": lambda run: text.count(run.env_steps),
        "Episodes": lambda run: text.count(run.episodes),
        "Duration": lambda run: text.duration(run.seconds),
    }
    lines = [Line(what, tuple(said(run) for run in found.runs)) for what, said in facts.items()]
    lines += [
        Line(title.capitalize(), tuple(text.value(getattr(run, score)) for run in found.runs))
        for score, title in SCORE_TITLES.items()
    ]
    known = specs()
    settings = [
        Line(key, tuple(known[key].shown(one) if key in known else as_yaml(one) for one in values))
        for key, values in sorted(found.settings.items())
    ]
    return lines + settings


def experiment_lines(found: Comparison) -> list[Line]:
    """Return the statistics of experiments, then how probably each is better than each other one."""
    facts: dict[str, Callable[[Experiment], str]] = {
        "Runs that have ended": lambda one: str(one.scored),
        "Mean": lambda one: text.value(one.mean),
        "Deviation": lambda one: text.value(one.deviation),
        "Interquartile mean": lambda one: text.value(one.iqm),
        "95 % of it": lambda one: f"{text.value(one.low)} to {text.value(one.high)}",
    }
    lines = [Line(what, tuple(said(one) for one in found.experiments)) for what, said in facts.items()]
    named = _named(found)
    told = {(one.better, one.than): one for one in found.improvements}
    for other in found.experiments:
        values = []
        for one in found.experiments:
            pair = told.get((one.id, other.id))
            values.append(
                f"{text.percent(100 * pair.probability)} "
                f"({text.percent(100 * pair.low)} to {text.percent(100 * pair.high)})"
                if pair is not None
                else text.NOTHING
            )
        lines.append(Line(f"Better than {named[other.id]}", tuple(values)))
    return lines


def _named(found: Comparison) -> dict[str, str]:
    """Return how the experiments are called, by id: by their names, unless two have the same."""
    names = {one.id: short_name(one.id) for one in found.experiments}
    return names if len(set(names.values())) == len(names) else {name: name for name in names}


def _column_of(place: int, name: str) -> Column[Line]:
    def said(line: Line) -> str:
        return line.values[place] if place < len(line.values) else text.NOTHING  # a server may leave it out

    return Column(f"of {place}", name, said, width=26)


class ComparePanel(QWidget):
    """The chosen runs, or experiments, side by side."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._rows: Sequence[RunSummary] = ()
        self._title = Heading("", 1, self)
        self._words = muted(ElidedLabel("", self))
        self.warning = wrapped("", self, "warning", selectable=True)
        self.table = Table("compareTable", "Comparison", self)
        self.table.setSelectionMode(Table.SelectionMode.ExtendedSelection)
        self.curves = FittingButton("Curves", "page-plots", self)
        self.curves.clicked.connect(lambda: self._shell.show_page(PLOTS, **self._drawable))
        self.trash = FittingButton("Move runs to the bin", "trash", self)
        self.trash.setProperty(ALSO, "delete remove")
        keep_place(self.table)
        head = row(self._title, (self._words, 1), self.curves, self.trash)
        column(head, self.warning, (self.table, 1), on=self, margins=TAB_MARGINS)
        self._fetch = Fetch(self, self._ask, came=self._take, failed=self._failed)

    def deeds(self) -> list[Deed]:
        """Return what the menu of the rows repeats."""
        return [self.curves, self.trash]

    def show_rows(self, rows: Sequence[RunSummary]) -> None:
        """Compare these; the same again are not asked for."""
        others = [one.id for one in rows] != [one.id for one in self._rows]
        self._rows = rows
        groups = sum(isinstance(one, GroupRow) for one in rows)
        what = "experiments" if self._experiments else "selected" if groups else "runs"
        self._title.setText(f"{len(rows)} {what}")
        active = self._feed.status.run
        kept = [why_run_not_trashed(one, active) for one in rows if not isinstance(one, GroupRow)]
        refusal = why_not(self._feed.connection) or next(filter(None, kept), "")
        refusal = refusal or ("" if kept else "Delete the runs of an experiment one by one.")
        self.trash.allow(refusal, "They can be put back from there")
        no_curve = "" if any(self._drawable.values()) else "None has a curve."
        self.curves.allow(no_curve, "Show them over each other on the page of plots")
        if others:
            self._fetch.forget()
            self._show([], [])
            self.warning.hide()
            self._words.setText(self._why_not() or "Comparing …")
            self.table.setVisible(not self._why_not())
            self._fetch.request()

    @property
    def _drawable(self) -> dict[str, list[str]]:
        """What the page of plots can draw of them: runs that began, experiments with several of such."""
        groups = [one for one in self._rows if isinstance(one, GroupRow)]
        return {
            "runs": [one.id for one in self._rows if not isinstance(one, GroupRow | QueuedRow)],
            "experiments": [one.id for one in groups if one.experiment and one.total > 1],
        }

    @property
    def _experiments(self) -> bool:
        return all(isinstance(one, GroupRow) and one.experiment for one in self._rows)

    def _why_not(self) -> str:
        most = _MOST_EXPERIMENTS if self._experiments else _MOST
        if len(self._rows) > most:
            return f"At most {most} can be compared."
        groups = [one for one in self._rows if isinstance(one, GroupRow)]
        if groups and not self._experiments:
            return "To compare, select either runs or experiments."
        waits = any(isinstance(one, QueuedRow) for one in self._rows)
        return "A run that waits in the queue has nothing to compare yet." if waits else ""

    def _ask(self) -> Call | None:
        if self._why_not():
            return None
        names = [one.id for one in self._rows]
        if self._experiments:
            params: dict[str, Any] = {"experiments": names, "score": "best_mean_return"}
            return self._feed.ask("experiments.compare", params)
        return self._feed.ask("runs.compare", {"runs": names})

    def _take(self, found: Comparison | RunComparison) -> None:
        if isinstance(found, Comparison):
            judged = SCORE_TITLES["best_mean_return"]
            self._words.setText(f"By the {judged} of each run, with 95 % intervals.")
            self._show(list(_named(found).values()), experiment_lines(found))
            return
        number = len(found.settings)
        self._words.setText(text.plural(number, "One setting differs.", "{n} settings differ."))
        self.warning.setText(reward_words(found.settings))
        self.warning.setVisible(bool(self.warning.text()))
        self._show([run_title(one) for one in found.runs], run_lines(found))

    def _failed(self, error: ApiError) -> None:
        self._words.setText(error.words(" "))

    def _show(self, names: Sequence[str], lines: Sequence[Line]) -> None:
        columns = [Column[Line]("what", "", lambda line: line.what, width=34)]
        columns += [_column_of(place, name) for place, name in enumerate(names)]
        model = RecordsModel(columns, lambda line: line.what, parent=self.table)
        model.replace(lines)
        before = self.table.model()
        self.table.setModel(model)
        if before is not None:
            before.deleteLater()
