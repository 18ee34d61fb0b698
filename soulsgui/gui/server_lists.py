"""What the server has in store, known once for all pages and dialogs: its runs and its presets."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from PySide6.QtCore import QObject, Signal

from soulsgui.gui.fetch import Fetch
from soulsgui.wire.control import AuditEntry, Preset, RunStatus, RunSummary
from soulsgui.wire.messages.base import Message

if TYPE_CHECKING:
    from soulsgui.gui.feed import Feed

_INTERVAL_MS = 100
_CHANGES_RUNS = ("run", "checkpoint.", "sweep.")

Entry = TypeVar("Entry", bound=Message)


class ServerList(QObject, Generic[Entry]):
    """One list of the server: asked for when somebody wants it, and again when it may be another one.

    Signals:
        changed: It is another one than before.
        failed: It was refused, or no answer came; with the `ApiError`.
    """

    changed = Signal()
    failed = Signal(object)

    def __init__(self, feed: "Feed", command: str, read: Callable[[Any], list[Entry]]) -> None:
        super().__init__(feed)
        self._read = read
        self.known = False  # whether it has come
        self.entries: list[Entry] = []
        self._wanted = False
        ask = partial(feed.ask, command)
        # A server may be merely busy: an answer that comes late is taken.
        self._fetch = Fetch(self, ask, _INTERVAL_MS, came=self._take, failed=self.failed, late=True)
        feed.snapshot_taken.connect(self.renew)
        feed.connection_changed.connect(self.renew)
        feed.forgotten.connect(self._forget)

    def want(self) -> None:
        """Have it from now on."""
        self._wanted = True
        if not self.known and not self._fetch.waiting:
            self.renew()

    def renew(self) -> None:
        """Ask for it again, if anybody wants it."""
        if self._wanted:
            self._fetch.request()

    def _take(self, result: Message) -> None:
        entries = self._read(result)
        if entries != self.entries or not self.known:
            self.entries, self.known = entries, True
            self.changed.emit()

    def _forget(self) -> None:
        """Another server is followed from now on; what this one was asked for is over with its connection."""
        self.entries, self.known = [], False
        self._fetch.forget()
        self.changed.emit()


class ServerLists(QObject):
    """The runs, the newest first, and the presets."""

    def __init__(self, feed: "Feed") -> None:
        super().__init__(feed)
        self.runs: ServerList[RunSummary] = ServerList(feed, "runs.list", lambda told: told.runs)
        self.presets: ServerList[Preset] = ServerList(feed, "config.presets", lambda told: told.presets)
        self._run = ("", "")
        feed.run_changed.connect(self._run_changed)
        feed.allowed_changed.connect(self.runs.renew)
        feed.audit_arrived.connect(self._command_told)

    def _run_changed(self, run: RunStatus) -> None:
        before, self._run = self._run, (run.id, run.state)
        if self._run != before:
            self.runs.renew()

    def _command_told(self, entry: AuditEntry) -> None:
        if entry.outcome and entry.command.startswith(_CHANGES_RUNS):
            self.runs.renew()
