"""The checkpoints of the chosen run: list, quicksave, load, note."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QPushButton,
    QStackedLayout,
    QWidget,
)

from soulsgui.gui.feed import Call, Feed, Fetch
from soulsgui.gui.icons import dress
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.records import RecordsModel
from soulsgui.gui.models.rules import Question, load_question, why_not_resumed, why_refused
from soulsgui.gui.runs.models import CHECKPOINT_COLUMNS, described
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.states import run_is_active
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.dialog import FormDialog
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import ElidedLabel, muted
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import CheckpointInfo, RunSummary
from soulsgui.wire.messages.metrics import CheckpointRow, Row
from soulsgui.wire.messages.server_config import learns_from_log_probs

_NOTE_LINES = 4
_CHARACTERS = 52
SendNote = Callable[[str | None, str], Call]


class NoteDialog(FormDialog):
    """Changes a note, and a name unless that is None; closes when the server has written them."""

    def __init__(
        self, heading: str, name: str | None, note: str, save: SendNote, parent: QWidget | None = None
    ) -> None:
        super().__init__("noteDialog", heading, parent)
        self.name = QLineEdit(name or "", self)
        self.note = QPlainTextEdit(note, self)
        self._named = name is not None
        self._save = save
        self.save = self.make_main(Words("&Save", "Saving …", "Saved"), self._send)
        self.save.finished.connect(lambda _: self.accept())
        self.arrange(self._form(), self.save, _CHARACTERS)
        QShortcut(QKeySequence.StandardKey.Save, self).activated.connect(self.save.send)
        (self.name if self._named else self.note).setFocus()

    def _form(self) -> QFormLayout:
        form = QFormLayout()
        self.name.setAccessibleName("Name")
        self.name.setMaxLength(200)
        self.name.setVisible(self._named)
        if self._named:
            form.addRow("&Name", self.name)
        self.note.setProperty("role", "field")
        self.note.setTabChangesFocus(True)
        self.note.setAccessibleName("Note")
        metrics = self.fontMetrics()
        self.note.setFixedHeight(metrics.lineSpacing() * _NOTE_LINES + 20)
        self.note.setMinimumWidth(metrics.averageCharWidth() * _CHARACTERS)
        form.addRow("N&ote", self.note)
        return form

    def _send(self) -> Call:
        self.wrong.hide()
        name = self.name.text().strip() if self._named else None
        return self._save(name, self.note.toPlainText().strip())


class CheckpointsTab(QWidget):
    """Lists, saves and loads the checkpoints of one run."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run: RunSummary | None = None
        self._wanted = ""
        self.model = RecordsModel(CHECKPOINT_COLUMNS, lambda info: info.id, parent=self)
        self.table = Table("checkpointsTable", "Checkpoints", self)
        self._tell = partial(notify_problem, shell)
        self._build()
        self._fetch = Fetch(self, self._ask, came=self._take, failed=self._tell)
        feed.rows_arrived.connect(self._rows_arrived)
        feed.allowed_changed.connect(self._allow)
        self._allow()

    def _build(self) -> None:
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.sort_by(self.model.column_number("time"), downwards=True)
        self.table.selectionModel().currentRowChanged.connect(self._allow)
        self.table.row_opened.connect(lambda _: self.load.click())
        self.model.layoutChanged.connect(self._allow)
        self.model.dataChanged.connect(self._allow)
        self._empty = EmptyState("save", "No checkpoint yet", "", parent=self)
        self._stack = QStackedLayout()
        self._stack.addWidget(self.table)
        self._stack.addWidget(self._empty)
        parts = self._saving_row(), (self._stack, 1), self._chosen_row()
        column(*parts, on=self, margins=(0, 8, 0, 0))

    def _saving_row(self) -> QHBoxLayout:
        self.note = QLineEdit(self)
        self.note.setPlaceholderText("Note for the quicksave")
        self.note.setAccessibleName("Note for the quicksave")
        words = Words("Quicksave", "Saving …", "Saved")
        self.save = CommandButton(words, "save", self._save, self)
        self.save.finished.connect(self._saved)
        self.save.problem.connect(self._tell)
        self.note.returnPressed.connect(self.save.click)
        self.memory = QCheckBox("With replay &memory", self)
        self.memory.setToolTip("May be large. Loaded again, learning goes on where it was at once.")
        return row((self.note, 1), self.memory, self.save)

    def _chosen_row(self) -> QHBoxLayout:
        self._words = muted(ElidedLabel("", self))
        words = Words("Load…", "Loading …", "Loaded")
        self.load = AskingButton(words, "load", self._load, self._load_question, self)
        loaded = "The checkpoint was loaded; the training goes on from it."
        self.load.finished.connect(lambda _: self._shell.notify("success", loaded))
        self.load.problem.connect(self._tell)
        self.edit = QPushButton("Edit note…", self)
        dress(self.edit, "edit")
        self.edit.clicked.connect(self._edit)
        self.copy = QPushButton("Copy path", self)
        dress(self.copy, "copy")
        self.copy.clicked.connect(self._copy)
        self.watch = FittingButton("Watch it play", "watch", self)
        self.watch.clicked.connect(self._watch)
        return row((self._words, 1), self.watch, self.edit, self.copy, self.load)

    def show_run(self, run: RunSummary | None) -> None:
        """Show the checkpoints of a run; of the same one again only what it is allowed to do."""
        other = (run.id if run else "") != (self._run.id if self._run else "")
        self._run = run
        if other:
            self._fetch.forget()
            self.model.replace(())
            self._empty.say("Looking for checkpoints …", "")
            self._stack.setCurrentIndex(1)
            self.refresh()
        self._allow()

    def refresh(self) -> None:
        """Ask for the list again."""
        if self._run is not None:
            self._fetch.request()

    def show_connection(self) -> None:
        """Allow what the connection allows; what is no longer the present is greyed."""
        self.table.setEnabled(self._feed.connection.live)
        self._allow()

    @property
    def chosen(self) -> CheckpointInfo | None:
        """The checkpoint in the current row."""
        return self.model.at(self.table.currentIndex().row())

    def choose(self, checkpoint: str) -> None:
        """Make a checkpoint the current one, now or as soon as it is listed."""
        self._wanted = checkpoint
        place = self.model.row_of(checkpoint)
        if place is not None:
            self._wanted = ""
            self.table.selectRow(place)

    def _ask(self) -> Call | None:
        return self._feed.ask("checkpoint.list", {"run": self._run.id}) if self._run is not None else None

    def _take(self, result: dict[str, Any]) -> None:
        found = [CheckpointInfo.model_validate(one) for one in result["checkpoints"]]
        self.model.replace(found)
        soon = "The first one is saved after a few rounds. A quicksave saves one now."
        hint = soon if self._goes_on() else "This run ended before one was saved."
        self._empty.say("No checkpoint yet", hint)
        self._stack.setCurrentIndex(0 if found else 1)
        if self._wanted:
            self.choose(self._wanted)
        if self.chosen is None and found:
            self.table.selectRow(0)
        self._allow()

    def _rows_arrived(self, rows: Iterable[Row]) -> None:
        run = self._run.id if self._run is not None else ""
        if any(isinstance(row, CheckpointRow) and row.run_id == run for row in rows):
            self.refresh()

    def _goes_on(self) -> bool:
        active = self._feed.status.run
        return self._run is not None and active.id == self._run.id and run_is_active(active.state)

    def _allow(self, *_: object) -> None:
        away = why_not(self._feed.connection)
        refusal = why_refused("checkpoint.save", self._feed.connection, self._feed.status)
        if not self._goes_on():
            refusal = away or "Only a run that goes on can be saved."
        self.save.allow(not refusal, refusal or "Save a checkpoint now (Ctrl+Shift+S)")
        self.note.setEnabled(not refusal)
        self.memory.setEnabled(not refusal)
        self.memory.setVisible(self._goes_on() and not learns_from_log_probs(self._feed.status.run.algorithm))
        chosen = self.chosen
        reason = why_not_resumed(chosen, "checkpoint")
        tip = "Go on with the training from this checkpoint"
        self.load.allow(not (away or reason), away or reason or tip)
        self.edit.setEnabled(chosen is not None and chosen.valid and not away)
        self.copy.setEnabled(chosen is not None)
        broken = "" if chosen is None or chosen.valid else "It is damaged: it can't play."
        self.watch.setEnabled(chosen is not None and not (away or broken))
        self.watch.explain(away or broken or "This checkpoint plays, and you see how")
        self._words.setText("" if chosen is None else f"{described(chosen)}. {reason}".strip())

    def _save(self) -> Call:
        # Hidden: the algorithm of this run keeps none.
        buffer = self.memory.isChecked() and not self.memory.isHidden()
        return self._feed.call("checkpoint.save", {"note": self.note.text().strip(), "buffer": buffer})

    def _saved(self, result: dict[str, Any]) -> None:
        saved = CheckpointInfo.model_validate(result["checkpoint"])
        self.note.clear()
        self.memory.setChecked(False)
        self._wanted = saved.id
        self.refresh()
        self._shell.notify("success", "Checkpoint saved", described(saved))

    def _load_question(self) -> Question | None:
        if self._run is None or self.chosen is None:
            return None
        return load_question(self.chosen, self._run, self._feed.status.run)

    def _load(self) -> Call:
        chosen = self.chosen
        run, name = self._run.id if self._run else "", chosen.id if chosen else ""
        return self._feed.call("run.resume", {"run": run, "checkpoint": name, "if_active": "stop"})

    def _edit(self) -> None:
        run, chosen = self._run, self.chosen
        if run is None or chosen is None:
            return

        def save(_: str | None, note: str) -> Call:
            return self._feed.call("checkpoint.edit", {"run": run.id, "path": chosen.id, "note": note})

        dialog = NoteDialog("Note of the checkpoint", None, chosen.note, save, self)
        dialog.accepted.connect(self.refresh)
        dialog.open()

    def _watch(self) -> None:
        if self._run is not None and self.chosen is not None:
            self._shell.open_player(self._run, self.chosen.id)

    def _copy(self) -> None:
        if self.chosen is not None:
            QGuiApplication.clipboard().setText(self.chosen.path)
            self._shell.notify("info", "Path copied", self.chosen.path)
