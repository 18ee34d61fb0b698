"""Fields: for a filter, a number, a preset."""

from collections.abc import Iterable
from itertools import groupby

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QFont, QIcon, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QLineEdit, QWidget

from soulsgui.gui.icons import dress
from soulsgui.gui.widgets.labels import set_tip
from soulsgui.wire.control import Preset

ENVIRONMENT = "env.id"
_ROOM_PX = 7
_CHARACTERS = 26


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


def task_of(preset: Preset) -> str:
    """Return what a preset trains, as a person names it: `LunarLander` for `LunarLander-v3`."""
    return str(preset.values.get(ENVIRONMENT, "")).rpartition("/")[2].partition("-v")[0]


class PresetBox(QComboBox):
    """Offers presets by their titles, grouped by task; the names are its data, empty for none of them.

    Its width does not depend on the titles.
    """

    def __init__(self, none: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("presetBox")
        leave_wheel_to_page(self)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(_CHARACTERS)
        self.addItem(none, "")

    def offer(self, presets: Iterable[Preset]) -> None:
        """Offer these presets instead of the ones before."""
        while self.count() > 1:
            self.removeItem(1)
        for task, group in groupby(sorted(presets, key=task_of), task_of):
            if task:
                font = QFont()
                font.setBold(True)
                heading = QStandardItem(task)
                heading.setFont(font)
                heading.setFlags(Qt.ItemFlag.NoItemFlags)
                model = self.model()
                assert isinstance(model, QStandardItemModel)
                model.appendRow(heading)
            for preset in group:
                self.addItem(preset.title, preset.name)
                self.setItemData(self.count() - 1, preset.about, Qt.ItemDataRole.ToolTipRole)
