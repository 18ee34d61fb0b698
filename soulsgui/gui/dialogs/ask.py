"""Questions before something is lost: opened, never waited for, so that nothing else stands still."""

from collections.abc import Callable
from enum import StrEnum

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLabel, QMessageBox, QWidget

from soulsgui.gui.i18n import tr
from soulsgui.gui.question import Question

_CHARACTERS = 56


class Leave(StrEnum):
    """What is to become of unsaved changes."""

    SAVE = "save"
    DISCARD = "discard"
    CANCEL = "cancel"


class _Box(QMessageBox):
    """A question that is deleted with its answer."""

    def __init__(self, parent: QWidget, title: str, sentence: str) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setIcon(QMessageBox.Icon.Question)
        self.setWindowTitle(title)
        self.setText(title)
        self.setInformativeText(sentence)
        for label in self.findChildren(QLabel):
            if label.text() == title:
                label.setProperty("heading", "1")
            elif label.text() == sentence:
                label.setMinimumWidth(label.fontMetrics().averageCharWidth() * _CHARACTERS)


class _YesBox(_Box):
    """A question with one way on.

    Signals:
        agreed: The answer is yes.
    """

    agreed = Signal()

    def __init__(self, parent: QWidget, question: Question) -> None:
        super().__init__(parent, question.title, question.sentence)
        self._yes = self.addButton(question.yes, QMessageBox.ButtonRole.AcceptRole)
        cancel = self.addButton(QMessageBox.StandardButton.Cancel)
        self.setDefaultButton(cancel)
        self.setEscapeButton(cancel)
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

    def __init__(self, parent: QWidget, what: str) -> None:
        super().__init__(parent, tr("Save the changes?"), what)
        self._save = self.addButton(QMessageBox.StandardButton.Save)
        self._discard = self.addButton(QMessageBox.StandardButton.Discard)
        cancel = self.addButton(QMessageBox.StandardButton.Cancel)
        self.setDefaultButton(self._save)
        self.setEscapeButton(cancel)
        self.finished.connect(self._finished)

    def _finished(self) -> None:
        clicked = self.clickedButton()
        answers = ((self._save, Leave.SAVE), (self._discard, Leave.DISCARD))
        self.answered.emit(next((leave for button, leave in answers if button is clicked), Leave.CANCEL))


def ask(parent: QWidget, question: Question, then: Callable[[], None]) -> None:
    """Ask, and go on when the answer is yes.

    Args:
        parent: The widget it is about.
        question: What is asked.
        then: What is done after a yes: a bound method, for it is not kept alive by this.
    """
    box = _YesBox(parent, question)
    box.agreed.connect(then)
    box.open()


def ask_unsaved(parent: QWidget, what: str, then: Callable[[Leave], None]) -> None:
    """Ask what is to become of unsaved changes.

    Args:
        parent: The widget they are in.
        what: What was changed, as in `The configuration was changed and not saved.`
        then: Told the answer: a bound method, for it is not kept alive by this.
    """
    box = _LeaveBox(parent, what)
    box.answered.connect(then)
    box.open()
