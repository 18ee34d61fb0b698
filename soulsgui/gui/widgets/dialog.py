"""Dialogs that fit: what they say into them, and themselves onto their screen."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui.feed import MakeCall
from soulsgui.gui.geometry import bring_onto_screen, room_for
from soulsgui.gui.icons import make_primary
from soulsgui.gui.theme import GAP_M
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words
from soulsgui.gui.widgets.labels import Label, muted, set_property
from soulsgui.wire.control import ApiError


class FittingDialog(QDialog):
    """Never cuts its sentences, and is never larger than its screen: its parts are scrolled rather.

    Wrapped labels ask for more height than Qt gives them by itself.
    """

    section: str | None = ""  # what F1 opens the manual at; empty for the page below, None for nothing

    def event(self, event: QEvent) -> bool:
        """Fit anew when it appears, and when sentences or titles come that need more room."""
        handled = super().event(event)
        if event.type() in (QEvent.Type.Show, QEvent.Type.LayoutRequest):
            self._fit()
        return handled

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """F1 opens the manual over it, which the window around it knows."""
        around = self.parentWidget()
        while around is not None and not hasattr(around, "open_manual"):
            around = around.parentWidget()
        if event.key() == Qt.Key.Key_F1 and around is not None and self.section is not None:
            around.open_manual(over=self)
        else:
            super().keyPressEvent(event)

    def foot(self, *aside: QPushButton) -> QHBoxLayout:
        """Return the last row of a dialog that asks nothing: Enter closes it."""
        close = QPushButton("&Close", self)
        close.setDefault(True)
        close.clicked.connect(self.reject)
        row = QHBoxLayout()
        for button in aside:
            button.setAutoDefault(False)
            row.addWidget(button)
        row.addStretch(1)
        row.addWidget(close)
        return row

    def _fit(self) -> None:
        column = self.layout()
        if column is None or not self.isVisible():
            return
        room = room_for(self).size()
        least = column.totalMinimumSize()
        width = min(max(self.width(), least.width()), room.width())
        height = max(least.height(), column.totalMinimumHeightForWidth(width))
        if height > room.height():
            self._let_scroll(column)
        self.resize(width, min(max(self.height(), height), room.height()))
        bring_onto_screen(self)

    def _let_scroll(self, column: QLayout) -> None:
        """Let everything be scrolled but the last row, which has the buttons."""
        last = column.takeAt(column.count() - 1)
        parts = QWidget()
        parts.setLayout(column)
        area = QScrollArea(self)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(parts)
        around = QVBoxLayout(self)
        around.addWidget(area, 1)
        assert last is not None
        around.addItem(last)


class FittingFileDialog(QFileDialog):
    """Asks for a file, is never larger than its screen, and is deleted with its answer.

    Args:
        title: What the file is for.
        chosen: What is done with its path; not called where none is chosen.
        parent: Who asks.
        mode: Whether a file is opened or saved.
    """

    def __init__(
        self,
        title: str,
        chosen: Callable[[str], object],
        parent: QWidget,
        mode: QFileDialog.AcceptMode = QFileDialog.AcceptMode.AcceptOpen,
    ) -> None:
        super().__init__(parent, title)
        self.setAcceptMode(mode)
        if mode is QFileDialog.AcceptMode.AcceptOpen:
            self.setFileMode(QFileDialog.FileMode.ExistingFile)
        self.fileSelected.connect(chosen)
        self.finished.connect(self.deleteLater)

    def showEvent(self, event: QShowEvent) -> None:
        """Fit where it appears."""
        super().showEvent(event)
        bring_onto_screen(self)


class FormDialog(FittingDialog):
    """A small dialog that stays open until what it asked for is done, or says why it is not."""

    def __init__(self, name: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.wrong = Label(parent=self)
        self.wrong.setWordWrap(True)
        self.wrong.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.wrong.hide()
        self.cancel = QPushButton("&Cancel", self)
        self.cancel.setAutoDefault(False)
        self.cancel.clicked.connect(self.reject)
        self._main: CommandButton | None = None

    def reject(self) -> None:
        """Close without it; between the yes and what becomes of it there is no no."""
        if self._main is None or self._main.stage is not Stage.RUNNING:
            super().reject()

    def make_main(self, words: Words, send: MakeCall, icon: str = "check") -> CommandButton:
        """Return the button that does it, which Enter presses."""
        made = CommandButton(words, icon, send, self)
        make_primary(made)
        made.setDefault(True)
        made.problem.connect(self.show_problem)
        self._main = made
        return made

    def arrange(
        self,
        form: QFormLayout,
        main: CommandButton,
        characters: int,
        hint: str = "",
        aside: Sequence[QPushButton] = (),
        beside: Sequence[QPushButton] = (),
    ) -> None:
        """Put the parts in their places: other buttons to the left, or beside the main one."""
        foot = QHBoxLayout()
        for button in aside:
            foot.addWidget(button)
        foot.addStretch(1)
        for button in (main, *beside, self.cancel):
            foot.addWidget(button)
        column = QVBoxLayout(self)
        column.setSpacing(GAP_M)
        column.addLayout(form)
        if hint:
            label = muted(Label(hint, self))
            label.setWordWrap(True)
            column.addWidget(label)
        column.addWidget(self.wrong)
        column.addLayout(foot)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * characters)

    def say_wrong(self, words: str, tone: str = "bad") -> None:
        """Say what went wrong."""
        self.wrong.setText(words)
        set_property(self.wrong, "tone", tone)
        self.wrong.show()

    def show_problem(self, error: ApiError) -> None:
        """Say why it was not done, and what to do."""
        self.say_wrong(error.words())
