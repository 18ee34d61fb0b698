"""How presets are named, shown and chosen."""

import re
from collections.abc import Iterable
from contextlib import suppress
from itertools import groupby
from typing import Any

import shiboken6
from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QSize, Qt, QTimer
from PySide6.QtGui import QFocusEvent, QFont, QIcon, QKeyEvent, QPixmap, QStandardItem, QStandardItemModel
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
    count, unit = (minutes, "min") if minutes >= 1.5 else (preset.seconds, "s")
    return f"about {count:.0f}\N{NO-BREAK SPACE}{unit} on {preset.machine}"


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
_PICTURE, _TIME, _WORDS, _PLACE = (Qt.ItemDataRole.UserRole + number for number in (1, 2, 3, 4))
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

    Typed words search their titles, names, environments and algorithms, in any order. Its width does not
    depend on the titles.
    """

    def __init__(self, none: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("presetBox")
        leave_wheel_to_page(self)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(_CHARACTERS)
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        # One that is given to the box itself finds a title only by its text, and the first of two alike.
        self.setCompleter(None)  # type: ignore[arg-type]  # as Qt allows
        self.found = QStandardItemModel(self)
        self._completer = QCompleter(self.found, self)
        self._completer.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        self._completer.setWidget(self)
        self._completer.activated[QModelIndex].connect(self._choose_found)  # type: ignore[index]
        popup = self._completer.popup()
        assert popup is not None
        self.popup = popup
        self.popup.setObjectName("presetsFound")
        self.popup.setItemDelegate(_PresetDelegate(self.popup))
        self.setItemDelegate(_PresetDelegate(self))
        self._line = self.findChildren(QLineEdit)[0]
        self._line.setClearButtonEnabled(True)
        self._line.textEdited.connect(self._search)
        self._line.editingFinished.connect(self._choose_typed)
        self.currentIndexChanged.connect(lambda _: self._line.home(False))
        set_tip(self, "Type words to search: of a title, an environment, an algorithm")
        self.addItem(none, "")

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter after typing chooses; it presses no button of a dialog as well."""
        typed = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._line.isModified()
        super().keyPressEvent(event)
        if typed and not self.popup.isVisible():
            event.accept()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """What is typed takes the place of the title."""
        super().focusInEvent(event)
        if event.reason() is Qt.FocusReason.MouseFocusReason:
            QTimer.singleShot(0, self._line, self._line.selectAll)  # after the click has set its cursor

    def _fitting(self, typed: str) -> list[int]:
        """Return the places of those that have each of the typed words, one that is called so first."""
        typed = typed.strip().casefold()
        enabled = (place for place in range(self.count()) if self._items.item(place).isEnabled())
        fits = [place for place in enabled if all(word in self._heap(place) for word in typed.split())]
        return sorted(fits, key=lambda place: self.itemText(place).casefold() != typed)

    def _heap(self, place: int) -> str:
        return f"{self.itemText(place)} {self.itemData(place, _WORDS) or ''}".casefold()

    def _search(self, typed: str) -> None:
        """List below the field those that fit."""
        self.found.clear()
        for place in self._fitting(typed):
            item = self._items.item(place).clone()
            item.setData(place, _PLACE)
            self.found.appendRow(item)
        if not self.found.rowCount():
            nothing = QStandardItem("No preset has that")
            nothing.setFlags(Qt.ItemFlag.NoItemFlags)
            self.found.appendRow(nothing)
        self._completer.complete()

    def _choose_found(self, chosen: QModelIndex) -> None:
        self._choose(chosen.data(_PLACE))

    def _choose_typed(self) -> None:
        """Choose the first that fits what was typed; without any it stays as it was."""
        if not shiboken6.isValid(self.popup):
            return  # it loses the keyboard by its end
        if self.popup.isVisible() and self.popup.currentIndex().data(_PLACE) is not None:
            return  # the list chooses what is marked there
        typed = self._line.text().strip() if self._line.isModified() else ""
        if typed and (fits := self._fitting(typed)):
            self._choose(fits[0])
        self.setEditText(self.itemText(self.currentIndex()))
        self._line.home(False)

    def _choose(self, place: int) -> None:
        self.setCurrentIndex(place)
        self.setEditText(self.itemText(place))  # also where it was chosen before
        self.activated.emit(place)

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
                words = (preset.name, preset.values.get(ENVIRONMENT), preset.values.get("algorithm"))
                self.setItemData(self.count() - 1, " ".join(str(word) for word in words if word), _WORDS)
