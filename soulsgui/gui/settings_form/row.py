"""One setting in the form: name, editor, unit, when it takes effect, reset, what it is, what is wrong."""

import html
import re
from typing import Any

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from soulsgui.config.declaring import Effect
from soulsgui.gui.colours import Tone
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.settings_form.editors import make_editor
from soulsgui.gui.settings_form.spec import FieldSpec
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import Badge, Heading, keep_place

_TITLE_CHARACTERS = 22
_CODE = re.compile("`([^`]+)`")


def effect_words(effect: Effect) -> tuple[str, Tone]:
    """Return when a change takes effect, in words, with the badge's tone."""
    return {
        Effect.NEW_RUN: (tr("new run"), Tone.IDLE),
        Effect.RESUME: (tr("new run or resume"), Tone.IDLE),
        Effect.RESTART_RUNNER: (tr("server restart"), Tone.WARNING),
    }[effect]


def effect_tip(spec: FieldSpec) -> str:
    """Return what the badge means."""
    if spec.info.effect is Effect.RESUME:
        return tr(
            "When a change takes effect. A run that goes on takes another value by:\n"
            "soulsgui run resume --set {key}=VALUE"
        ).format(key=spec.key)
    return tr("When a change takes effect")


class SettingRow(QWidget):
    """One setting.

    Signals:
        typed: The user changed the value; with key, value and what is wrong with it.
        reset_asked: The shipped value is wanted back; with the key.
    """

    typed = Signal(str, object, str)
    reset_asked = Signal(str)

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.spec = spec
        self.setObjectName(f"row-{spec.key}")
        self._title = Heading(spec.title, 0, self)
        self._title.setWordWrap(True)
        self._title.setToolTip(spec.key)
        self.editor = make_editor(spec, self)
        self.editor.edited.connect(self._edited)
        self._title.setBuddy(self.editor)
        words, tone = effect_words(spec.info.effect)
        badge = Badge(words, tone, self)
        badge.setToolTip(effect_tip(spec))
        self._unit = QLabel(spec.info.unit, self)
        self._unit.setProperty("weight", "muted")
        self.reset = QPushButton(self.tr("Reset"), self)
        self.reset.setProperty("role", "flat")
        dress(self.reset, "reset")
        self.reset.clicked.connect(lambda: self.reset_asked.emit(spec.key))
        # The place stays when the button goes: nothing jumps while one types.
        keep_place(self.reset)
        self._about = QLabel(self._description(), self)
        self._about.setTextFormat(Qt.TextFormat.RichText)
        self._about.setWordWrap(True)
        self._about.setProperty("weight", "muted")
        self._about.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._wrong = QLabel(self)
        self._wrong.setWordWrap(True)
        self._wrong.setProperty("tone", "bad")
        self._wrong.hide()
        self._place(badge)

    def _place(self, badge: Badge) -> None:
        self._unit.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = FlowLayout(10)
        for part in (self._title, self.editor, self._unit, badge, self.reset):
            line.addWidget(part)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 6, 0, 6)
        column.setSpacing(2)
        column.addLayout(line)
        column.addWidget(self._wrong)
        column.addWidget(self._about)
        self._take_font()

    def _description(self) -> str:
        parts = [f"`{self.spec.key}`", self.spec.info.description]
        if self.spec.limits:
            parts.append(self.tr("Range: {limits}.").format(limits=self.spec.limits))
        for choice, value in self.spec.info.shipped_with.items():
            words = self.tr("Shipped with {choice}: {value}.")
            parts.append(words.format(choice=f"`{choice}`", value=self.spec.written(value)))
        return _CODE.sub(r"<code>\1</code>", html.escape(" · ".join(parts), quote=False))

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_about"):
            self._take_font()
        super().changeEvent(event)

    def _take_font(self) -> None:
        self._title.setFixedWidth(self.fontMetrics().averageCharWidth() * _TITLE_CHARACTERS)

    def _edited(self) -> None:
        value, problem = self.editor.read()
        self.typed.emit(self.spec.key, value, problem)

    def show_state(self, modified: bool, unsaved: bool, base: Any, problem: str) -> None:
        """Show where the value comes from and what is wrong with it.

        Args:
            modified: Whether it is the user's own.
            unsaved: Whether it was changed since it was saved.
            base: What a reset would bring back.
            problem: What is wrong; empty for nothing.
        """
        self._title.setText(f"{self.spec.title} •" if unsaved else self.spec.title)
        self.reset.setVisible(modified)
        shown = self.spec.written(base) or self.tr("empty")
        self.reset.setToolTip(self.tr("Back to {value}").format(value=shown))
        self._wrong.setText(problem)
        self._wrong.setVisible(bool(problem))
        self.editor.mark_wrong(bool(problem))
        value, wrong = self.editor.read()
        hint = "" if wrong else self.spec.hint(value)
        self._unit.setText(f"{self.spec.info.unit} = {hint}" if hint else self.spec.info.unit)

    @property
    def problem(self) -> str:
        """What is said to be wrong."""
        return self._wrong.text()
