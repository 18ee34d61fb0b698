"""Keeps the feed connected: finds the runner or starts it, follows it, and finds it again."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from PySide6.QtCore import QFileSystemWatcher, QObject, Signal

from soulsgui.config.paths import Folders
from soulsgui.errors import (
    NotAllowedError,
    ServerTimeoutError,
    ServerUnreachableError,
    SoulsGuiError,
    StorageError,
)
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.feed import DOWNLOAD, UPLOAD, Call, Feed
from soulsgui.gui.loop import Tasks
from soulsgui.gui.models.connection import Connection, ConnectionState, RemoteServer
from soulsgui.gui.shell.remote import RemotePlace, SshRefusedError
from soulsgui.gui.shell.runner_link import (
    HELLO_TIMEOUT_S,
    RunnerLink,
    RunnerPlace,
    WrongTokenError,
    client_place,
    read_control,
    server_place,
    start_runner,
)
from soulsgui.process import still_runs
from soulsgui.system import ProcessIdentity, explained, process_identity, same_process
from soulsgui.wire.api_client import CommandFailedError
from soulsgui.wire.control import API_OLDEST, API_VERSION, ApiError, ControlFile, ErrorCode, Hello

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.05
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_LONGEST_PAUSE_FAR_S = 30.0  # each try logs in there
_FAR_HELLO_TIMEOUT_S = 15.0
_ASLEEP_S = 5.0
_PROBLEMS_TOLD = 4


def too_old_or_new(hello: Hello, server: str) -> Connection | None:
    """Return what is wrong between window and runner, None when they understand each other."""
    if hello.api_oldest > API_VERSION:
        detail = f"It speaks version {hello.api_oldest} of the control interface, this window {API_VERSION}."
        return Connection(ConnectionState.TOO_OLD, server, detail=detail)
    if hello.api < API_OLDEST:
        detail = f"It is SoulsGUI {hello.version}; this window needs version {API_OLDEST} of its interface."
        return Connection(ConnectionState.TOO_NEW, server, detail=detail)
    return None


def as_api_error(error: SoulsGuiError) -> ApiError:
    """Return an error of the way to the runner as if the runner had told it."""
    if isinstance(error, CommandFailedError):
        return error.told
    code = ErrorCode.NO_ANSWER
    if isinstance(error, NotAllowedError):
        code = ErrorCode.NOT_ALLOWED
    elif isinstance(error, StorageError):  # a disk of this computer, whoever answers
        code = ErrorCode.FAILED
    return ApiError(code=code, message=error.message, remedy=error.remedy)


class SleepWatch:
    """Notices that the machine slept: wall time went on while the processor's did not."""

    def __init__(
        self, wall: Callable[[], float] = time.time, awake: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall, self._awake = wall, awake
        self._ahead = wall() - awake()

    def slept(self) -> bool:
        """Whether it slept (or its clock was set) since the last question."""
        ahead = self._wall() - self._awake()
        jumped = abs(ahead - self._ahead) > _ASLEEP_S
        self._ahead = ahead
        return jumped


class Connector(QObject):
    """Finds or starts the runner of this machine, or finds that of another one, and keeps the feed connected.

    Signals:
        runner_started: A runner that this window started answers; with its `Hello`.
    """

    runner_started = Signal(object)

    def __init__(
        self,
        feed: Feed,
        folders: Folders,
        server: str,
        tasks: Tasks,
        may_start: bool = True,
        sleep_watch: SleepWatch | None = None,
        place: RunnerPlace | None = None,
    ) -> None:
        super().__init__(feed)
        self._feed = feed
        self._place = place or server_place(folders)
        self._of_server = self._place.folder == folders.server
        self._overrides = folders.overrides
        self._server = self._here = server
        self._remote: RemotePlace | None = None
        self._alive = asyncio.Lock()  # held through the life of one connection after another
        self._life: asyncio.Task[None] | None = None
        self._tasks = tasks
        self._may_start = may_start
        self._sleep_watch = sleep_watch or SleepWatch()
        self._link: RunnerLink | None = None
        self._runner: ProcessIdentity | None = None
        self._started_token = ""
        self._wake = asyncio.Event()
        self._token: str | None = None
        self._pause_s = _FIRST_PAUSE_S
        feed.watched_changed.connect(self._watch)
        if may_start:
            # That there is none is known only once it was looked for.
            self._say(ConnectionState.CONNECTING)

    def open(self, remote: RemoteServer | None = None) -> None:
        """Begin, with this computer or another one."""
        if remote is not None:
            self.show_server(remote)
        else:
            self._life = self._tasks.spawn(self._keep_connected(), "connection")

    def show_server(self, remote: RemoteServer | None) -> None:
        """Follow another computer's server from now on, or, with None, that of this one."""
        if self._life is not None:
            self._feed.leave_calls()  # whose connection would tell them that no server runs
            self._life.cancel()
        self._life = self._tasks.spawn(self._begin_anew(remote), "connection")

    async def _begin_anew(self, remote: RemoteServer | None) -> None:
        async with self._alive:
            self._remote = None if remote is None else RemotePlace(remote)
            self._server = self._here if remote is None else remote.host
            self._runner, self._pause_s = None, _FIRST_PAUSE_S
            self._feed.set_connection(Connection(ConnectionState.CONNECTING, self._server))
            self._feed.forget(remote is not None)
        await self._keep_connected()

    def try_now(self) -> None:
        """Don't wait for the next try."""
        self._wake.set()

    def start_runner(self) -> None:
        """Start a runner if there is none."""
        self._may_start = True
        self._wake.set()

    async def _keep_connected(self) -> None:
        async with self._alive:
            while True:
                try:
                    await self._connect_once()
                finally:
                    self._feed.carry_with(None)
                    if self._link is not None:
                        await self._link.close()
                        self._link = None
                    if self._remote is not None:
                        self._remote.close()

    async def _connect_once(self) -> None:
        """Live through one connection: find the runner, follow it, notice its end, wait for what to do."""
        try:
            self._token = None
            control = read_control(self._place) if self._remote is None else await self._remote.open()
            self._token = control.token if control is not None else ""
            if control is None or not await self._greeted(control):
                await self._without_runner(control)
            elif self._feed.hello and (wrong := too_old_or_new(self._feed.hello, self._server)) is not None:
                self._feed.set_connection(wrong)
                await self._until_woken()
            else:
                await self._follow()
        except WrongTokenError as error:
            self._say(ConnectionState.WRONG_TOKEN, error.message)
            # From here nobody sees the file with another one being written there.
            await self._until_woken(None if self._remote is None else _LONGEST_PAUSE_FAR_S)
        except SshRefusedError as error:
            self._say(ConnectionState.SSH_REFUSED, f"{error.message} {error.remedy}")
            await self._until_woken()
        except NotAllowedError as error:
            self._say(ConnectionState.NOT_ALLOWED, str(error))
            await self._until_woken()
        except (ServerTimeoutError, ServerUnreachableError) as error:
            lost = self._feed.last_data is not None
            why = error.message if self._remote is None else f"{error.message} {error.remedy}"
            self._say(ConnectionState.RECONNECTING if lost else ConnectionState.CONNECTING, why)
            await self._until_woken(self._next_pause_s())

    def _next_pause_s(self) -> float:
        """Return how long to wait before another try: longer each time, until something could be taken in."""
        pause_s = self._pause_s
        longest = _LONGEST_PAUSE_S if self._remote is None else _LONGEST_PAUSE_FAR_S
        self._pause_s = min(2 * pause_s, longest)
        return pause_s

    async def _greeted(self, control: ControlFile) -> bool:
        """Ask who answers; False when nobody does and the process is gone."""
        if self._feed.last_data is None and self._remote is None:
            self._say(ConnectionState.CONNECTING)
        self._link = RunnerLink(control)
        try:
            hello = await self._link.hello(HELLO_TIMEOUT_S if self._remote is None else _FAR_HELLO_TIMEOUT_S)
        except (ServerUnreachableError, ServerTimeoutError, WrongTokenError):
            # Another program may have its port, or its pid.
            if self._remote is not None or still_runs(control.pid, control.process):
                raise
            return False
        self._runner = process_identity(hello.pid) if self._remote is None else None
        self._feed.greet(hello)
        return True

    async def _follow(self) -> None:
        """Take in what the runner tells until the connection ends."""
        link, hello = self._link, self._feed.hello
        assert link is not None
        assert hello is not None
        logger.info("connected to the runner %d at %s", hello.pid, link.control.url)
        await link.watch(self._feed.watched)
        self._may_start = self._may_start and self._remote is not None
        self._feed.carry_with(self._carry)
        if link.control.token == self._started_token:
            self._started_token = ""
            self.runner_started.emit(hello)
        while await self._followed(link):
            await asyncio.sleep(self._next_pause_s())
        raise ServerUnreachableError("The connection ended.")

    async def _followed(self, link: RunnerLink) -> bool:
        """Follow from the last message on; True when the feed is to begin anew over the same link."""
        async with aclosing(link.follow(self._feed.cursor)) as messages:
            async for message in messages:
                if self._sleep_watch.slept():
                    self._feed.cursor = None  # the next feed begins with a snapshot
                    return True
                # The window is drawn before and after one is taken, which may tell of a thousand clients.
                await asyncio.sleep(0)
                if not self._feed.take(message, self._server):
                    return True
                self._pause_s = _FIRST_PAUSE_S
                await asyncio.sleep(0)
        return False

    async def _without_runner(self, control: ControlFile | None) -> None:
        if self._may_start:
            await self._start(control)
            return
        if control is not None:
            self._say(ConnectionState.RUNNER_GONE)
        elif self._feed.hello is not None:
            self._say(ConnectionState.SHUT_DOWN)
        else:
            self._say(ConnectionState.WELCOME)
        await self._until_woken()

    async def _start(self, old: ControlFile | None) -> None:
        self._say(ConnectionState.STARTING, phase="loading the program")
        # One that is ending still holds the folder.
        while self._runner is not None and same_process(self._runner):
            self._say(ConnectionState.STARTING, phase="waiting for the last runner to end")
            await asyncio.sleep(_LOOK_EVERY_S)
        try:
            started = start_runner(self._place)
        except OSError as error:
            await self._start_failed(" ".join(explained(error)).strip())
            return
        while True:
            control = read_control(self._place)
            if control is not None and (old is None or control.token != old.token):
                self._started_token = control.token
                return
            if started.ended:
                await self._start_failed(started.cause())
                return
            if phase := started.phase():
                self._say(ConnectionState.STARTING, phase=phase)
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _start_failed(self, cause: str) -> None:
        # Not at the top: what reads YAML would delay each window for a file that is mostly right.
        from soulsgui.config.layers import file_problems
        from soulsgui.config.parsing import read_layer
        from soulsgui.gui.config.draft import sentence

        logger.warning("the runner could not be started: %s", cause)
        self._may_start = False
        # Whoever asked for a try while this one went on has had it.
        self._wake.clear()
        wrong = file_problems(self._overrides) if self._of_server else []
        words = "\n".join(sentence(problem) for problem in wrong[:_PROBLEMS_TOLD])
        # Without a mistake of its own it may yet name a port that is taken.
        named = read_layer(self._overrides).values if self._of_server and not wrong else {}
        config = self._overrides if wrong or any(key in cause for key in named) else None
        self._say(ConnectionState.START_FAILED, words or cause, config=config)
        await self._until_woken()

    def _carry(self, call: Call, params: dict[str, Any]) -> None:
        if self._link is not None:
            task = self._tasks.spawn(_answer(self._link, call, params), call.command)
            # It was cancelled, or its server left: nobody can be told of it any more.
            call.destroyed.connect(lambda: task.cancel())

    def _watch(self, watched: dict[str, float]) -> None:
        if self._link is not None:
            self._tasks.spawn(self._link.watch(watched), "watch")

    def _say(
        self, state: ConnectionState, detail: str = "", phase: str = "", config: Path | None = None
    ) -> None:
        self._feed.set_connection(
            Connection(state, self._server, phase, self._feed.last_data, detail, config)
        )

    async def _until_woken(self, at_most_s: float | None = None) -> None:
        """Wait until a try is asked for, if it was not already, the runner's folder changes, or so long."""
        if self._remote is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(at_most_s):
                    await self._wake.wait()
            self._wake.clear()
            return
        # Before the first runner there is no folder of it: its making is waited for.
        around = (self._place.folder, *self._place.folder.parents)
        watcher = QFileSystemWatcher()
        watcher.addPath(str(next(folder for folder in around if folder.is_dir())))
        watcher.directoryChanged.connect(self._wake.set)
        try:
            # What was written before there was a watcher is seen by nobody else.
            if self._token_now() == self._token:
                with suppress(TimeoutError):
                    async with asyncio.timeout(at_most_s):
                        await self._wake.wait()
        finally:
            self._wake.clear()
            watcher.deleteLater()

    def _token_now(self) -> str | None:
        """Return the token that leads to the runner: empty for none, None where we may not read it."""
        try:
            control = read_control(self._place)
        except NotAllowedError:
            return None
        return control.token if control is not None else ""


def connect_client_side(side: ClientSide, folders: Folders, tasks: Tasks) -> Connector:
    """Return what keeps the client side connected; it starts a runner only when that is wanted."""
    place = client_place(folders)
    connector = Connector(side.feed, folders, "this computer", tasks, may_start=False, place=place)
    side.start_wanted.connect(connector.start_runner)
    return connector


async def _answer(link: RunnerLink, call: Call, params: dict[str, Any]) -> None:
    try:
        if call.command == DOWNLOAD:
            result = await link.download(params["file"], Path(params["path"]), call.progressed.emit)
        elif call.command == UPLOAD:
            result = await link.upload(Path(params["path"]), call.progressed.emit)
        else:
            result = await link.command(call.command, params)
    except SoulsGuiError as error:
        call.refuse(as_api_error(error))
    else:
        call.answer(result)
