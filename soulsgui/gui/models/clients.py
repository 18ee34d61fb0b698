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
        self._by_name: list[str] = []
        self._rows: list[str] = []
        self._sort_column = 0
        self._downwards = False
        self._filter = ""
        self._dirty = False
        self._members_changed = False

    # --- data in ---

    def replace(self, clients: Iterable[ClientStatus]) -> None:
        """Take a snapshot: these clients and no others; shown at the next `tick`."""
        self._all = {}
        self._members_changed = True
        self.apply(clients)

    def apply(self, changed: Iterable[ClientStatus], removed: Iterable[str] = ()) -> None:
        """Take changes; shown at the next `tick`."""
        now = self._clock()
        for status in changed:
            known = self._all.get(status.id)
            if known is None or known.status.name != status.name:
                self._members_changed = True
            self._all[status.id] = Seen(status, now)
        for client in removed:
            if self._all.pop(client, None) is not None:
                self._members_changed = True
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

    def _sorted(self) -> list[str]:
        """Return the clients to show, in order; equal ones by name, so that rows do not dance."""
        seen = self._all
        if self._members_changed:
            self._members_changed = False
            by_name = self._columns[self.column_number("name")].key
            self._by_name = sorted(seen, key=lambda client: by_name(seen[client]))
        chosen = self._by_name
        if self._filter:
            chosen = [client for client in chosen if self._filter in _searched(seen[client].status)]
        key = self._columns[self._sort_column].key
        keys = [key(seen[client]) for client in chosen]
        order = sorted(range(len(chosen)), key=keys.__getitem__, reverse=self._downwards)
        return [chosen[place] for place in order]

    def _arrange(self, rows: list[str]) -> None:
        if rows == self._rows:
            self._announce()
        elif len(rows) == len(self._rows) and set(rows) == set(self._rows):
            self._reorder(rows)
        else:
            self._grow_or_shrink(rows)

    def _reorder(self, rows: list[str]) -> None:
        """Move rows so that the selection and the current row stay with their clients."""
        self.layoutAboutToBeChanged.emit()
        kept = self.persistentIndexList()
        clients = [self._rows[index.row()] for index in kept]
        self._rows = rows
        if kept:
            places = {client: row for row, client in enumerate(rows)}
            moved = [
                self.index(places[client], index.column())
                for client, index in zip(clients, kept, strict=True)
            ]
            self.changePersistentIndexList(kept, moved)
        self.layoutChanged.emit()

    def _grow_or_shrink(self, rows: list[str]) -> None:
        staying = set(rows)
        gone = [row for row, client in enumerate(self._rows) if client not in staying]
        for first, last in reversed(_runs(gone)):
            self.beginRemoveRows(_NO_INDEX, first, last)
            del self._rows[first : last + 1]
            self.endRemoveRows()
        present = set(self._rows)
        new = [client for client in rows if client not in present]
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
        seen = self._seen(row)
        return None if seen is None else seen.status

    def _seen(self, row: int) -> Seen | None:
        # Between a removal and the next tick a row may show somebody who is gone.
        return self._all.get(self._rows[row]) if 0 <= row < len(self._rows) else None

    def row_of(self, client: str) -> int | None:
        """Return the row of a client, None when it is not shown."""
        return self._rows.index(client) if client in self._rows else None

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
        seen = self._seen(index.row()) if index.isValid() else None
        if seen is None:
            return None
        column = self._columns[index.column()]
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
    if column == "state":
        return state_words(status)
    return status.error or None
