"""The table of clients, sorted and filtered in the model itself: ten thousand rows five times a second."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QGuiApplication

from soulsgui.gui import text
from soulsgui.gui.icons import icon, palette_colours
from soulsgui.gui.models.records import Column, Index, NamedRows
from soulsgui.gui.states import client_look, is_here, is_inference_server, shown_state
from soulsgui.wire.control import ClientStatus
from soulsgui.wire.control.states import is_paused_there

KEPT_RATES = 60
"""Rates that are remembered of each client: with one a second, the last minute."""

CLIENT_ROLE = Qt.ItemDataRole.UserRole

_LOWEST = float("-inf")
# Qt asks for many more of each cell it draws.
_ROLES = frozenset(
    int(role)
    for role in (
        Qt.ItemDataRole.DisplayRole,
        Qt.ItemDataRole.DecorationRole,
        Qt.ItemDataRole.TextAlignmentRole,
        Qt.ItemDataRole.ToolTipRole,
        CLIENT_ROLE,
    )
)


class Seen:
    """A client's status, the monotonic time when it came in, and its rates of the last minute, oldest first.

    Not a dataclass: ten thousand are made several times a second.
    """

    __slots__ = ("at", "clock", "rates", "status")

    def __init__(self, status: ClientStatus, at: float, clock: Callable[[], float]) -> None:
        self.status = status
        self.at = at
        self.clock = clock
        self.rates: deque[float] = deque((status.env_steps_per_s,), maxlen=KEPT_RATES)

    @property
    def age_s(self) -> float | None:
        """Return seconds since the last sign of life: the server's count, gone on by our own clock."""
        if self.status.age_s is None:
            return None
        return self.status.age_s + max(self.clock() - self.at, 0.0)


def state_words(status: ClientStatus, age_s: float | None = None) -> str:
    """Return a client's state with what else there is to say: a wish still to be followed, a stall."""
    state = shown_state(status)
    word = client_look(state).word
    if state == "invited":
        word += " again, not yet seen" if status.invited_again else ", never seen"
    elif state == "lost" and age_s is not None:
        word = f"{word} for {text.about(age_s)}"
    if is_paused_there(status.state, status.wish):
        return f"{word} there"
    if status.stalled and status.state == "online":
        return f"{word}, stalled"
    if state in ("late", "lost", "left", "invited") and status.wish in ("pause", "finish", "stop"):
        return f"{word}, will {'pause' if status.wish == 'pause' else 'stop'} when back"
    return word


def _name(seen: Seen) -> tuple[Any, ...]:
    """Sort `gamer-9` before `gamer-10`."""
    head, dash, tail = seen.status.name.rpartition("-")
    return (head.lower(), int(tail)) if dash and tail.isdecimal() else (seen.status.name.lower(), -1)


def _environment(status: ClientStatus) -> str:
    if not status.env_id:
        return text.NOTHING
    return f"{status.env_id} × {status.num_envs}" if status.num_envs > 1 else status.env_id


def _number(
    name: str,
    title: str,
    shown: Callable[[ClientStatus], str],
    key: Callable[[ClientStatus], float | None],
    about: str = "",
    width: int = 8,
) -> Column[Seen]:
    # Sorted by ten thousand times in a turn: one call within another, no more.
    return Column(
        name,
        title,
        lambda seen: shown(seen.status),
        lambda seen: _LOWEST if (found := key(seen.status)) is None else found,
        number=True,
        about=about,
        width=width,
    )


def _words(name: str, title: str, read: Callable[[ClientStatus], str], width: int = 10) -> Column[Seen]:
    return Column(
        name,
        title,
        lambda seen: read(seen.status) or text.NOTHING,
        lambda seen: read(seen.status),
        width=width,
    )


COLUMNS: tuple[Column[Seen], ...] = (
    Column(
        "state",
        "State",
        lambda seen: state_words(seen.status, seen.age_s),
        lambda seen: client_look(shown_state(seen.status)).rank,
        width=23,
    ),
    Column("name", "Client", lambda seen: seen.status.name, _name, width=15),
    _words("host", "Host", lambda s: s.host, width=11),
    Column(
        "env",
        "Environment",
        lambda seen: _environment(seen.status),
        lambda seen: seen.status.env_id,
        width=20,
    ),
    _number("episodes", "Episodes", lambda s: text.count(s.episodes), lambda s: s.episodes),
    _number("last", "Last return", lambda s: text.value(s.last_return), lambda s: s.last_return),
    _number("mean", "Mean return", lambda s: text.value(s.mean_return), lambda s: s.mean_return),
    _number(
        "rate",
        "Steps/s",
        lambda s: text.compact(s.env_steps_per_s) if s.env_steps_per_s else text.NOTHING,
        lambda s: s.env_steps_per_s,
        "Environment steps per second, and how they were in the last minute",
        width=14,
    ),
    _number(
        "waits",
        "Waits",
        lambda s: text.percent(100 * s.waiting) if s.waiting else text.NOTHING,
        lambda s: s.waiting,
        "Part of the last seconds in which it waited for the trainer: for credits, or the next round",
    ),
    _number(
        "lag",
        "Policy lag (updates)",
        lambda s: text.count(s.lag if is_here(s) else None),
        lambda s: s.lag if is_here(s) else None,
        "Updates between the weights it plays with and the newest ones",
    ),
    _number(
        "buffered",
        "Buffered",
        lambda s: text.count(s.buffered),
        lambda s: s.buffered,
        "Segments that wait to be sent",
    ),
    _number("dropped", "Dropped", lambda s: text.count(s.dropped), lambda s: s.dropped),
    _number(
        "rejected",
        "Rejected",
        lambda s: text.count(sum(s.rejected.values())),
        lambda s: sum(s.rejected.values()),
        "Segments that the trainer refused; the tooltip of a cell tells the reasons",
    ),
    Column(
        "age",
        "Heartbeat",
        lambda seen: text.heartbeat(seen.age_s),
        # The younger the beat, the greater the moment: independent of the time of sorting.
        lambda seen: seen.at - seen.status.age_s if seen.status.age_s is not None else float("-inf"),
        number=True,
        about="Time since its last sign of life, by the server's clock",
    ),
    _words("version", "Version", lambda s: s.version),
    Column("error", "Last error", lambda seen: seen.status.error, width=15),
)

GIVEN_UP_FIRST = (
    *("version", "dropped", "buffered", "last", "waits", "rejected", "host"),
    *("error", "episodes", "lag", "env", "rate"),
)
"""Columns in the order in which they are left out where there is no room for all."""


class ClientsModel(NamedRows):
    """Clients as the feed tells of them, in the order the user chose.

    Inference servers stand among the clients and are left out: they play nothing and have their own card.

    Changes wait until `tick`, which the owner calls a few times a second while the table is seen; it sorts
    once and announces one range. A proxy model would ask for every cell instead.
    """

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(COLUMNS, parent)
        self._clock = clock
        self._all: dict[str, Seen] = {}
        self._by_name: list[str] = []
        self._sort_column = 0
        self._downwards = False
        self._filter = ""
        self._dirty = False
        self._members_changed = False
        self._name_column = self.column_number("name")
        self._aging = [self.column_number(name) for name in ("state", "age")]

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
                if is_inference_server(status):
                    continue
                everyone[status.id] = Seen(status, now, self._clock)
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
            last = len(self._rows) - 1
            for column in self._aging:  # of the state, too, ages are a part; the rest is not drawn anew
                top, bottom = self.index(0, column), self.index(last, column)
                self.dataChanged.emit(top, bottom, [Qt.ItemDataRole.DisplayRole])

    def _sorted(self) -> list[str]:
        """Return the clients to show, in order; equal ones by name, so that rows do not dance."""
        seen = self._all
        if self._members_changed:
            self._members_changed = False
            self._by_name = sorted(seen, key=lambda client: _name(seen[client]))
        chosen = self._by_name
        if self._filter:
            chosen = [client for client in chosen if self._filter in _searched(seen[client].status)]
        if self._sort_column == self._name_column:
            return chosen[::-1] if self._downwards else list(chosen)
        column = COLUMNS[self._sort_column]
        key = column.key or column.shown
        keys = [key(seen[client]) for client in chosen]
        order = sorted(range(len(chosen)), key=keys.__getitem__, reverse=self._downwards)
        return [chosen[place] for place in order]

    def client_at(self, row: int) -> ClientStatus | None:
        """Return the client in a row, None beyond the last."""
        seen = self._seen(row)
        return None if seen is None else seen.status

    def rates_at(self, row: int) -> Sequence[float]:
        """Return the rates of the last minute of the client in a row, oldest first."""
        seen = self._seen(row)
        return () if seen is None else seen.rates

    def words_at(self, row: int, column: int) -> str:
        """Return the text of a cell."""
        seen = self._seen(row)
        return "" if seen is None else text.plain(COLUMNS[column].shown(seen))

    def _seen(self, row: int) -> Seen | None:
        # Between a removal and the next tick a row may show somebody who is gone.
        name = self.name_at(row)
        return None if name is None else self._all.get(name)

    @property
    def total(self) -> int:
        """How many clients there are, shown or not."""
        return len(self._all)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return what a cell shows."""
        if role not in _ROLES:
            return None
        seen = self._seen(index.row()) if index.isValid() else None
        if seen is None:
            return None
        column = COLUMNS[index.column()]
        if role == Qt.ItemDataRole.DisplayRole:
            return self.words_at(index.row(), index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return self.alignment(index.column())
        if role == Qt.ItemDataRole.ToolTipRole:
            return text.tip(_tip(seen.status, column.name) or "") or None
        if role == CLIENT_ROLE:
            return seen.status.id
        if column.name == "state" and role == Qt.ItemDataRole.DecorationRole:
            state = shown_state(seen.status)
            look = client_look("late" if seen.status.stalled and state == "online" else state)
            return icon(look.icon, palette_colours(QGuiApplication.palette()), look.tone)
        return None

    def sort(self, column: int, order: Qt.SortOrder = Qt.SortOrder.AscendingOrder) -> None:
        """Sort by a column from now on."""
        self._sort_column = max(column, 0)
        self._downwards = order is Qt.SortOrder.DescendingOrder
        self.show_rows(self._sorted())


def _searched(status: ClientStatus) -> str:
    parts = (status.name, status.host, state_words(status), status.env_id, status.error, status.version)
    return "\n".join(parts).casefold()


def _tip(status: ClientStatus, column: str) -> str | None:
    if column == "name" and status.name != status.id:
        return status.id
    if column == "rejected" and status.rejected:
        return text.reasons(status.rejected)
    if column == "state":
        return state_words(status)
    if column == "rate" and (status.late_steps or status.human_steps):
        late = f"{text.count(status.late_steps)} steps came late" if status.late_steps else ""
        by_hand = f"{text.count(status.human_steps)} steps played by hand" if status.human_steps else ""
        return "\n".join(filter(None, (late, by_hand)))
    return "\n\n".join(filter(None, (status.error, status.error_details))) or None
