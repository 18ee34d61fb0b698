"""Finding, starting and following a runner: most of it with a real one."""

import asyncio
import dataclasses
import gzip
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest
from aiohttp import StreamReader, web
from PySide6.QtCore import QEvent, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from soulsgui.config.paths import Folders
from soulsgui.errors import ServerUnreachableError, StorageError
from soulsgui.gui.feed import Feed
from soulsgui.gui.loop import Tasks
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.shell import connector as connecting
from soulsgui.gui.shell.connector import Connector, SleepWatch
from soulsgui.gui.shell.runner_link import (
    RunnerLink,
    RunnerPlace,
    StartedRunner,
    read_control,
    server_place,
    start_runner,
)
from soulsgui.system import free_port, process_identity
from soulsgui.wire.access import Address
from soulsgui.wire.api_client import CONTROL_FILE, CommandFailedError
from soulsgui.wire.control import (
    ApiError,
    ControlFile,
    ErrorCode,
    Job,
    LogChange,
    LogLine,
    ServerStatus,
    Snapshot,
    Status,
    StoredFile,
)
from tests.end_to_end.server import RunningServer, soulsgui
from tests.faults.proxy import Proxy
from tests.faults.waiting import LIMIT_S
from tests.gui.fake_feed import HELLO
from tests.gui.shell.conftest import folders_below
from tests.gui.shell.driving import connected_feed, control_of, fail_loudly, finish, until, write_control

S = ConnectionState


class Link:
    def __init__(self, qapp: QApplication, feed: Feed, connector: Connector) -> None:
        self._qapp = qapp
        self.feed = feed
        self.connector = connector
        self.states: list[Connection] = []
        feed.connection_changed.connect(self.states.append)

    def until(self, state: ConnectionState) -> Connection:
        until(self._qapp, lambda: self.feed.connection.state is state, f"{state}, not {self.states}")
        return self.feed.connection

    def redis(self) -> int:
        return next(one.pid or 0 for one in self.feed.status.services if one.name == "redis")


OpenLink = Callable[..., Link]


@pytest.fixture
def link(qapp: QApplication, qt_loop: asyncio.AbstractEventLoop) -> Iterator[OpenLink]:
    tasks = Tasks(fail_loudly)

    def begin(folders: Folders, may_start: bool = False, sleep: SleepWatch | None = None) -> Link:
        feed = Feed()
        connector = Connector(feed, folders, "my-server", tasks, may_start, sleep)
        made = Link(qapp, feed, connector)
        connector.open()
        return made

    yield begin
    finish(qapp, tasks)


@pytest.fixture
def own_runner(folders: Folders, tmp_path: Path) -> Iterator[Folders]:
    """Folders of a runner that the test starts; it is ended with everything below it."""
    yield folders
    if (folders.server / CONTROL_FILE).exists():
        soulsgui("shutdown", folder=tmp_path)


@pytest.fixture
def place(server: RunningServer) -> Folders:
    return folders_below(server.folder)


def proxy_before(place: Folders, port: int = 0) -> Proxy:
    control = control_of(place)
    return Proxy(Address(control.host, control.port), port=port)


def lead_to(folders: Folders, place: Folders, port: int) -> Folders:
    """Let the control file of folders lead to another port of a runner."""
    write_control(folders, control_of(place).model_copy(update={"port": port}))
    return folders


def test_a_feed_finds_its_runner(qtbot: QtBot, link: OpenLink, server: RunningServer, place: Folders) -> None:
    made = link(place)
    made.until(S.NO_RUN)
    assert made.feed.hello is not None
    assert made.feed.hello.pid == server.process.pid
    call = made.feed.call("config.presets")
    with qtbot.waitSignal(call.done) as answered:
        pass
    assert "cartpole_ppo" in {preset.name for preset in answered.args[0].presets}
    call = made.feed.call("run.resume", {"run": "none-such"})
    with qtbot.waitSignal(call.failed) as failed:
        pass
    assert isinstance(failed.args[0], ApiError)
    assert "none-such" in failed.args[0].message


def test_without_a_runner_nothing_is_started_unasked(link: OpenLink, folders: Folders) -> None:
    link(folders).until(S.WELCOME)
    assert not folders.data.exists()


def test_a_runner_is_started_taken_over_and_ended(qtbot: QtBot, own_runner: Folders, link: OpenLink) -> None:
    made = link(own_runner, may_start=True)
    with qtbot.waitSignal(made.connector.runner_started) as started:
        pass
    made.until(S.NO_RUN)
    assert next(one for one in made.states if one.state is S.STARTING).phase
    pid, redis = control_of(own_runner).pid, made.redis()
    assert started.args[0].pid == pid
    assert os.getsid(pid) == pid, "it leads a session of its own"

    os.kill(pid, signal.SIGKILL)
    gone = made.until(S.RUNNER_GONE)
    assert gone.since == made.feed.last_data
    assert psutil.pid_exists(redis), "its services go on"
    assert made.feed.status.services, "what was known stays on the screen"

    made.connector.start_runner()
    made.until(S.NO_RUN)
    assert control_of(own_runner).pid != pid
    assert made.redis() == redis, "adopted"

    made.feed.call("server.shutdown")
    made.until(S.SHUT_DOWN)
    assert not (own_runner.server / CONTROL_FILE).exists()


def test_a_runner_that_is_started_later_is_found(link: OpenLink, folders: Folders, tmp_path: Path) -> None:
    folders.server.mkdir(parents=True)
    made = link(folders)
    made.until(S.WELCOME)
    server = RunningServer(tmp_path)
    try:
        made.until(S.NO_RUN)
    finally:
        server.close()
    made.until(S.SHUT_DOWN)


@pytest.mark.allow_warnings
def test_a_runner_that_ends_at_once_says_why_and_is_tried_again(own_runner: Folders, link: OpenLink) -> None:
    own_runner.config.mkdir(parents=True)
    own_runner.overrides.write_text("ppo:\n  gama: 0.9\n")
    made = link(own_runner, may_start=True)
    failed = made.until(S.START_FAILED)
    assert failed.detail.startswith("Line 2: ppo.gama")
    assert "gamma" in failed.detail, "the nearest key"
    assert failed.config == own_runner.overrides, "it can be mended"
    own_runner.overrides.unlink()
    made.connector.start_runner()
    made.until(S.NO_RUN)


@pytest.mark.allow_warnings
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the file that takes nothing is one of Linux")
def test_a_runner_that_could_say_nothing_because_the_disk_is_full_is_not_started(
    link: OpenLink, folders: Folders
) -> None:
    folders.server.mkdir(parents=True)
    (folders.server / "runner.out").symlink_to("/dev/full")
    made = link(folders, may_start=True)
    assert "no space left on the disk to write" in made.until(S.START_FAILED).detail


def test_how_a_runner_ended_that_said_nothing_is_told(tmp_path: Path) -> None:
    started = start_runner(RunnerPlace(tmp_path, (sys.executable, "-c", "raise SystemExit(3)")))
    started.process.wait()
    assert started.cause() == "It ended without a word, with exit code 3."


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has classes of priority instead")
def test_server_that_the_window_starts_lets_other_programs_go_first(tmp_path: Path) -> None:
    place = server_place(Folders(tmp_path, tmp_path))
    sleeps = (sys.executable, "-c", "import time; time.sleep(3600)")
    started = start_runner(dataclasses.replace(place, argv=sleeps))
    try:
        assert psutil.Process(started.process.pid).nice() == max(psutil.Process().nice(), 5)
    finally:
        started.process.kill()
        started.process.wait()


@pytest.mark.allow_warnings
def test_no_click_is_lost_and_an_impatient_one_while_it_starts_does_not_hide_why_it_failed(
    qtbot: QtBot, link: OpenLink, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = link(folders)

    def fail(place: RunnerPlace) -> StartedRunner:
        made.connector.start_runner()
        raise OSError("no such program")

    def click(connection: Connection) -> None:
        """Before the wait for it begins."""
        if connection.state is S.WELCOME:
            made.connector.start_runner()

    monkeypatch.setattr(connecting, "start_runner", fail)
    made.feed.connection_changed.connect(click)
    assert made.until(S.START_FAILED).detail == "no such program"
    qtbot.wait(100)
    assert made.feed.connection.state is S.START_FAILED


def test_a_runner_that_appears_while_it_is_looked_for_is_found(
    link: OpenLink, place: Folders, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders.server.mkdir(parents=True)
    looked: list[RunnerPlace] = []

    def look(at: RunnerPlace) -> ControlFile | None:
        found = read_control(at)
        if not looked:
            # Nobody watches the folder yet.
            (folders.server / CONTROL_FILE).write_bytes((place.server / CONTROL_FILE).read_bytes())
        looked.append(at)
        return found

    monkeypatch.setattr(connecting, "read_control", look)
    link(folders).until(S.NO_RUN)


def test_another_program_on_the_port_does_not_end_the_search(
    qapp: QApplication, link: OpenLink, place: Folders, folders: Folders
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n"
        writer.write(head + b'{"result": {}}')
        await writer.drain()
        writer.close()

    opened = asyncio.ensure_future(asyncio.start_server(answer, "127.0.0.1", 0))
    until(qapp, opened.done, "the other program listens")
    port = opened.result().sockets[0].getsockname()[1]
    made = link(lead_to(folders, place, port))
    until(qapp, lambda: "not a runner" in made.feed.connection.detail, "it is told")
    assert made.feed.connection.state is S.CONNECTING
    write_control(folders, control_of(place))
    made.until(S.NO_RUN)
    opened.result().close()


def test_a_wrong_token_is_named_a_right_one_found(link: OpenLink, place: Folders, folders: Folders) -> None:
    write_control(folders, control_of(place).model_copy(update={"token": "wrong"}))
    made = link(folders)
    made.until(S.WRONG_TOKEN)
    write_control(folders, control_of(place))
    made.until(S.NO_RUN)


def test_a_secret_file_is_told(link: OpenLink, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "another user" in link(folders).until(S.NOT_ALLOWED).detail


def test_versions_that_do_not_fit_end_at_the_greeting(
    link: OpenLink, place: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, version, state in (("API_VERSION", 0, S.TOO_OLD), ("API_OLDEST", 99, S.TOO_NEW)):
        with monkeypatch.context() as patched:
            patched.setattr(connecting, name, version)
            made = link(place)
            made.until(state)
            assert made.feed.last_data is None


def jobs_of(feed: Feed) -> list[tuple[str, str]]:
    """Collect what a feed tells of jobs from now on."""
    told: list[tuple[str, str]] = []

    def note(job: Job) -> None:
        told.append((job.id, job.state))

    feed.job_changed.connect(note)
    return told


def make_jobs(server: RunningServer, number: int) -> None:
    """Let the runner tell of jobs: there is no such preset, so that each fails at once."""
    for _ in range(number):
        with pytest.raises(CommandFailedError):
            server.api.command("run.start", {"preset": "none"})


def test_after_a_cut_the_feed_goes_on_without_gap_or_double(
    qapp: QApplication, link: OpenLink, server: RunningServer, place: Folders, folders: Folders
) -> None:
    proxy = proxy_before(place)
    port = proxy.address.port
    with connected_feed(qapp, place) as whole:
        made = link(lead_to(folders, place, port))
        with closing(proxy):
            made.until(S.NO_RUN)
            snapshots: list[object] = []
            made.feed.snapshot_taken.connect(snapshots.append)
            expected, told = jobs_of(whole), jobs_of(made.feed)
            make_jobs(server, 4)
            until(qapp, lambda: len(told) == 8, "both are up to date")
        assert made.until(S.RECONNECTING).since is not None
        make_jobs(server, 4)
        until(qapp, lambda: len(expected) == 16, "the other one goes on")
        assert len(told) == 8
        with closing(proxy_before(place, port)):
            made.until(S.NO_RUN)
            make_jobs(server, 2)
            until(qapp, lambda: len(told) >= 20, "what was missed came")
        assert told == expected
        assert set(Counter(told).values()) == {1}
        assert not snapshots, "the rest was still held: no new beginning was needed"


def test_a_command_that_loses_its_connection_fails(
    qtbot: QtBot, link: OpenLink, server: RunningServer, place: Folders, folders: Folders
) -> None:
    proxy = proxy_before(place)
    made = link(lead_to(folders, place, proxy.address.port))
    try:
        with closing(proxy):
            made.until(S.NO_RUN)
            os.kill(server.process.pid, signal.SIGSTOP)
            call = made.feed.call("config.get")
            qtbot.wait(50)
        with qtbot.waitSignal(call.failed) as failed:
            pass
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    assert failed.args[0].message


class SleptOnce(SleepWatch):
    """A machine that slept once, when the test says so."""

    now = False

    def slept(self) -> bool:
        slept, self.now = self.now, False
        return slept


def test_after_sleep_the_whole_state_is_taken_anew(qtbot: QtBot, link: OpenLink, place: Folders) -> None:
    sleep = SleptOnce()
    made = link(place, sleep=sleep)
    made.until(S.NO_RUN)
    states = len(made.states)
    sleep.now = True
    with qtbot.waitSignal(made.feed.snapshot_taken):
        pass
    assert len(made.states) == states


def test_redis_down_is_a_state_of_its_own_and_passes(link: OpenLink, place: Folders) -> None:
    made = link(place)
    made.until(S.NO_RUN)
    redis = made.redis()
    os.kill(redis, signal.SIGSTOP)  # in the place of one that is killed another one is at once
    made.until(S.REDIS_DOWN)
    with suppress(ProcessLookupError):  # after half a minute it is replaced
        os.kill(redis, signal.SIGCONT)
    made.until(S.NO_RUN)


@pytest.fixture
def stranger() -> Iterator[int]:
    """The pid of another process of this program's name."""
    process = subprocess.Popen([sys.executable, "-c", "input()", "soulsgui"], stdin=subprocess.PIPE)
    yield process.pid
    process.communicate(b"\n")


@pytest.mark.parametrize(("earlier_s", "state"), [(0.0, S.CONNECTING), (60.0, S.RUNNER_GONE)])
def test_a_runner_that_does_not_answer_is_waited_for_unless_its_pid_is_somebody_elses_by_now(
    qapp: QApplication,
    link: OpenLink,
    folders: Folders,
    stranger: int,
    earlier_s: float,
    state: ConnectionState,
) -> None:
    identity = dict(process_identity(stranger) or {})
    identity["start_time"] -= earlier_s
    control = ControlFile(port=free_port(), token="t", server_id="s", pid=stranger, process=identity)
    write_control(folders, control)
    made = link(folders)
    if state is S.CONNECTING:
        until(qapp, lambda: made.feed.connection.detail, "it is told")
    assert made.until(state)
    assert S.CONNECTING in {one.state for one in made.states}, "it was asked first"


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Listen = Callable[[Handler], Awaitable[RunnerLink]]


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    """Let a program answer on a port, and return a link to it."""
    runners: list[web.AppRunner] = []
    links: list[RunnerLink] = []

    async def begin(handler: Handler) -> RunnerLink:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runners.append(web.AppRunner(app))
        await runners[-1].setup()
        await web.TCPSite(runners[-1], "127.0.0.1", 0).start()
        port = runners[-1].addresses[0][1]
        links.append(RunnerLink(ControlFile(host="127.0.0.1", port=port, token="t", server_id="s", pid=1)))
        return links[-1]

    yield begin
    for link in links:
        await link.close()
    for runner in runners:
        await runner.cleanup()


async def test_an_answer_whose_link_was_closed_in_its_middle_is_none(
    listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response({"ok": True, "result": {}})

    async def closed(_: StreamReader) -> bytes:
        raise RuntimeError("Connection closed.")  # as aiohttp says it

    link = await listen(answer)
    monkeypatch.setattr(StreamReader, "readany", closed)
    with pytest.raises(ServerUnreachableError):
        await link.command("runs.list", {})


async def test_a_link_that_was_closed_opens_nothing(listen: Listen) -> None:
    link = await listen(telling("nothing"))
    await link.close()
    with pytest.raises(ServerUnreachableError, match="ended"):
        await link.command("runs.list", {})


def telling(message: str) -> Handler:
    """A feed that says this and ends."""

    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(message)
        await socket.close()
        return socket

    return handle


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("answer", [{"result": {}}, {"result": {"version": 3}}, {"error": {}}, {}, []])
async def test_a_program_that_greets_otherwise_is_no_runner(
    listen: Listen, answer: object, status: int
) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response(answer, status=status)

    link = await listen(handle)
    with pytest.raises(ServerUnreachableError):
        await link.hello(5.0)


@pytest.mark.parametrize(
    "message",
    ["welcome", "[]", "{}", '{"cursor": "one"}', '{"cursor": null}', "7", '{"cursor": 1e999}', "[" * 300_000],
)
async def test_a_feed_without_cursors_is_no_runners(listen: Listen, message: str) -> None:
    link = await listen(telling(message))
    with pytest.raises(ServerUnreachableError, match="not a runner"):
        [one async for one in link.follow(None)]


async def test_a_message_that_only_a_newer_runner_knows_counts_as_read(listen: Listen) -> None:
    link = await listen(telling(json.dumps({"kind": "weather", "cursor": 7, "rain": True})))
    assert [one async for one in link.follow(None)] == [LogChange(cursor=7, lines=[])]


async def test_an_answer_without_end_is_read_up_to_a_limit(listen: Listen) -> None:
    sent: list[int] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            await response.write(b'{"result": {"name": "')
            while True:
                await response.write(b"x" * 2**20)
                sent.append(2**20)
        return response

    link = await listen(handle)
    with pytest.raises(CommandFailedError, match="more than"):
        await link.command("runs.list", {}, LIMIT_S)
    assert sum(sent) < 64 * 2**20


STORED = StoredFile(id="1", name="run.zip", size_bytes=2**20)


async def test_a_download_ends_where_more_comes_than_was_told(listen: Listen, tmp_path: Path) -> None:
    sent: list[int] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while len(sent) < 256:
                await response.write(b"x" * 2**20)
                sent.append(2**20)
        return response

    link, path = await listen(handle), tmp_path / "run.zip"
    path.write_bytes(b"kept")
    with pytest.raises(CommandFailedError, match="longer than"):
        await link.download(STORED, path)
    assert len(sent) < 64
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("run.zip", b"kept")]


async def test_a_download_that_has_no_room_does_not_begin(listen: Listen, tmp_path: Path) -> None:
    asked: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return web.Response(body=b"x")

    link = await listen(handle)
    with pytest.raises(StorageError, match="free space") as told:
        await link.download(STORED.model_copy(update={"size_bytes": 2**60}), tmp_path / "run.zip")
    assert (asked, list(tmp_path.iterdir())) == ([], [])
    assert connecting.as_api_error(told.value).code is ErrorCode.FAILED, "the runner answers"


@pytest.mark.parametrize("left", [True, False])
def test_a_download_ends_with_its_server_or_when_it_is_cancelled(
    qapp: QApplication, link: OpenLink, place: Folders, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    begun: list[object] = []
    ended: list[object] = []

    async def download(*args: object) -> None:
        begun.append(args)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(args)

    monkeypatch.setattr(RunnerLink, "download", download)
    made = link(place)
    made.until(S.NO_RUN)
    call = made.feed.download(STORED, "/none")
    until(qapp, lambda: bool(begun), "it is on its way")
    if left:
        made.feed.leave_calls()
    else:
        call.drop()
    qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    until(qapp, lambda: bool(ended), "it has ended")
    assert ended == begun


@pytest.mark.parametrize("status", [302, 307])
async def test_a_server_sends_the_window_to_no_other_program(
    listen: Listen, tmp_path: Path, status: int
) -> None:
    elsewhere: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        if request.path == "/elsewhere":
            elsewhere.append(request.method)
            return web.json_response({"result": {}})
        return web.json_response({}, status=status, headers={"Location": "/elsewhere"})

    link, file = await listen(handle), tmp_path / "run.zip"
    file.write_bytes(b"kept")
    for ask in (link.command("runs.list", {}, LIMIT_S), link.download(STORED, file), link.upload(file)):
        with pytest.raises(CommandFailedError):
            await ask
    assert (elsewhere, file.read_bytes()) == ([], b"kept")


async def test_what_would_become_more_than_the_window_can_hold_stays_packed(listen: Listen) -> None:
    async def handle(_: web.Request) -> web.Response:
        bomb = gzip.compress(b'{"result": {"name": "' + b"x" * 64 * 2**20 + b'"}}', 1)
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    link = await listen(handle)
    with pytest.raises(ServerUnreachableError):
        await link.command("runs.list", {}, LIMIT_S)


@pytest.fixture
def listening(
    qapp: QApplication, folders: Folders, qt_loop: asyncio.AbstractEventLoop
) -> Iterator[Callable[[list[str]], list[web.Request]]]:
    """Let a program greet as a runner, whose feed says the same whenever it is opened; it tells how often."""
    runners: list[web.AppRunner] = []

    def begin(messages: list[str]) -> list[web.Request]:
        opened: list[web.Request] = []

        async def answer(request: web.Request) -> web.StreamResponse:
            if not request.path.endswith("feed"):
                return web.json_response({"ok": True, "result": HELLO.model_dump(mode="json")})
            socket = web.WebSocketResponse()
            await socket.prepare(request)
            opened.append(request)
            for message in messages:
                await socket.send_str(message)
            async for _ in socket:
                pass
            return socket

        async def listen() -> None:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", answer)
            runners.append(web.AppRunner(app, shutdown_timeout=0.1))  # who still listens then is left
            await runners[-1].setup()
            await web.TCPSite(runners[-1], "127.0.0.1", 0).start()

        ready = asyncio.ensure_future(listen())
        until(qapp, ready.done, "it listens")
        port = runners[-1].addresses[0][1]
        write_control(folders, ControlFile(port=port, token="t", server_id="s", pid=os.getpid()))
        return opened

    yield begin
    for runner in runners:
        ended = asyncio.ensure_future(runner.cleanup())
        until(qapp, ended.done, "it ends")


Listening = Callable[[list[str]], list[web.Request]]


def test_a_feed_that_begins_without_a_snapshot_is_not_opened_anew_without_a_pause(
    qapp: QApplication,
    link: OpenLink,
    listening: Listening,
    folders: Folders,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "_FIRST_PAUSE_S", 10 * LIMIT_S)
    opened = listening([LogChange(cursor=5, lines=[]).to_json()])
    link(folders)
    until(qapp, lambda: bool(opened), "the feed is followed")

    async def ask() -> None:
        beside = RunnerLink(control_of(folders))
        for _ in range(30):
            await beside.command("runs.list", {}, LIMIT_S)
        await beside.close()

    asked = asyncio.ensure_future(ask())
    until(qapp, asked.done, "meanwhile other things are asked")
    assert len(opened) == 1


def test_the_window_is_drawn_while_messages_come_without_end(
    qapp: QApplication, link: OpenLink, listening: Listening, folders: Folders
) -> None:
    snapshot = Snapshot(cursor=0, status=Status(server=ServerStatus(reachable=True)))
    lines = [LogLine(service="trainer", number=1, text="x")]
    listening([snapshot.to_json(), *(LogChange(cursor=one, lines=lines).to_json() for one in range(1, 501))])
    made = link(folders)
    turns: list[int] = []
    seen: list[int] = []
    made.feed.log_arrived.connect(lambda _: seen.append(len(turns)))
    timer = QTimer(interval=0)
    timer.timeout.connect(lambda: turns.append(0))
    timer.start()
    until(qapp, lambda: len(seen) == 500, "all of it is read")
    timer.stop()
    assert max(Counter(seen).values()) < 50, "so many came in one turn"
