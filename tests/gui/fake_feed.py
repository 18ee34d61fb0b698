"""A feed without a runner: the test says what arrives and answers what is asked; and a played window."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QSettings, QTimer

from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.wire.control import (
    COMMANDS,
    ApiError,
    AuditEntry,
    ClientStatus,
    ConfigValues,
    ErrorCode,
    Event,
    Hello,
    InvitationList,
    Job,
    LogLine,
    Picture,
    PictureShown,
    QueuedRun,
    RunStatus,
    RunSummary,
    ServerStatus,
    ServiceStatus,
    Status,
)
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.metrics import Row

SERVER = "my-server"
LIVE = Connection(ConnectionState.CONNECTED, SERVER)
LOST = Connection(ConnectionState.RECONNECTING, SERVER, since=1_790_000_000.0)
HELLO = Hello(
    version="1",
    server_id="s1",
    pid=7,
    started=1_790_000_000.0,
    data_dir="/d",
    config_dir="/c",
    capabilities=[],
)

Result = dict[str, Any] | Message | ApiError
Answer = Result | Callable[[dict[str, Any]], Result]
NOTHING_YET: dict[str, Answer] = {
    "runs.list": {"runs": []},
    "config.presets": {"presets": []},
    "config.get": ConfigValues(defaults={}, saved={}, running={}, text="", hash="h", path="/c/config.yaml"),
    "config.check": {"problems": []},
    "history.logs": {"lines": [], "first": 1},
    "history.audit": {"entries": []},
    "checkpoint.list": {"checkpoints": []},
    "experiments.list": {"experiments": []},
    "clients.invite.list": InvitationList(lan=False, public=False, port=1, addresses=[], invitations=[]),
}
"""What a server answers on which nothing was done yet."""


@dataclass(frozen=True)
class Sent:
    command: str
    params: dict[str, Any]
    call: Call


def refusal(message: str = "Not now.", remedy: str = "", code: ErrorCode = ErrorCode.NOT_NOW) -> ApiError:
    """Return what a server says when it refuses a command."""
    return ApiError(code=code, message=message, remedy=remedy)


class FakeFeed(Feed):
    """A feed that the test plays.

    Commands with an entry in `answers` are answered in the next turn of the event loop: with that result,
    with that refusal, or with what the function makes of the parameters. The others wait in `sent` for
    `sent[-1].call.answer(...)`. Parameters that the real API would refuse fail the test at once.

    Args:
        status: What the newest status says.
        connection: How the window stands with its runner.
        hello: What the runner says of itself.
    """

    def __init__(
        self, status: Status | None = None, connection: Connection = LIVE, hello: Hello | None = None
    ) -> None:
        super().__init__()
        self.status = status or Status()
        self.connection = connection
        self.hello = hello
        self.sent: list[Sent] = []
        self.answers: dict[str, Answer] = {}

    def send(self, call: Call, params: dict[str, Any]) -> Call:
        if call.command in COMMANDS:
            COMMANDS[call.command].params.model_validate(params)
        self._attend(call, params)
        self.sent.append(Sent(call.command, params, call))
        self._open.append(call)
        self.asked.emit(call.command)
        answer = self.answers.get(call.command)
        if answer is not None:
            QTimer.singleShot(0, call, lambda: self._give(call, answer, params))
        return call

    def _give(self, call: Call, answer: Answer, params: dict[str, Any]) -> None:
        result = answer(params) if callable(answer) else answer
        if not COMMANDS[call.command].reads:
            done = AuditEntry(number=1, time=0.0, command=call.command, outcome="done")
            self.audit_arrived.emit(done)
        if isinstance(result, ApiError):
            call.refuse(result)
        else:
            call.answer(result.model_dump(mode="json") if isinstance(result, Message) else result)

    def sent_of(self, command: str) -> list[Sent]:
        """What was sent under one name, oldest first."""
        return [one for one in self.sent if one.command == command]

    def connect_as(self, connection: Connection) -> None:
        self.connection = connection
        self.connection_changed.emit(connection)

    def take_snapshot(self, status: Status) -> None:
        self.status = status
        self.snapshot_taken.emit(status)

    def _change(self, part: str, value: object) -> None:
        self.status = self.status.model_copy(update={part: value})
        getattr(self, f"{part}_changed").emit(value)

    def change_run(self, run: RunStatus) -> None:
        self._change("run", run)

    def change_services(self, services: list[ServiceStatus]) -> None:
        self._change("services", services)

    def change_server(self, server: ServerStatus) -> None:
        self._change("server", server)

    def change_queue(self, queue: list[QueuedRun]) -> None:
        self._change("queue", queue)

    def change_allowed(self, **why: str) -> None:
        """The runner would refuse these commands, with a `_` for each dot, and no others."""
        self._change("allowed", {name.replace("_", ".", 1): reason for name, reason in why.items()})

    def change_clients(self, changed: list[ClientStatus], removed: Sequence[str] = ()) -> None:
        known = {client.id: client for client in [*self.status.clients, *changed]}
        left = [client for name, client in known.items() if name not in removed]
        self.status = self.status.model_copy(update={"clients": left})
        self.clients_changed.emit(changed, list(removed))

    def bring_rows(self, *rows: Row) -> None:
        self.rows_arrived.emit(list(rows))

    def bring_event(self, event: Event) -> None:
        self.events.append(event)
        self.event_arrived.emit(event)

    def bring_audit(self, entry: AuditEntry) -> None:
        self.audit_arrived.emit(entry)

    def bring_log(self, *lines: LogLine) -> None:
        self.log_arrived.emit(list(lines))

    def show_picture(self, job: str, **seen: Any) -> None:
        picture = Picture(**{"episode": 0, "step": 0, "return_so_far": 0.0} | seen)
        self.picture_shown.emit(PictureShown(cursor=0, job=job, picture=picture))

    def change_job(self, job: Job) -> None:
        self._take_job(job)


@dataclass(frozen=True)
class Told:
    level: str
    text: str
    detail: str = ""
    action: Any = None
    about: str = ""


class FakeShell(QObject):
    """The window around a page: keeps what the page asked of it.

    Args:
        folder: Where its settings file lies.
        side: What it knows of client mode.
    """

    def __init__(self, folder: Path, side: ClientSide | None = None) -> None:
        super().__init__()
        self._side = side
        self._settings = QSettings(str(folder / "window.ini"), QSettings.Format.IniFormat)
        self.told: list[Told] = []
        self.shown: list[tuple[str, dict[str, Any]]] = []
        self.opened: list[tuple[str, dict[str, Any]]] = []

    def notify(self, level: str, text: str, detail: str = "", action: Any = None, about: str = "") -> None:
        self.told.append(Told(level, text, detail, action, about))

    def settle(self, about: str) -> None:
        self.told = [told for told in self.told if told.about != about]

    def show_page(self, name: str, **where: Any) -> None:
        self.shown.append((name, where))

    def open_new_run(
        self, overrides: dict[str, Any] | None = None, preset: str = "", checkpoint: str = ""
    ) -> None:
        begins = {"checkpoint": checkpoint} if checkpoint else {"overrides": overrides, "preset": preset}
        self.opened.append(("new_run", begins))

    def open_player(self, run: RunStatus | RunSummary, checkpoint: str = "") -> None:
        self.opened.append(("player", {"run": run.id, "checkpoint": checkpoint}))

    def open_config(self) -> None:
        self.opened.append(("config", {}))

    def open_invite(self) -> None:
        self.opened.append(("invite", {}))

    def open_add_server(self) -> None:
        self.opened.append(("add_server", {}))

    def client_side(self) -> ClientSide:
        assert self._side is not None
        return self._side

    def settings(self) -> QSettings:
        return self._settings
