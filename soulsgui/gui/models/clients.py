"""The table of clients, sorted and filtered in the model itself: ten thousand rows five times a second."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QGuiApplication

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import icon, palette_colours
from soulsgui.gui.models.client_columns import Seen, columns, state_words
from soulsgui.gui.models.rows import Index, NamedRows
from soulsgui.gui.states import client_look, shown_state
from soulsgui.wire.control import ClientStatus

CLIENT_ROLE = Qt.ItemDataRole.UserRole
RATES_ROLE = Qt.ItemDataRole.UserRole + 1
"""The rates of the last minute of a client, oldest first."""

# Qt asks for many more of each cell it draws.
_ROLES = frozenset(
    int(role)
    for role in (
        Qt.ItemDataRole.DisplayRole,
        Qt.ItemDataRole.DecorationRole,
        Qt.ItemDataRole.TextAlignmentRole,
        Qt.ItemDataRole.ToolTipRole,
        CLIENT_ROLE,
        RATES_ROLE,
    )
)


class ClientsModel(NamedRows):
    """Clients as the feed tells of them, in the order the user chose.

    Changes wait until `tick`, which the owner calls a few times a second while the table is seen; it sorts
    once and announces one range. A proxy model would ask for every cell instead.

    Args:
        clock: Monotonic time, seconds.
    """

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(columns(), parent)
        self._columns = columns()
        self._clock = clock
        self._all: dict[str, Seen] = {}
        self._by_name: list[str] = []
        self._sort_column = 0
        self._downwards = False
        self._filter = ""
        self._dirty = False
        self._members_changed = False
        aging = [self.column_number(name) for name in ("state", "age")]
        self._name_column = self.column_number("name")
        self._aging = min(aging), max(aging)

    # --- data in ---

    def replace(self, clients: Iterable[ClientStatus]) -> None:
        """Take a snapshot: these clients and no others; shown at the next `tick`."""
        present = list(clients)
        self.apply(present, set(self._all) - {client.id for client in present})

    def apply(self, changed: Iterable[ClientStatus], removed: Iterable[str] = ()) -> None:
        """Take changes; shown at the next `tick`."""
        now = self._clock()
        everyone = self._all
        # Ten thousand times in a turn: no calls that can be done without.
        for status in changed:
            known = everyone.get(status.id)
            if known is None:
                everyone[status.id] = Seen(status, now)
                self._members_changed = True
                continue
            if known.status.name != status.name:
                self._members_changed = True
            known.status, known.at = status, now
            known.rates.append(status.env_steps_per_s)
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
            self.show_rows(self._sorted())
        elif self._rows:
            # Of the state, too, ages are a part: one range from there to there.
            first, last = self._aging
            place = len(self._rows) - 1
            self.dataChanged.emit(
                self.index(0, first), self.index(place, last), [Qt.ItemDataRole.DisplayRole]
            )

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
        if self._sort_column == self._name_column:
            return chosen[::-1] if self._downwards else list(chosen)
        key = self._columns[self._sort_column].key
        keys = [key(seen[client]) for client in chosen]
        order = sorted(range(len(chosen)), key=keys.__getitem__, reverse=self._downwards)
        return [chosen[place] for place in order]

    # --- questions of the pages ---

    def client_at(self, row: int) -> ClientStatus | None:
        """Return the client in a row, None beyond the last."""
        seen = self._seen(row)
        return None if seen is None else seen.status

    def _seen(self, row: int) -> Seen | None:
        # Between a removal and the next tick a row may show somebody who is gone.
        name = self.name_at(row)
        return None if name is None else self._all.get(name)

    @property
    def total(self) -> int:
        """How many clients there are, shown or not."""
        return len(self._all)

    # --- Qt's questions ---

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        if role not in _ROLES:
            return None
        seen = self._seen(index.row()) if index.isValid() else None
        if seen is None:
            return None
        column = self._columns[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.shown(seen, self._clock())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            return _tip(seen.status, column.name)
        if role == CLIENT_ROLE:
            return seen.status.id
        if role == RATES_ROLE:
            return tuple(seen.rates)
        if column.name == "state":
            return _state_data(seen.status, role)
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column from now on."""
        self._sort_column = max(column, 0)
        self._downwards = order is Qt.SortOrder.DescendingOrder
        self.show_rows(self._sorted())


def _searched(status: ClientStatus) -> str:
    parts = (status.name, status.host, state_words(status), status.env_id, status.error, status.version)
    return "\n".join(parts).casefold()


def _state_data(status: ClientStatus, role: int) -> Any:
    state = shown_state(status)
    look = client_look("late" if status.stalled and state == "online" else state)
    colours = palette_colours(QGuiApplication.palette())
    if role == Qt.ItemDataRole.DecorationRole:
        return icon(look.icon, colours, look.tone)
    return None


def _tip(status: ClientStatus, column: str) -> str | None:
    if column == "name" and status.name != status.id:
        return status.id
    if column == "rejected" and status.rejected:
        return text.reasons(status.rejected)
    if column == "state":
        return state_words(status)
    if column == "rate" and (pace := _pace(status)):
        return pace
    return "\n\n".join(filter(None, (status.error, status.error_details))) or None


def _pace(status: ClientStatus) -> str:
    """Return in words what there is to tell of the pace of a game; empty when there is nothing."""
    parts = []
    if status.late_steps:
        parts.append(tr("{count} steps came late").format(count=text.count(status.late_steps)))
    if status.human_steps:
        parts.append(tr("{count} steps played by hand").format(count=text.count(status.human_steps)))
    return "\n".join(parts)
