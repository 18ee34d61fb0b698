"""Lists with a box to tick before each entry: the runs and the metrics that are drawn."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPixmap
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QWidget

from soulsgui.gui import text
from soulsgui.gui.icons import colours_of, icon
from soulsgui.gui.theme import GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.labels import Heading

_NAME = Qt.ItemDataRole.UserRole


@dataclass(frozen=True)
class Choice:
    """An entry: its colour is that of its curve, None where it has none."""

    name: str
    title: str
    tip: str = ""
    colour: int | None = None
    pinned: bool = False


class Choices(QWidget):
    """A list that can be searched, of which any number is ticked.

    Signals:
        changed: The user ticked other ones.
    """

    changed = Signal()

    def __init__(self, title: str, purpose: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._choices: list[Choice] = []
        self._ticked: list[str] = []
        self.words = FilterEdit(purpose, self)
        self.words.textChanged.connect(self._narrow)
        self.list = QListWidget(self)
        self.list.setAccessibleName(title)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setSpacing(GAP_XS)
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.itemChanged.connect(self._item_changed)
        self.column = column(
            Heading(title, 0, self), self.words, (self.list, 1), on=self, margins=NO_MARGINS, gap_px=GAP_XS
        )

    @property
    def ticked(self) -> tuple[str, ...]:
        """The names of those that are ticked, in the order in which they were."""
        known = {choice.name for choice in self._choices}
        return tuple(name for name in self._ticked if name in known)

    @property
    def current(self) -> str:
        """The name of the entry that has the keyboard, empty for none."""
        item = self.list.currentItem()
        return str(item.data(_NAME)) if item is not None else ""

    def tick(self, names: Iterable[str]) -> None:
        """Tick these, and no others."""
        self._ticked = list(dict.fromkeys(names))
        self._write()

    def show_choices(self, choices: Sequence[Choice]) -> None:
        """Offer these, the pinned ones first."""
        found = sorted(choices, key=lambda choice: not choice.pinned)
        if found != self._choices:
            self._choices = found
            self._write()

    def _write(self) -> None:
        current = self.current
        blocked = self.list.blockSignals(True)
        while self.list.count() > len(self._choices):
            self.list.takeItem(self.list.count() - 1)
        while self.list.count() < len(self._choices):
            self.list.addItem(QListWidgetItem())
        for row, choice in enumerate(self._choices):
            item = self.list.item(row)
            item.setText(text.plain(choice.title))
            item.setToolTip(text.tip(choice.tip or choice.title))
            item.setData(_NAME, choice.name)
            ticked = choice.name in self._ticked
            item.setCheckState(Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked)
            item.setIcon(self._mark(choice, ticked))
            # Room for the box, which is higher than a line.
            item.setSizeHint(QSize(0, round(1.5 * self.fontMetrics().height())))
            if choice.name == current:
                self.list.setCurrentRow(row)
        self.list.blockSignals(blocked)
        self._narrow()

    def _mark(self, choice: Choice, ticked: bool) -> QIcon:
        """Return the colour of its curve, or the pin of one that is not drawn."""
        colours, side = colours_of(self), self.fontMetrics().height()
        if choice.pinned and not ticked:
            return icon("pin", colours)
        picture = QPixmap(QSize(side, side // 3))
        shown = ticked and choice.colour is not None
        picture.fill(QColor(colours.curve(choice.colour or 0)) if shown else Qt.GlobalColor.transparent)
        return QIcon(picture) if choice.colour is not None else QIcon()

    def _narrow(self, *_: object) -> None:
        words = self.words.text().casefold().split()
        for row, choice in enumerate(self._choices):
            heap = f"{choice.title}\n{choice.tip}".casefold()
            self.list.item(row).setHidden(not all(word in heap for word in words))

    def _item_changed(self, item: QListWidgetItem) -> None:
        name, ticked = str(item.data(_NAME)), item.checkState() is Qt.CheckState.Checked
        if ticked is (name in self._ticked):
            return
        self._ticked = [*self._ticked, name] if ticked else [one for one in self._ticked if one != name]
        self.changed.emit()

    def changeEvent(self, event: QEvent) -> None:
        """Take on the colours of the theme."""
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(self, "list"):
            self._write()
        super().changeEvent(event)
