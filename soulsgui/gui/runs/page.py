"""The page of the runs: the active one on top, then the past ones; the chosen one with its tabs below."""

from functools import partial
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSplitter, QStackedLayout, QWidget

from soulsgui.gui.feed import Feed, Fetch
from soulsgui.gui.geometry import Memory
from soulsgui.gui.icons import dress
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import why_refused
from soulsgui.gui.runs.details import RunDetails
from soulsgui.gui.runs.models import RunsModel
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.shell.pages import RUNS
from soulsgui.gui.states import run_is_active
from soulsgui.gui.widgets.boxes import column, row
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.labels import Label, muted, set_tip
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import RunStatus, RunSummary


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
        self.model = RunsModel(self)
        self.landing = self.table = Table("runsTable", "Runs", self)
        self.details = RunDetails(feed, shell, self)
        self._listed = False
        self._build()
        ask = partial(feed.ask, "runs.list")
        tell = partial(notify_problem, shell)
        self._fetch = Fetch(self, ask, came=self._take, failed=tell)
        feed.snapshot_taken.connect(self.refresh)
        feed.run_changed.connect(self._run_changed)
        feed.connection_changed.connect(self._show_connection)
        feed.allowed_changed.connect(self._allowed_changed)
        self.details.edited.connect(self._edited)
        self.refresh()
        self._show_connection()
        self._memory.restore(self._splitter, self.table, self.details.checkpoints.table)

    def _build(self) -> None:
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.sort_by(self.model.column_number("created"), downwards=True)
        self.table.selectionModel().currentRowChanged.connect(self._current_changed)
        self.table.clicked.connect(self._chosen_by_hand)
        self.table.row_opened.connect(self._chosen_by_hand)
        self.table.row_reached.connect(self._chosen_by_hand)
        self._splitter = QSplitter(Qt.Orientation.Vertical, self)
        self._splitter.setObjectName("runsSplitter")
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(self.table)
        self._splitter.addWidget(self.details)
        self._splitter.setStretchFactor(0, 2)
        self._splitter.setStretchFactor(1, 3)
        self.empty = EmptyState("page-runs", "", "", "New run…", "play", self)
        self.empty.acted.connect(self._shell.open_new_run)
        self._stack = QStackedLayout()
        self._stack.addWidget(self._splitter)
        self._stack.addWidget(self.empty)
        self._stack.setCurrentIndex(1)
        column(self._head(), (self._stack, 1), on=self, margins=(12, 10, 12, 8))

    def _head(self) -> QHBoxLayout:
        self.words = FilterEdit("Search names, notes, environments, states", self)
        self.words.textChanged.connect(self._narrow)
        self._count = muted(Label(parent=self))
        again = QPushButton("Refresh", self)
        again.setToolTip("List the runs again (F5)")
        dress(again, "restart")
        again.clicked.connect(self.refresh)
        shortcut = QShortcut(QKeySequence(QKeySequence.StandardKey.Refresh), self)
        shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        shortcut.activated.connect(self.refresh)
        return row((self.words, 1), self._count, again)

    def show_where(self, run: str = "", checkpoint: str = "", **_: Any) -> None:
        """Show a run, and one of its checkpoints."""
        self._wanted, self._by_hand = run, bool(run)
        self.words.clear()
        self._choose()
        if checkpoint:
            self.details.tabs.setCurrentWidget(self.details.checkpoints)
            self.details.checkpoints.choose(checkpoint)

    def refresh(self) -> None:
        """Ask for the runs, and for what is known of the chosen one, again."""
        self._fetch.request()
        self.details.refresh()

    @property
    def chosen(self) -> RunSummary | None:
        """The run in the current row."""
        return self.model.at(self.table.currentIndex().row())

    def _take(self, result: dict[str, Any]) -> None:
        runs = [RunSummary.model_validate(run) for run in result["runs"]]
        self._listed = True
        self.model.take(runs, self._feed.status.run)
        self._settle()

    def _settle(self) -> None:
        """Choose a run where none is chosen, and say how many there are."""
        total, shown = len(self.model.records), self.model.rowCount()
        self._say_empty()
        self._stack.setCurrentIndex(1 if total == 0 else 0)
        if shown < total:
            self._count.setText(f"{shown} of {total} runs")
        else:
            self._count.setText(f"{total:,} {'run' if total == 1 else 'runs'}" if total else "")
        self._choose()

    def _say_empty(self) -> None:
        if self._listed:
            self.empty.say("No run yet", "A run is one training from its beginning to its end.")
        else:
            self.empty.say(why_not(self._feed.connection) or "Reading the list of runs …", "")
        self.empty.button.setVisible(self._listed)

    def _choose(self) -> None:
        place = self.model.row_of(self._wanted) if self._by_hand else None
        selection = self.table.selectionModel()
        if place is None and (not selection.hasSelection() or not self._by_hand):
            place = 0
        if place is not None and place < self.model.rowCount() and not selection.isRowSelected(place):
            self.table.selectRow(place)
        self.details.show_run(self.chosen)
        self.details.setEnabled(self.chosen is not None)

    def _chosen_by_hand(self, *_: object) -> None:
        if self.chosen is not None:
            self._wanted, self._by_hand = self.chosen.id, True

    def _current_changed(self) -> None:
        # Not always by hand: Qt does it, too, when rows go or the table takes the keyboard.
        self.details.show_run(self.chosen)

    def _narrow(self, words: str) -> None:
        self.model.set_filter(words)
        self._settle()

    def _edited(self, run: RunSummary) -> None:
        self.model.change(run)
        self.details.show_run(self.chosen)

    def _run_changed(self, status: RunStatus) -> None:
        if not self.isVisible():
            return
        active = (status.id, run_is_active(status.state))
        known = self.model.follow(status)
        if active != self._active or not known:
            self._active = active
            self.refresh()
        chosen = self.chosen
        if chosen is not None and chosen.id == status.id:
            self.details.show_run(chosen)
        elif active[1]:
            self.details.show_connection()

    def _show_connection(self, *_: object) -> None:
        self.table.setEnabled(self._feed.connection.live)
        self.details.show_connection()
        self._say_empty()
        self._allow_start()
        if self._feed.connection.live:
            self.refresh()

    def _allowed_changed(self, *_: object) -> None:
        self._allow_start()
        if self.isVisible():
            self._fetch.request()

    def _allow_start(self) -> None:
        refusal = why_refused("run.start", self._feed.connection, self._feed.status)
        self.empty.button.setEnabled(not refusal)
        set_tip(self.empty.button, refusal or "Choose a preset or your settings, and begin a run")

    def showEvent(self, event: QShowEvent) -> None:
        """Bring the list up to date."""
        super().showEvent(event)
        self._run_changed(self._feed.status.run)
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the arrangement."""
        super().hideEvent(event)
        self._memory.keep(self._splitter, self.table, self.details.checkpoints.table)
