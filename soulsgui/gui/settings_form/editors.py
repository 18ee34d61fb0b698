"""One editor per kind of setting, all with the same three methods."""

from typing import Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QHBoxLayout, QLineEdit, QWidget

from soulsgui.gui.settings_form.spec import FieldSpec, Kind
from soulsgui.gui.widgets.labels import set_property

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
        self._row = QHBoxLayout(self)
        self._row.setContentsMargins(0, 0, 0, 0)

    def _hold(self, widget: QWidget) -> None:
        widget.setObjectName(f"setting-{self.spec.key}")
        widget.setAccessibleName(f"{self.spec.section} {self.spec.title}".strip())
        widget.setAccessibleDescription(self.spec.info.description)
        self._row.addWidget(widget)
        self._row.addStretch(1)
        self.setFocusProxy(widget)

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
        self._box.setText(self.tr("on") if on else self.tr("off"))
        self.edited.emit()

    def show_value(self, value: Any) -> None:
        """Show a value without telling of it."""
        self._box.blockSignals(True)
        self._box.setChecked(bool(value))
        self._box.setText(self.tr("on") if value else self.tr("off"))
        self._box.blockSignals(False)

    def read(self) -> tuple[Any, str]:
        """Return the value; nothing can be wrong with it."""
        return self._box.isChecked(), ""


class _CalmComboBox(QComboBox):
    """Does not change when the page is scrolled over it."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the page."""
        event.ignore()


class ChoiceEditor(Editor):
    """One of a few words."""

    def __init__(self, spec: FieldSpec, parent: QWidget | None = None) -> None:
        super().__init__(spec, parent)
        self._box = _CalmComboBox(self)
        self._box.addItems(list(spec.choices))
        self._box.currentIndexChanged.connect(lambda _: self.edited.emit())
        self._hold(self._box)

    def show_value(self, value: Any) -> None:
        """Show a value without telling of it."""
        self._box.blockSignals(True)
        self._box.setCurrentText(str(value))
        self._box.blockSignals(False)

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
        if spec.optional:
            self._line.setPlaceholderText(self.tr("empty"))
        elif spec.kind is Kind.STRUCTURE:
            self._line.setPlaceholderText(self.tr("none"))
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


def make_editor(spec: FieldSpec, parent: QWidget | None = None) -> Editor:
    """Return the editor for a setting."""
    kinds: dict[Kind, type[Editor]] = {Kind.SWITCH: SwitchEditor, Kind.CHOICE: ChoiceEditor}
    return kinds.get(spec.kind, LineEditor)(spec, parent)
