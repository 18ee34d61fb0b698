"""Fields with arrows beside them: numbers and times."""

from PySide6.QtWidgets import QAbstractSpinBox, QLineEdit

_ROOM_PX = 7


def give_room(edit: QAbstractSpinBox) -> None:
    """Keep what is written in a field off its edge: the padding of the style sheet does not reach inside."""
    edit.findChildren(QLineEdit)[0].setTextMargins(_ROOM_PX, 0, 0, 0)
