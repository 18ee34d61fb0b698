"""The chosen run: what it is, what can be done with it, and its tabs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QEvent, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QTabWidget, QVBoxLayout, QWidget

from soulsgui.config.paths import Folders
from soulsgui.gui import text
from soulsgui.gui.calls import Call
from soulsgui.gui.connection_state import why_not
from soulsgui.gui.dialogs.asking_button import AskingButton
from soulsgui.gui.dialogs.note import Noted, NoteDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.models.runs import (
    has_reached,
    reached_words,
    resume_question,
    why_not_resumed,
    why_not_without_goal,
)
from soulsgui.gui.pages.checkpoints import CheckpointsTab
from soulsgui.gui.pages.run_events import EventsTab
from soulsgui.gui.pages.run_settings import RunSettingsTab, for_a_new_run
from soulsgui.gui.question import Question
from soulsgui.gui.run_actions import algorithm_title, run_title
from soulsgui.gui.shell import notify_problem
from soulsgui.gui.states import run_look
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton, give_way
from soulsgui.gui.widgets.labels import ElidedLabel, StateLabel
from soulsgui.wire.control import ConfigValues, Hello, RunSummary

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


_GAP_PX = 8
_STATE_CHARACTERS = 14


def folder_of(run: str, hello: Hello | None) -> str:
    """Return the path of a run's folder on its server; empty before the server has said where its data is."""
    if hello is None or not run:
        return ""
    return str(Folders(Path(hello.config_dir), Path(hello.data_dir)).runs / run)


class RunDetails(QWidget):
    """One run with its tabs.

    Signals:
        edited: Name or note were changed; with the run's new `RunSummary`.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    edited = Signal(object)

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run: RunSummary | None = None
        self.checkpoints = CheckpointsTab(feed, shell, self)
        self.settings = RunSettingsTab(feed, shell, self)
        self.events = EventsTab(feed, shell, self)
        self._build()
        self._show()

    # --- building ---

    def _build(self) -> None:
        self._state = StateLabel(self)
        self._title = ElidedLabel("", self)
        self._title.setProperty("heading", "1")
        self._title.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._facts = ElidedLabel("", self)
        self._facts.setProperty("weight", "muted")
        self._note = ElidedLabel("", self)
        head = QHBoxLayout()
        head.setSpacing(_GAP_PX)
        head.addWidget(self._title)
        head.addWidget(self._state)
        head.addStretch(1)
        self._shown_buttons = self._buttons()
        for button in self._shown_buttons:
            head.addWidget(button)
        self.tabs = QTabWidget(self)
        self.tabs.setDocumentMode(True)
        self.tabs.addTab(self.checkpoints, self.tr("Check&points"))
        self.tabs.addTab(self.settings, self.tr("Confi&guration"))
        self.tabs.addTab(self.events, self.tr("&Events"))
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 6, 0, 0)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self._facts)
        column.addWidget(self._note)
        column.addWidget(self.tabs, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Let buttons give up their words where there is no room for them."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Do the same when something else is said, or in other letters."""
        if event.type() == QEvent.Type.LayoutRequest and hasattr(self, "_shown_buttons"):
            self._fit()
        return super().event(event)

    def _fit(self) -> None:
        state = _STATE_CHARACTERS * self.fontMetrics().averageCharWidth()
        room = self.width() - self._title.sizeHint().width() - state - 3 * _GAP_PX
        give_way(self._shown_buttons, room, _GAP_PX)

    def _buttons(self) -> list[FittingButton]:
        words = Words(self.tr("Resume"), self.tr("Resuming …"), self.tr("Resumed"))
        self.resume = AskingButton(words, "resume", self._resume, self._resume_question, self)
        self.resume.problem.connect(lambda error: notify_problem(self._shell, error))
        words = Words(self.tr("Go on without its goal"), self.tr("Resuming …"), self.tr("Resumed"))
        self.without_goal = AskingButton(
            words, "resume", lambda: self._resume(without_goal=True), self._resume_question, self
        )
        self.without_goal.problem.connect(lambda error: notify_problem(self._shell, error))
        words = Words(self.tr("Use for a new run"), self.tr("Reading its settings …"), self.tr("Read"))
        self.again = CommandButton(words, "play", self._read_settings, self)
        self.again.problem.connect(lambda error: notify_problem(self._shell, error))
        self.again.finished.connect(self._use_again)
        self.edit = self._button(self.tr("Edit…"), "edit", self._edit)
        self.copy = self._button(self.tr("Copy path"), "copy", self._copy)
        self.open = self._button(self.tr("Open folder"), "folder", self._open)
        return [self.resume, self.without_goal, self.again, self.edit, self.copy, self.open]

    def _button(self, words: str, icon: str, work: Any) -> FittingButton:
        button = FittingButton(words, icon, self)
        button.clicked.connect(work)
        return button

    # --- what is shown ---

    def show_run(self, run: RunSummary | None) -> None:
        """Show a run, or its new state."""
        self._run = run
        self.checkpoints.show_run(run)
        self.events.show_run(run)
        self.settings.show_run(run)
        self._show()

    def refresh(self) -> None:
        """Ask for everything in the tabs again."""
        for tab in (self.checkpoints, self.events, self.settings):
            tab.refresh()

    def show_connection(self) -> None:
        """Allow what the connection allows; what is no longer the present is greyed."""
        for part in (self._state, self._title, self._facts, self._note):
            part.setEnabled(self._feed.connection.live)
        self.checkpoints.show_connection()
        self.events.show_connection()
        self._allow()

    def _show(self) -> None:
        run = self._run
        for part in (self._state, self._title, self._facts, self._note):
            part.setVisible(run is not None)
        if run is not None:
            look = run_look(run.state)
            self._state.show_look(look)
            self._state.setToolTip(reached_words(run))
            self._title.setText(run_title(run))
            facts = [run.id, run.env_id, algorithm_title(run), self.tr("seed {n}").format(n=run.seed)]
            facts.append(self.tr("{n} steps").format(n=text.count(run.env_steps)))
            if run.error:
                facts.append(run.error)
            self._facts.setText(" · ".join(fact for fact in facts if fact))
            self._note.setText(" ".join(run.note.split()))
            self._note.setVisible(bool(run.note))
        self._allow()

    def _allow(self) -> None:
        away = why_not(self._feed.connection)
        reason = away or why_not_resumed(self._run)
        self.resume.allow(not reason, reason or self.tr("Go on from its newest checkpoint as a new attempt"))
        reason = away or why_not_without_goal(self._run)
        self.without_goal.setVisible(self._run is not None and has_reached(self._run))
        tip = self.tr("Go on from its newest checkpoint until it is stopped")
        self.without_goal.allow(not reason, reason or tip)
        chosen = self.tr("Choose a run first.") if self._run is None else ""
        tip = self.tr("Open New run with the settings of this one")
        self.again.allow(not (away or chosen), away or chosen or tip)
        self.edit.setEnabled(not (away or chosen))
        path = folder_of(self._run.id if self._run else "", self._feed.hello)
        self.copy.setEnabled(bool(path))
        self.copy.explain(path)
        self.open.setVisible(bool(path) and Path(path).is_dir())

    # --- what can be done ---

    def _resume_question(self) -> Question | None:
        return resume_question(self._run, self._feed.status.run) if self._run is not None else None

    def _resume(self, without_goal: bool = False) -> Call:
        name = self._run.id if self._run is not None else ""
        params = {"run": name, "if_active": "stop"} | ({"without_goal": True} if without_goal else {})
        return self._feed.call("run.resume", params)

    def _read_settings(self) -> Call:
        return self._feed.call("config.get", {"run": self._run.id if self._run is not None else ""})

    def _use_again(self, result: dict[str, Any]) -> None:
        self._shell.open_new_run(for_a_new_run(ConfigValues.model_validate(result).run))

    def _edit(self) -> None:
        run = self._run
        if run is None:
            return

        def save(noted: Noted) -> Call:
            call = self._feed.call("runs.edit", {"run": run.id, "name": noted.name, "note": noted.note})
            call.done.connect(self._written)
            return call

        dialog = NoteDialog(self.tr("Name and note of the run"), Noted(run.name, run.note), save, self)
        dialog.open()

    def _written(self, result: dict[str, Any]) -> None:
        self.edited.emit(RunSummary.model_validate(result))

    def _copy(self) -> None:
        path = folder_of(self._run.id if self._run else "", self._feed.hello)
        QGuiApplication.clipboard().setText(path)
        self._shell.notify("info", self.tr("Path copied"), path)

    def _open(self) -> None:
        path = folder_of(self._run.id if self._run else "", self._feed.hello)
        if QDesktopServices.openUrl(QUrl.fromLocalFile(path)):
            # Desktops say yes before they know whether there is a program for it.
            self._shell.notify("info", self.tr("The run's folder is opened"), path)
        else:
            self._shell.notify("warning", self.tr("No program opens folders here. The run lies in:"), path)
