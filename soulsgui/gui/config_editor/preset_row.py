"""Which preset lies under the user's own settings, and which of these still win over it."""

from collections.abc import Mapping, Sequence
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.config_editor.differences import still_winning, written
from soulsgui.gui.icons import dress
from soulsgui.gui.settings_form.spec import specs
from soulsgui.gui.widgets.labels import ElidedLabel
from soulsgui.gui.widgets.preset_box import PresetBox
from soulsgui.wire.control import Preset


class PresetRow(QWidget):
    """Chooses a preset; never touches the user's own settings unless told to.

    Signals:
        chosen: Another preset is wanted; with its name, empty for none.
        give_way: These settings of the user's own shall make way for the preset; with their keys.
    """

    chosen = Signal(str)
    give_way = Signal(list)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._presets: dict[str, Preset] = {}
        self._winning: list[str] = []
        self.box = PresetBox(self.tr("None (as shipped)"), self)
        self.box.setAccessibleName(self.tr("Preset"))
        self.box.activated.connect(lambda _: self.chosen.emit(self.box.currentData() or ""))
        label = QLabel(self.tr("&Preset"), self)
        label.setBuddy(self.box)
        self._about = ElidedLabel("", self)
        self._about.setProperty("weight", "muted")
        head = QHBoxLayout()
        head.addWidget(label)
        head.addWidget(self.box)
        head.addWidget(self._about, 1)
        self._words = ElidedLabel("", self)
        self.give = QPushButton(self.tr("Use the preset's values"), self)
        dress(self.give, "reset")
        self.give.clicked.connect(lambda: self.give_way.emit(list(self._winning)))
        self._foot = QWidget(self)
        self._foot.hide()
        foot = QHBoxLayout(self._foot)
        foot.setContentsMargins(0, 0, 0, 0)
        foot.addWidget(self._words, 1)
        foot.addWidget(self.give)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addLayout(head)
        column.addWidget(self._foot)

    def offer(self, presets: Sequence[Preset]) -> bool:
        """Offer these presets; tells whether they are others than before."""
        offered = {preset.name: preset for preset in presets}
        if offered == self._presets:
            return False
        self._presets = offered
        self.box.offer(presets)
        return True

    def values(self, name: str) -> dict[str, Any]:
        """Return what a preset sets, by dotted key; nothing for one that is not known."""
        return dict(self._presets[name].values) if name in self._presets else {}

    def show_choice(self, name: str, mine: Mapping[str, Any]) -> None:
        """Show which preset is chosen and which settings of the user's own win over it.

        Args:
            name: The preset, empty for none.
            mine: The user's own settings, by dotted key.
        """
        place = self.box.findData(name)
        self.box.setCurrentIndex(place)
        if place < 0:
            self.box.setPlaceholderText(name)
        preset = self._presets.get(name)
        nothing = self.tr("Your own settings lie over the shipped ones.")
        unknown = self.tr("There is no such preset.")
        self._about.setText(preset.about if preset else unknown if name else nothing)
        self._winning = still_winning(preset.values, mine) if preset else []
        self._foot.setVisible(bool(self._winning))
        known = specs()
        shown = [
            self.tr("{key} = {mine} (preset: {preset})").format(
                key=key,
                mine=written(known[key], mine[key]),
                preset=written(known[key], self.values(name)[key]),
            )
            for key in self._winning
        ]
        self._words.setText(self.tr("Your own settings win over it: {list}").format(list=", ".join(shown)))

    @property
    def winning(self) -> list[str]:
        """The settings of the user's own that win over the preset."""
        return list(self._winning)

    @property
    def words(self) -> str:
        """What is said of the preset."""
        return f"{self._about.text()}\n{self._words.text() if self._winning else ''}".strip()
