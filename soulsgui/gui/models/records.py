"""A table of records, sorted and filtered in the model: runs, checkpoints, events, settings."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QColor, QGuiApplication

from soulsgui.gui.icons import icon, palette_colours
from soulsgui.gui.models.rows import Index, NamedRows
from soulsgui.gui.states import Look

T = TypeVar("T")


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column.

    Attributes:
        name: Identifies it in tests and in code.
        title: Its heading, translated.
        shown: Text of a cell.
        key: What its rows are sorted by; None sorts by the text.
        number: Whether it holds numbers, written to the right.
        tip: What a cell's tooltip says; None says the text.
        look: Icon and colour of a cell.
        width: Width in characters.
        about: What the heading explains.
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


def low(number: float | None) -> float:
    """Return a number to sort by; nothing is below every number."""
    return float("-inf") if number is None else number


class RecordsModel(NamedRows, Generic[T]):
    """Records in the order the user chose; the selection stays with its record.

    Args:
        columns: From left to right.
        identity: Tells one record from the others, whatever changes in it; of two alike the later one counts.
        on_top: Whether a record stays above the others, however they are sorted.
        parent: Who owns it.
    """

    def __init__(
        self,
        columns: Sequence[Column[T]],
        identity: Callable[[T], str],
        on_top: Callable[[T], bool] = lambda record: False,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(columns, parent)
        self._columns = tuple(columns)
        self._identity = identity
        self._on_top = on_top
        self._all: dict[str, T] = {}
        self._sort_column: int | None = None
        self._downwards = False
        self._filter = ""

    # --- data in ---

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
        rows.sort(key=lambda record: not self._on_top(record))
        self.show_rows([self._identity(record) for record in rows])

    def _matches(self, record: T) -> bool:
        if not self._filter:
            return True
        heap = "\n".join(column.shown(record) for column in self._columns).casefold()
        return all(word in heap for word in self._filter.split())

    # --- questions of the pages ---

    @property
    def records(self) -> list[T]:
        """Every record, shown or not, in the order it came."""
        return list(self._all.values())

    def at(self, row: int) -> T | None:
        """Return the record in a row, None beyond the last."""
        name = self.name_at(row)
        # Between a change and its showing a row may name a record that is gone.
        return None if name is None else self._all.get(name)

    # --- Qt's questions ---

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        record = self.at(index.row()) if index.isValid() else None
        if record is None:
            return None
        column = self._columns[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.shown(record)
        if role == Qt.ItemDataRole.ToolTipRole:
            return (column.tip or column.shown)(record)
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        if column.look is not None and role in (
            Qt.ItemDataRole.DecorationRole,
            Qt.ItemDataRole.ForegroundRole,
        ):
            return _dressed(column.look(record), role)
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column; equal rows stay as they came."""
        self._sort_column = column if 0 <= column < len(self._columns) else None
        self._downwards = order is Qt.SortOrder.DescendingOrder
        self._arrange()


def _dressed(look: Look, role: int) -> Any:
    colours = palette_colours(QGuiApplication.palette())
    if role == Qt.ItemDataRole.ForegroundRole:
        return QColor(colours.tones[look.tone])
    return icon(look.icon, colours, look.tone) if look.icon else None
