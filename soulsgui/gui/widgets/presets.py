"""How presets are named, shown and chosen."""

import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt
from PySide6.QtGui import QFont, QIcon, QKeyEvent, QPixmap, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QComboBox,
    QCompleter,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from soulsgui.config.paths import shipped
from soulsgui.gui.widgets.inputs import leave_wheel_to_page
from soulsgui.gui.widgets.labels import set_tip
from soulsgui.wire.control import Preset

ENVIRONMENT = "env.id"
_CHARACTERS = 26


def task_of(preset: Preset) -> str:
    """Return what a preset trains, as a person names it: `LunarLander` for `LunarLander-v3`."""
    return str(preset.values.get(ENVIRONMENT, "")).rpartition("/")[2].partition("-v")[0]


def time_words(preset: Preset) -> str:
    """Return how long a preset took: `about 8 s on 2 cores`; nothing where nobody has measured it."""
    if not preset.seconds:
        return ""
    minutes = preset.seconds / 60
    took = f"{minutes:.0f} min" if minutes >= 1.5 else f"{preset.seconds:.0f} s"
    return f"about {took} on {preset.machine}"


def picture_of(env_id: str) -> QPixmap:
    """Return how an environment looks; an empty picture of one that is not shipped."""
    picture = QPixmap()
    with suppress(FileNotFoundError):
        if _PLAIN_ID.fullmatch(env_id):  # another computer may have named it
            picture = QPixmap(str(shipped("resources", "environments", f"{env_id}.png")))
    picture.setDevicePixelRatio(_PICTURE_SCALE)
    return picture


_PLAIN_ID = re.compile(r"[\w-]+")
_PICTURE_SCALE = 1.5  # its pixels for one of the screen
_PICTURE, _TIME = Qt.ItemDataRole.UserRole + 1, Qt.ItemDataRole.UserRole + 2
_SMALL = QSize(54, 36)


class _PresetDelegate(QStyledItemDelegate):
    """Shows a preset beside a picture of its task, and how long it took below its title."""

    def initStyleOption(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Add both; a heading has neither."""
        super().initStyleOption(option, index)
        shown: Any = option  # its fields, which the stubs of PySide do not know
        if picture := index.data(_PICTURE):
            shown.features |= QStyleOptionViewItem.ViewItemFeature.HasDecoration
            shown.icon, shown.decorationSize = picture, _SMALL
        if time := index.data(_TIME):
            shown.text = f"{shown.text}\N{LINE SEPARATOR}{time}"


class PresetBox(QComboBox):
    """Offers presets by their titles, grouped by task; the names are its data, empty for none of them.

    A part of a title that is typed searches them. Its width does not depend on the titles.
    """

    def __init__(self, none: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("presetBox")
        leave_wheel_to_page(self)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(_CHARACTERS)
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self._completer = QCompleter(self.model(), self)
        self._completer.setFilterMode(Qt.MatchFlag.MatchContains)
        self._completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setCompleter(self._completer)
        if popup := self._completer.popup():
            popup.setObjectName("presetsFound")
            popup.setItemDelegate(_PresetDelegate(popup))
        self.setItemDelegate(_PresetDelegate(self))
        self._line = self.findChildren(QLineEdit)[0]
        self._line.editingFinished.connect(self._choose_typed)
        self.currentIndexChanged.connect(lambda _: self._line.home(False))
        set_tip(self, "Type a part of a title to search")
        self.addItem(none, "")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter after typing chooses; it presses no button of a dialog as well."""
        typed = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._line.isModified()
        super().keyPressEvent(event)
        popup = self._completer.popup()
        if typed and not (popup and popup.isVisible()):
            event.accept()

    def _choose_typed(self) -> None:
        """Choose the first preset whose title has what was typed; without any it stays as it was."""
        typed = self._line.text().strip().casefold() if self._line.isModified() else ""
        titles = [(place, self.itemText(place).casefold()) for place in range(self.count())]
        fits = [one for one in titles if typed in one[1] and self._items.item(one[0]).isEnabled()]
        if typed and fits:
            place, _ = min(fits, key=lambda one: one[1] != typed)
            self.setCurrentIndex(place)
            self.activated.emit(place)
        self.setEditText(self.itemText(self.currentIndex()))
        self._line.home(False)

    @property
    def _items(self) -> QStandardItemModel:
        model = self.model()
        assert isinstance(model, QStandardItemModel)
        return model

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
                self._items.appendRow(heading)
            for preset in group:
                self.addItem(preset.title, preset.name)
                self.setItemData(self.count() - 1, preset.about, Qt.ItemDataRole.ToolTipRole)
                picture = QIcon(picture_of(str(preset.values.get(ENVIRONMENT, ""))))
                self.setItemData(self.count() - 1, picture, _PICTURE)
                self.setItemData(self.count() - 1, time_words(preset), _TIME)
