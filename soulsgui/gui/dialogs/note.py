"""The dialog for a name and a note: of a run, of a checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QFormLayout, QLineEdit, QPlainTextEdit, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.dialogs.form import FormDialog
from soulsgui.gui.widgets.command_button import Words

_NOTE_LINES = 4
_CHARACTERS = 52


@dataclass(frozen=True)
class Noted:
    """A name and a note.

    Attributes:
        name: The name; None where there is none to give.
        note: The note.
    """

    name: str | None
    note: str


class NoteDialog(FormDialog):
    """Changes name and note; closes when the server has written them.

    Args:
        heading: What they are of.
        noted: What they are now.
        save: Sends the change.
        parent: The widget it is opened from.
    """

    def __init__(
        self, heading: str, noted: Noted, save: Callable[[Noted], Call], parent: QWidget | None = None
    ) -> None:
        super().__init__("noteDialog", heading, parent)
        self.name = QLineEdit(noted.name or "", self)
        self.note = QPlainTextEdit(noted.note, self)
        self._named = noted.name is not None
        self._save = save
        words = Words(self.tr("&Save"), self.tr("Saving …"), self.tr("Saved"))
        self.save = self.make_main(words, self._send)
        self.save.finished.connect(self._saved)
        self.arrange(self._form(), self.save, _CHARACTERS)
        QShortcut(QKeySequence.StandardKey.Save, self).activated.connect(self.save.send)
        (self.name if self._named else self.note).setFocus()

    def _form(self) -> QFormLayout:
        form = QFormLayout()
        self.name.setAccessibleName(self.tr("Name"))
        self.name.setMaxLength(200)
        if self._named:
            form.addRow(self.tr("&Name"), self.name)
        else:
            self.name.hide()
        self.note.setProperty("role", "field")
        self.note.setTabChangesFocus(True)
        self.note.setAccessibleName(self.tr("Note"))
        metrics = self.fontMetrics()
        self.note.setFixedHeight(metrics.lineSpacing() * _NOTE_LINES + 20)
        self.note.setMinimumWidth(metrics.averageCharWidth() * _CHARACTERS)
        form.addRow(self.tr("N&ote"), self.note)
        return form

    def _send(self) -> Call:
        self.wrong.hide()
        name = self.name.text().strip() if self._named else None
        return self._save(Noted(name, self.note.toPlainText().strip()))

    def _saved(self, _: dict[str, Any]) -> None:
        self.accept()
