"""The runner as signals: what it says reaches the pages here, and what they want reaches it from here.

`Feed` holds the newest state and knows nothing of sockets: `shell.connector.Connector` gives it what
arrives and carries its calls away.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance

from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import Connection, ConnectionState, why_not
from soulsgui.gui.server_lists import ServerLists
from soulsgui.gui.states import run_is_active
from soulsgui.gui.text import first_mistake
from soulsgui.wire.control import (
    COMMANDS,
    ApiError,
    AuditChange,
    ClientsChange,
    ErrorCode,
    Event,
    EventChange,
    FeedMessage,
    Hello,
    Job,
    JobChange,
    JobList,
    LogChange,
    PictureShown,
    RowsChange,
    Snapshot,
    Status,
    StatusChange,
    StoredFile,
)
from soulsgui.wire.messages.base import Message

DOWNLOAD, UPLOAD = "a download", "an upload"
"""In place of the name of a command: a file of a job is fetched (`Feed.download`), or one is brought."""

TIMEOUT_S = 10.0
SAVING_TIMEOUT_S = 60.0
_TOGETHER_S = 60.0
_ANSWERS = {name: command.result or Message for name, command in COMMANDS.items()}
_ANSWERS |= {DOWNLOAD: Message, UPLOAD: StoredFile}

Answer = TypeVar("Answer", bound=Message)


class Call(QObject):
    """One command until its answer, after which it is deleted: connect bound methods alone to its signals.

    Signals:
        progressed: The server tells how far it is, in words.
        done: It was carried out; with its result, an empty `Message` where it has none.
        failed: It was refused or went wrong, or what came is no answer to it; with an `ApiError`.
        dropped: It was cancelled.
        silent: No answer came in time; one may still come.
        answered_late: The answer came after all; with the message that told of none.
    """

    progressed = Signal(str)
    done = Signal(object)
    failed = Signal(object)
    dropped = Signal()
    silent = Signal(object)
    answered_late = Signal(str)

    def __init__(
        self, command: str, server: str, timeout_s: float = TIMEOUT_S, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.command = command
        self.server = server
        self._timer = QTimer(self, singleShot=True, interval=round(timeout_s * 1000))
        self._timer.timeout.connect(self._no_answer)
        self._timer.start()
        self._told_silent = ""
        self.over = False

    def tell_problem(self, slot: Callable[[ApiError], object] | SignalInstance) -> None:
        """Let somebody know why it was not carried out, or that no answer comes."""
        self.failed.connect(slot)
        self.silent.connect(slot)

    def answer(self, result: dict[str, Any]) -> None:
        """It was carried out."""
        if (read := self._read(result, _ANSWERS[self.command])) is not None:
            self._finish(read)

    def _read(self, result: dict[str, Any], kind: type[Answer]) -> Answer | None:
        """Return what was answered; None when it is over, or was no answer: then the call has failed."""
        if self.over:
            return None
        try:
            return kind.model_validate(result)
        except ValidationError as error:
            what = f"The answer of {self.server} was not understood ({self.command}: {first_mistake(error)})."
            remedy = "If server and window are of different versions, update the older one."
            self.refuse(ApiError(code=ErrorCode.FAILED, message=what, remedy=remedy))
            return None

    def _finish(self, result: Message) -> None:
        self._end()
        self.done.emit(result)

    def refuse(self, error: ApiError) -> None:
        """It was refused or went wrong."""
        if not self.over:
            self._end()
            self.failed.emit(error)

    def drop(self) -> None:
        """It was cancelled."""
        if not self.over:
            self._end()
            self.dropped.emit()

    def _end(self) -> None:
        self.over = True
        self._timer.stop()
        if self._told_silent:
            self.answered_late.emit(self._told_silent)
        # Whoever waits for it is told before that.
        self.deleteLater()

    def _no_answer(self) -> None:
        self._told_silent = f"No answer from {self.server}."
        self.silent.emit(
            ApiError(
                code=ErrorCode.NO_ANSWER,
                message=self._told_silent,
                remedy="It may be busy or out of reach. Try again, or look at its log.",
            )
        )


MakeCall = Callable[[], Call | None]
"""Sends a command; None when there is nothing to send any more."""


class _Together(Call):
    """A call that waits for others."""

    def __init__(self, calls: Sequence[Call]) -> None:
        first = calls[0]
        # It waits longer than any of them, whose own silence it passes on.
        super().__init__(first.command, first.server, _TOGETHER_S, first.parent())
        self._left = len(calls)
        self._wrong: ApiError | None = None
        for call in calls:
            call.done.connect(self._one_done)
            call.failed.connect(self._one_failed)
            call.silent.connect(self.silent)

    def _one_done(self) -> None:
        self._left -= 1
        if self._left:
            return
        if self._wrong is not None:
            self.refuse(self._wrong)
        else:
            self._finish(Message())

    def _one_failed(self, error: ApiError) -> None:
        self._wrong = self._wrong or error
        self._one_done()


def together(calls: Sequence[Call]) -> Call:
    """Return a call that is done when all of these are, and failed when one of them is."""
    return calls[0] if len(calls) == 1 else _Together(calls)


class JobCall(Call):
    """A command that goes on as a job, until that has ended, and the file that it made is here.

    Args:
        save_to: Where that file is to lie; empty where it makes none.
    """

    def __init__(self, command: str, server: str, feed: "Feed", save_to: str) -> None:
        super().__init__(command, server, parent=feed)
        self._feed, self.save_to = feed, save_to
        self.job: Job | None = None  # as it was told of last
        self._unwanted = False

    def begin_with(self, upload: Call) -> None:
        """Wait for the file that the command is about, then send it."""
        self._timer.stop()
        upload.done.connect(self._brought)
        upload.failed.connect(self.refuse)
        upload.dropped.connect(self.drop)

    def _brought(self, file: StoredFile) -> None:
        self._timer.start()
        self._feed.send(self, {"file": file.id})

    def answer(self, result: dict[str, Any]) -> None:
        """It goes on as a job."""
        if self.job is not None or (job := self._read(result, Job)) is None:
            return
        self._timer.stop()
        self.job = job
        if self._unwanted:
            self.cancel()
        self._feed.job_changed.connect(self._follow)
        self._feed.jobs_listed.connect(self._look)
        # What was told of it may have come before this.
        self._follow(self._feed.jobs.get(job.id, job))

    def cancel(self) -> None:
        """Have it ended; nothing more is told of it."""
        self._unwanted = True
        self.blockSignals(True)
        if self.job is not None and not self.over:
            self._feed.call("job.cancel", {"job": self.job.id})

    def _look(self) -> None:
        job = self._feed.jobs.get(self.job.id) if self.job is not None else None
        if job is not None:
            self._follow(job)
        else:
            what = f"{self.server} was restarted before it was done."
            self.refuse(ApiError(code=ErrorCode.FAILED, message=what, remedy="Try again."))

    def _follow(self, job: Job) -> None:
        if self.job is None or job.id != self.job.id or self.over:
            return
        self.job = job
        if job.state == "running":
            self.progressed.emit(job.progress)
        elif job.state == "cancelled":
            self.drop()
        elif job.error is not None:
            self.refuse(job.error)
        elif not self.save_to:
            super().answer(job.result)
        else:
            self._fetch(job, self.save_to)

    def _fetch(self, job: Job, path: str) -> None:
        self._feed.job_changed.disconnect(self._follow)
        self._feed.jobs_listed.disconnect(self._look)
        if not job.files:
            what = f"{self.server} has made no file."
            self.refuse(ApiError(code=ErrorCode.FAILED, message=what, remedy="Look at its log."))
            return
        self._result = job.result
        fetching = self._feed.download(job.files[0], path)
        fetching.progressed.connect(self.progressed)
        fetching.done.connect(self._fetched)
        fetching.failed.connect(self.refuse)
        fetching.dropped.connect(self.drop)

    def _fetched(self) -> None:
        super().answer(self._result)


Carry = Callable[[Call, dict[str, Any]], None]
"""Takes a call and its parameters to the runner, and its answer back into the call."""

_MOST_EVENTS = 500
_MOST_JOBS = 100
_TRANSFER_LIMIT_S = 86_400.0  # a link that is dead is noticed by who carries
_SAVING = ("run.", "checkpoint.save", "server.shutdown")


def connection_over(status: Status, server: str) -> Connection:
    """Return the state of a connection over which this status came."""
    if status.server.reachable:
        active = run_is_active(status.run.state)
        return Connection(ConnectionState.CONNECTED if active else ConnectionState.NO_RUN, server)
    redis = next((service for service in status.services if service.kind == "redis"), None)
    detail = ""
    if redis is not None and redis.outcome:
        by_hand = redis.state == "failed" and redis.restart_in_s is None
        again = "It was given up: start it again on its card." if by_hand else "The runner starts it again."
        detail = f"{redis.outcome}. {again}"
    return Connection(ConnectionState.REDIS_DOWN, server, detail=detail)


def usual_timeout_s(command: str) -> float:
    """Return how long to wait for the answer to a command before it is called silent."""
    return SAVING_TIMEOUT_S if command.startswith(_SAVING) else TIMEOUT_S


class Feed(QObject):
    """The newest state of the runner, and the way of every command to it.

    Signals:
        connection_changed: The connection stands otherwise; with the `Connection`.
        snapshot_taken: A whole new `Status`: forget what you had.
        run_changed: With the `RunStatus`.
        services_changed: With all of `list[ServiceStatus]`.
        server_changed: With the `ServerStatus`.
        allowed_changed: The runner would refuse other commands than before; with `Status.allowed`.
        clients_changed: With the changed ones, `list[ClientStatus]`, and the ids of those forgotten.
        rows_arrived: New rows of the curves, `list[Row]`.
        event_arrived: With the `Event`.
        audit_arrived: A command that changes something came, or is done; with its `AuditEntry`.
        log_arrived: New lines, `list[LogLine]`.
        queue_changed: With the runs that wait, `list[QueuedRun]`.
        job_changed: With the `Job`.
        picture_shown: Of a job that is watched; with the `PictureShown`.
        watched_changed: Pictures of other jobs are wanted, or another pace; with `watched`.
        jobs_listed: What `jobs` holds is all of them.
        transfer_began: A file is on its way; with its `Call`.
        asked: A command was sent; with its name.
        leaving: The server is about to be left; calls that wait for it are refused after this.
        forgotten: Another server is followed from now on.
        not_agreed: A command was refused because of what it would execute, which a stranger may have named;
            with its name, its parameters and the `ApiError`.
        answered_late: As that of a `Call`; also that the runner is back, with each message that told of none.
    """

    connection_changed = Signal(object)
    snapshot_taken = Signal(object)
    run_changed = Signal(object)
    services_changed = Signal(object)
    server_changed = Signal(object)
    allowed_changed = Signal(object)
    clients_changed = Signal(object, object)
    rows_arrived = Signal(object)
    event_arrived = Signal(object)
    audit_arrived = Signal(object)
    log_arrived = Signal(object)
    queue_changed = Signal(object)
    job_changed = Signal(object)
    picture_shown = Signal(object)
    watched_changed = Signal(object)
    jobs_listed = Signal()
    transfer_began = Signal(object)
    asked = Signal(str)
    leaving = Signal()
    forgotten = Signal()
    not_agreed = Signal(str, dict, object)
    answered_late = Signal(str)

    def __init__(self, parent: QObject | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__(parent)
        self._clock = clock
        self.connection = Connection(ConnectionState.WELCOME)
        self.status = Status()  # stays as it was while the connection is cut
        self.hello: Hello | None = None
        self.remote = False  # whether the server is another computer's
        self.events: list[Event] = []
        self.watched: dict[str, float] = {}  # as in a `Watch`
        self.jobs: dict[str, Job] = {}  # those that go on and the last ones, by their ids, oldest first
        self.transfers: list[Call] = []  # files on their way, and some that were
        self.last_data: float | None = None
        # The last message that was taken: a feed that begins behind it has neither gap nor double.
        self.cursor: int | None = None
        self._carry: Carry | None = None
        self._open: list[Call] = []
        self._unanswered: set[str] = set()  # messages that hold until the runner is back
        self.lists = ServerLists(self)
        self._list_jobs = Fetch(self, partial(self.ask, "job.list"), came=self._take_jobs, late=True)

    def call(
        self, command: str, params: dict[str, Any] | None = None, timeout_s: float | None = None
    ) -> Call:
        """Send a command; the call's signals tell what becomes of it, and the feed keeps it until it is over.

        Without a connection it fails at once, after the caller had the time to connect to them.
        """
        timeout = usual_timeout_s(command) if timeout_s is None else timeout_s
        return self.send(Call(command, self._server, timeout, self), params or {})

    def job(self, command: str, params: dict[str, Any] | None = None, save_to: str = "") -> JobCall:
        """Send a command that is answered with its job; what becomes of that is told by the call.

        The file that the job makes is brought to `save_to`.
        """
        call = JobCall(command, self._server, self, save_to)
        self.send(call, params or {})
        return call

    def job_with_file(self, command: str, path: str) -> JobCall:
        """Send a command that is answered with its job, once its `file` has been brought to the runner."""
        call = JobCall(command, self._server, self, "")
        call.begin_with(self.upload(path))
        return call

    def download(self, file: StoredFile, path: str) -> Call:
        """Fetch a file that a job has made."""
        return self._transfer(DOWNLOAD, {"file": file, "path": path})

    def upload(self, path: str) -> Call:
        """Bring a file to the runner; the result is its `StoredFile`."""
        return self._transfer(UPLOAD, {"path": path})

    def _transfer(self, what: str, params: dict[str, Any]) -> Call:
        call = self.send(Call(what, self._server, _TRANSFER_LIMIT_S, self), params)
        self.transfers = [*(one for one in self.transfers if not one.over), call]
        self.transfer_began.emit(call)
        return call

    @property
    def starting(self) -> bool:
        """Whether a run was asked for here that is not confirmed yet."""
        return any(call.command == "run.start" and not call.over for call in self._open)

    @property
    def _server(self) -> str:
        return self.connection.server or "the server"

    def send(self, call: Call, params: dict[str, Any]) -> Call:
        """Send what a call is about; it tells what becomes of it."""
        self._attend(call, params)
        if self._carry is None or not self.connection.live:
            error = ApiError(
                code=ErrorCode.NO_ANSWER,
                message=why_not(self.connection) or "Nothing is connected.",
                remedy="Wait until the connection is back, then try again.",
            )
            QTimer.singleShot(0, call, lambda: call.refuse(error))
        else:
            self._open = [*(one for one in self._open if not one.over), call]
            self._carry(call, params)
        self.asked.emit(call.command)
        return call

    def _attend(self, call: Call, params: dict[str, Any]) -> None:
        call.answered_late.connect(self.answered_late)

        def look(error: ApiError) -> None:
            if error.code is ErrorCode.NO_ANSWER:
                self._unanswered.add(error.message)
            if error.asks is not None:
                self.not_agreed.emit(call.command, params, error)

        call.failed.connect(look)

    def ask(self, command: str, params: dict[str, Any] | None = None) -> Call | None:
        """Send a command, unless nobody would answer it now."""
        return self.call(command, params) if self.connection.live else None

    def watch(self, job: str, pace: float | None) -> None:
        """Have pictures of a job sent, played at a multiple of its usual pace; None: no more of them."""
        wanted = {name: known for name, known in self.watched.items() if name != job}
        wanted |= {} if pace is None else {job: pace}
        if wanted != self.watched:
            self.watched = wanted
            self.watched_changed.emit(wanted)

    def carry_with(self, carry: Carry | None) -> None:
        """Give calls to this from now on; None while nobody can carry them."""
        self._carry = carry

    def set_connection(self, connection: Connection) -> None:
        """The connection stands otherwise."""
        if connection == self.connection:
            return
        came_back = connection.live and not self.connection.live
        self.connection = connection
        self.connection_changed.emit(connection)
        if came_back:
            told, self._unanswered = self._unanswered, set()
            for message in told:
                self.answered_late.emit(message)

    def leave_calls(self) -> None:
        """The server is about to be left: what becomes of the calls that wait for it is not told here."""
        self.leaving.emit()
        left, self._open = self._open, []
        for call in left:
            due, remedy = "it answered", "Show it again to see what became of it."
            if isinstance(call, JobCall) and call.save_to:
                due, remedy = f"{call.save_to} was here", "Show it again, and ask for the file again."
            what = f"{call.server} was left before {due}."
            call.refuse(ApiError(code=ErrorCode.NO_ANSWER, message=what, remedy=remedy))

    def forget(self, remote: bool) -> None:
        """Another server is followed from now on: nothing that is known holds any more."""
        self.remote = remote
        self.status, self.hello, self.events = Status(), None, []
        self.jobs, self.watched = {}, {}
        self._unanswered = set()
        self.last_data = self.cursor = None
        self._list_jobs.forget()
        self.forgotten.emit()
        self.jobs_listed.emit()
        self.snapshot_taken.emit(self.status)

    def greet(self, hello: Hello) -> None:
        """Somebody answers; another process than before begins with a snapshot."""
        if self.hello is None or (hello.pid, hello.started) != (self.hello.pid, self.hello.started):
            self.cursor = None
        self.hello = hello

    def take(self, message: FeedMessage, server: str = "") -> bool:
        """Take a message in; False when something before it is missing: begin anew, with a snapshot."""
        if isinstance(message, Snapshot):
            self._take_snapshot(message, server)
            return True
        if isinstance(message, PictureShown):
            self.picture_shown.emit(message)  # it has no number of its own
            return True
        if self.cursor is None or message.cursor > self.cursor + 1:
            self.cursor = None
            return False
        if message.cursor <= self.cursor:
            return True
        self.cursor = message.cursor
        self.last_data = self._clock()
        self._take_change(message, server)
        return True

    def _take_snapshot(self, snapshot: Snapshot, server: str) -> None:
        self.cursor = snapshot.cursor
        self.last_data = self._clock()
        self.status = snapshot.status
        self.events = snapshot.events[-_MOST_EVENTS:]
        self.snapshot_taken.emit(snapshot.status)
        self.set_connection(connection_over(snapshot.status, server))
        if self.hello is not None and self.hello.role == "server":
            self._list_jobs.request()

    def _take_jobs(self, listed: JobList) -> None:
        self.jobs = {job.id: self._newer(job) for job in reversed(listed.jobs[:_MOST_JOBS])}
        self.jobs_listed.emit()

    def _newer(self, job: Job) -> Job:
        """Return what is known of a job: lists and changes overtake each other, but none begins again."""
        known = self.jobs.get(job.id, job)
        return job if known.state == "running" else known

    def _take_change(self, message: FeedMessage, server: str) -> None:
        match message:
            case StatusChange():
                self._take_status(message, server)
            case ClientsChange():
                self._take_clients(message)
            case RowsChange(rows=rows):
                self.rows_arrived.emit(rows)
            case EventChange(event=event):
                self.events = [*self.events, event][-_MOST_EVENTS:]
                self.event_arrived.emit(event)
            case AuditChange(entry=entry):
                self.audit_arrived.emit(entry)
            case LogChange(lines=lines):
                self.log_arrived.emit(lines)
            case JobChange(job=job):
                for call in self._open:
                    told = isinstance(call, JobCall) or call.over  # which knows its own job by its id
                    if (job.state, job.command) == ("running", call.command) and not told:
                        call.progressed.emit(job.progress)
                self._take_job(job)

    def _take_job(self, job: Job) -> None:
        self.jobs = dict(list((self.jobs | {job.id: self._newer(job)}).items())[-_MOST_JOBS:])
        self.job_changed.emit(self.jobs[job.id])

    def _take_status(self, change: StatusChange, server: str) -> None:
        old = self.status
        parts = {name: getattr(change, name) for name in ("run", "services", "server", "queue", "allowed")}
        self.status = old.model_copy(update=parts)
        # The connection first: whoever draws the new state asks it whether to dim.
        self.set_connection(connection_over(self.status, server or self.connection.server))
        for name, part in parts.items():
            if part != getattr(old, name):
                getattr(self, f"{name}_changed").emit(part)

    def _take_clients(self, change: ClientsChange) -> None:
        clients = {client.id: client for client in self.status.clients}
        clients |= {client.id: client for client in change.changed}
        for name in change.removed:
            clients.pop(name, None)
        self.status = self.status.model_copy(update={"clients": list(clients.values())})
        self.clients_changed.emit(change.changed, change.removed)
