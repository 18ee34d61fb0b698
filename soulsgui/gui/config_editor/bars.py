"""What stands over the editor when something is the matter: mistakes, and a file changed by somebody else."""

import html
from collections.abc import Sequence

from PySide6.QtCore import QEvent, Qt, Signal, SignalInstance
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QWidget

from soulsgui.config.errors import Problem
from soulsgui.gui.colours import Tone
from soulsgui.gui.config_editor.problems import sentence
from soulsgui.gui.icons import colours_of
from soulsgui.gui.widgets.labels import IconLabel, set_property

_SHOWN = 4


def _bar(frame: QFrame, icon: str, tone: Tone, place: Qt.AlignmentFlag) -> QHBoxLayout:
    frame.setProperty("part", "bar")
    set_property(frame, "tone", tone)
    mark = IconLabel(0, frame)
    mark.show_icon(icon, tone)
    row = QHBoxLayout(frame)
    row.setContentsMargins(10, 5, 6, 5)
    row.addWidget(mark, 0, place)
    frame.hide()
    return row


class ProblemBar(QFrame):
    """The mistakes, each a link to its place.

    Signals:
        opened: A mistake was clicked; with the `Problem`.
    """

    opened = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("problemBar")
        self._problems: list[Problem] = []
        self._words = QLabel(self)
        self._words.setTextFormat(Qt.TextFormat.RichText)
        self._words.setWordWrap(True)
        self._words.setTextInteractionFlags(Qt.TextInteractionFlag.TextBrowserInteraction)
        self._words.linkActivated.connect(self.open)
        _bar(self, "state-bad", Tone.BAD, Qt.AlignmentFlag.AlignTop).addWidget(self._words, 1)

    def show_problems(self, problems: Sequence[Problem]) -> None:
        """Show these mistakes, or nothing."""
        self._problems = list(problems)
        self._write()
        self.setVisible(bool(self._problems))

    def _write(self) -> None:
        colour = colours_of(self).tones[Tone.BAD]
        links = [
            f'<a href="{number}" style="color: {colour}">{html.escape(sentence(problem))}</a>'
            for number, problem in enumerate(self._problems[:_SHOWN])
        ]
        if len(self._problems) > _SHOWN:
            links.append(self.tr("… and {n} more.").format(n=len(self._problems) - _SHOWN))
        self._words.setText("<br>".join(links))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the colours."""
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_words"):
            self._write()
        super().changeEvent(event)

    @property
    def problems(self) -> list[Problem]:
        """The mistakes that are shown."""
        return list(self._problems)

    def open(self, link: str) -> None:
        """Follow a link: the number of a mistake."""
        self.opened.emit(self._problems[int(link)])


class ConflictBar(QFrame):
    """Somebody else changed the file while it was edited here.

    Signals:
        merge: Keep my edits, on the text as it is now.
        reload: Take the text as it is now; mine is lost.
        overwrite: Save mine; theirs is lost.
    """

    merge = Signal()
    reload = Signal()
    overwrite = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("conflictBar")
        words = QLabel(self.tr("config.yaml was changed meanwhile, by hand or from another window."), self)
        words.setWordWrap(True)
        row = _bar(self, "state-warning", Tone.WARNING, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(words, 1)
        self.merge_button = self._button(
            self.tr("Keep my edits"), self.tr("Puts the values you changed into the new text"), self.merge
        )
        self.reload_button = self._button(
            self.tr("Reload"), self.tr("Shows the new text; your edits are lost"), self.reload
        )
        self.overwrite_button = self._button(
            self.tr("Overwrite"), self.tr("Saves your text; the other changes are lost"), self.overwrite
        )
        for button in (self.merge_button, self.reload_button, self.overwrite_button):
            row.addWidget(button)

    def _button(self, words: str, tip: str, signal: SignalInstance) -> QPushButton:
        button = QPushButton(words, self)
        button.setToolTip(tip)
        button.clicked.connect(signal)
        return button

    def offer(self, mergeable: bool, why: str) -> None:
        """Show it.

        Args:
            mergeable: Whether my edits can be kept.
            why: The reason when they can't.
        """
        self.merge_button.setEnabled(mergeable)
        if not mergeable:
            self.merge_button.setToolTip(why)
        self.show()
