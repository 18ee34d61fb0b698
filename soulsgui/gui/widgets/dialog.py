"""Dialogs that fit: what they say into them, and themselves onto their screen."""

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Any

from PySide6.QtCore import QDir, QEvent, Qt
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QDialog,
    QFileDialog,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QLayout,
    QLineEdit,
    QPushButton,
    QScrollArea,
    QWidget,
)

from soulsgui.gui.feed import Call, MakeCall
from soulsgui.gui.icons import make_primary
from soulsgui.gui.text import plain
from soulsgui.gui.theme import GAP_M, underline_letters
from soulsgui.gui.widgets.boxes import DIALOG_MARGINS, NO_MARGINS, Part, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.geometry import bring_onto_screen, room_for
from soulsgui.gui.widgets.labels import Remark, muted, set_property, wrapped
from soulsgui.wire.control import ApiError


class FittingDialog(QDialog):
    """Never cuts its sentences, and is never larger than its screen: its parts are scrolled rather.

    Wrapped labels ask for more height than Qt gives them by itself.
    """

    section: str | None = ""  # what F1 opens the manual at; empty for the page below, None for nothing

    def __init__(self, name: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(plain(title))
        self.wrong = Remark(self, selectable=True)
        self._area: QScrollArea | None = None  # once its parts are scrolled

    def arrange(self, *parts: Part, foot: QBoxLayout, characters: int = 0) -> None:
        """Put the parts below each other, then what went wrong, then the last row."""
        column(*parts, self.wrong, foot, on=self, margins=DIALOG_MARGINS, gap_px=GAP_M)
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * characters)

    def foot(
        self, *aside: QPushButton, main: Sequence[QPushButton] = (), leave: str = "&Close"
    ) -> QHBoxLayout:
        """Return the last row, whose first main button Enter presses; without any Enter closes the dialog."""
        self.leave = QPushButton(leave, self)
        self.leave.clicked.connect(self.reject)
        for button in (*aside, *main, self.leave):
            button.setAutoDefault(False)
        for button in main[:1]:
            make_primary(button)
        (*main, self.leave)[0].setDefault(True)
        return row(*aside, None, *main, self.leave)

    def say_wrong(self, words: str, tone: str = "bad") -> None:
        """Say what went wrong; empty for nothing."""
        self.wrong.setText(words)
        set_property(self.wrong, "tone", tone)

    def show_problem(self, error: ApiError) -> None:
        """Say why it was not done, and what to do."""
        self.say_wrong(error.words())

    def event(self, event: QEvent) -> bool:
        """Fit anew when it appears, and when sentences or titles come that need more room."""
        handled = super().event(event)
        underline_letters(self, event)
        if event.type() in (QEvent.Type.Show, QEvent.Type.LayoutRequest):
            self._fit(self.height())
        return handled

    def shrink(self) -> None:
        """Give up the room of parts that are hidden now."""
        if (layout := self.layout()) is not None and self._area is None:
            layout.activate()
            self._fit(0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """F1 opens the manual over it, which the window around it knows."""
        around = self.around("open_manual")
        if event.key() == Qt.Key.Key_F1 and around is not None and self.section is not None:
            around.open_manual(over=self)
        else:
            super().keyPressEvent(event)

    def around(self, what: str) -> Any:
        """Return the nearest widget around it that can do something; None where there is none."""
        around = self.parentWidget()
        while around is not None and not hasattr(around, what):
            around = around.parentWidget()
        return around

    def _fit(self, least_height: int) -> None:
        layout = self.layout()
        if layout is None or not self.isVisible():
            return
        room = room_for(self).size()
        least = layout.totalMinimumSize()
        width = min(max(self.width(), least.width()), room.width())
        height = max(least.height(), layout.totalMinimumHeightForWidth(width))
        if height > room.height():
            self._area = self._let_scroll(layout)
        if self._area is not None:
            width = min(max(width, self._width_of_parts(self._area)), room.width())
        self.resize(width, min(max(least_height, height), room.height()))
        bring_onto_screen(self)

    def _width_of_parts(self, area: QScrollArea) -> int:
        """Return how wide it is with parts that are scrolled up and down alone."""
        beside = DIALOG_MARGINS[0] + DIALOG_MARGINS[2] + area.verticalScrollBar().sizeHint().width()
        parts = area.widget()
        assert parts is not None
        return parts.minimumSizeHint().width() + beside

    def _let_scroll(self, layout: QLayout) -> QScrollArea:
        """Let everything be scrolled but the last row, which has the buttons."""
        last = layout.takeAt(layout.count() - 1)
        parts = QWidget()
        layout.setContentsMargins(*NO_MARGINS)
        parts.setLayout(layout)
        area = QScrollArea(self)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setWidgetResizable(True)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setWidget(parts)
        assert last is not None
        column((area, 1), on=self, margins=DIALOG_MARGINS).addItem(last)
        return area


class _FittingFileDialog(QFileDialog):
    """Asks for a file, is never larger than its screen, and is deleted with its answer."""

    def __init__(self, title: str, kinds: str, chosen: Callable[[str], object], parent: QWidget) -> None:
        super().__init__(parent, title)
        self.setNameFilter(kinds)
        self.fileSelected.connect(chosen)
        self.finished.connect(self.deleteLater)

    def showEvent(self, event: QShowEvent) -> None:
        """Fit where it appears."""
        super().showEvent(event)
        bring_onto_screen(self)


def ask_for_file(title: str, kinds: str, chosen: Callable[[str], object], parent: QWidget) -> None:
    """Ask for a file that is to be read, and go on with its path."""
    dialog = _FittingFileDialog(title, kinds, chosen, parent)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
    dialog.open()


def ask_where_to_save(
    title: str, name: str, kinds: str, chosen: Callable[[str], object], parent: QWidget
) -> None:
    """Ask for a file to be written, of this name unless another is chosen, and go on with its path."""
    dialog = _FittingFileDialog(title, kinds, chosen, parent)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setDirectory(QDir.homePath())
    dialog.setDefaultSuffix(PurePath(name).suffix.removeprefix("."))
    dialog.selectFile(name)
    dialog.open()


class FormDialog(FittingDialog):
    """A small dialog that stays open until what it asked for is done, or says why it is not; or is left."""

    def reject(self) -> None:
        """Close at once. What was asked for already goes on: the window around tells of a refusal."""
        if (around := self.around("show_problem")) is not None:
            for button in self.findChildren(CommandButton):
                button.tell_problem(around.show_problem)
        super().reject()

    def make_main(self, words: Words, send: MakeCall, icon: str = "check") -> CommandButton:
        """Return the button that does it."""
        main = CommandButton(words, icon, send, self)
        main.problem.connect(self.show_problem)
        return main


_LONGEST_NAME = 64
_NAME_CHARACTERS = 64  # how wide it is


class NameDialog(FormDialog):
    """Asks for a name; closes when what it is for is done.

    Args:
        name: What is offered.
        hint: What comes of it.
        save: Does it, with the name; None where it is done at once.
        empty: What an empty one stands for; without it there has to be a name.
    """

    def __init__(
        self,
        title: str,
        name: str,
        hint: str,
        words: Words,
        save: Callable[[str], Call | None],
        empty: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("nameDialog", title, parent)
        self._do, self._empty = save, empty
        self.name = QLineEdit(name, self)
        self.name.setMaxLength(_LONGEST_NAME)
        self.name.setPlaceholderText(empty)
        self.name.selectAll()
        self.save = self.make_main(words, self._send)
        self.save.finished.connect(lambda _: self.accept())
        form = QFormLayout()
        form.addRow("&Name", self.name)
        foot = self.foot(main=[self.save], leave="&Cancel")
        self.arrange(form, muted(wrapped(hint, self)), foot=foot, characters=_NAME_CHARACTERS)
        self.name.textChanged.connect(self._allow)
        self._allow()

    def _allow(self) -> None:
        named = bool(self.name.text().strip() or self._empty)
        self.save.allow("" if named else "Type a name.")

    def _send(self) -> Call | None:
        self.wrong.hide()
        call = self._do(self.name.text().strip())
        if call is None:
            self.accept()
        return call
