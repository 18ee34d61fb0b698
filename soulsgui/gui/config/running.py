"""The settings of the run that goes on which may be others from the next update on, and what was changed."""

import time
from functools import partial
from typing import Any

from PySide6.QtWidgets import QCheckBox, QVBoxLayout, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.records import Column, RecordsModel, number
from soulsgui.gui.models.rules import run_title, why_refused
from soulsgui.gui.settings.form import SettingsForm
from soulsgui.gui.settings.spec import change_words, specs
from soulsgui.gui.shell import Shell, carry_out, notify_problem
from soulsgui.gui.states import run_is_active
from soulsgui.gui.widgets.boxes import NO_MARGINS, TAB_MARGINS, column, row, stack
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.labels import Heading, Label, muted, wrapped
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import Applied, ConfigValues
from soulsgui.wire.messages.live import LiveChange, undoable


def live_keys(algorithm: str) -> list[str]:
    """Return the settings that a run with an algorithm can be given other values of while it goes on."""
    known = specs()
    of_others = {choice for choice in known["algorithm"].choices if choice != algorithm}
    return [key for key, spec in known.items() if spec.info.effect.live and spec.section not in of_others]


CHANGE_COLUMNS: tuple[Column[LiveChange], ...] = (
    number("time", "Time", lambda one: text.clock(one.time, time.time()), lambda one: one.time, width=19),
    number("update", "From update", lambda one: text.count(one.update + 1), lambda one: one.update, width=13),
    number("steps", "Steps", lambda one: text.count(one.env_steps), lambda one: one.env_steps, width=12),
    Column("what", "", lambda one: "undone" if one.undoes else "changed", width=10),
    Column("change", "Change", change_words, width=60),
)


class RunningTab(QWidget):
    """Changes live settings of the run that goes on, at once, and takes changes back."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run = ""
        self._algorithm = ""
        self._last: LiveChange | None = None  # what is taken back next
        self._wanted: dict[str, Any] = {}
        self.form: SettingsForm | None = None
        self.model = RecordsModel(CHANGE_COLUMNS, lambda one: f"{one.time} {one.update}", parent=self)
        self._build()
        tell = partial(notify_problem, shell)
        self.apply.problem.connect(tell)
        self.undo.problem.connect(tell)
        self._fetch = Fetch(self, self._ask, came=self._take, failed=tell)
        feed.run_changed.connect(self._run_changed)
        feed.allowed_changed.connect(self._allow)
        feed.event_arrived.connect(self.refresh)
        feed.connection_changed.connect(self._run_changed)
        self._run_changed()

    def _build(self) -> None:
        self._title = Heading("", 2, self)
        about = "These take effect with the next update or round. Each change becomes an event of the run."
        self._empty = EmptyState(
            "page-config", "No run is active", "Its live settings are shown here.", parent=self
        )
        self.keep = QCheckBox("Also for the ne&xt run", self)
        self.keep.setChecked(True)
        self.keep.setToolTip("Writes them into config.yaml, too")
        self.apply = CommandButton(Words("&Apply now", "Applying …", "Applied"), "check", self._apply, self)
        self.apply.finished.connect(self._applied)
        self.undo = CommandButton(Words("&Undo", "Undoing …", "Undone"), "reset", self._undo, self)
        self.undo.finished.connect(self._undone)
        self.table = Table("changesTable", "Changes of the run", self)
        self.table.setModel(self.model)
        self.table.sort_by(self.model.column_number("time"), downwards=True)
        page = QWidget(self)
        self._place = QVBoxLayout()
        self._place.addStretch(0)  # until there is a form
        head = row(self._title, (muted(wrapped(about, page)), 1), self.keep, self.apply, self.undo)
        self._changes = QWidget(page)
        changed = muted(Label("What was changed", page))
        column(changed, self.table, on=self._changes, margins=NO_MARGINS)
        self._changes.hide()
        column(head, (self._place, 3), (self._changes, 1), on=page, margins=TAB_MARGINS)
        self._stack = stack(page, self._empty, on=self)

    def refresh(self, *_: object) -> None:
        """Ask for the values and the changes again."""
        if self._run:
            self._fetch.request()

    def _ask(self) -> Call | None:
        return self._feed.ask("config.get") if self._run else None

    def _run_changed(self, *_: object) -> None:
        run = self._feed.status.run
        active = run.id if run_is_active(run.state) else ""
        if active != self._run:
            self._run = active
            self._fetch.forget()
            self.model.replace(())
            self._changes.hide()
            self._title.setText(f"Running: {run_title(run)}" if active else "")
            if self.form is not None:
                self.form.load({}, {})
                self.form.setEnabled(False)
            self.refresh()
        self._stack.setCurrentIndex(0 if active else 1)
        self._allow()

    def _take(self, values: ConfigValues) -> None:
        algorithm = str(values.running.get("algorithm", ""))
        if self.form is None or algorithm != self._algorithm:
            self._make_form(algorithm)
        assert self.form is not None
        if self.form.isEnabled():
            self.form.rebase(values.running)
        else:
            self.form.load(values.running, {})
            self.form.setEnabled(True)
        self.model.replace(values.changes)
        self._changes.setVisible(bool(values.changes))
        self._last = undoable(values.changes)
        self._allow()

    def _make_form(self, algorithm: str) -> None:
        if self.form is not None:
            self._place.removeWidget(self.form)
            self.form.deleteLater()
        self._algorithm = algorithm
        self.form = SettingsForm(self, live_keys(algorithm))
        self.form.setEnabled(False)
        self.form.edited.connect(self._allow)
        self._place.addWidget(self.form, 1)
        self.form.show()

    def _allow(self, *_: object) -> None:
        away = why_refused("config.apply", self._feed.connection, self._feed.status)
        edits = self.form.edits if self.form is not None else None
        changed = sorted(edits.own) if edits is not None else []
        wrong = "Fix the mistakes first." if edits is not None and edits.problems else ""
        refusal = away or wrong or ("" if changed else "Nothing has been changed yet.")
        self.apply.allow(refusal, f"Let the run continue with {', '.join(changed)}")
        nothing = "" if self._last else "Nothing was changed, or all of it was taken back."
        self.undo.allow(away or nothing, f"Take back: {change_words(self._last)}" if self._last else "")

    def _apply(self) -> Call | None:
        if self.form is None:
            return None
        self._wanted = dict(self.form.edits.own)
        return self._feed.call("config.apply", {"keys": self._wanted})

    def _applied(self, result: Applied) -> None:
        if self.form is not None:
            self.form.setEnabled(False)  # it takes the new values whole
        self._say(result, "The run continues with the new values")
        self._keep()

    def _keep(self) -> None:
        """Have the next run begin with what this one has now, if that is wanted."""
        if self.keep.isChecked():
            saved = self._feed.call("config.save", {"changes": self._wanted})
            carry_out(self._shell, saved, lambda _: None)
        self.refresh()

    def _undo(self) -> Call:
        assert self._last is not None
        self._wanted = dict(self._last.before)
        return self._feed.call("config.undo")

    def _undone(self, result: Applied) -> None:
        if self.form is not None:
            self.form.setEnabled(False)
        self._say(result, "The run continues with the old values")
        self._keep()

    def _say(self, result: Applied, words: str) -> None:
        change = result.change
        since = f"from update {text.count(change.update + 1)} on" if change else "as soon as the trainer can"
        self._shell.notify("success", f"{words} {since}")
