"""How to update this computer: what is missing, and what to type, to be copied."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress, make_primary
from soulsgui.gui.models.updating import UpdateSteps
from soulsgui.gui.widgets.labels import Heading

_CHARACTERS = 74


class UpdateDialog(FittingDialog):
    """Says what to do, with the commands to copy.

    Args:
        why: What is needed, and what is here.
        steps: What to do about it.
        parent: The widget it is opened from.
    """

    def __init__(self, why: str, steps: UpdateSteps, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("updateDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Update this computer"))
        self._lines = "\n".join(steps.commands)
        column = QVBoxLayout(self)
        column.setSpacing(12)
        column.addWidget(Heading(tr("Update this computer"), 1, self))
        for sentence in (why, steps.sentence):
            column.addWidget(self._sentence(sentence))
        self.commands = self._make_field(len(steps.commands))
        column.addWidget(self.commands)
        column.addWidget(self._sentence(steps.afterwards))
        column.addLayout(self._foot())
        self.setMinimumWidth(self.fontMetrics().averageCharWidth() * _CHARACTERS)

    def _sentence(self, words: str) -> QLabel:
        label = QLabel(words, self)
        label.setWordWrap(True)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setVisible(bool(words))
        return label

    def _make_field(self, lines: int) -> QPlainTextEdit:
        field = QPlainTextEdit(self._lines, self)
        field.setReadOnly(True)
        field.setTabChangesFocus(True)
        field.setProperty("role", "field")
        field.setAccessibleName(tr("What to type"))
        field.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        field.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        # A long path takes a second line.
        field.setFixedHeight(field.fontMetrics().lineSpacing() * (lines + 1) + 20)
        field.setVisible(lines > 0)
        return field

    def _foot(self) -> QHBoxLayout:
        self.copy = QPushButton(tr("&Copy"), self)
        make_primary(self.copy)
        dress(self.copy, "copy")
        self.copy.setDefault(True)
        self.copy.clicked.connect(self._copy)
        self.copy.setVisible(bool(self._lines))
        self.close_button = QPushButton(tr("Cl&ose"), self)
        self.close_button.setAutoDefault(False)
        self.close_button.clicked.connect(self.reject)
        foot = QHBoxLayout()
        foot.addStretch(1)
        foot.addWidget(self.copy)
        foot.addWidget(self.close_button)
        return foot

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._lines)
        self.copy.setText(tr("Copied"))
