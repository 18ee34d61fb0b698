"""Which commands changed something on the server: when, from where, and what became of them."""

import time
from functools import partial

from PySide6.QtWidgets import QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import Connection
from soulsgui.gui.models.records import Column, RecordsModel, number
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.states import Look, level_look
from soulsgui.gui.widgets.boxes import TAB_MARGINS, column, stack
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import AuditEntry, AuditList

_MOST = 2000
_LEVELS = {"": "info", "cancelled": "info", "done": "success", "failed": "error"}


def outcome_look(entry: AuditEntry) -> Look:
    """Return how the outcome of a command looks; one that was refused is a warning."""
    return level_look(_LEVELS.get(entry.outcome, "warning"))


AUDIT_COLUMNS: tuple[Column[AuditEntry], ...] = (
    number(
        "time",
        "Time",
        lambda entry: text.clock(entry.time, time.time()),
        lambda entry: entry.number,
        width=16,
    ),
    Column("command", "Command", lambda entry: entry.command, width=20),
    Column("params", "Parameters", lambda entry: entry.params, width=30),
    Column("origin", "Sent by", lambda entry: entry.origin, width=26),
    Column("program", "Process", lambda entry: entry.program or entry.peer, width=20),
    Column(
        "outcome",
        "Outcome",
        lambda entry: entry.words(),
        look=outcome_look,
        tip=lambda entry: f"{entry.words()}\nIt took {text.duration(entry.seconds)}.",
        width=30,
    ),
)


class AuditTab(QWidget):
    """Lists the commands that changed something, the newest on top."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model = RecordsModel(AUDIT_COLUMNS, lambda entry: str(entry.number), parent=self)
        self.table = Table("auditTable", "Commands that changed something", self)
        self.table.setModel(self.model)
        self.table.sort_by(self.model.column_number("time"), downwards=True)
        self._empty = EmptyState("bell", "Reading the audit log …", "", parent=self)
        self._stack = stack(self._empty, self.table)
        column(self._stack, on=self, margins=TAB_MARGINS)
        ask = partial(feed.ask, "history.audit", {"limit": _MOST})
        self._fetch = Fetch(self, ask, came=self._take, failed=partial(notify_problem, shell))
        feed.audit_arrived.connect(self._arrived)
        feed.snapshot_taken.connect(self.refresh)
        feed.connection_changed.connect(self._show_connection)
        self.refresh()

    def refresh(self) -> None:
        """Ask for all of it again."""
        self._fetch.request()

    def _take(self, audit: AuditList) -> None:
        self._empty.say("Nothing has been changed yet", "Commands of windows and command lines appear here.")
        self._show(audit.entries)

    def _show_connection(self, connection: Connection) -> None:
        self.table.setEnabled(connection.live)

    def _arrived(self, entry: AuditEntry) -> None:
        self._show([*self.model.records, entry][-_MOST:])

    def _show(self, entries: list[AuditEntry]) -> None:
        self.model.replace(entries)
        self._stack.setCurrentIndex(1 if entries else 0)
        self.table.share_room([self.model.column_number(name) for name in ("params", "outcome")])
