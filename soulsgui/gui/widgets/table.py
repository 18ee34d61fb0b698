"""A table as all pages show one: whole rows, one line each, columns that remember their width."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QAbstractItemModel, QByteArray, QEvent, QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QAction, QContextMenuEvent, QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QHeaderView,
    QMenu,
    QStyleOptionHeader,
    QTableView,
    QWidget,
)

from soulsgui.gui.icons import dress
from soulsgui.gui.models.records import NamedRows
from soulsgui.gui.widgets.fitting_button import FittingButton

Deed = QAbstractButton | QAction
"""What can be done with the chosen rows: a button of the page, or an entry of a menu that a button opens."""

_LEAST_ROWS = 2
_MEASURED_ROWS = 50  # of which columns that share their room take what they need


class _Titles(QHeaderView):
    """Titles of columns; the arrow of the sorted one stands behind its words: a style draws it over them."""

    def initStyleOptionForIndex(self, option: QStyleOptionHeader, section: int) -> None:
        """Write the arrow."""
        super().initStyleOptionForIndex(option, section)
        arrow = QStyleOptionHeader.SortIndicator
        if option.sortIndicator != arrow.None_:
            option.text += " ↑" if option.sortIndicator == arrow.SortDown else " ↓"
            option.sortIndicator = arrow.None_


class Table(QTableView):
    """Rows of a model.

    Column widths come from the model's `column_width` (characters) until the user changes them.

    Signals:
        row_opened: A row was double-clicked or Enter was pressed on it; with its index.
        row_reached: The keyboard went to another row; with its index.
    """

    row_opened = Signal(QModelIndex)
    row_reached = Signal(QModelIndex)

    def __init__(self, name: str, purpose: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAccessibleName(purpose)
        self.setWordWrap(False)
        self.setShowGrid(False)
        self.setAlternatingRowColors(True)
        self.setCornerButtonEnabled(False)
        self.setTabKeyNavigation(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = _Titles(Qt.Orientation.Horizontal, self)
        self.setHorizontalHeader(header)
        header.setSectionsClickable(True)
        header.setObjectName(f"{name}Header")
        header.setHighlightSections(False)
        header.setSectionsMovable(True)
        header.setStretchLastSection(True)
        header.setResizeContentsPrecision(_MEASURED_ROWS)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.doubleClicked.connect(self.row_opened)
        self._line_px = 0
        self._sharing: Sequence[int] = ()
        self._deeds: Callable[[], Sequence[Deed]] = tuple
        self._take_font()

    def minimumSizeHint(self) -> QSize:
        """Room for a few rows below the titles."""
        rows = _LEAST_ROWS * self.verticalHeader().defaultSectionSize()
        height = self.horizontalHeader().sizeHint().height() + rows + 2 * self.frameWidth()
        return QSize(super().minimumSizeHint().width(), height)

    def setModel(self, model: QAbstractItemModel | None) -> None:
        """Show another model's rows."""
        super().setModel(model)
        self._size_columns()

    def sort_by(self, column: int, downwards: bool = False) -> None:
        """Let the user sort, beginning with this column."""
        order = Qt.SortOrder.DescendingOrder if downwards else Qt.SortOrder.AscendingOrder
        self.sortByColumn(column, order)
        self.setSortingEnabled(True)

    def save_columns(self) -> QByteArray:
        """Return order and widths of the columns, for the settings."""
        return self.horizontalHeader().saveState()

    def restore_columns(self, state: QByteArray, line_px: int = 0) -> None:
        """Take order and widths from the settings; those of another version are left alone."""
        header = self.horizontalHeader()
        if header.restoreState(state) and line_px not in (0, self._line_px):
            for section in range(header.count()):
                hidden = header.isSectionHidden(section)
                header.setSectionHidden(section, False)  # hidden its width is told as 0
                header.resizeSection(section, header.sectionSize(section) * self._line_px // line_px)
                header.setSectionHidden(section, hidden)

    def share_room(self, sections: Sequence[int]) -> None:
        """Give columns what their texts need, out of the room that the others leave; the rest to the longest.

        They are given anew when there is more or less room.
        """
        self._sharing = sections
        others = sum(
            self.columnWidth(each) for each in range(self.model().columnCount()) if each not in sections
        )
        room = self.viewport().width() - others
        header = self.horizontalHeader()
        needs = {each: max(self.sizeHintForColumn(each), header.sectionSizeHint(each)) for each in sections}
        left = sorted(sections, key=needs.__getitem__)
        for place, section in enumerate(left):
            width = min(needs[section], max(room // (len(left) - place), header.sectionSizeHint(section)))
            self.setColumnWidth(section, width)
            room -= width

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the new room; it changes with the scroll bars, too."""
        super().resizeEvent(event)
        if self._sharing:
            self.share_room(self._sharing)

    @property
    def line_px(self) -> int:
        """Height of a line of text, in pixels."""
        return self._line_px

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter opens the current row."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.row_opened.emit(self.currentIndex())
            return
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy_rows()
            return
        before = self.currentIndex().row()
        super().keyPressEvent(event)
        if self.currentIndex().row() != before:
            self.row_reached.emit(self.currentIndex())

    def offer(self, deeds: Callable[[], Sequence[Deed]]) -> None:
        """Let the menu of a row repeat what the page offers for it."""
        self._deeds = deeds

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Open that menu."""
        if self.currentIndex().isValid():
            menu = self.make_menu()
            menu.popup(event.globalPos())

    def make_menu(self) -> QMenu:
        """Return the menu of the chosen rows."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        for deed in self._deeds():
            if isinstance(deed, QAction):
                menu.addAction(deed)
            elif not deed.isHidden():
                self._repeat(deed, menu)
        menu.addSeparator()
        copy = menu.addAction("Copy as text")
        copy.setShortcut(QKeySequence.StandardKey.Copy)
        dress(copy, "copy")
        copy.triggered.connect(self.copy_rows)
        return menu

    def _repeat(self, button: QAbstractButton, menu: QMenu) -> None:
        entry = menu.addAction(button.title if isinstance(button, FittingButton) else button.text())
        entry.setIcon(button.icon())
        entry.setEnabled(button.isEnabled())
        entry.setToolTip(button.toolTip())
        # The button stays; the menu is gone when the answer comes.
        entry.triggered.connect(button.click)

    @property
    def selected_rows(self) -> list[int]:
        """The chosen rows, from top to bottom; `selectedRows` asks the model about every cell."""
        parts = self.selectionModel().selection().toList()
        return sorted({row for part in parts for row in range(part.top(), part.bottom() + 1)})

    def copy_rows(self) -> None:
        """Copy the chosen rows with their headings, as tables of other programs take them."""
        model, header = self.model(), self.horizontalHeader()
        places = (header.logicalIndex(place) for place in range(header.count()))
        shown = [section for section in places if not header.isSectionHidden(section)]
        chosen = self.selected_rows
        if not chosen:
            return
        lines = [[str(model.headerData(each, Qt.Orientation.Horizontal)) for each in shown]]
        lines += [[str(model.index(row, each).data() or "") for each in shown] for row in chosen]
        text = "\n".join("\t".join(" ".join(cell.split()) for cell in line) for line in lines)
        QGuiApplication.clipboard().setText(text)

    def changeEvent(self, event: QEvent) -> None:
        """Follow the font's size."""
        # With a style sheet the new font comes with the style.
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._take_font()
        super().changeEvent(event)

    def _take_font(self) -> None:
        height = self.fontMetrics().height()
        if height == self._line_px:
            return
        self._line_px = height
        self.verticalHeader().setDefaultSectionSize(round(height * 1.75))
        self.setIconSize(QSize(height, height))
        self._size_columns()

    def _size_columns(self) -> None:
        model = self.model()
        if not isinstance(model, NamedRows):
            return
        for section in range(model.columnCount()):
            self.setColumnWidth(section, self.usual_width(section))

    def usual_width(self, section: int) -> int:
        """Return the width of a column before the user changes it."""
        model, character = self.model(), self.fontMetrics().averageCharWidth()
        assert isinstance(model, NamedRows)
        title = str(model.headerData(section, Qt.Orientation.Horizontal) or "")
        # Room for the title with the arrow of the sorted column.
        least = self.fontMetrics().horizontalAdvance(title) + 4 * character
        return max(model.column_width(section) * character + 24, least)
