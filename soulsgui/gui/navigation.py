"""The list of pages at the left edge."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QSizePolicy, QWidget

from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import colours_of, icon
from soulsgui.gui.pages.table import PageEntry

_ROOM = 30
_ROW_ROOM = 16


class Navigation(QListWidget):
    """Lists pages; the chosen one is shown.

    Signals:
        chosen: The user wants this page; with its name.

    Args:
        entries: The pages, from top to bottom.
        parent: The window.
    """

    chosen = Signal(str)

    def __init__(self, entries: list[PageEntry], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("navigation")
        self.setProperty("part", "navigation")
        self.setAccessibleName(tr("Pages"))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._entries = entries
        for number, entry in enumerate(entries, start=1):
            item = QListWidgetItem(entry.title)
            item.setData(Qt.ItemDataRole.UserRole, entry.name)
            item.setToolTip(f"{entry.title} (Ctrl+{number})")
            self.addItem(item)
        self.recolour()
        self.currentRowChanged.connect(self._row_changed)

    def show_page(self, name: str) -> None:
        """Mark a page as the one that is shown; none where it is not listed."""
        names = [entry.name for entry in self._entries]
        blocked = self.blockSignals(True)
        if name in names:
            self.setCurrentRow(names.index(name))
        else:
            self.setCurrentRow(-1)
            self.clearSelection()
        self.blockSignals(blocked)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Take the focus without choosing the first page, as a list does by itself."""
        shown = self.currentRow()
        blocked = self.blockSignals(True)
        super().focusInEvent(event)
        self.setCurrentRow(shown)
        self.blockSignals(blocked)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Keep the keyboard here while it chooses: the next arrow chooses the next page."""
        super().keyPressEvent(event)
        self.setFocus()

    def recolour(self) -> None:
        """Take icons and width from the theme."""
        widest = 0
        height = self.fontMetrics().height()
        self.setIconSize(QSize(height, height))
        for row, entry in enumerate(self._entries):
            self.item(row).setIcon(icon(entry.icon, colours_of(self)))
            self.item(row).setSizeHint(QSize(0, height + _ROW_ROOM))
            widest = max(widest, self.fontMetrics().horizontalAdvance(entry.title))
        self.setFixedWidth(widest + 2 * height + _ROOM)

    def _row_changed(self, row: int) -> None:
        if row >= 0:
            self.chosen.emit(self._entries[row].name)
