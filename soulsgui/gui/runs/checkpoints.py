"""The checkpoints of the chosen run: saved, loaded, evaluated, exported, thrown away and put back."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QFormLayout,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.records import RecordsModel
from soulsgui.gui.models.rules import (
    Question,
    load_question,
    purge_question,
    resume_question,
    run_title,
    why_not_resumed,
    why_not_trashed,
    why_refused,
)
from soulsgui.gui.runs.evaluate import EvaluateDialog
from soulsgui.gui.runs.models import (
    CHECKPOINT_COLUMNS,
    described,
    evaluated_words,
)
from soulsgui.gui.shell import Action, Shell, carry_out, export_file, notify_problem
from soulsgui.gui.states import run_is_active
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import TAB_MARGINS, column, flow, row, stack
from soulsgui.gui.widgets.command_button import CommandButton, MoreButton, Words, allow
from soulsgui.gui.widgets.dialog import FormDialog, ask_where_to_save
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import ElidedLabel, muted
from soulsgui.gui.widgets.table import Deed, Table
from soulsgui.wire.control import (
    LONGEST_NAME,
    LONGEST_NOTE,
    CheckpointInfo,
    CheckpointList,
    CheckpointTold,
    Evaluated,
    Freed,
    Job,
    RunSummary,
)
from soulsgui.wire.messages.metrics import CheckpointRow, Row
from soulsgui.wire.messages.server_config import learns_from_log_probs

_FORMATS = {"onnx": "ONNX", "safetensors": "safetensors"}
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
        foot = self.foot(main=[self.save], leave="&Cancel")
        self.arrange(self._form(), foot=foot, characters=_CHARACTERS)
        QShortcut(QKeySequence.StandardKey.Save, self).activated.connect(self.save.send)
        (self.name if self._named else self.note).setFocus()

    def _form(self) -> QFormLayout:
        form = QFormLayout()
        self.name.setAccessibleName("Name")
        self.name.setMaxLength(LONGEST_NAME)
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
    """Lists the checkpoints of one run, or those of it in the bin, with all that can be done with them."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run: RunSummary | None = None
        self._wanted = ""
        self._evaluation: dict[str, Any] = {}
        self.model = RecordsModel(CHECKPOINT_COLUMNS, lambda info: info.id, parent=self)
        self.table = Table("checkpointsTable", "Checkpoints", self)
        self._tell = partial(notify_problem, shell)
        self._build()
        self._fetch = Fetch(self, self._ask, came=self._take, failed=self._tell)
        feed.rows_arrived.connect(self._rows_arrived)
        feed.allowed_changed.connect(self._allow)
        feed.job_changed.connect(self._job_changed)
        feed.jobs_listed.connect(self.refresh)
        self._allow()

    def _build(self) -> None:
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.sort_by(self.model.column_number("time"), downwards=True)
        self.table.selectionModel().currentRowChanged.connect(self._allow)
        self.table.row_opened.connect(lambda _: (self.resume if self.load.isHidden() else self.load).click())
        self.table.offer(self._deeds)
        self.model.layoutChanged.connect(self._allow)
        self.model.dataChanged.connect(self._allow)
        self._empty = EmptyState("save", "No checkpoint yet", "", parent=self)
        self._stack = stack(self.table, self._empty)
        parts = self._saving_row(), (self._stack, 1), self._chosen_row()
        column(*parts, on=self, margins=TAB_MARGINS)

    def _saving_row(self) -> QHBoxLayout:
        self.note = QLineEdit(self)
        self.note.setMaxLength(LONGEST_NOTE)
        self.note.setPlaceholderText("Note for the quicksave")
        self.note.setAccessibleName("Note for the quicksave")
        words = Words("Quicksave", "Saving …", "Saved")
        self.save = CommandButton(words, "save", self._save, self)
        self.save.finished.connect(self._saved)
        self.save.problem.connect(self._tell)
        self.note.returnPressed.connect(self.save.click)
        self.memory = QCheckBox("With replay &memory", self)
        self.memory.setToolTip("May be large. Loaded again, learning continues where it was at once.")
        self.verify = CommandButton(Words("Verify", "Reading …", "Verified"), "check", self._verify, self)
        self.verify.finished.connect(self._verified)
        self.verify.problem.connect(self._tell)
        self.bin = FittingButton("Show the bin", "trash", self)
        self.bin.setCheckable(True)
        self.bin.explain("Show deleted checkpoints of this run")
        self.bin.toggled.connect(self._other_list)
        return row((self.note, 1), self.memory, self.save, self.verify, self.bin)

    def _chosen_row(self) -> QHBoxLayout:
        self._words = muted(ElidedLabel("", self))
        words = Words("Load…", "Loading …", "Loaded")
        self.load = AskingButton(words, "load", self._load, self._load_question, self)
        words = Words("Resume from here", "Resuming …", "Resumed")
        self.resume = AskingButton(words, "resume", self._resume, self._resume_question, self)
        self.evaluate = FittingButton("Evaluate…", "star", self)
        self.evaluate.clicked.connect(partial(self._ask_evaluation, False))
        words = Words("Put back", "Putting back …", "Put back")
        self.restore = CommandButton(words, "reset", partial(self._of_chosen, "restore"), self)
        words = Words("Remove for good…", "Removing …", "Removed")
        purge = partial(self._of_chosen, "purge")
        self.purge = AskingButton(words, "remove", purge, self._purge_question, self)
        for button, done in (
            (self.load, self._loaded),
            (self.resume, self._loaded),
            (self.restore, self.refresh),
            (self.purge, self._purged),
        ):
            button.problem.connect(self._tell)
            button.finished.connect(done)
        self.watch = FittingButton("Watch it play", "watch", self)
        self.watch.clicked.connect(self._watch)
        self.more = MoreButton(self)
        self.edit = self.more.add("Edit note…", "edit", self._edit)
        self.pin = self.more.add("Pin", "pin", self._pin)
        self.begin = self.more.add("New run from it…", "play", self._begin)
        self.film = self.more.add("Film it…", "play", partial(self._ask_evaluation, True))
        self.more.menu_of.addSeparator()
        self.exports = [
            self.more.add(f"Export as {title}…", "export", partial(self._ask_export, name))
            for name, title in _FORMATS.items()
        ]
        self.copy = self.more.add("Copy path", "copy", self._copy)
        self.more.menu_of.addSeparator()
        self.trash = self.more.add("Move checkpoint to the bin", "trash", self._trash, "delete remove")
        buttons: list[QAbstractButton] = [
            self.watch,
            self.evaluate,
            self.load,
            self.resume,
            self.restore,
            self.purge,
        ]
        return row((self._words, 1), flow(*buttons, self.more, gap_px=GAP_S))

    def _deeds(self) -> list[Deed]:
        if self.bin.isChecked():
            return [self.restore, self.purge]
        return [self.watch, self.evaluate, self.load, self.resume, *self.more.menu_of.actions()]

    def show_run(self, run: RunSummary | None) -> None:
        """Show the checkpoints of a run; of the same one again only what it is allowed to do."""
        other = (run.id if run else "") != (self._run.id if self._run else "")
        self._run = run
        if other:
            self.bin.setChecked(False)
            self._other_list()
        self._allow()

    def _other_list(self) -> None:
        self._fetch.forget()
        self.model.replace(())
        self._empty.say("Looking for checkpoints …", "")
        self._stack.setCurrentIndex(1)
        self.refresh()

    def refresh(self, *_: object) -> None:
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
        if self._run is None:
            return None
        params: dict[str, Any] = {"run": self._run.id} | ({"trashed": True} if self.bin.isChecked() else {})
        return self._feed.ask("checkpoint.list", params)

    def _take(self, listed: CheckpointList) -> None:
        found = listed.checkpoints
        self.model.replace(found)
        soon = "The first one is saved after a few rounds. A quicksave saves one now."
        hint = soon if self._goes_on() else "This run ended before one was saved."
        if self.bin.isChecked():
            self._empty.say("Its bin is empty", "Deleted checkpoints are listed here.")
        else:
            self._empty.say("No checkpoint yet", hint)
        self._stack.setCurrentIndex(0 if found else 1)
        if self._wanted:
            self.choose(self._wanted)
        if self.chosen is None and found:
            self.table.selectRow(0)
        self._allow()

    def _job_changed(self, job: Job) -> None:
        if (job.command, job.state) == ("checkpoint.evaluate", "done"):
            self.refresh()

    def _rows_arrived(self, rows: Iterable[Row]) -> None:
        run = self._run.id if self._run is not None else ""
        if any(isinstance(row, CheckpointRow) and row.run_id == run for row in rows):
            self.refresh()

    def _goes_on(self) -> bool:
        active = self._feed.status.run
        return self._run is not None and active.id == self._run.id and run_is_active(active.state)

    def _allow(self, *_: object) -> None:
        status, connection, chosen = self._feed.status, self._feed.connection, self.chosen
        away, in_bin, active = why_not(connection), self.bin.isChecked(), run_is_active(status.run.state)
        refusal = why_refused("checkpoint.save", connection, status)
        if not self._goes_on():
            refusal = away or "Only an active run can be saved."
        self.save.allow(refusal, "Save a checkpoint now (Ctrl+Shift+S)")
        self.note.setEnabled(not refusal)
        self.memory.setEnabled(not refusal)
        self.memory.setVisible(self._goes_on() and not learns_from_log_probs(status.run.algorithm))
        self.verify.allow(away, "Read every file again and check its hash")
        self.bin.setEnabled(not away)
        for button in (self.restore, self.purge):
            button.setVisible(in_bin)
            nothing = away or ("" if chosen is not None else "Choose a checkpoint first.")
            button.allow(nothing)
        for part in (self.watch, self.evaluate, self.more):
            part.setVisible(not in_bin)
        reason = why_not_resumed(chosen, "checkpoint")
        self.load.setVisible(active and not in_bin)
        refusal = reason or why_refused("checkpoint.load", connection, status)
        into = f"Let {run_title(status.run)} continue from this checkpoint; clients stay"
        self.load.allow(away or refusal, into)
        self.resume.setVisible(not (in_bin or self._goes_on()))
        # From its newest one a run continues as by *Resume*.
        refusal = why_not_resumed(self._run) if chosen is not None and chosen.kind == "current" else ""
        self.resume.allow(away or reason or refusal, "Continue training from this checkpoint")
        self._allow_more(chosen, away)
        self._words.setText("" if chosen is None else f"{described(chosen)}. {reason}".strip())

    def _allow_more(self, chosen: CheckpointInfo | None, away: str) -> None:
        nothing = away or ("Choose a checkpoint first." if chosen is None else "")
        damaged = nothing or (chosen.error or "It is damaged." if chosen and not chosen.valid else "")
        self.watch.allow(damaged, "See this checkpoint play")
        self.evaluate.allow(damaged, "Play episodes with it, alongside the training")
        allow(self.edit, damaged, "Your own words about it")
        pinned = chosen is not None and chosen.pinned
        self.pin.setText("Unpin" if pinned else "Pin")
        kept = (
            "Let it be removed again as the history grows"
            if pinned
            else "Keep it however long the history grows"
        )
        allow(self.pin, damaged, kept)
        allow(
            self.begin, damaged or why_not_resumed(chosen), "Begin another run with its weights and settings"
        )
        allow(self.film, damaged, "Play episodes and keep a video of them")
        for entry in self.exports:
            allow(entry, damaged, "Write it as a file for other programs")
        allow(
            self.copy, "Choose a checkpoint first." if chosen is None else "", chosen.path if chosen else ""
        )
        refusal = away or why_not_trashed(chosen, self._goes_on())
        freed = text.size(chosen.size_bytes) if chosen is not None else ""
        allow(self.trash, refusal, f"Delete it; {freed} become free when the bin is emptied")

    def _save(self) -> Call:
        # Hidden: the algorithm of this run keeps none.
        buffer = self.memory.isChecked() and not self.memory.isHidden()
        return self._feed.call("checkpoint.save", {"note": self.note.text().strip(), "buffer": buffer})

    def _saved(self, told: CheckpointTold) -> None:
        saved = told.checkpoint
        self.note.clear()
        self.memory.setChecked(False)
        self._wanted = saved.id
        self.refresh()
        self._shell.notify("success", "Checkpoint saved", described(saved))

    def _verify(self) -> Call | None:
        return self._feed.job("checkpoint.verify", {"run": self._run.id}) if self._run is not None else None

    def _verified(self, listed: CheckpointList) -> None:
        found = listed.checkpoints
        damaged = [info for info in found if not info.valid]
        whole = text.plural(len(found), "The one checkpoint is", "All {n} checkpoints are")
        if damaged:
            what = text.plural(len(damaged), "One checkpoint is damaged", "{n} checkpoints are damaged")
            self._shell.notify("error", what, "\n".join(f"{one.id}: {one.error}" for one in damaged))
        elif found:
            self._shell.notify("success", f"{whole} as saved")
        self.refresh()

    def _place(self) -> dict[str, Any]:
        run, chosen = self._run, self.chosen
        return {"run": run.id if run else "", "path": chosen.id if chosen else ""}

    def _load_question(self) -> Question | None:
        if self._run is None or self.chosen is None:
            return None
        return self._of_this(load_question(self.chosen, self._run, self._feed.status.run))

    def _load(self) -> Call:
        return self._feed.job("checkpoint.load", self._place())

    def _resume_question(self) -> Question | None:
        if self._run is None:
            return None
        return self._of_this(resume_question(self._run, self._feed.status.run))

    def _of_this(self, question: Question | None) -> Question | None:
        """Return a question about the chosen checkpoint."""
        return question and question.of(self._run and self._run.id, self.chosen and self.chosen.path)

    def _resume(self) -> Call:
        place = self._place()
        params = {"run": place["run"], "checkpoint": place["path"], "if_active": "stop"}
        return self._feed.call("run.resume", params)

    def _loaded(self) -> None:
        self._shell.notify("success", "The checkpoint was loaded; training continues from it.")
        self.refresh()

    def _ask_evaluation(self, film: bool) -> None:
        if self.chosen is None:
            return
        self._evaluation = self._place()
        dialog = EvaluateDialog(described(self.chosen), film, self)
        dialog.wanted.connect(self._evaluate)
        dialog.open()

    def _evaluate(self, how: dict[str, Any]) -> None:
        place = self._evaluation
        params = {"run": place["run"], "checkpoint": place["path"]} | how
        carry_out(self._shell, self._feed.job("checkpoint.evaluate", params), self._evaluated)

    def _evaluated(self, found: Evaluated) -> None:
        played = text.plural(found.episodes, "one episode", "{n} episodes")
        which = f"Update {text.count(found.updates)}"
        words = f"{which} was evaluated over {played}: {evaluated_words(found)}"
        self._shell.notify("success", words, " ".join(found.notes))

    def _edit(self) -> None:
        chosen, place = self.chosen, self._place()
        if chosen is None:
            return

        def save(_: str | None, note: str) -> Call:
            return self._feed.call("checkpoint.edit", place | {"note": note})

        dialog = NoteDialog("Note of the checkpoint", None, chosen.note, save, self)
        dialog.accepted.connect(self.refresh)
        dialog.open()

    def _watch(self) -> None:
        if self._run is not None and self.chosen is not None:
            self._shell.open_player(self._run, self.chosen.id)

    def _pin(self) -> None:
        if self.chosen is not None:
            params = self._place() | {"pin": not self.chosen.pinned}
            carry_out(self._shell, self._feed.call("checkpoint.edit", params), self._pinned)

    def _pinned(self, told: CheckpointTold) -> None:
        self._wanted = told.checkpoint.id
        self.refresh()

    def _begin(self) -> None:
        place = self._place()
        self._shell.open_new_run(checkpoint=f"{place['run']}/{place['path']}")

    def _ask_export(self, name: str) -> None:
        if self.chosen is None:
            return
        write = partial(self._export, self._place() | {"format": name})
        title, file = _FORMATS[name], f"{self._place()['run']}_{self.chosen.model_id}.{name}"
        ask_where_to_save(f"Export as {title}", file, f"{title} (*.{name})", write, self)

    def _export(self, params: dict[str, Any], path: str) -> None:
        export_file(self._shell, path, self._feed.job("checkpoint.export", params, path))

    def _of_chosen(self, what: str) -> Call:
        return self._feed.call(f"checkpoint.{what}", self._place())

    def _trash(self) -> None:
        place, chosen = self._place(), self.chosen
        if chosen is not None:
            call = self._feed.call("checkpoint.trash", place)
            carry_out(self._shell, call, partial(self._trashed, place, chosen))

    def _trashed(self, place: dict[str, Any], gone: CheckpointInfo, _: object) -> None:
        self.refresh()
        freed = f"{text.size(gone.size_bytes)} become free when it is removed from there for good."
        undo = Action("Undo", partial(self._undo, place))
        self._shell.notify("success", "The checkpoint is in the bin", freed, undo)

    def _undo(self, place: dict[str, Any]) -> None:
        self._wanted = place["path"]
        carry_out(self._shell, self._feed.call("checkpoint.restore", place), self.refresh)

    def _purge_question(self) -> Question | None:
        if self.chosen is None:
            return None
        return self._of_this(purge_question(described(self.chosen), self.chosen.size_bytes))

    def _purged(self, freed: Freed) -> None:
        self._shell.notify("success", f"{text.size(freed.freed_bytes)} became free")
        self.refresh()

    def _copy(self) -> None:
        if self.chosen is not None:
            QGuiApplication.clipboard().setText(self.chosen.path)
            self._shell.notify("info", "Path copied", self.chosen.path)
