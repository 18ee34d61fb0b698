"""The chosen run: what it is, what can be done with it, and its tabs."""

import os
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QPushButton, QSizePolicy, QTabWidget, QWidget

from soulsgui.config.paths import Folders
from soulsgui.config.schema import shipped_values
from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.icons import dress
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import (
    Question,
    algorithm_title,
    has_reached,
    resume_question,
    run_title,
    why_not_resumed,
    why_run_not_trashed,
)
from soulsgui.gui.runs.checkpoints import CheckpointsTab, NoteDialog
from soulsgui.gui.runs.models import EventsModel, reached_words
from soulsgui.gui.runs.videos import VideosTab
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.settings.spec import specs
from soulsgui.gui.shell import Shell, carry_out, export_file, notify_problem
from soulsgui.gui.shell.pages import LOGS, PLOTS
from soulsgui.gui.states import run_look
from soulsgui.gui.theme import GAP_S, GAP_XS
from soulsgui.gui.widgets.agree import run_dialog
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import NO_MARGINS, TAB_MARGINS, column, flow, row, stack
from soulsgui.gui.widgets.command_button import CommandButton, MoreButton, Words, allow
from soulsgui.gui.widgets.dialog import ask_where_to_save
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import ElidedLabel, StateLabel, muted, set_property, wrapped
from soulsgui.gui.widgets.table import Deed, Table
from soulsgui.wire.control import ApiError, ConfigValues, Event, EventList, RunSummary


class EventsTab(QWidget):
    """Lists the events of one run; each leads to the log of its service."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run = ""
        self.model = EventsModel(self)
        self.table = Table("runEventsTable", "Events of the run", self)
        self._build()
        self._fetch = Fetch(self, self._ask, came=self._take, failed=partial(notify_problem, shell))
        feed.event_arrived.connect(self._arrived)

    def _build(self) -> None:
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.sort_by(self.model.column_number("time"), downwards=True)
        self.table.selectionModel().currentRowChanged.connect(self._show_chosen)
        self.table.row_opened.connect(lambda _: self._show_log())
        self.table.offer(lambda: [self.log])
        self._empty = EmptyState("bell", "", "", parent=self)
        self._stack = stack(self.table, self._empty)
        self.words = muted(wrapped("", self, selectable=True))
        self.log = QPushButton("Show the log", self)
        dress(self.log, "log")
        self.log.clicked.connect(self._show_log)
        foot = row((self.words, 1), (self.log, Qt.AlignmentFlag.AlignTop))
        column((self._stack, 1), foot, on=self, margins=TAB_MARGINS)
        self._show_chosen()

    def show_run(self, run: RunSummary | None) -> None:
        """Show the events of a run."""
        name = run.id if run is not None else ""
        if name != self._run:
            self._run = name
            self._fetch.forget()
            self._empty.say("Reading the events …", "")
            self._show(self._feed.events)
            self.refresh()

    def refresh(self) -> None:
        """Ask for the events again."""
        if self._run:
            self._fetch.request()

    def show_connection(self) -> None:
        """Grey what is no longer the present."""
        self.table.setEnabled(self._feed.connection.live)

    @property
    def chosen(self) -> Event | None:
        """The event in the current row."""
        return self.model.at(self.table.currentIndex().row())

    def _ask(self) -> Call | None:
        return self._feed.ask("history.events", {"since": 0}) if self._run else None

    def _take(self, listed: EventList) -> None:
        self._empty.say("Nothing happened yet", "Starts, stops and crashes are listed here.")
        self._show(listed.events)

    def _show(self, events: list[Event]) -> None:
        self.model.show_run(self._run, events)
        self._settle()

    def _arrived(self, event: Event) -> None:
        self.model.add(event)
        self._settle()

    def _settle(self) -> None:
        self._stack.setCurrentIndex(0 if self.model.rowCount() else 1)
        told = ["what"]
        for name in ("cause", "remedy"):
            # A column without a word would take room that the others lack.
            said = any(getattr(event, name) for event in self.model.records)
            self.table.setColumnHidden(self.model.column_number(name), not said)
            told += [name] if said else []
        self.table.share_room([self.model.column_number(name) for name in told])
        self._show_chosen()

    def _show_chosen(self, *_: object) -> None:
        event = self.chosen
        reason = "" if event is not None else "Choose an event first."
        allow(self.log, reason, "What was written at that moment")
        self.words.setText("" if event is None else event.words())

    def _show_log(self) -> None:
        event = self.chosen
        if event is not None:
            self._shell.show_page(LOGS, service=event.service or "trainer", run=self._run, time=event.time)


_TAB = Qt.FocusPolicy.TabFocus


class RunSettingsTab(QWidget):
    """The settings a run works or worked with; the form is made when it is first shown.

    Tab leads into it from the widget `before`.
    """

    def __init__(self, feed: Feed, before: QWidget, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._before = before
        self._run = ""
        self.form: SettingsForm | None = None
        self.words = wrapped("", self)
        self._column = column(self.words, on=self, margins=TAB_MARGINS)
        self._column.addStretch(0)
        self._fetch = Fetch(self, self._ask, came=self._take, failed=self._failed)

    def show_run(self, run: RunSummary | None) -> None:
        """Show the settings of a run."""
        name = run.id if run is not None else ""
        if name != self._run:
            self._run = name
            self._fetch.forget()
            if self.form is not None:
                self.form.hide()
            self._say("Reading the settings …")
            self.refresh()

    def refresh(self) -> None:
        """Ask for the settings again."""
        self._fetch.request()

    def _say(self, words: str, tone: str = "muted") -> None:
        self.words.setText(words)
        set_property(self.words, "tone", tone)

    def _ask(self) -> Call | None:
        return self._feed.ask("config.get", {"run": self._run}) if self._run else None

    def _take(self, values: ConfigValues) -> None:
        if self.form is None:
            self.form = SettingsForm(self, read_only=True)
            self._column.addWidget(self.form, 1)
            stops = (one for one in self.form.findChildren(QWidget) if one.focusPolicy() & _TAB)
            for before, stop in pairwise((self._before, *stops)):
                QWidget.setTabOrder(before, stop)
        shipped = shipped_values(values.defaults, values.run)
        self.form.load(shipped, own_values(values.run, shipped))
        self.form.show()
        self._say("“Modified only” shows what differs from the defaults.")

    def _failed(self, error: ApiError) -> None:
        if self.form is not None:
            self.form.hide()
        self._say(error.words(), "bad")


def own_values(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that differ from the shipped ones, by dotted key."""
    known = specs()
    return {
        key: value
        for key, value in values.items()
        if key in known and known[key].check(value)[0] != known[key].check(defaults.get(key))[0]
    }


def for_a_new_run(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that make another run like this one: all but those of the server itself."""
    known = specs()
    return {
        key: value for key, value in values.items() if key in known and not known[key].info.effect.of_server
    }


SUFFIX = ".soulsrun"
_HEAD_CHARACTERS = 34


class RunDetails(QWidget):
    """One run with its tabs.

    Signals:
        edited: Name, note or pin were changed; with the run's new `RunSummary`.
        trash_wanted: The chosen run is to be thrown away.
    """

    edited = Signal(object)
    trash_wanted = Signal()

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run: RunSummary | None = None
        self._build()
        self._show()

    def _build(self) -> None:
        self._state = StateLabel(self)
        self._title = ElidedLabel("", self)
        self._title.setProperty("heading", "1")
        self._title.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._facts = muted(ElidedLabel("", self))
        self._note = ElidedLabel("", self)
        what = QWidget(self)
        what.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        what.setMinimumWidth(_HEAD_CHARACTERS * self.fontMetrics().averageCharWidth())
        row(self._title, self._state, None, on=what, margins=NO_MARGINS, gap_px=GAP_S)
        head = flow(what, *self._buttons(), gap_px=GAP_S)
        self.tabs = QTabWidget(self)
        self.tabs.setObjectName("runTabs")
        self.tabs.setDocumentMode(True)
        # Made after what is above them: so Tab goes through them.
        self.checkpoints = CheckpointsTab(self._feed, self._shell, self)
        self.settings = RunSettingsTab(self._feed, self.tabs.tabBar(), self)
        self.events = EventsTab(self._feed, self._shell, self)
        self.videos = VideosTab(self._feed, self._shell, self)
        self.tabs.addTab(self.checkpoints, "Check&points")
        self.tabs.addTab(self.settings, "Confi&guration")
        self.tabs.addTab(self.events, "&Events")
        self.tabs.addTab(self.videos, "&Videos")
        parts = (head, self._facts, self._note, (self.tabs, 1))
        column(*parts, on=self, margins=TAB_MARGINS, gap_px=GAP_XS)

    def deeds(self) -> list[Deed]:
        """Return what the menu of a run repeats."""
        return [
            self.resume,
            self.without_goal,
            self.again,
            self.curves,
            self.edit,
            *self.more.menu_of.actions(),
        ]

    def _buttons(self) -> list[FittingButton]:
        words = Words("Resume", "Resuming …", "Resumed")
        self.resume = AskingButton(words, "resume", self._resume, self._resume_question, self)
        words = Words("Continue without the goal", "Resuming …", "Resumed")
        self.without_goal = AskingButton(
            words, "resume", lambda: self._resume(without_goal=True), self._resume_question, self
        )
        words = Words("Use for a new run", "Reading its settings …", "Read")
        self.again = CommandButton(words, "play", self._read_settings, self)
        self.again.finished.connect(self._use_again)
        for command in (self.resume, self.without_goal, self.again):
            command.problem.connect(partial(notify_problem, self._shell))
        self.curves = FittingButton("Curves", "page-plots", self)
        self.curves.clicked.connect(self._show_curves)
        self.edit = FittingButton("Edit…", "edit", self)
        self.edit.clicked.connect(self._edit)
        self.more = MoreButton(self)
        self.pin = self.more.add("Pin", "pin", self._pin)
        self.export = self.more.add("Export…", "export", self._ask_export)
        self.copy = self.more.add("Copy path", "copy", self._copy)
        self.open = self.more.add("Open folder", "folder", self._open)
        self.more.menu_of.addSeparator()
        self.trash = self.more.add("Move run to the bin", "trash", self.trash_wanted.emit, "delete remove")
        return [self.resume, self.without_goal, self.again, self.curves, self.edit, self.more]

    def show_run(self, run: RunSummary | None) -> None:
        """Show a run, or its new state."""
        self._run = run
        self.checkpoints.show_run(run)
        self.events.show_run(run)
        self.settings.show_run(run)
        self.videos.show_run(run)
        self._show()

    def refresh(self) -> None:
        """Ask for everything in the tabs again."""
        for tab in (self.checkpoints, self.events, self.settings, self.videos):
            tab.refresh()

    def show_connection(self) -> None:
        """Allow what the connection allows; what is no longer the present is greyed."""
        for part in (self._state, self._title, self._facts, self._note):
            part.setEnabled(self._feed.connection.live)
        self.checkpoints.show_connection()
        self.events.show_connection()
        self.videos.show_connection()
        self._allow()

    def _show(self) -> None:
        run = self._run
        for part in (self._state, self._title, self._facts, self._note):
            part.setVisible(run is not None)
        if run is not None:
            look = run_look(run.state)
            self._state.show_look(look)
            self._state.setMinimumWidth(self._state.sizeHint().width())
            self._state.setToolTip(text.tip(reached_words(run)))
            self._title.setText(run_title(run))
            made = f"{text.count(run.env_steps)} steps"
            facts = [run.id, run.env_id, algorithm_title(run), f"seed {run.seed}", made, run.error]
            self._facts.setText(" · ".join(fact for fact in facts if fact))
            self._note.setText(" ".join(run.note.split()))
            self._note.setVisible(bool(run.note))
        self._allow()

    def _allow(self) -> None:
        away = why_not(self._feed.connection)
        reason = away or why_not_resumed(self._run)
        saved = self._run is None or self._run.resumable
        begins = "Continue from its newest checkpoint" if saved else "Begin again: it has no checkpoint"
        self.resume.allow(reason, f"{begins}, as a new attempt")
        self.without_goal.setVisible(self._run is not None and has_reached(self._run))
        self.without_goal.allow(away, f"{begins}, until it is stopped")
        chosen = "Choose a run first." if self._run is None else ""
        self.again.allow(away or chosen, "Open New run with the settings of this one")
        self.curves.allow(chosen, "Show it on the page of plots")
        self.edit.allow(away or chosen)
        path = self._folder
        allow(self.copy, "" if path else away or chosen, path)
        pinned = self._run is not None and self._run.pinned
        self.pin.setText("Unpin" if pinned else "Pin")
        unpin = "Allow it to be deleted again"
        allow(self.pin, away or chosen, unpin if pinned else "Protect it from being deleted")
        allow(self.export, away or chosen, "Write all of it into one file, which opens on any server")
        refusal = away or why_run_not_trashed(self._run, self._feed.status.run)
        freed = text.size(self._run.size_bytes) if self._run is not None else ""
        allow(self.trash, refusal, f"Delete it; {freed} become free when the bin is emptied")
        # Not by a Path, which raises where the name is too long or its folder is closed to us.
        there = os.path.isdir(path)  # noqa: PTH112
        self.open.setVisible(there and not self._feed.remote)

    @property
    def _folder(self) -> str:
        """Path of the run's folder on its server; empty before the server has said where its data is."""
        hello = self._feed.hello
        if hello is None or self._run is None:
            return ""
        kind = PurePosixPath if hello.data_dir.startswith("/") else PureWindowsPath  # as paths are there
        return str(kind(hello.data_dir, Folders.runs, self._run.id))

    def _resume_question(self) -> Question | None:
        active = self._feed.status.run
        question = resume_question(self._run, active) if self._run is not None else None
        return question and question.of(self._run and self._run.id, active.id)

    def _resume(self, without_goal: bool = False) -> Call:
        name = self._run.id if self._run is not None else ""
        params = {"run": name, "if_active": "stop"} | ({"without_goal": True} if without_goal else {})
        return self._feed.call("run.resume", params)

    def _read_settings(self) -> Call:
        return self._feed.call("config.get", {"run": self._run.id if self._run is not None else ""})

    def _use_again(self, found: ConfigValues) -> None:
        use = partial(self._shell.open_new_run, for_a_new_run(found.run))
        if found.asks is None:
            use()
            return
        dialog = run_dialog(found.asks, lambda: dialog.accept(), self)
        dialog.accepted.connect(use)
        dialog.open()

    def _show_curves(self) -> None:
        if self._run is not None:
            self._shell.show_page(PLOTS, runs=[self._run.id])

    def _edit(self) -> None:
        run = self._run
        if run is None:
            return

        def save(name: str | None, note: str) -> Call:
            call = self._feed.call("runs.edit", {"run": run.id, "name": name, "note": note})
            call.done.connect(self.edited)
            return call

        NoteDialog("Name and note of the run", run.name, run.note, save, self).open()

    def _pin(self) -> None:
        if self._run is not None:
            params = {"run": self._run.id, "pin": not self._run.pinned}
            carry_out(self._shell, self._feed.call("runs.edit", params), self.edited)

    def _ask_export(self) -> None:
        if self._run is None:
            return
        name, write = f"{self._run.id}{SUFFIX}", partial(self.export_to, self._run.id)
        ask_where_to_save("Export the run", name, f"Runs (*{SUFFIX})", write, self)

    def export_to(self, run: str, path: str) -> None:
        """Write a run into a file of this computer."""
        export_file(self._shell, path, self._feed.job("runs.export", {"run": run}, path))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._folder)
        self._shell.notify("info", "Path copied", self._folder)

    def _open(self) -> None:
        path = self._folder
        if QDesktopServices.openUrl(QUrl.fromLocalFile(path)):
            # Desktops say yes before they know whether there is a program for it.
            self._shell.notify("info", "The run's folder is opened", path)
        else:
            self._shell.notify("warning", "No program opens folders here. The run lies in:", path)
