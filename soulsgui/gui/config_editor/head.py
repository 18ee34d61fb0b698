"""The line over the editor: what is edited, how it stands, save and discard."""

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QWidget

from soulsgui.gui.calls import MakeCall
from soulsgui.gui.i18n import plural
from soulsgui.gui.icons import dress
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import ElidedLabel, Heading, set_property


class EditorHead(QWidget):
    """Says which configuration it is and whether it is saved.

    Args:
        save: Sends the command that saves.
        parent: The editor.
    """

    def __init__(self, save: MakeCall, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._heading = Heading(self.tr("Next run"), 2, self)
        self._path = ElidedLabel("", self)
        self._path.setProperty("weight", "muted")
        self._state = ElidedLabel("", self)
        self._state.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.discard = QPushButton(self.tr("Discard changes"), self)
        dress(self.discard, "reset")
        words = Words(self.tr("Save"), self.tr("Saving …"), self.tr("Saved"))
        self.save = CommandButton(words, "check", save, self)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        row.addWidget(self._heading)
        row.addWidget(self._path, 3)
        row.addWidget(self._state, 2)
        row.addWidget(self.discard)
        row.addWidget(self.save)

    def show_state(self, path: str, unsaved: bool, mistakes: int, away: str) -> None:
        """Say how things stand, and allow what makes sense.

        Args:
            path: Where the file is; empty before it was read.
            unsaved: Whether something was typed that is not saved.
            mistakes: How many are known.
            away: Why nothing can be sent; empty when it can.
        """
        tone, words = "muted", self.tr("Saved") if path else ""
        if mistakes:
            tone, words = "bad", plural(mistakes, "{n} mistake", "{n} mistakes")
        elif unsaved:
            tone, words = "warning", self.tr("Not saved yet")
        self._state.setText(words)
        set_property(self._state, "tone", tone)
        self._path.setText(self.tr("What the next run will use: {path}").format(path=path) if path else "")
        reason = away or (self.tr("Mend the mistakes first.") if mistakes else "")
        reason = reason or ("" if unsaved else self.tr("There is nothing to save."))
        self.save.allow(not reason, reason or self.tr("Save (Ctrl+S)"))
        self.discard.setEnabled(unsaved)

    @property
    def state(self) -> str:
        """How it stands, in words."""
        return self._state.text()
