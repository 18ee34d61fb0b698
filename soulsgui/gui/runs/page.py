"""The page of the runs: active one, queue, past ones or the bin; what is chosen stands below."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QGuiApplication, QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QStackedWidget, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed, together
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.icons import dress
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import Question, purge_question, run_title, why_refused
from soulsgui.gui.runs.compare import ComparePanel
from soulsgui.gui.runs.details import SUFFIX, RunDetails
from soulsgui.gui.runs.experiments import GroupPanel
from soulsgui.gui.runs.models import GroupRow, QueuedRow, RunsModel, group_of
from soulsgui.gui.runs.queue import BinPanel, QueuePanel
from soulsgui.gui.shell import Action, Shell, carry_out, notify_problem
from soulsgui.gui.shell.pages import RUNS
from soulsgui.gui.states import run_is_active
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import PAGE_MARGINS, column, row, split, stack
from soulsgui.gui.widgets.command_button import Words, allow
from soulsgui.gui.widgets.dialog import ask_for_file
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.geometry import Arranged, Memory
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.labels import Label, muted
from soulsgui.gui.widgets.table import Deed, Table
from soulsgui.wire.control import ExperimentList, Freed, QueuedRun, RunList, RunStatus, RunSummary


def _is_run(row: RunSummary) -> bool:
    """Whether a row is a run that has begun: not one that waits, not a group."""
    return not isinstance(row, QueuedRow | GroupRow)


class RunsPage(QWidget):
    """Every run of the server, and the chosen one."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("runsPage")
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), RUNS)
        self._active = ("", False)
        self._wanted = ""
        self._by_hand = False
        head = self._head()  # made before what is below it: so Tab goes through them
        self.model = RunsModel(self)
        self.landing = self.table = Table("runsTable", "Runs", self)
        self.details = RunDetails(feed, shell, self)
        self.compare = ComparePanel(feed, shell, self)
        self.group = GroupPanel(feed, shell, self)
        self.queue = QueuePanel(feed, shell, self)
        self.thrown = BinPanel(feed, shell, self)
        self._listed = feed.lists.runs
        self._build(head)
        tell = partial(notify_problem, shell)
        self._list = Throttle(self, self._take_runs, 0)
        self._listed.changed.connect(self._list.request)
        self._list.request()
        self._fetch_bin = Fetch(self, self._ask_bin, came=self._take_bin, failed=tell)
        self._fetch_experiments = Fetch(self, self._ask_experiments, came=self._take_experiments, failed=tell)
        feed.snapshot_taken.connect(self.refresh)
        feed.queue_changed.connect(self._queue_changed)
        feed.run_changed.connect(self._run_changed)
        feed.connection_changed.connect(self._show_connection)
        feed.allowed_changed.connect(self._allow_start)
        self.details.edited.connect(self._edited)
        self.details.trash_wanted.connect(self._trash)
        self.compare.trash.clicked.connect(self._trash)
        self.thrown.changed.connect(self._fetch_bin.request)
        for group in (self.group.experiment, self.group.sweep):
            group.run_wanted.connect(lambda run: self.show_where(run=run))
        self.refresh()
        self._show_connection()
        self._memory.restore(*self._kept)

    def _build(self, head: QHBoxLayout) -> None:
        self.table.setModel(self.model)
        self.table.sort_by(self.model.column_number("created"), downwards=True)
        # Rows that the filter hides leave the selection one by one.
        self._show_soon = Throttle(self, self._show_chosen, 0)
        self.table.selectionModel().selectionChanged.connect(self._show_soon.request)
        self.table.clicked.connect(self._clicked)
        self.table.row_opened.connect(self._opened)
        self.table.offer(self._deeds)
        self.table.row_reached.connect(self._chosen_by_hand)
        self._panels = QStackedWidget(self)
        for panel in (self.details, self.compare, self.group, self.queue, self.thrown):
            self._panels.addWidget(panel)
        self._splitter = split("runsSplitter", Qt.Orientation.Vertical, self, self.table, self._panels)
        self._splitter.setStretchFactor(0, 2)
        self._splitter.setStretchFactor(1, 3)
        self._splitter.setSizes([2000, 3000])
        self.empty = EmptyState("page-runs", "", "", "New run…", "add", self)
        self.empty.acted.connect(self._shell.open_new_run)
        self._stack = stack(self._splitter, self.empty)
        self._stack.setCurrentIndex(1)
        column(head, (self._stack, 1), on=self, margins=PAGE_MARGINS)

    def _head(self) -> QHBoxLayout:
        self.words = FilterEdit("Search names, notes, environments, states", self)
        self.words.textChanged.connect(self._narrow)
        self._count = muted(Label(parent=self))
        self.bring = FittingButton("Import…", "add", self)
        self.bring.clicked.connect(self._ask_file)
        self.bin = FittingButton("Show the bin", "trash", self)
        self.bin.setCheckable(True)
        self.bin.explain("Show deleted runs")
        self.bin.toggled.connect(self._other_list)
        words = Words("Empty the bin…", "Removing …", "Emptied")
        purge = partial(self._feed.call, "runs.purge")
        self.purge = AskingButton(words, "remove", purge, self._purge_question, self)
        self.purge.problem.connect(partial(notify_problem, self._shell))
        self.purge.finished.connect(self._purged)
        self.purge.hide()
        again = QPushButton("Refresh", self)
        again.setToolTip("List the runs again (F5)")
        dress(again, "restart")
        again.clicked.connect(self.refresh)
        shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Refresh), self)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(self.refresh)
        return row((self.words, 1), self._count, self.purge, self.bin, self.bring, again)

    def show_where(self, run: str = "", checkpoint: str = "", **_: Any) -> None:
        """Show a run, and one of its checkpoints."""
        self._wanted, self._by_hand = run, bool(run)
        self.words.clear()
        self.bin.setChecked(False)
        found = self.model.find(run)
        group = self.model.find(group_of(found)) if found is not None else None
        if isinstance(group, GroupRow) and not group.open:
            self.model.toggle(group)
        self._choose()
        if checkpoint:
            self.details.tabs.setCurrentWidget(self.details.checkpoints)
            self.details.checkpoints.choose(checkpoint)

    def refresh(self) -> None:
        """Ask for the runs, and for what is known of the chosen one, again."""
        self._listed.renew()
        self._fetch_experiments.request()
        self._fetch_bin.request()
        self.details.refresh()

    @property
    def _kept(self) -> tuple[Arranged, ...]:
        """What stands as the user left it."""
        of_run = self.details.tabs, self.details.checkpoints.table, self.details.videos.table
        return self._splitter, self.table, *of_run, self.group.experiment.table

    @property
    def chosen(self) -> RunSummary | None:
        """The run in the current row; a run of the queue and a group are rows, too."""
        return self.model.at(self.table.currentIndex().row())

    @property
    def selected(self) -> list[RunSummary]:
        """The chosen rows, from top to bottom."""
        return [found for row in self.table.selected_rows if (found := self.model.at(row)) is not None]

    def _take_runs(self) -> None:
        self._listed.want()
        if self.bin.isChecked():
            self._fetch_bin.request()
        elif self._listed.known:
            self.model.take(self._listed.entries, self._feed.status.run, self._feed.status.queue)
            self._fetch_experiments.request()
        self._settle()

    def _ask_bin(self) -> Call | None:
        return self._feed.ask("runs.list", {"trashed": True}) if self.bin.isChecked() else None

    def _take_bin(self, listed: RunList) -> None:
        if self.bin.isChecked():
            self.model.take(listed.runs, RunStatus())
            self._settle()

    def _ask_experiments(self) -> Call | None:
        if not any(run.experiment for run in self._listed.entries):
            return None
        return self._feed.ask("experiments.list", {"score": "best_mean_return"})

    def _take_experiments(self, listed: ExperimentList) -> None:
        self.model.take_experiments(listed.experiments)

    def _queue_changed(self, queue: list[QueuedRun]) -> None:
        if self._listed.known and not self.bin.isChecked():
            self.model.show_queue(queue)
            self._settle()

    def _other_list(self) -> None:
        self._fetch_bin.forget()
        self._by_hand = False
        self.model.replace(())
        self._take_runs()
        self._fetch_bin.request()

    def _settle(self) -> None:
        """Choose a run where none is chosen, and say how many there are."""
        total = sum(_is_run(row) for row in self.model.records)
        found = [self.model.at(place) for place in range(self.model.rowCount())]
        shown = sum(
            row.total if isinstance(row, GroupRow) and not row.open else _is_run(row) for row in found if row
        )
        self._say_empty()
        self._stack.setCurrentIndex(0 if self.model.records or self.bin.isChecked() else 1)
        told = f"{shown} of {total} runs" if self.words.text() else text.plural(total, "{n} run", "{n} runs")
        self._count.setText(told if total else "")
        self.purge.setVisible(self.bin.isChecked())
        away = why_not(self._feed.connection)
        self.bring.allow(away, "Take a run from a file (.soulsrun) into the library")
        refusal = away or ("" if total else "The bin is empty.")
        self.purge.allow(refusal)
        self._choose()

    def _say_empty(self) -> None:
        none = self._listed.known and not self._listed.entries
        if none:
            self.empty.say("No run yet", "A run is one training from its beginning to its end.")
        else:
            self.empty.say(why_not(self._feed.connection) or "Reading the list of runs …", "")
        self.empty.button.setVisible(none)

    def _choose(self) -> None:
        selection = self.table.selectionModel()
        place = self.model.row_of(self._wanted) if self._by_hand else None
        if place is None and (not selection.hasSelection() or not self._by_hand):
            active = self.model.row_of(self._feed.status.run.id)
            place = active if active is not None and not self.bin.isChecked() else 0
        if place is not None and place < self.model.rowCount() and not selection.isRowSelected(place):
            self.table.selectRow(place)
        self._show_chosen()

    def _show_chosen(self, *_: object) -> None:
        """Show what is chosen, in the panel that fits it."""
        rows = self.selected
        first = rows[0] if rows else None
        panel: QWidget = self.details
        if self.bin.isChecked():
            panel = self.thrown
            self.thrown.show_rows(rows)
        elif len(rows) > 1:
            panel = self.compare
            self.compare.show_rows(rows)
        elif isinstance(first, QueuedRow):
            panel = self.queue
            self.queue.show_row(first, sum(isinstance(row, QueuedRow) for row in self.model.records))
        elif isinstance(first, GroupRow):
            panel = self.group
            self.group.show_row(first)
        else:
            self.details.show_run(first)
        panel.setEnabled(first is not None)
        self._panels.setCurrentWidget(panel)

    def _deeds(self) -> Sequence[Deed]:
        panel = self._panels.currentWidget()
        assert isinstance(panel, RunDetails | ComparePanel | GroupPanel | QueuePanel | BinPanel)
        return panel.deeds()

    def _chosen_by_hand(self, *_: object) -> None:
        rows = self.selected
        if rows:
            chosen = self.chosen
            self._wanted, self._by_hand = (chosen if chosen in rows else rows[0]).id, True

    def _clicked(self, index: QModelIndex) -> None:
        self._chosen_by_hand()
        if index.column() == 0:
            self._toggle()

    def _opened(self, index: QModelIndex) -> None:
        self._chosen_by_hand()
        # On the arrow the first of two clicks has done it already.
        if index.column() != 0 or not QGuiApplication.mouseButtons():
            self._toggle()

    def _toggle(self) -> None:
        if isinstance(self.chosen, GroupRow):
            self.model.toggle(self.chosen)
            self._settle()

    def _narrow(self, words: str) -> None:
        self.model.set_filter(words)
        self._settle()

    def _edited(self, run: RunSummary) -> None:
        self.model.change(run)
        self._show_chosen()

    def _run_changed(self, status: RunStatus) -> None:
        if not self.isVisible() or self.bin.isChecked():
            return
        active = (status.id, run_is_active(status.state))
        known = self.model.follow(status)
        if active != self._active:
            self._active = active
            self.details.refresh()
        if not known:
            self._listed.renew()
        chosen = self.chosen
        if chosen is not None and chosen.id == status.id:
            self._show_chosen()
        elif active[1]:
            self.details.show_connection()

    def _show_connection(self, *_: object) -> None:
        self.table.setEnabled(self._feed.connection.live)
        self.details.show_connection()
        self._show_chosen()
        self._say_empty()
        self._allow_start()
        if self._feed.connection.live:
            self.refresh()

    def _trash(self) -> None:
        rows = [row for row in self.selected if _is_run(row)]
        if not rows:
            return
        call = together([self._feed.call("runs.trash", {"run": row.id}) for row in rows])
        carry_out(self._shell, call, partial(self._trashed, rows, self._beside_selected()))

    def _beside_selected(self) -> str:
        """Return the id of the row that follows those selected, or else precedes them; empty for none."""
        places = self.table.selected_rows
        beside = [*range(places[-1] + 1, self.model.rowCount()), *range(places[-1] - 1, -1, -1)]
        found = self.model.at(next((place for place in beside if place not in places), -1))
        return found.id if found is not None else ""

    def _trashed(self, rows: list[RunSummary], beside: str, _: object) -> None:
        self._wanted, self._by_hand = beside, bool(beside)
        self._choose()
        what = (
            f"“{run_title(rows[0])}” is in the bin" if len(rows) == 1 else f"{len(rows)} runs are in the bin"
        )
        freed = f"{text.size(sum(row.size_bytes for row in rows))} become free when it is emptied."
        self._shell.notify("success", what, freed, Action("Undo", partial(self._undo, rows)))

    def _undo(self, rows: list[RunSummary]) -> None:
        self._wanted, self._by_hand = rows[0].id, True
        call = together([self._feed.call("runs.restore", {"run": row.id}) for row in rows])
        carry_out(self._shell, call, lambda _: self._choose())

    def _purge_question(self) -> Question | None:
        runs = self.model.records
        what = text.plural(len(runs), "the run of the bin", "all {n} runs of the bin")
        return purge_question(what, sum(run.size_bytes for run in runs)).of(*(run.id for run in runs))

    def _purged(self, freed: Freed) -> None:
        self._shell.notify("success", f"{text.size(freed.freed_bytes)} became free")
        self._fetch_bin.request()

    def _ask_file(self) -> None:
        ask_for_file("Import a run", f"Runs (*{SUFFIX})", self.import_from, self)

    def import_from(self, path: str) -> None:
        """Take a run from a file into the library."""
        carry_out(self._shell, self._feed.job_with_file("runs.import", path), self._imported)

    def _imported(self, run: RunSummary) -> None:
        self._wanted, self._by_hand = run.id, True
        self._choose()
        self._shell.notify("success", f"{run_title(run)} is in the library")

    def _allow_start(self) -> None:
        refusal = why_refused("run.start", self._feed.connection, self._feed.status)
        allow(self.empty.button, refusal, "Choose a preset or your settings, and begin a run")

    def showEvent(self, event: QShowEvent) -> None:
        """Follow the run that goes on."""
        super().showEvent(event)
        self._run_changed(self._feed.status.run)
        self._fetch_bin.request()
        self.details.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the arrangement."""
        super().hideEvent(event)
        self._memory.keep(*self._kept)
