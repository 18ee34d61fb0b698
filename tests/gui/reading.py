"""A widget on the screen, and what is to be read and found on it."""

from typing import TypeVar

from PySide6.QtWidgets import QComboBox, QLabel, QWidget
from pytestqt.qtbot import QtBot

Part = TypeVar("Part", bound=QWidget)


def shown(qtbot: QtBot, widget: Part, *size: int) -> Part:
    """Show a widget in a size of pixels or in its own; it is closed with the test."""
    qtbot.addWidget(widget)
    if size:
        widget.resize(*size)
    widget.show()
    return widget


def words_of(widget: QWidget) -> str:
    """Return the words of all its labels, one below the other; empty while it is hidden."""
    labels = [label for label in widget.findChildren(QLabel) if not label.isHidden() and label.text()]
    said = "" if widget.isHidden() else "\n".join(label.text() for label in labels)
    return said.replace("\N{NO-BREAK SPACE}", " ")


def part_of(widget: QWidget, kind: type[Part]) -> Part:
    """Return the first of its parts of a kind."""
    found = widget.findChild(kind)
    assert isinstance(found, kind)
    return found


def choose(box: QComboBox, data: object) -> None:
    """Choose an entry of a box by its data, as the user does."""
    box.setCurrentIndex(box.findData(data))
    box.activated.emit(box.currentIndex())
