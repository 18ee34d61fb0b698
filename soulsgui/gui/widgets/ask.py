"""Questions before something is lost: opened, never waited for, so that nothing else stands still."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QMessageBox, QPushButton, QWidget

from soulsgui.gui.feed import MakeCall
from soulsgui.gui.models.rules import Question
from soulsgui.gui.text import plain
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words
from soulsgui.wire.control import ApiError, ErrorCode

_CHARACTERS = 56


class Leave(StrEnum):
    """What is to become of unsaved changes."""

    SAVE = "save"
    MEND = "mend"
    DISCARD = "discard"
    CANCEL = "cancel"


@dataclass(frozen=True)
class LeaveWords:
    """A question about unsaved changes."""

    title: str
    sentence: str
    first: str
    discard: str
    answer: Leave = Leave.SAVE

    @staticmethod
    def before_leaving() -> "LeaveWords":
        """Return the question before the editor is left."""
        sentence = "The configuration was changed and not saved."
        return LeaveWords("Save the changes?", sentence, "Save", "Discard")

    @staticmethod
    def before_run() -> "LeaveWords":
        """Return the question before a run is begun."""
        sentence = "The configuration was changed and not saved: a new run would not use the changes."
        return LeaveWords("Save the changes and use them?", sentence, "Save and use", "Start without")

    def with_mistake(self, mistake: str) -> "LeaveWords":
        """Return the question for changes that can't be saved, since one of them is this mistake."""
        sentence = f"{mistake}\n\nNothing is saved while there is a mistake in it."
        title = "The changes can't be saved"
        return replace(self, title=title, sentence=sentence, first="Fix it", answer=Leave.MEND)


class _Box(QMessageBox):
    """A question that is deleted with its answer."""

    def __init__(self, parent: QWidget, title: str, sentence: str) -> None:
        super().__init__(parent)
        title, sentence = plain(title), plain(sentence)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setIcon(QMessageBox.Icon.Question)
        self.setWindowTitle(title)
        self.setText(title)
        self.setInformativeText(sentence)
        for label in self.findChildren(QLabel):
            label.setTextFormat(Qt.TextFormat.PlainText)
            if label.text() == title:
                label.setProperty("heading", "1")
            elif label.text() == sentence:
                label.setMinimumWidth(label.fontMetrics().averageCharWidth() * _CHARACTERS)

    def add(self, words: str, role: QMessageBox.ButtonRole) -> QPushButton:
        """Add a button with a mnemonic of its own."""
        taken = {button.text().partition("&")[2][:1].lower() for button in self.buttons()}
        free = next((letter for letter in words if letter.isalpha() and letter.lower() not in taken), "")
        return self.addButton(words.replace(free, f"&{free}", 1) if free else words, role)

    def add_cancel(self) -> QPushButton:
        """Add the button that changes nothing; a stock one has an icon that a dark window swallows."""
        cancel = self.add("Cancel", QMessageBox.ButtonRole.RejectRole)
        self.setEscapeButton(cancel)
        return cancel


class _YesBox(_Box):
    """A question with one way on.

    Signals:
        agreed: The answer is yes.
    """

    agreed = Signal()

    def __init__(self, parent: QWidget, question: Question) -> None:
        super().__init__(parent, question.title, question.sentence)
        self._yes = self.add(question.yes, QMessageBox.ButtonRole.AcceptRole)
        self.setDefaultButton(self.add_cancel())
        self.finished.connect(self._finished)

    def _finished(self) -> None:
        if self.clickedButton() is self._yes:
            self.agreed.emit()


class _LeaveBox(_Box):
    """A question about unsaved changes.

    Signals:
        answered: With what is to become of them, a `Leave`.
    """

    answered = Signal(object)

    def __init__(self, parent: QWidget, words: LeaveWords) -> None:
        super().__init__(parent, words.title, words.sentence)
        if words.answer is Leave.MEND:
            self.setIcon(QMessageBox.Icon.Warning)
        first = self.add(words.first, QMessageBox.ButtonRole.AcceptRole)
        discard = self.add(words.discard, QMessageBox.ButtonRole.DestructiveRole)
        self._answers = ((first, words.answer), (discard, Leave.DISCARD))
        self.add_cancel()
        self.setDefaultButton(first)
        self.finished.connect(self._finished)

    def _finished(self) -> None:
        clicked = self.clickedButton()
        answers = (leave for button, leave in self._answers if button is clicked)
        self.answered.emit(next(answers, Leave.CANCEL))


def ask(parent: QWidget, question: Question, then: Callable[[], None]) -> None:
    """Ask, and go on after a yes with a bound method, which is not kept alive by this."""
    box = _YesBox(parent, question)
    box.agreed.connect(then)
    box.open()


def ask_unsaved(parent: QWidget, words: LeaveWords, then: Callable[[Leave], None]) -> None:
    """Ask what is to become of unsaved changes, and tell a bound method, not kept alive by this."""
    box = _LeaveBox(parent, words)
    box.answered.connect(then)
    box.open()


class AskingButton(CommandButton):
    """Sends its command after a yes."""

    def __init__(
        self,
        words: Words,
        icon: str,
        start: MakeCall,
        question: Callable[[], Question | None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(words, icon, start, parent)
        self._question = question
        self._about: object = None  # what was asked about

    def send(self) -> None:
        """Ask where there is something to ask, then send the command."""
        if self.stage is Stage.RUNNING:
            return
        question = self._question()
        if question is None:
            super().send()
        else:
            self._about = question.about
            ask(self, question, self._send_now)

    def _send_now(self) -> None:
        now = self._question()
        if (now.about if now is not None else None) == self._about:
            super().send()
        else:  # what a list holds, and what is chosen in it, may change while a question is open
            what = "What you were asked about has changed: nothing was done."
            self.problem.emit(ApiError(code=ErrorCode.NOT_NOW, message=what, remedy="Choose it again."))
