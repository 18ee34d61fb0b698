"""What the server has in store, known once for all pages and dialogs: its runs and its presets."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from PySide6.QtCore import QObject, QTimer, Signal

from soulsgui.wire.control import ApiError, AuditEntry, ErrorCode, Preset, RunStatus, RunSummary
from soulsgui.wire.messages.base import Message

if TYPE_CHECKING:
    from soulsgui.gui.feed import Call, Feed

_TOGETHER_MS = 100
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

    def __init__(self, feed: "Feed", command: str, read: Callable[[dict[str, Any]], list[Entry]]) -> None:
        super().__init__(feed)
        self._feed = feed
        self._command = command
        self._read = read
        self.known = False  # whether it has come
        self.entries: list[Entry] = []
        self._wanted = self._again = False
        self._call: Call | None = None
        self._late: Call | None = None  # to which no answer came in time
        self._soon = QTimer(self, singleShot=True, interval=_TOGETHER_MS)
        self._soon.timeout.connect(self._ask)
        feed.snapshot_taken.connect(self.renew)
        feed.connection_changed.connect(self._connection_changed)
        feed.forgotten.connect(self._forget)

    def want(self) -> None:
        """Have it from now on."""
        self._wanted = True
        if not self.known and self._call is None:
            self.renew()

    def renew(self) -> None:
        """Ask for it again, if anybody wants it: what changes together is asked for once."""
        if self._wanted and not self._soon.isActive():
            self._soon.start()

    def _ask(self) -> None:
        if self._call is not None:
            self._again = True
            return
        self._forget_late()
        self._call = self._feed.ask(self._command)
        if self._call is not None:
            self._call.done.connect(self._take)
            self._call.failed.connect(self._failed)
            self._call.silent.connect(self._silent)

    def _take(self, result: dict[str, Any]) -> None:
        self._end()
        entries = self._read(result)
        if entries != self.entries or not self.known:
            self.entries, self.known = entries, True
            self.changed.emit()

    def _failed(self, error: ApiError) -> None:
        self._end()
        if error.code is not ErrorCode.NO_ANSWER:  # of a lost connection the banner tells
            self.failed.emit(error)

    def _silent(self, error: ApiError) -> None:
        # An answer that comes after all is taken, unless it is asked for again: a server may be merely busy.
        call = self._call
        self._end()
        self._late = call
        self.failed.emit(error)

    def _forget_late(self) -> None:
        if self._late is not None:
            self._late.disconnect(self)
            self._late = None

    def _end(self) -> None:
        again, self._call, self._late, self._again = self._again, None, None, False
        if again:
            self.renew()

    def _connection_changed(self) -> None:
        if self._feed.connection.live:
            self.renew()

    def _forget(self) -> None:
        """Another server is followed from now on; what this one was asked for is over with its connection."""
        self.entries, self.known = [], False
        self._forget_late()
        if self._call is not None:
            self._call.disconnect(self)
        self._call, self._again = None, False
        self.changed.emit()


class ServerLists(QObject):
    """The runs, the newest first, and the presets."""

    def __init__(self, feed: "Feed") -> None:
        super().__init__(feed)
        self.runs: ServerList[RunSummary] = ServerList(
            feed, "runs.list", lambda told: [RunSummary.model_validate(run) for run in told["runs"]]
        )
        self.presets: ServerList[Preset] = ServerList(
            feed, "config.presets", lambda told: [Preset.model_validate(one) for one in told["presets"]]
        )
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
