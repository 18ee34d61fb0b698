"""Fields: for a filter, a number."""

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QAbstractSpinBox, QLineEdit, QWidget

from soulsgui.gui.icons import dress
from soulsgui.gui.widgets.labels import set_tip

_ROOM_PX = 7


class FilterEdit(QLineEdit):
    """A line with a magnifying glass and a cross to empty it."""

    def __init__(self, purpose: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setPlaceholderText("Filter")
        self.setClearButtonEnabled(True)
        self.setAccessibleName(purpose)
        set_tip(self, purpose)
        glass = self.addAction(QIcon(), QLineEdit.ActionPosition.LeadingPosition)
        dress(glass, "search")


def give_room(edit: QAbstractSpinBox) -> None:
    """Keep what is written in a field off its edge: the padding of the style sheet does not reach inside."""
    edit.findChildren(QLineEdit)[0].setTextMargins(_ROOM_PX, 0, 0, 0)


class _WheelFilter(QObject):
    """Takes no turn of the wheel, so that Qt offers it to what is around the widget."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leave the wheel, and nothing else, to others."""
        if event.type() is not QEvent.Type.Wheel:
            return False
        event.ignore()
        return True


def leave_wheel_to_page(widget: QWidget) -> None:
    """Let the wheel scroll the page over a field, too: who scrolls does not mean to change a value."""
    widget.installEventFilter(_WheelFilter(widget))
