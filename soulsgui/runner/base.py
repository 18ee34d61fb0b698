"""What every runner has: a locked folder, events, a supervisor, and the control API with its feed."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from soulsgui.config.paths import Folders
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.runner.api.feed import FeedBuffer, FeedPublisher
from soulsgui.runner.api.jobs import Files, Jobs
from soulsgui.runner.api.server import HOST, Check, ControlServer, Handler, Permissions
from soulsgui.runner.audit import AUDIT_FILE, AuditLog
from soulsgui.runner.events import EVENTS_FILE, EventLog, Level
from soulsgui.runner.refusal import Refused, Result
from soulsgui.runner.services.logs import LogFollower, OwnLog
from soulsgui.runner.services.supervisor import Supervisor
from soulsgui.system import (
    FileLock,
    atomic_write,
    make_private,
    no_room,
    others_may_write,
    process_identity,
    stop_signals,
    write_private,
)
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import (
    COMMANDS,
    AuditChange,
    ControlFile,
    ErrorCode,
    Event,
    EventChange,
    JobChange,
    Params,
    Snapshot,
    Status,
)
from soulsgui.wire.control.states import Topic
from soulsgui.wire.messages.base import Message

logger = logging.getLogger(__name__)

RUNNER = "runner"

_LOCK_FILE = "runner.lock"
_EVENTS_SHOWN = 200
_PUBLISH_EVERY_S = 0.2
_PUBLISH_IDLE_S = 1.0
_LOG_CHECK_S = 10.0
_BEGIN_AGAIN_S = 1.0
_BY_FORCE = 3


class RunnerIdentity(Message):
    """What stays the same over restarts of the runner."""

    server_id: str
    control_port: Annotated[int, Field(ge=0, le=65_535)] = 0


class BaseRunner(ABC):
    """The common half of the runners of server and client mode."""

    role: ClassVar[Literal["server", "client"]]  # Which runner this is
    handlers: ClassVar[Mapping[str, Handler]]  # What carries out each of its commands
    checks: ClassVar[Mapping[str, Check]]  # What refuses them
    ends_with_window = False  # Whether it ends soon after the last window that follows it is gone
    supervisor: Supervisor
    events: EventLog
    audit: AuditLog
    control: ControlFile

    def __init__(self, folders: Folders, state_dir: Path, identity_file: str) -> None:
        self.folders = folders
        self.started = time.time()
        self.closing = asyncio.Event()  # Set when it is to end
        self.save_at_end = True  # Whether its end may take the time to save
        self.feed = FeedBuffer(self._snapshot)
        self.publisher = FeedPublisher(self.feed)
        files = Files(state_dir / "files")
        self.jobs = Jobs(lambda job: self.feed.push(JobChange, job=job), files)
        self.permissions = Permissions(self.checks)
        self._state_dir = state_dir
        self._identity_file = state_dir / identity_file
        self._cleanup = AsyncExitStack()
        self._changed = asyncio.Event()
        self._hurrying: asyncio.Task[None] | None = None
        self._times_asked = 0

    def ask_to_close(self, save: bool = True) -> None:
        """Let the runner end; asked without `save`, it does not wait for a checkpoint."""
        self.save_at_end = self.save_at_end and save
        self.closing.set()

    def hurry(self) -> None:
        """End every service at once, saved or not."""
        names = [service.name for service in self.supervisor.statuses()]
        self._hurrying = asyncio.create_task(self.supervisor.stop(*names, grace_s=0.0))

    def obey_signals(self) -> None:
        """End in order when asked to stop, at once when asked again, by force the third time."""
        loop = asyncio.get_running_loop()

        def ask(_number: int, _frame: FrameType | None) -> None:
            self._times_asked += 1
            if self._times_asked >= _BY_FORCE:
                self._end_by_force()
            loop.call_soon_threadsafe(self._interrupt)

        for number in stop_signals():
            # Left behind, it would speak to a loop that is closed.
            self._cleanup.callback(signal.signal, number, signal.signal(number, ask) or signal.SIG_DFL)

    def _interrupt(self) -> None:
        if self._times_asked > 1:
            self.hurry()
        self.ask_to_close()

    def _end_by_force(self) -> None:
        """End every service and this process, whatever either of them waits for."""
        try:
            self.supervisor.kill_all()
        finally:
            os._exit(1)

    async def _clean_up(self) -> None:
        await self._cleanup.aclose()
        if self._hurrying is not None:
            await self._hurrying

    def _take_folder(self, who: str, remedy: str) -> None:
        """Begin to write into this folder; an error names `who` works there, and the `remedy`."""
        logs = self._state_dir / "logs"
        folders = self.folders.config, self.folders.data
        try:
            for folder in folders:
                if not folder.exists():
                    folder.mkdir(parents=True, exist_ok=True)
                    make_private(folder)
            logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            remedy = "Free some space there, or choose another" if no_room(error) else "Choose another"
            raise UsageError(
                f"The folder {error.filename or self.folders.data} can't be made: {error.strerror or error}.",
                f"{remedy}: --data-dir DIR, --config-dir DIR",
            ) from error
        make_private(self._state_dir)
        lock = FileLock(self._state_dir / _LOCK_FILE)
        if not lock.acquire():
            raise SoulsGuiError(f"{who} (process {lock.holder()}) uses {self.folders.data} already.", remedy)
        self._cleanup.callback(lock.release)
        self.jobs.files.clear()
        # One that a crashed runner left leads nowhere.
        (self._state_dir / CONTROL_FILE).unlink(missing_ok=True)
        self._own_log = OwnLog(logs / f"{RUNNER}.log")
        self._cleanup.callback(self._own_log.close)
        for folder in filter(others_may_write, folders):
            logger.warning(
                "everybody on this computer may write in %s, and so decide what runs here; "
                "keep them out: chmod go-w %s",
                folder,
                folder,
            )
        self._follower = LogFollower({RUNNER: logs / f"{RUNNER}.log"})
        path = self._state_dir / EVENTS_FILE
        self.events = EventLog(path, self._noted)
        path = self._state_dir / AUDIT_FILE
        self.audit = AuditLog(path, lambda entry: self.feed.push(AuditChange, entry=entry))
        self.events.tell_loss(self.audit.loss)
        self.supervisor = Supervisor(self._state_dir, self._changed.set, self._on_service_event)
        self.supervisor.recover()

    def _keep_doing(
        self, work: Callable[[], Coroutine[Any, Any, None]], name: str, every_s: float | None = None
    ) -> None:
        """Do some work until the runner ends, again every `every_s`; after a failure it begins anew."""

        async def keep() -> None:
            while True:
                pause_s = every_s
                try:
                    await work()
                except Exception:
                    logger.exception("%s broke off; it begins again in a moment", name)
                    pause_s = max(every_s or 0.0, _BEGIN_AGAIN_S)
                if pause_s is None:
                    return
                await asyncio.sleep(pause_s)

        task = asyncio.create_task(keep(), name=name)

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._cleanup.push_async_callback(end)

    async def _listen(self, port: int) -> None:
        """Open the control API, not announced yet; port 0 takes the last port, or any free one."""
        identity = self._identity()
        self._api = api = ControlServer(self, secrets.token_urlsafe(32))
        await api.start(port, identity.control_port)
        self._cleanup.push_async_callback(api.close)
        self._cleanup.push_async_callback(self.jobs.close)
        self._cleanup.callback(self.feed.close)
        identity = identity.model_copy(update={"control_port": api.port})
        atomic_write(self._identity_file, identity.to_json().encode())
        self.control = ControlFile(
            host=HOST,
            port=api.port,
            token=api.token,
            server_id=identity.server_id,
            pid=os.getpid(),
            process=_own_identity(),
        )

    def _announce(self) -> None:
        """Tell where the control API is, now that every command can be carried out."""
        path = self._state_dir / CONTROL_FILE
        write_private(path, self.control.to_json().encode())
        self._cleanup.callback(path.unlink, missing_ok=True)
        self._keep_doing(self._publish, "publish")

    def renew_token(self, token: str) -> None:
        """Let those in alone who know another token, from the next request on."""
        renewed = self.control.model_copy(update={"token": token})
        # Written first: where it can't be, the one that everybody knows stays.
        write_private(self._state_dir / CONTROL_FILE, renewed.to_json().encode())
        self.control, self._api.token = renewed, token

    def _identity(self) -> RunnerIdentity:
        path = self._identity_file
        found = RunnerIdentity.read(path.read_bytes()) if path.exists() else None
        return found or RunnerIdentity(server_id=secrets.token_hex(8))

    async def _publish(self) -> None:
        log_checked_at = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PUBLISH_EVERY_S if self._busy else _PUBLISH_IDLE_S):
                    await self._changed.wait()
            self._changed.clear()
            try:
                now = time.monotonic()
                if now - log_checked_at > _LOG_CHECK_S:
                    log_checked_at = now
                    await asyncio.to_thread(self._own_log.file.cut_if_large)
                for service in self.supervisor.statuses():
                    self._follower.follow(service.name, self.supervisor.spec_of(service.name).log_path)
                self.publisher.lines(await asyncio.to_thread(self._follower.poll))
                self.publisher.status(self.status(with_clients=False), now)
            except Exception:
                logger.exception("the state could not be published")
            await asyncio.sleep(_PUBLISH_EVERY_S / 2)

    @property
    def _busy(self) -> bool:
        """Whether something goes on that is worth a look several times a second."""
        return True

    def _on_event(self, level: Level, what: str, cause: str, remedy: str, service: str) -> None:
        self.events.add(level, what, cause, remedy, service, self._run_of(service))

    def _on_service_event(self, level: Level, what: str, cause: str, remedy: str, service: str) -> None:
        topic: Topic = "given_up" if level == "error" else ""
        self.events.add(level, what, cause, remedy, service, self._run_of(service), topic)

    def _noted(self, event: Event) -> None:
        self.feed.push(EventChange, event=event)

    @abstractmethod
    def _run_of(self, service: str) -> str:
        """Return the run that an event of a service belongs to; empty for none."""

    @abstractmethod
    def status(self, with_clients: bool = True) -> Status:
        """Return everything at this moment, or all but the clients, of whom there may be many."""

    def _snapshot(self, cursor: int) -> Snapshot:
        return Snapshot(cursor=cursor, status=self.status(), events=self.events.newest(_EVENTS_SHOWN))

    async def command(self, name: str, params: Params) -> Result:
        """Carry out a command; one that there is not, or that can't be carried out now, is `Refused`."""
        if name not in self.handlers:
            known = ", ".join(self.handlers)
            message = f"{name} is not a command of the runner in {self.role} mode."
            raise Refused(ErrorCode.BAD_REQUEST, message, f"There are: {known}")
        if (check := self.checks.get(name)) is not None:
            check(self, params)
        if doing := COMMANDS[name].job:
            return self.jobs.start(name, partial(self.handlers[name], self, params), doing)
        work = self.handlers[name](self, params)
        if told := COMMANDS[name].long.get(self.role):
            return await self.jobs.run(name, work, told)
        return await work


def _own_identity() -> dict[str, Any]:
    """Return what tells this process from others; nothing when its command line is no text."""
    found = process_identity(os.getpid())
    try:
        "".join(found["cmdline"] if found is not None else []).encode()
    except UnicodeEncodeError:
        return {}
    return dict(found or {})
