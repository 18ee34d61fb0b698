"""Questions before something is lost: opened, never waited for, so that nothing else stands still."""

from collections.abc import Callable
from enum import StrEnum

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QMessageBox, QWidget

from soulsgui.gui.i18n import tr
from soulsgui.gui.question import Question

_CHARACTERS = 56


class Leave(StrEnum):
    """What is to become of unsaved changes."""

    SAVE = "save"
    DISCARD = "discard"
    CANCEL = "cancel"


def ask(parent: QWidget, question: Question, then: Callable[[], None]) -> QMessageBox:
    """Ask, and go on when the answer is yes.

    Args:
        parent: The widget it is about.
        question: What is asked.
        then: What is done after a yes.
    """
    box = _box(parent, question.title, question.sentence)
    yes = box.addButton(question.yes, QMessageBox.ButtonRole.AcceptRole)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(cancel)
    box.setEscapeButton(cancel)

    def answered(_: int) -> None:
        if box.clickedButton() is yes:
            then()

    box.finished.connect(answered)
    box.open()
    return box


def ask_unsaved(parent: QWidget, what: str, then: Callable[[Leave], None]) -> QMessageBox:
    """Ask what is to become of unsaved changes.

    Args:
        parent: The widget they are in.
        what: What was changed, as in `The configuration was changed and not saved.`
        then: Told the answer.
    """
    box = _box(parent, tr("Save the changes?"), what)
    save = box.addButton(QMessageBox.StandardButton.Save)
    discard = box.addButton(QMessageBox.StandardButton.Discard)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setDefaultButton(save)
    box.setEscapeButton(cancel)

    def answered(_: int) -> None:
        answers = {save: Leave.SAVE, discard: Leave.DISCARD}
        clicked = box.clickedButton()
        then(next((leave for button, leave in answers.items() if button is clicked), Leave.CANCEL))

    box.finished.connect(answered)
    box.open()
    return box


def _box(parent: QWidget, title: str, sentence: str) -> QMessageBox:
    box = QMessageBox(parent)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.setIcon(QMessageBox.Icon.Question)
    box.setWindowTitle(title)
    box.setText(title)
    box.setInformativeText(sentence)
    for label in box.findChildren(QLabel):
        if label.text() == title:
            label.setProperty("heading", "1")
        elif label.text() == sentence:
            label.setMinimumWidth(label.fontMetrics().averageCharWidth() * _CHARACTERS)
    return box
