"""A button that sends a command and tells what became of it; and a menu that opens from a button."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QAction, QCursor
from PySide6.QtWidgets import QAbstractButton, QMenu, QPushButton, QToolButton, QWidget

from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, MakeCall
from soulsgui.gui.icons import dress
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import set_tip
from soulsgui.wire.control import ApiError
from soulsgui.wire.messages.base import Message

ALSO = "searchWords"
"""The property of a button, or of an entry, with words that it does not show and Ctrl+K finds it by."""

IN_MENU = "inMenu"
"""The property of a button whose command is an entry of the window's menu, too: Ctrl+K lists that alone."""

_DONE_MS = 2500


class Stage(StrEnum):
    """Where the command is."""

    IDLE = "idle"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SILENT = "silent"


@dataclass(frozen=True)
class Words:
    """What the button says."""

    idle: str  # what it does
    running: str  # while it does it
    done: str  # when it has done it


class CommandButton(FittingButton):
    """Sends a command when clicked; shows that it runs, that it is done, or that it failed.

    Cause and remedy of a failure stand in the tooltip and go to whoever shows messages. Without an answer the
    button offers to try again; what comes of an earlier try is told all the same.

    Signals:
        problem: It failed or got no answer; with the `ApiError`.
        finished: It was carried out; with the result.
    """

    problem = Signal(object)
    finished = Signal(object)

    def __init__(self, words: Words, icon: str, start: MakeCall, parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._words = self._sent = words
        self._icon = icon
        self._start = start
        self._call: Call | None = None
        self._focus_went_to: QWidget | None = None
        self._allowed = True
        self._why = ""
        self.stage = Stage.IDLE
        self._calm = QTimer(self, singleShot=True, interval=_DONE_MS)
        self._calm.timeout.connect(lambda: self._show(Stage.IDLE))
        self.clicked.connect(self.send)
        self._show(Stage.IDLE)

    @property
    def title(self) -> str:
        """What it does, in words, also while it says what became of that."""
        return self._words.idle

    def send(self) -> None:
        """Send the command, as a click does."""
        if self.stage is Stage.RUNNING:
            return
        self._calm.stop()
        self._sent = self._words
        had_focus = self.window().focusWidget() is self
        self._show(Stage.RUNNING)
        # Qt hands the keyboard on from a button that is off: it comes back unless somebody moves it on.
        self._focus_went_to = self.window().focusWidget() if had_focus else None
        if self._call is not None:
            earlier = self._call
            self._forget()
            earlier.done.connect(self._done_late)
            earlier.failed.connect(self.problem)
        self._call = self._start()
        if self._call is None:
            self._show(Stage.IDLE)
            return
        self._call.progressed.connect(self.explain)
        self._call.done.connect(self._done)
        self._call.failed.connect(self._failed)
        self._call.dropped.connect(self._dropped)
        self._call.silent.connect(self._silent)

    def tell_problem(self, slot: Callable[[ApiError], object]) -> None:
        """Let somebody else know, too, why the command under way was not carried out."""
        if self._call is not None:
            self._call.tell_problem(slot)

    def set_words(self, words: Words, icon: str, start: MakeCall) -> None:
        """Do something else from now on; a command under way is left to end as it may."""
        others = (words, icon) != (self._words, self._icon)
        self._words, self._icon, self._start = words, icon, start
        # With the words of the last command, which failed, a click would do something else than it says.
        if others and self.stage not in (Stage.RUNNING, Stage.DONE):
            self._show(Stage.IDLE)

    def allow(self, refusal: str, hint: str = "") -> None:
        """Do so once what it tells of the last command is over."""
        self._allowed, self._why = not refusal, refusal or hint
        if self.stage is not Stage.RUNNING:
            self.setEnabled(self._allowed)
        if self.stage in (Stage.IDLE, Stage.RUNNING):
            self.explain(self._why)

    def _forget(self) -> None:
        if self._call is not None:
            self._call.disconnect(self)
            self._call = None

    def _done(self, result: Message) -> None:
        self._forget()
        self._show(Stage.DONE)
        self._calm.start()
        self.finished.emit(result)

    def _done_late(self, result: Message) -> None:
        self.explain("An earlier try was carried out after all.")
        self.finished.emit(result)

    def _failed(self, error: ApiError) -> None:
        self._forget()
        self._show(Stage.FAILED, error)
        self.problem.emit(error)

    def _dropped(self) -> None:
        self._forget()
        self._show(Stage.IDLE)

    def _silent(self, error: ApiError) -> None:
        self._show(Stage.SILENT, error)
        self.problem.emit(error)

    def _show(self, stage: Stage, error: ApiError | None = None) -> None:
        self.stage = stage
        looks = {
            Stage.IDLE: (self._words.idle, self._icon, Tone.TEXT),
            Stage.RUNNING: (self._sent.running, "state-busy", Tone.BUSY),
            Stage.DONE: (self._sent.done, "state-good", Tone.GOOD),
            Stage.FAILED: (self._words.idle, "state-bad", Tone.BAD),
            Stage.SILENT: ("Retry", "state-warning", Tone.WARNING),
        }
        words, icon, tone = looks[stage]
        self.say(words, icon, tone)
        self.setEnabled(self._allowed and stage is not Stage.RUNNING)
        if self._focus_went_to is not None and self.window().focusWidget() is self._focus_went_to:
            self.setFocus()
        self._focus_went_to = None
        self.explain(error.words() if error else self._why)


def give_menu(button: QPushButton | QToolButton, menu: QMenu) -> None:
    """Let a button open a menu, and look as if pointed at only while it is.

    While the menu is open it has the pointer: nobody tells the button that it was left.
    """

    def look_where_the_pointer_is() -> None:
        if not button.rect().contains(button.mapFromGlobal(QCursor.pos())):
            button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)
            button.update()

    button.setProperty("opens", "menu")
    button.setMenu(menu)
    menu.aboutToHide.connect(look_where_the_pointer_is)


class MoreButton(FittingButton):
    """Opens a menu of what is done less often."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("More", "more", parent)
        self.menu_of = QMenu(self)
        self.menu_of.setToolTipsVisible(True)
        give_menu(self, self.menu_of)

    def add(self, words: str, icon: str, act: Callable[[], object], also: str = "") -> QAction:
        """Add an entry; a line between two groups of them is `menu_of.addSeparator`."""
        entry = self.menu_of.addAction(words)
        entry.setProperty(ALSO, also)
        dress(entry, icon)
        entry.triggered.connect(lambda: act())
        return entry


def allow(part: QAction | QAbstractButton, refusal: str, hint: str = "") -> None:
    """Allow an entry of a menu or a button, or say in its tooltip why it would be refused."""
    part.setEnabled(not refusal)
    set_tip(part, refusal or hint)
