"""The window's own preferences; they take effect as they are chosen."""

from collections.abc import Mapping

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QFormLayout,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui.dialogs.fitting import FittingDialog
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.tray import why_no_tray
from soulsgui.gui.preferences import FONT_PERCENTS, AtClosing, AtLeaving, Preferences
from soulsgui.gui.theme import Theme, ThemeChoice
from soulsgui.gui.tray import has_tray


class SettingsDialog(FittingDialog):
    """Theme, font size, and what closing does.

    Args:
        preferences: What is changed.
        theme: The look of the application.
        parent: The window.
    """

    def __init__(self, preferences: Preferences, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("settingsDialog")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Settings"))
        self._preferences = preferences
        self._theme = theme
        self.theme = self._box(
            {
                ThemeChoice.AUTO: tr("As the desktop"),
                ThemeChoice.LIGHT: tr("Light"),
                ThemeChoice.DARK: tr("Dark"),
            },
            preferences.theme,
        )
        self.font_size = self._box(
            {percent: tr("{n} %").format(n=percent) for percent in FONT_PERCENTS}, preferences.font_percent
        )
        self.closing = self._box(
            {
                AtClosing.ASK: tr("Ask every time"),
                AtClosing.STOP: tr("Save and stop the run"),
                AtClosing.KEEP: tr("Keep training"),
            },
            preferences.at_closing,
        )
        self.leaving = self._box(
            {
                AtLeaving.ASK: tr("Ask every time"),
                AtLeaving.TRAY: tr("Stay in the tray and play on"),
                AtLeaving.QUIT: tr("End the episode, then quit"),
            },
            preferences.at_leaving,
        )
        self._build()
        self.theme.currentIndexChanged.connect(self._theme_chosen)
        self.font_size.currentIndexChanged.connect(self._font_chosen)
        self.closing.currentIndexChanged.connect(self._closing_chosen)
        self.leaving.currentIndexChanged.connect(self._leaving_chosen)

    def _build(self) -> None:
        form = QFormLayout()
        form.setVerticalSpacing(10)
        form.addRow(tr("&Theme"), self.theme)
        form.addRow(tr("&Font size"), self.font_size)
        form.addRow(tr("Closing the window in a &run"), self.closing)
        form.addRow(tr("Closing it while this computer &helps"), self.leaving)
        no_tray = why_no_tray(has_tray())
        self.leaving.setEnabled(not no_tray)
        self.why_no_tray = self._hint(no_tray)
        if no_tray:
            form.addRow("", self.why_no_tray)
        else:
            self.why_no_tray.hide()
        hint = self._hint(tr("These belong to this window. What is trained, and how, is set under Config."))
        self.trouble = QLabel(self)
        self.trouble.setWordWrap(True)
        self.trouble.setProperty("tone", "bad")
        self.trouble.hide()
        column = QVBoxLayout(self)
        column.setSpacing(14)
        column.addLayout(form)
        column.addWidget(hint)
        column.addWidget(self.trouble)
        column.addLayout(self.foot())

    def _hint(self, words: str) -> QLabel:
        hint = QLabel(words, self)
        hint.setWordWrap(True)
        hint.setProperty("weight", "muted")
        return hint

    def _box(self, choices: Mapping[object, str], chosen: object) -> QComboBox:
        box = QComboBox(self)
        for value, words in choices.items():
            box.addItem(words, value)
        box.setCurrentIndex(max(list(choices).index(chosen) if chosen in choices else 0, 0))
        return box

    def _theme_chosen(self) -> None:
        choice = ThemeChoice(self.theme.currentData())
        self._preferences.theme = choice
        self._keep()
        self._theme.choose(choice)

    def _font_chosen(self) -> None:
        percent = int(self.font_size.currentData())
        self._preferences.font_percent = percent
        self._keep()
        self._theme.set_font_scale(percent)
        self.adjustSize()

    def _closing_chosen(self) -> None:
        self._preferences.at_closing = AtClosing(self.closing.currentData())
        self._keep()

    def _leaving_chosen(self) -> None:
        self._preferences.at_leaving = AtLeaving(self.leaving.currentData())
        self._keep()

    def _keep(self) -> None:
        trouble = self._preferences.keep()
        self.trouble.setText(tr("This holds until the window is closed: {why}").format(why=trouble))
        self.trouble.setVisible(bool(trouble))
