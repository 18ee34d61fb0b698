"""A command that goes on as a job of the server, followed to its end."""

from typing import Any

from PySide6.QtCore import QObject, Signal

from soulsgui.gui.feed import Feed
from soulsgui.wire.control import ApiError, ErrorCode, Job

_GONE = ApiError(
    code=ErrorCode.NOT_FOUND,
    message="The server was started anew, and what it did for this window ended with it.",
    remedy="Start it again.",
)
_CANCELLED = ApiError(code=ErrorCode.FAILED, message="It was cancelled.", remedy="Start it again.")


class FollowedJob(QObject):
    """Sends a command and tells what becomes of its job; nobody has to keep it.

    Signals:
        begun: The server has taken it on.
        progressed: With the `Job`.
        done: With the `Job`, its result and its files.
        failed: It was refused, went wrong, was cancelled elsewhere, or is not answered; with the `ApiError`.
    """

    begun = Signal()
    progressed = Signal(object)
    done = Signal(object)
    failed = Signal(object)

    def __init__(self, feed: Feed, command: str, params: dict[str, Any]) -> None:
        super().__init__(feed)
        self._feed, self._command = feed, command
        self._early: dict[str, Job] = {}  # what is told of jobs before it is known which one is ours
        self._unwanted = False
        self.id = ""
        self.over = False
        feed.job_changed.connect(self._take)
        feed.snapshot_taken.connect(self._ask)
        call = feed.call(command, params)
        call.done.connect(self._answered)
        call.failed.connect(self._refused)
        call.silent.connect(self.failed)

    def cancel(self) -> None:
        """Have it ended; nothing more is told of it."""
        self._unwanted = True
        self.blockSignals(True)
        if self.id and not self.over:
            self._feed.call("job.cancel", {"job": self.id})
            self._end()

    def _answered(self, result: dict[str, Any]) -> None:
        job = Job.model_validate(result)
        self.id = job.id
        if self._unwanted:
            self.cancel()
            return
        self.begun.emit()
        self._take(self._early.get(job.id, job))

    def _take(self, job: Job) -> None:
        if self.over:
            return
        if not self.id:
            if job.command == self._command:
                self._early[job.id] = job
        elif job.id == self.id:
            self._tell(job)

    def _tell(self, job: Job) -> None:
        match job.state:
            case "running":
                self.progressed.emit(job)
            case "done":
                self._end()
                self.done.emit(job)
            case "cancelled":
                self._refused(_CANCELLED)
            case "failed":
                self._refused(job.error or _GONE)

    def _refused(self, error: ApiError) -> None:
        self._end()
        self.failed.emit(error)

    def _end(self) -> None:
        self.over = True
        self.deleteLater()

    def _ask(self) -> None:
        """Something may have been missed while the connection was cut."""
        if self.id and not self.over:
            call = self._feed.call("job.list")
            call.done.connect(self._listed)

    def _listed(self, result: dict[str, Any]) -> None:
        found = (Job.model_validate(one) for one in result["jobs"] if one["id"] == self.id)
        job = next(found, None)
        if self.over:
            return
        if job is None:
            self._refused(_GONE)
        else:
            self._tell(job)
