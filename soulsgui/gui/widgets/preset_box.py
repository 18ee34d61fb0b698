"""A box that offers presets."""

from collections.abc import Iterable
from itertools import groupby

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QComboBox, QWidget

from soulsgui.gui.run_choice import task_of
from soulsgui.wire.control import Preset

_CHARACTERS = 26


class PresetBox(QComboBox):
    """Offers presets by their titles, grouped by task; the names are its data, empty for none of them.

    Its width does not depend on the titles.

    Args:
        none: What stands for none of them.
        parent: The widget it stands in.
    """

    def __init__(self, none: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("presetBox")
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(_CHARACTERS)
        self.addItem(none, "")

    def offer(self, presets: Iterable[Preset]) -> None:
        """Offer these presets instead of the ones before."""
        while self.count() > 1:
            self.removeItem(1)
        for task, group in groupby(sorted(presets, key=task_of), task_of):
            if task:
                self._add_heading(task)
            for preset in group:
                self.addItem(preset.title, preset.name)
                self.setItemData(self.count() - 1, preset.about, Qt.ItemDataRole.ToolTipRole)

    def _add_heading(self, task: str) -> None:
        font = QFont()
        font.setBold(True)
        heading = QStandardItem(task)
        heading.setFont(font)
        heading.setFlags(Qt.ItemFlag.NoItemFlags)
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        model.appendRow(heading)
