"""The frame of the dialogs that change one thing: fields, a hint, what went wrong, and buttons."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFormLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.calls import MakeCall
from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import make_primary
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import set_property
from soulsgui.wire.control import ApiError


class FormDialog(FittingDialog):
    """A small dialog that stays open until what it asked for is done, or says why it is not.

    Args:
        name: Its object name.
        title: Its title.
        parent: The widget it is opened from.
    """

    def __init__(self, name: str, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.wrong = QLabel(self)
        self.wrong.setWordWrap(True)
        self.wrong.setTextFormat(Qt.TextFormat.PlainText)
        self.wrong.hide()
        self.cancel = QPushButton(tr("&Cancel"), self)
        self.cancel.setAutoDefault(False)
        self.cancel.clicked.connect(self.reject)

    def make_main(self, words: Words, send: MakeCall) -> CommandButton:
        """Return the button that does it, which Enter presses.

        Args:
            words: What it says.
            send: Sends the command.
        """
        made = CommandButton(words, "check", send, self)
        make_primary(made)
        made.setDefault(True)
        made.problem.connect(self.show_problem)
        return made

    def arrange(
        self,
        form: QFormLayout,
        main: CommandButton,
        characters: int,
        hint: str = "",
        aside: Sequence[QPushButton] = (),
    ) -> None:
        """Put the parts in their places.

        Args:
            form: The fields.
            main: The button that does it.
            characters: Least width, in characters.
            hint: What there is to know; empty for nothing.
            aside: Buttons at the left.
        """
        foot = QHBoxLayout()
        for button in aside:
            foot.addWidget(button)
        foot.addStretch(1)
        foot.addWidget(main)
        foot.addWidget(self.cancel)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addLayout(form)
        if hint:
            label = QLabel(hint, self)
            label.setWordWrap(True)
            label.setProperty("weight", "muted")
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
        self.say_wrong(f"{error.message}\n{error.remedy}".strip())
