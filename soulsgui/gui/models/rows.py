"""Named rows of a table: they come, go and change places, and the selection stays with them."""

from collections.abc import Sequence
from typing import Any, Protocol

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

Index = QModelIndex | QPersistentModelIndex
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_NO_INDEX = QModelIndex()


class ColumnHead(Protocol):
    """What a table has to know of a column to draw its head."""

    @property
    def name(self) -> str:
        """Identifies it in tests and in code."""

    @property
    def title(self) -> str:
        """Its heading, translated."""

    @property
    def number(self) -> bool:
        """Whether it holds numbers, written to the right."""

    @property
    def width(self) -> int:
        """Width in characters."""

    @property
    def about(self) -> str:
        """What the heading explains; empty for its title."""


class NamedRows(QAbstractTableModel):
    """A table whose rows have names. What is in the cells is for the classes below it to tell.

    Args:
        heads: From left to right.
        parent: Who owns it.
    """

    def __init__(self, heads: Sequence[ColumnHead], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._heads = tuple(heads)
        self._rows: list[str] = []

    # --- order ---

    def show_rows(self, rows: list[str]) -> None:
        """Show these rows in this order; what is in them counts as changed.

        Args:
            rows: Their names, each once.
        """
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

    # --- questions of the pages ---

    def name_at(self, row: int) -> str | None:
        """Return the name of a row, None beyond the last."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def row_of(self, name: str) -> int | None:
        """Return the row of a name, None when it is not shown."""
        return self._rows.index(name) if name in self._rows else None

    def column_number(self, name: str) -> int:
        """Return the place of a column.

        Raises:
            KeyError: There is none of this name.
        """
        for number, head in enumerate(self._heads):
            if head.name == name:
                return number
        raise KeyError(name)

    def column_width(self, section: int) -> int:
        """Return how many characters wide a column wants to be."""
        return self._heads[section].width

    # --- Qt's questions ---

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
            return head.about or head.title
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
