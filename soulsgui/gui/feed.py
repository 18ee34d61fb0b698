"""The runner as signals: what it says reaches the pages here, and what they want reaches it from here.

`Feed` holds the newest state and knows nothing of sockets: `connecting.Connector` gives it what arrives and
carries its calls away.
"""

import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from soulsgui.gui.calls import PATIENCE_S, SAVING_PATIENCE_S, Call
from soulsgui.gui.connection_state import Connection, ConnectionState, why_not
from soulsgui.gui.i18n import tr
from soulsgui.gui.states import run_is_active
from soulsgui.wire.control import (
    ApiError,
    ClientsChange,
    ErrorCode,
    Event,
    EventChange,
    FeedMessage,
    Hello,
    Job,
    JobChange,
    LogChange,
    RowsChange,
    Snapshot,
    Status,
    StatusChange,
)

Carry = Callable[[Call, dict[str, Any]], None]
"""Takes a call and its parameters to the runner, and its answer back into the call."""

_MOST_EVENTS = 500
_SAVING = ("run.", "checkpoint.save", "server.shutdown")


def standing(status: Status, server: str) -> Connection:
    """Return the state of a connection over which this status came."""
    if not status.server.reachable:
        return Connection(ConnectionState.REDIS_DOWN, server, detail=_redis_trouble(status))
    active = run_is_active(status.run.state)
    return Connection(ConnectionState.CONNECTED if active else ConnectionState.NO_RUN, server)


def _redis_trouble(status: Status) -> str:
    redis = next((service for service in status.services if service.kind == "redis"), None)
    if redis is None or not redis.outcome:
        return ""
    if redis.state == "failed":
        return tr("{outcome}. It was given up after {n} failures: start it again on its card.").format(
            outcome=redis.outcome, n=redis.failures
        )
    return tr("{outcome}. The runner starts it again.").format(outcome=redis.outcome)


def usual_patience_s(command: str) -> float:
    """Return how long to wait for the answer to a command before it is called silent."""
    return SAVING_PATIENCE_S if command.startswith(_SAVING) else PATIENCE_S


class Feed(QObject):
    """The newest state of the runner, and the way of every command to it.

    Signals:
        connection_changed: The connection stands otherwise; with the `Connection`.
        snapshot_taken: A whole new `Status`: forget what you had.
        run_changed: With the `RunStatus`.
        services_changed: With all of `list[ServiceStatus]`.
        server_changed: With the `ServerStatus`.
        clients_changed: With the changed ones, `list[ClientStatus]`, and the ids of those forgotten.
        rows_arrived: New rows of the curves, `list[Row]`.
        event_arrived: With the `Event`.
        log_arrived: New lines, `list[LogLine]`.
        job_changed: With the `Job`.
        asked: A command was sent; with its name.

    Args:
        parent: Who owns it.
        clock: Seconds since the epoch.
    """

    connection_changed = Signal(object)
    snapshot_taken = Signal(object)
    run_changed = Signal(object)
    services_changed = Signal(object)
    server_changed = Signal(object)
    clients_changed = Signal(object, object)
    rows_arrived = Signal(object)
    event_arrived = Signal(object)
    log_arrived = Signal(object)
    job_changed = Signal(object)
    asked = Signal(str)

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(parent)
        self._clock = clock
        self._connection = Connection(ConnectionState.WELCOME)
        self._status = Status()
        self._hello: Hello | None = None
        self._events: list[Event] = []
        self._last_data: float | None = None
        self._cursor: int | None = None
        self._carry: Carry | None = None
        self._open: list[Call] = []

    # --- what the pages read -----------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """How this window stands with the runner."""
        return self._connection

    @property
    def status(self) -> Status:
        """The newest of everything; stays as it was while the connection is cut."""
        return self._status

    @property
    def hello(self) -> Hello | None:
        """Who answers; None before the first answer."""
        return self._hello

    @property
    def events(self) -> list[Event]:
        """The newest events, oldest first."""
        return self._events

    @property
    def last_data(self) -> float | None:
        """When data came last, seconds since the epoch."""
        return self._last_data

    @property
    def cursor(self) -> int | None:
        """The last message that was taken; a feed that begins behind it has neither gap nor double."""
        return self._cursor

    # --- what the pages do -------------------------------------------------------------------------

    def call(
        self, command: str, params: dict[str, Any] | None = None, patience_s: float | None = None
    ) -> Call:
        """Send a command.

        Args:
            command: Its name, such as `run.stop`.
            params: Its parameters.
            patience_s: Seconds until it is called silent; None takes what is usual for the command.

        Returns:
            The call, whose signals tell what becomes of it. Without a connection it fails at once, after
            the caller had the time to connect to them. The feed keeps it until it is over.
        """
        patience = usual_patience_s(command) if patience_s is None else patience_s
        call = Call(command, self._connection.server or tr("the server"), patience, self)
        if self._carry is None or not self._connection.commands_possible:
            error = ApiError(
                code=ErrorCode.NO_ANSWER,
                message=why_not(self._connection) or tr("Nothing is connected."),
                remedy=tr("Wait until the connection is back, then try again."),
            )
            QTimer.singleShot(0, call, lambda: call.refuse(error))
        else:
            self._open = [*(one for one in self._open if not one.over), call]
            self._carry(call, params or {})
        self.asked.emit(command)
        return call

    # --- what the connection gives -----------------------------------------------------------------

    def carry_with(self, carry: Carry | None) -> None:
        """Give calls to this from now on; None while nobody can carry them."""
        self._carry = carry

    def set_connection(self, connection: Connection) -> None:
        """The connection stands otherwise."""
        if connection != self._connection:
            self._connection = connection
            self.connection_changed.emit(connection)

    def greet(self, hello: Hello) -> None:
        """Somebody answers; another process than before begins with a snapshot."""
        if self._hello is None or (hello.pid, hello.started) != (self._hello.pid, self._hello.started):
            self._cursor = None
        self._hello = hello

    def forget_cursor(self) -> None:
        """Begin the next feed with a snapshot."""
        self._cursor = None

    def take(self, message: FeedMessage, server: str = "") -> bool:
        """Take a message in.

        Args:
            message: What arrived.
            server: Name of the server on screen.

        Returns:
            False when something before it is missing: the feed has to begin anew, with a snapshot.
        """
        if isinstance(message, Snapshot):
            self._take_snapshot(message, server)
            return True
        if self._cursor is None or message.cursor > self._cursor + 1:
            self._cursor = None
            return False
        if message.cursor <= self._cursor:
            return True
        self._cursor = message.cursor
        self._last_data = self._clock()
        self._take_change(message, server)
        return True

    def _take_snapshot(self, snapshot: Snapshot, server: str) -> None:
        self._cursor = snapshot.cursor
        self._last_data = self._clock()
        self._status = snapshot.status
        self._events = list(snapshot.events)
        self.snapshot_taken.emit(snapshot.status)
        self.set_connection(standing(snapshot.status, server))

    def _take_change(self, message: FeedMessage, server: str) -> None:
        match message:
            case StatusChange():
                self._take_status(message, server)
            case ClientsChange():
                self._take_clients(message)
            case RowsChange(rows=rows):
                self.rows_arrived.emit(rows)
            case EventChange(event=event):
                self._events = [*self._events, event][-_MOST_EVENTS:]
                self.event_arrived.emit(event)
            case LogChange(lines=lines):
                self.log_arrived.emit(lines)
            case JobChange(job=job):
                self._take_job(job)

    def _take_status(self, change: StatusChange, server: str) -> None:
        old = self._status
        self._status = old.model_copy(
            update={"run": change.run, "services": change.services, "server": change.server}
        )
        # The connection first: whoever draws the new state asks it whether to dim.
        self.set_connection(standing(self._status, server or self._connection.server))
        if change.run != old.run:
            self.run_changed.emit(change.run)
        if change.services != old.services:
            self.services_changed.emit(change.services)
        if change.server != old.server:
            self.server_changed.emit(change.server)

    def _take_clients(self, change: ClientsChange) -> None:
        clients = {client.id: client for client in self._status.clients}
        clients |= {client.id: client for client in change.changed}
        for name in change.removed:
            clients.pop(name, None)
        self._status = self._status.model_copy(update={"clients": list(clients.values())})
        self.clients_changed.emit(change.changed, change.removed)

    def _take_job(self, job: Job) -> None:
        if job.state == "running":
            for call in self._open:
                if call.command == job.command:
                    call.progress(job.progress)
        self.job_changed.emit(job)
