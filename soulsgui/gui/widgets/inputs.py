"""Fields: for a filter, a number, one of several choices."""

from collections.abc import Iterable
from typing import Any

from PySide6.QtCore import QEvent, QObject, QSignalBlocker
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QLineEdit, QSpinBox, QStyle, QWidget

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


class NumberBox(QSpinBox):
    """A whole number between two others."""

    def __init__(self, least: int, most: int, parent: QWidget) -> None:
        super().__init__(parent)
        give_room(self)
        leave_wheel_to_page(self)
        self.setRange(least, most)


class ChoiceBox(QComboBox):
    """One of several choices, each in words and as what it stands for.

    Args:
        name: What is chosen, for screen readers; empty where a caption says it.
        parent: Where it stands.
        choices: Words and data of each.
        characters: How wide it is, whatever the words; 0 for as wide as they are.
    """

    def __init__(
        self, name: str, parent: QWidget, choices: Iterable[tuple[str, Any]] = (), characters: int = 0
    ) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        leave_wheel_to_page(self)
        if characters:
            self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
            self.setMinimumContentsLength(characters)
        self.offer(choices, None)

    def showPopup(self) -> None:
        """Show each choice whole, however narrow the box is."""
        bar_px = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent)
        self.view().setMinimumWidth(self.view().sizeHintForColumn(0) + bar_px)
        super().showPopup()

    def offer(self, choices: Iterable[tuple[str, Any]], chosen: Any) -> None:
        """Offer these, and show the one that has this data, else the first; nobody is told of it."""
        wanted = list(choices)
        with QSignalBlocker(self):
            if wanted != [(self.itemText(place), self.itemData(place)) for place in range(self.count())]:
                self.clear()
                for words, data in wanted:
                    self.addItem(words, data)
            self.setCurrentIndex(max(self.findData(chosen), 0))
