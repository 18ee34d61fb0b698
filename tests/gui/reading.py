"""What is to be read and found on a widget."""

from typing import TypeVar

from PySide6.QtWidgets import QLabel, QWidget

Part = TypeVar("Part", bound=QWidget)


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
