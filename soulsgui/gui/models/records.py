"""Tables of records, sorted and filtered in the model: runs, checkpoints, changes, settings."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor, QGuiApplication

from soulsgui.gui.icons import icon, palette_colours
from soulsgui.gui.states import Look
from soulsgui.gui.text import plain, tip

T = TypeVar("T")
Index = QModelIndex | QPersistentModelIndex
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_NO_INDEX = QModelIndex()


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column: its name in code and saved settings, its heading, and what is made of a record for a cell.

    Without a key it is sorted by its text, without a tip the text is the tooltip; numbers stand to the right;
    the width is in characters; what it is about is explained by its heading.
    """

    name: str
    title: str
    shown: Callable[[T], str]
    key: Callable[[T], Any] | None = None
    number: bool = False
    tip: Callable[[T], str] | None = None
    look: Callable[[T], Look] | None = None
    width: int = 10
    about: str = ""

    def sort_key(self, record: T) -> Any:
        """Return what a record is sorted by in this column."""
        return self.shown(record).casefold() if self.key is None else self.key(record)


class NamedRows(QAbstractTableModel):
    """A table whose rows have names. What is in the cells is for the classes below it to tell."""

    def __init__(self, heads: Sequence[Column[Any]], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._heads = tuple(heads)
        self._rows: list[str] = []

    def show_rows(self, rows: list[str]) -> None:
        """Show these rows in this order; what is in them counts as changed."""
        if rows == self._rows:
            self._announce()
        elif len(rows) == len(self._rows) and set(rows) == set(self._rows):
            self._reorder(rows)
        else:
            self._grow_or_shrink(rows)

    def _reorder(self, rows: list[str]) -> None:
        """Move rows so that the selection and the current row stay with their names."""
        self.layoutAboutToBeChanged.emit()
        kept = self.persistentIndexList()
        names = [self._rows[index.row()] for index in kept]
        self._rows = rows
        if kept:
            places = {name: row for row, name in enumerate(rows)}
            moved = [
                self.index(places[name], index.column()) for name, index in zip(names, kept, strict=True)
            ]
            self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()

    def _grow_or_shrink(self, rows: list[str]) -> None:
        staying = set(rows)
        gone = [row for row, name in enumerate(self._rows) if name not in staying]
        for first, last in reversed(_runs(gone)):
            self.beginRemoveRows(_NO_INDEX, first, last)
            del self._rows[first : last + 1]
            self.endRemoveRows()
        present = set(self._rows)
        new = [name for name in rows if name not in present]
        if new:
            self.beginInsertRows(_NO_INDEX, len(self._rows), len(self._rows) + len(new) - 1)
            self._rows += new
            self.endInsertRows()
        self.show_rows(rows)

    def _announce(self) -> None:
        if self._rows:
            last = self.index(len(self._rows) - 1, len(self._heads) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def name_at(self, row: int) -> str | None:
        """Return the name of a row, None beyond the last."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def row_of(self, name: str) -> int | None:
        """Return the row of a name, None when it is not shown."""
        return self._rows.index(name) if name in self._rows else None

    def column_number(self, name: str) -> int:
        """Return the place of a column."""
        return [head.name for head in self._heads].index(name)

    def column_width(self, section: int) -> int:
        """Return how many characters wide a column wants to be."""
        return self._heads[section].width

    def rowCount(self, parent: Index = _NO_INDEX) -> int:
        """Return the number of rows shown."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _NO_INDEX) -> int:
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self._heads)

    def alignment(self, section: int) -> Qt.AlignmentFlag:
        """Return to which side a column is written."""
        return _RIGHT if self._heads[section].number else _LEFT

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a heading."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        head = self._heads[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return head.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip(head.about or head.title)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(section)
        return None


def _runs(rows: list[int]) -> list[tuple[int, int]]:
    """Return rising numbers as first and last of each unbroken run."""
    runs: list[tuple[int, int]] = []
    for row in rows:
        if runs and runs[-1][1] == row - 1:
            runs[-1] = (runs[-1][0], row)
        else:
            runs.append((row, row))
    return runs


def low(number: float | None) -> float:
    """Return a number to sort by; nothing is below every number."""
    return float("-inf") if number is None else number


def number(
    name: str, title: str, shown: Callable[[T], str], key: Callable[[T], float | None], **more: Any
) -> Column[T]:
    """Return a column of numbers; nothing is sorted below every number."""
    return Column(name, title, shown, lambda record: low(key(record)), number=True, **more)


class RecordsModel(NamedRows, Generic[T]):
    """Records in the order the user chose; the selection stays with its record.

    The identity tells one from the others, whatever changes in it; of two alike the later one counts.
    """

    def __init__(
        self,
        columns: Sequence[Column[T]],
        identity: Callable[[T], str],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(columns, parent)
        self._columns = tuple(columns)
        self._identity = identity
        self._all: dict[str, T] = {}
        self._sort_column: int | None = None
        self._downwards = False
        self._filter = ""

    def replace(self, records: Iterable[T]) -> None:
        """Show these records and no others."""
        self._all = {self._identity(record): record for record in records}
        self._arrange()

    def change(self, record: T) -> None:
        """Show a record's new state; one that is not here is left out."""
        name = self._identity(record)
        if name in self._all:
            self._all[name] = record
            self._arrange()

    def set_filter(self, words: str) -> None:
        """Show only records in whose cells each of these words stands."""
        self._filter = words.strip().casefold()
        self._arrange()

    def _arrange(self) -> None:
        rows = [record for record in self._all.values() if self._matches(record)]
        if self._sort_column is not None:
            rows.sort(key=self._columns[self._sort_column].sort_key, reverse=self._downwards)
        self.show_rows([self._identity(record) for record in self.arrange(rows)])

    def arrange(self, rows: list[T]) -> list[T]:
        """Return the records that match the filter, sorted as the user chose, as they are shown."""
        return rows

    def _matches(self, record: T) -> bool:
        if not self._filter:
            return True
        heap = "\n".join(column.shown(record) for column in self._columns).casefold()
        return all(word in heap for word in self._filter.split())

    @property
    def records(self) -> list[T]:
        """Every record, shown or not, in the order it came."""
        return list(self._all.values())

    def at(self, row: int) -> T | None:
        """Return the record in a row, None beyond the last."""
        name = self.name_at(row)
        # Between a change and its showing a row may name a record that is gone.
        return None if name is None else self._all.get(name)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        record = self.at(index.row()) if index.isValid() else None
        if record is None:
            return None
        column = self._columns[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return plain(column.shown(record))
        if role == Qt.ItemDataRole.ToolTipRole:
            return tip((column.tip or column.shown)(record))
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        dressed = (Qt.ItemDataRole.DecorationRole, Qt.ItemDataRole.ForegroundRole)
        if column.look is not None and role in dressed:
            look, colours = column.look(record), palette_colours(QGuiApplication.palette())
            if role == Qt.ItemDataRole.ForegroundRole:
                return QColor(colours.tones[look.tone])
            return icon(look.icon, colours, look.tone) if look.icon else None
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; equal rows stay as they came."""
        self._sort_column = column if 0 <= column < len(self._columns) else None
        self._downwards = order is Qt.SortOrder.DescendingOrder
        self._arrange()
