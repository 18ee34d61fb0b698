"""The table of clients, sorted and filtered in the model itself: ten thousand rows five times a second."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QGuiApplication

from soulsgui.gui import text
from soulsgui.gui.icons import icon, palette_colours
from soulsgui.gui.models.client_columns import Seen, columns, state_words
from soulsgui.gui.states import client_look
from soulsgui.wire.control import ClientStatus

Index = QModelIndex | QPersistentModelIndex
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_NO_INDEX = QModelIndex()
CLIENT_ROLE = Qt.ItemDataRole.UserRole


class ClientsModel(QAbstractTableModel):
    """Clients as the feed tells of them, in the order the user chose.

    Changes wait until `tick`, which the owner calls a few times a second while the table is seen; it sorts
    once and announces one range. A proxy model would ask for every cell instead.

    Args:
        clock: Monotonic time, seconds.
    """

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(parent)
        self._clock = clock
        self._columns = columns()
        self._all: dict[str, Seen] = {}
        self._rows: list[Seen] = []
        self._sort_column = 0
        self._downwards = False
        self._filter = ""
        self._dirty = False

    # --- data in ---

    def replace(self, clients: Iterable[ClientStatus]) -> None:
        """Take a snapshot: these clients and no others; shown at the next `tick`."""
        now = self._clock()
        self._all = {status.id: Seen(status, now) for status in clients}
        self._dirty = True

    def apply(self, changed: Iterable[ClientStatus], removed: Iterable[str] = ()) -> None:
        """Take changes; shown at the next `tick`."""
        now = self._clock()
        for status in changed:
            self._all[status.id] = Seen(status, now)
        for client in removed:
            self._all.pop(client, None)
        self._dirty = True

    def set_filter(self, words: str) -> None:
        """Show only clients whose name, host, state, environment or error contains this text."""
        self._filter = words.strip().casefold()
        self._dirty = True
        self.tick()

    def tick(self) -> None:
        """Show what changed since the last call, and let ages go on."""
        if self._dirty:
            self._dirty = False
            self._arrange(self._sorted())
        elif self._rows:
            age = self.column_number("age")
            last = len(self._rows) - 1
            self.dataChanged.emit(self.index(0, age), self.index(last, age), [Qt.ItemDataRole.DisplayRole])

    def _sorted(self) -> list[Seen]:
        chosen: Iterable[Seen] = self._all.values()
        if self._filter:
            chosen = [seen for seen in chosen if self._filter in _searched(seen.status)]
        # Two stable passes: equal rows stand in the order of their names and do not dance.
        by_name = sorted(chosen, key=self._columns[self.column_number("name")].key)
        return sorted(by_name, key=self._columns[self._sort_column].key, reverse=self._downwards)

    def _arrange(self, rows: list[Seen]) -> None:
        before = [seen.status.id for seen in self._rows]
        after = [seen.status.id for seen in rows]
        if before == after:
            self._rows = rows
            self._announce()
        elif len(before) == len(after) and set(before) == set(after):
            self._reorder(rows, after)
        else:
            self._grow_or_shrink(rows, before, after)

    def _reorder(self, rows: list[Seen], after: list[str]) -> None:
        """Move rows so that the selection and the current row stay with their clients."""
        self.layoutAboutToBeChanged.emit()
        kept = self.persistentIndexList()
        clients = [self._rows[index.row()].status.id for index in kept]
        self._rows = rows
        if kept:
            places = {client: row for row, client in enumerate(after)}
            moved = [
                self.index(places[client], index.column())
                for client, index in zip(clients, kept, strict=True)
            ]
            self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()

    def _grow_or_shrink(self, rows: list[Seen], before: list[str], after: list[str]) -> None:
        staying = set(after)
        gone = [row for row, client in enumerate(before) if client not in staying]
        for first, last in reversed(_runs(gone)):
            self.beginRemoveRows(_NO_INDEX, first, last)
            del self._rows[first : last + 1]
            self.endRemoveRows()
        present = {seen.status.id for seen in self._rows}
        new = [seen for seen in rows if seen.status.id not in present]
        if new:
            self.beginInsertRows(_NO_INDEX, len(self._rows), len(self._rows) + len(new) - 1)
            self._rows += new
            self.endInsertRows()
        self._arrange(rows)

    def _announce(self) -> None:
        if self._rows:
            last = self.index(len(self._rows) - 1, len(self._columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    # --- questions of the pages ---

    def column_number(self, name: str) -> int:
        """Return the place of a column.

        Raises:
            KeyError: There is none of this name.
        """
        for number, column in enumerate(self._columns):
            if column.name == name:
                return number
        raise KeyError(name)

    def column_width(self, section: int) -> int:
        """Return how many characters wide a column wants to be."""
        return self._columns[section].width

    def client_at(self, row: int) -> ClientStatus | None:
        """Return the client in a row, None beyond the last."""
        return self._rows[row].status if 0 <= row < len(self._rows) else None

    def row_of(self, client: str) -> int | None:
        """Return the row of a client, None when it is not shown."""
        return next((row for row, seen in enumerate(self._rows) if seen.status.id == client), None)

    @property
    def total(self) -> int:
        """How many clients there are, shown or not."""
        return len(self._all)

    # --- Qt's questions ---

    def rowCount(self, parent: Index = _NO_INDEX) -> int:
        """Return the number of clients shown."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index = _NO_INDEX) -> int:
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self._columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        seen, column = self._rows[index.row()], self._columns[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.shown(seen, self._clock())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if column.number else _LEFT
        if role == Qt.ItemDataRole.ToolTipRole:
            return _tip(seen.status, column.name)
        if role == CLIENT_ROLE:
            return seen.status.id
        if column.name == "state":
            return _state_data(seen.status, role)
        return None

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a heading."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        column = self._columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.tip or column.title
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if column.number else _LEFT
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column from now on."""
        self._sort_column = max(column, 0)
        self._downwards = order is Qt.SortOrder.DescendingOrder
        self._arrange(self._sorted())


def _runs(rows: list[int]) -> list[tuple[int, int]]:
    """Return rising numbers as first and last of each unbroken run."""
    runs: list[tuple[int, int]] = []
    for row in rows:
        if runs and runs[-1][1] == row - 1:
            runs[-1] = (runs[-1][0], row)
        else:
            runs.append((row, row))
    return runs


def _searched(status: ClientStatus) -> str:
    parts = (status.name, status.host, state_words(status), status.env_id, status.error, status.version)
    return "\n".join(parts).casefold()


def _state_data(status: ClientStatus, role: int) -> Any:
    look = client_look("late" if status.stalled and status.state == "online" else status.state)
    colours = palette_colours(QGuiApplication.palette())
    if role == Qt.ItemDataRole.DecorationRole:
        return icon(look.icon, colours, look.tone)
    return None


def _tip(status: ClientStatus, column: str) -> str | None:
    if column == "rejected" and status.rejected:
        return text.reasons(status.rejected)
    return status.error or None
