"""One setting in the form: its editor, unit, when it takes effect, reset, what it is, what is wrong."""

import html
import re
from typing import Any

from PySide6.QtCore import QEvent, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtWidgets import QCheckBox, QLineEdit, QPushButton, QSizePolicy, QWidget

from soulsgui.config.declaring import Effect
from soulsgui.gui.colours import Tone
from soulsgui.gui.icons import dress
from soulsgui.gui.settings.spec import FieldSpec, Kind, as_yaml
from soulsgui.gui.text import spaced
from soulsgui.gui.theme import GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, flow, row
from soulsgui.gui.widgets.command_button import allow
from soulsgui.gui.widgets.inputs import ChoiceBox
from soulsgui.gui.widgets.labels import (
    Badge,
    Heading,
    Label,
    Remark,
    WrappedLabel,
    keep_place,
    muted,
    set_property,
    set_tip,
)

_CHARACTERS = {Kind.WHOLE: 14, Kind.NUMBER: 14, Kind.SCHEDULE: 30, Kind.TEXT: 30, Kind.STRUCTURE: 30}
_LEAST_CHARACTERS = 10


class Editor(QWidget):
    """The widget a setting's value is changed in.

    Signals:
        edited: The user changed it.
    """

    edited = Signal()

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.spec = spec

    def _hold(self, widget: QWidget) -> None:
        self.field = widget  # that has the keyboard
        widget.setObjectName(f"setting-{self.spec.key}")
        widget.setAccessibleName(f"{self.spec.section} {self.spec.title}".strip())
        widget.setAccessibleDescription(self.spec.info.description)
        row(widget, None, on=self, margins=NO_MARGINS)

    def show_value(self, value: Any) -> None:
        """Show a value without telling of it."""
        raise NotImplementedError

    def read(self) -> tuple[Any, str]:
        """Return the value and what is wrong with it."""
        raise NotImplementedError

    def mark_wrong(self, wrong: bool) -> None:
        """Show that the value is wrong, or no longer."""


class SwitchEditor(Editor):
    """On or off."""

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None) -> None:
        super().__init__(spec, parent)
        self._box = QCheckBox(self)
        self._box.toggled.connect(self._toggled)
        self._hold(self._box)

    def _toggled(self, on: bool) -> None:
        self._box.setText(as_yaml(on))
        self.edited.emit()

    def show_value(self, value: Any) -> None:
        """Show a value without telling of it."""
        with QSignalBlocker(self._box):
            self._box.setChecked(bool(value))
        self._box.setText(as_yaml(bool(value)))

    def read(self) -> tuple[Any, str]:
        """Return the value; nothing can be wrong with it."""
        return self._box.isChecked(), ""


class ChoiceEditor(Editor):
    """One of a few words."""

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None) -> None:
        super().__init__(spec, parent)
        self._box = ChoiceBox("", self)
        self._box.addItems(list(spec.choices))
        self._box.currentIndexChanged.connect(lambda _: self.edited.emit())
        self._hold(self._box)

    def show_value(self, value: Any) -> None:
        """Show a value without telling of it."""
        with QSignalBlocker(self._box):
            self._box.setCurrentText(str(value))

    def read(self) -> tuple[Any, str]:
        """Return the value; nothing can be wrong with it."""
        return self._box.currentText(), ""


class _Line(QLineEdit):
    """A line as wide as its characters where there is room for them."""

    def __init__(self, characters: int, parent: QWidget) -> None:
        super().__init__(parent)
        self._characters = characters

    def sizeHint(self) -> QSize:
        """Room for the characters."""
        return QSize(
            self.fontMetrics().averageCharWidth() * self._characters + 20, super().sizeHint().height()
        )

    def minimumSizeHint(self) -> QSize:
        """Room for a number."""
        least = self.fontMetrics().averageCharWidth() * _LEAST_CHARACTERS + 20
        return QSize(least, super().minimumSizeHint().height())


class LineEditor(Editor):
    """Numbers, words, lists and maps."""

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None) -> None:
        super().__init__(spec, parent)
        self._line = _Line(_CHARACTERS[spec.kind], self)
        if spec.optional or spec.kind is Kind.STRUCTURE:
            self._line.setPlaceholderText("none")
        if spec.info.secret:
            self._line.setEchoMode(QLineEdit.EchoMode.PasswordEchoOnEdit)
        self._line.textEdited.connect(lambda _: self.edited.emit())
        self._hold(self._line)

    def show_value(self, value: Any) -> None:
        """Show a value without telling of it."""
        written = self.spec.written(value)
        # The cursor stays where it is when nothing changes under it.
        if written != self._line.text():
            self._line.setText(written)
            self._line.setCursorPosition(0)

    def read(self) -> tuple[Any, str]:
        """Return the value and what is wrong with it."""
        return self.spec.read(self._line.text())

    def mark_wrong(self, wrong: bool) -> None:
        """Show that the value is wrong, or no longer."""
        set_property(self._line, "wrong", "true" if wrong else "false")


class ValueLine(Editor):
    """A value that can only be read, and copied."""

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None) -> None:
        super().__init__(spec, parent)
        self._value: Any = None
        self._line = _Line(_CHARACTERS.get(spec.kind, _LEAST_CHARACTERS), self)
        self._line.setReadOnly(True)
        if spec.info.secret:
            self._line.setEchoMode(QLineEdit.EchoMode.Password)
        self._hold(self._line)

    def show_value(self, value: Any) -> None:
        """Show a value."""
        self._value = value
        self._line.setText(self.spec.written(value) or self.spec.shown(value))
        self._line.setCursorPosition(0)

    def read(self) -> tuple[Any, str]:
        """Return the value; what is wrong with it is told elsewhere."""
        return self._value, ""


_EDITORS: dict[Kind, type[Editor]] = {Kind.SWITCH: SwitchEditor, Kind.CHOICE: ChoiceEditor}
_TITLE_CHARACTERS = 22
_CODE = re.compile("`([^`]+)`")


def effect_words(effect: Effect) -> tuple[str, Tone]:
    """Return when a change takes effect, in words, with the badge's tone."""
    return {
        Effect.NEW_RUN: ("new run", Tone.IDLE),
        Effect.RESUME: ("new run or resume", Tone.IDLE),
        Effect.NOW: ("now", Tone.IDLE),
        Effect.NEXT_ROUND: ("next round", Tone.IDLE),
        Effect.SAVED: ("once saved", Tone.IDLE),
        Effect.RESTART_RUNNER: ("server restart", Tone.WARNING),
    }[effect]


class SettingRow(QWidget):
    """One setting, to be changed or only read.

    Signals:
        typed: The user changed the value; with key, value and what is wrong with it.
        reset_asked: The shipped value is wanted back; with the key.
    """

    typed = Signal(str, object, str)
    reset_asked = Signal(str)

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None, read_only: bool = False) -> None:
        super().__init__(parent)
        self.spec = spec
        self.setObjectName(f"row-{spec.key}")
        self._title = Heading(spec.title, 0, self)
        self._title.setWordWrap(True)
        set_tip(self._title, spec.key)
        kind = ValueLine if read_only else _EDITORS.get(spec.kind, LineEditor)
        self.editor = kind(spec, self)
        self.editor.edited.connect(self._edited)
        self._title.setBuddy(self.editor.field)
        words, tone = effect_words(spec.info.effect)
        badge = Badge(words, tone, self)
        effect = spec.info.effect
        by_hand = {
            Effect.RESUME: f" by:\nsoulsgui run resume --set {spec.key}=VALUE",
            Effect.NOW: " in the tab Running.",
            Effect.NEXT_ROUND: " in the tab Running.",
        }.get(effect, "")
        more = f". The current run takes another value{by_hand}" if by_hand else ""
        set_tip(badge, f"When a change takes effect{more}")
        self._unit = muted(Label(spec.info.unit, self))
        self.reset = QPushButton("Reset", self)
        self.reset.setAccessibleName(f"Reset {spec.title}")
        self.reset.setProperty("role", "flat")
        dress(self.reset, "reset")
        self.reset.clicked.connect(lambda: self.reset_asked.emit(spec.key))
        self._read_only = read_only
        # The place stays when the button goes: nothing jumps while one types.
        keep_place(self.reset)
        self._about = muted(WrappedLabel(self._description(), self))
        self._about.setTextFormat(Qt.TextFormat.RichText)
        self._about.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.wrong = Remark(self)
        self._unit.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        line = flow(self._title, self.editor, self._unit, badge, self.reset, gap_px=GAP_M)
        column(line, self.wrong, self._about, on=self, margins=(0, GAP_S, 0, GAP_S), gap_px=GAP_XS)
        self._take_font()

    def _description(self) -> str:
        parts = [f"`{self.spec.key}`", self.spec.info.description]
        if self.spec.limits:
            parts.append(f"Range: {self.spec.limits}.")
        by_value: dict[str, list[str]] = {}
        for choice, value in self.spec.info.shipped_with.items():
            by_value.setdefault(self.spec.shown(value), []).append(f"`{choice.rpartition('=')[2]}`")
        if by_value:
            told = (
                f"{' and '.join(', '.join(choices).rsplit(', ', 1))}: {value}"
                for value, choices in by_value.items()
            )
            parts.append(f"Default with {'; '.join(told)}.")
        words = _CODE.sub(r"<code>\1</code>", html.escape(" · ".join(parts), quote=False))
        return spaced(words)

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
        """Show where the value comes from and what is wrong with it."""
        self._title.setText(f"{self.spec.title} •" if unsaved else self.spec.title)
        self.reset.setVisible(modified)
        below = self.spec.shown(base)
        refusal = f"This can only be read. Its default is {below}." if self._read_only else ""
        allow(self.reset, refusal, f"Back to {below}")
        self.wrong.setText(problem)
        self.editor.mark_wrong(bool(problem))
        value, wrong = self.editor.read()
        hint = "" if wrong else self.spec.hint(value)
        self._unit.setText(f"{self.spec.info.unit} = {hint}" if hint else self.spec.info.unit)
