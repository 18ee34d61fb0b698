import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from soulsgui.errors import SoulsGuiError
from soulsgui.runner.api import jobs as jobs_module
from soulsgui.runner.api.feed import FeedBuffer
from soulsgui.runner.api.jobs import Files, Jobs, RunningJob
from soulsgui.runner.api.server import ControlServer
from soulsgui.runner.audit import AuditLog
from soulsgui.runner.refusal import Refused
from soulsgui.system import free_port
from soulsgui.wire import http_guard
from soulsgui.wire.control import (
    ClientCount,
    ErrorCode,
    Event,
    EventChange,
    JobParams,
    LocalClientsParams,
    Params,
    Picture,
    ServiceStatus,
    Snapshot,
    Status,
)
from tests.faults.waiting import LIMIT_S
from tests.runner.children import until

TOKEN = "the-token"
ENDED = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


class FakeRunner:
    """Answers `service.local_clients` by its count, fails where it is told to."""

    def __init__(self, folder: Path) -> None:
        self.audit = AuditLog(folder / "audit.jsonl", lambda entry: None)
        self.feed = FeedBuffer(lambda cursor: Snapshot(cursor=cursor, status=Status()), first_cursor=0)
        self.jobs = Jobs(lambda job: None, Files(folder / "files"))
        self.commands: list[tuple[str, Params]] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.services: list[ServiceStatus] = []

    def status(self, with_clients: bool = True) -> Status:
        return Status(services=self.services if not with_clients else [])

    async def command(self, name: str, params: Params) -> Any:
        self.commands.append((name, params))
        if self.error is not None:
            raise self.error
        if isinstance(params, JobParams):
            return self.jobs.start(name, self.work)
        if not isinstance(params, LocalClientsParams):
            return None
        return ClientCount(count=params.count)

    async def work(self, job: RunningJob) -> None:
        job.new_file("what was mäde.txt").write_text("whole")
        await self.gate.wait()

    def tell(self, what: str = "x") -> None:
        self.feed.push(EventChange, event=Event(number=1, time=0.0, level="info", what=what))


class Api:
    """A server with a fake runner, and a window that has its token."""

    def __init__(self, fake: FakeRunner, server: ControlServer, web: aiohttp.ClientSession) -> None:
        self.fake, self.server, self.web = fake, server, web
        self.url = f"http://127.0.0.1:{server.port}/v1"

    async def ask(self, method: str, page: str, **request: Any) -> tuple[int, dict[str, Any]]:
        async with self.web.request(method, f"{self.url}/{page}", **request) as response:
            return response.status, await response.json()

    async def post(self, name: str, **request: Any) -> tuple[int, dict[str, Any]]:
        return await self.ask("POST", f"commands/{name}", **request)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    fake = FakeRunner(tmp_path)
    server = ControlServer(cast(Any, fake), TOKEN)
    await server.start(0)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as web:
        yield Api(fake, server, web)
    await fake.jobs.close()
    fake.feed.close()
    await server.close()


async def test_status_job_and_command_are_told(api: Api) -> None:
    _, status = await api.ask("GET", "status")
    assert Status.model_validate(status) == Status()
    assert (await api.ask("GET", "jobs/unknown"))[0] == 404
    answer = await api.post("service.local_clients", json={"count": 3})
    assert answer == (200, {"ok": True, "result": {"count": 3}})
    assert api.fake.commands == [("service.local_clients", LocalClientsParams(count=3))]


async def test_a_job_and_what_it_made_are_told_and_files_can_be_brought(api: Api) -> None:
    begun = (await api.post("job.cancel", json={"job": "x"}))[1]["result"]
    assert (await api.ask("GET", f"jobs/{begun['id']}"))[1]["state"] == "running"
    assert [entry.outcome for entry in api.fake.audit.since(0, 500)] == [""]
    api.fake.gate.set()
    await until(lambda: api.fake.jobs.get(begun["id"]).state == "done")
    await until(lambda: [entry.outcome for entry in api.fake.audit.since(0, 500)] == ["done"])
    (file,) = (await api.ask("GET", f"jobs/{begun['id']}"))[1]["files"]
    async with api.web.get(f"{api.url}/files/{file['id']}") as response:
        assert await response.read() == b"whole"
        assert response.content_disposition.filename == "what was mäde.txt"
    _, brought = await api.ask("POST", "files", data=b"x" * (5 * 2**20))
    assert api.fake.jobs.files.get(brought["id"]).stat().st_size == brought["size_bytes"] == 5 * 2**20
    for page in ("jobs/unknown", "files/unknown", "files/..%2F..%2Faudit.jsonl"):
        assert (await api.ask("GET", page))[0] == 404


async def test_a_job_that_was_cancelled_did_not_fail(api: Api) -> None:
    begun = (await api.post("job.cancel", json={"job": "x"}))[1]["result"]
    await api.fake.jobs.cancel(begun["id"])
    await until(lambda: [entry.words() for entry in api.fake.audit.since(0, 500)] == ["cancelled"])


async def test_a_file_that_the_disk_has_no_room_for_leaves_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jobs_module, "free_disk_bytes", lambda path: 10**6)
    status, answer = await api.ask("POST", "files", data=b"x")
    assert (status, answer["error"]["code"]) == (500, "failed")
    assert "not enough space" in answer["error"]["message"]
    assert not list((tmp_path / "files").iterdir())


async def test_commands_that_change_something_stand_in_the_audit_log(api: Api) -> None:
    await api.post("service.local_clients", json={"count": 3}, headers={"User-Agent": "SoulsGUI window"})
    api.fake.error = Refused(ErrorCode.NOT_NOW, "No run is active.")
    await api.post("run.stop", headers={"User-Agent": "curl/8"})
    await api.post("config.check")
    await api.post("service.local_clients", json={"count": "many"})
    first, second = api.fake.audit.since(0, 500)
    assert (first.command, first.params, first.origin) == (
        "service.local_clients", "count=3", "SoulsGUI window",
    )  # fmt: skip
    assert (first.outcome, second.outcome, second.error) == ("done", "not_now", "No run is active.")
    assert second.origin == "curl/8"
    assert first.peer.startswith("127.0.0.1:")
    assert first.program.endswith(f"({os.getpid()})")


_ASKS = """
import sys, urllib.error, urllib.request
from pathlib import Path
from soulsgui.system import confine
url, token, folder = sys.argv[1:]
if folder:
    confine(Path(folder))
request = urllib.request.Request(url, b'{"count": 3}', {"Authorization": f"Bearer {token}"})
try:
    print(urllib.request.urlopen(request).read().decode())
except urllib.error.HTTPError as error:
    print(error.read().decode())
"""


@pytest.mark.parametrize(
    "who",
    [
        "a program of the user",
        "started by a client",
        pytest.param(
            "confined, its parents gone", marks=pytest.mark.skipif(sys.platform != "linux", reason="Landlock")
        ),
    ],
)
async def test_what_a_client_runs_gives_no_commands(api: Api, tmp_path: Path, who: str) -> None:
    if who == "started by a client":
        api.fake.services = [ServiceStatus(name="client", kind="client", state="running", pid=os.getpid())]
    folder = str(tmp_path / "writable") if who.startswith("confined") else ""
    url = f"{api.url}/commands/service.local_clients"
    asks = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ASKS, url, TOKEN, folder, stdout=asyncio.subprocess.PIPE
    )
    answer = json.loads((await asks.communicate())[0])
    (entry,) = api.fake.audit.since(0, 500)
    assert answer["ok"] == (who == "a program of the user") == bool(api.fake.commands)
    if not answer["ok"]:
        assert answer["error"]["code"] == entry.outcome == "not_allowed"
        assert "plays for a server" in answer["error"]["message"]


async def test_who_does_not_wait_for_its_answer_gives_no_commands(api: Api) -> None:
    """Else a program that may give none would be gone before it is looked for."""
    head = "POST /v1/commands/service.local_clients HTTP/1.1\r\nHost: localhost\r\nContent-Length: 12\r\n"
    asks = f'{head}Authorization: Bearer {TOKEN}\r\n\r\n{{"count": 3}}'.encode()
    with socket.create_connection(("127.0.0.1", api.server.port)) as gone:
        gone.sendall(asks)
    await until(lambda: api.fake.audit.since(0, 500))
    await until(lambda: api.fake.audit.since(0, 500)[-1].outcome)
    assert bool(api.fake.commands) == (sys.platform != "linux")


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"],
)
@pytest.mark.parametrize("path", ["/status", "/feed", "/jobs/known", "/files/known", "/nowhere"])
async def test_nothing_is_told_without_the_token(api: Api, path: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with aiohttp.ClientSession() as session, session.get(api.url + path, headers=headers) as response:
        assert response.status == 401
        assert (await response.json())["error"]["code"] == "not_allowed"


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        *(("Host", name, 403) for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "")),
        *(("Host", name, 200) for name in ("localhost:5555", "127.0.0.1:1234", "[::1]:80", "localhost")),
        *(("Origin", f"http://{name}", 403) for name in ("evil.example", "localhost:1")),
        *(("Origin", name, 403) for name in ("https://127.0.0.1", "null")),
    ],
)
async def test_web_pages_of_others_are_refused_and_tunnels_from_any_port_are_let_in(
    api: Api, header: str, value: str, status: int
) -> None:
    for page in ("status", "feed") if status == 403 else ("status",):
        assert (await api.ask("GET", page, headers={header: value}))[0] == status


@pytest.mark.parametrize(
    ("name", "request_", "status", "said"),
    [
        ("run.strat", {"json": {}}, 404, "run.strat"),
        (
            "service.local_clients",
            {"json": {"count": 5000}},
            400,
            "count: should be less than or equal",
        ),
        ("service.local_clients", {"json": {"count": 1, "colour": "red"}}, 400, "colour: Extra inputs"),
        ("service.local_clients", {"json": {}}, 400, "count: Field required"),
        ("service.local_clients", {"data": b"{"}, 400, "JSON"),
        ("service.local_clients", {"data": b"[1]"}, 400, "list"),
        ("service.local_clients", {"data": b"\xff\xfe"}, 400, "JSON"),
    ],
)
async def test_wrong_requests_are_answered_in_words(
    api: Api, name: str, request_: dict[str, Any], status: int, said: str
) -> None:
    found, answer = await api.post(name, **request_)
    error = answer["error"]
    assert (found, answer["ok"], error["code"]) == (status, False, "bad_request")
    assert said in error["message"]
    assert status != 404 or error["remedy"].startswith("Did you mean run.start")
    assert api.fake.commands == []


@pytest.mark.allow_warnings
async def test_requests_that_cannot_be_read_are_one_line_now_and_then(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    for length in (100, -1):
        _, writer = await asyncio.open_connection(*api.url.split("/")[2].split(":"))
        heads = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}"
        writer.write(f"POST /v1/commands/service.local_clients HTTP/1.1\r\n{heads}\r\n\r\n{{".encode())
        await api.post("service.local_clients", json={"count": 1})  # by then the one before is being read
        writer.close()
        await until(lambda: any(record.levelno >= logging.WARNING for record in caplog.records))
        await api.post("service.local_clients", json={"count": 1})
    (line,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (line.getMessage(), line.exc_info) == ("a request can't be read: Connection lost", None)


@pytest.mark.allow_warnings
async def test_refusals_travel_with_code_and_remedy_and_a_defect_is_an_answer_and_a_line_of_the_log(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    for code, status in ((ErrorCode.NOT_NOW, 409), (ErrorCode.NO_ANSWER, 504)):
        api.fake.error = Refused(code, "not like this", "like that")
        found, answer = await api.post("server.hello")
        told = {
            "code": code.value,
            "message": "not like this",
            "remedy": "like that",
            "asks": None,
            "mistakes": {},
        }
        assert (found, answer["error"]) == (status, told)
    api.fake.error = KeyError("oops")
    found, answer = await api.post("server.hello")
    assert (found, answer["error"]["code"]) == (500, "failed")
    assert "KeyError" in answer["error"]["message"]
    assert "KeyError: 'oops'" in caplog.text, "with its traceback"
    for method, page, status, code in (
        ("GET", "nowhere", 404, "not_found"),
        ("POST", "status", 405, "bad_request"),
    ):
        found, answer = await api.ask(method, page)
        assert (found, answer["error"]["code"]) == (status, code)


async def test_feed_resumes_from_a_cursor(api: Api) -> None:
    async with api.web.ws_connect(f"{api.url}/feed") as socket:
        assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"
        api.fake.tell()
        api.fake.tell()
        assert [(await socket.receive_json(timeout=LIMIT_S))["cursor"] for _ in range(2)] == [1, 2]
    async with api.web.ws_connect(f"{api.url}/feed?cursor=1") as socket:
        message = await socket.receive_json(timeout=LIMIT_S)
        assert (message["type"], message["cursor"]) == ("event", 2)
    for never_ours in ("x", "\u00b2", "1" * 5000):
        async with api.web.ws_connect(f"{api.url}/feed?cursor={never_ours}") as socket:
            assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"


async def test_window_that_does_not_read_costs_no_memory_and_ends_with_the_runner(api: Api) -> None:
    feed, kinds = api.fake.feed, set()
    async with api.web.ws_connect(f"{api.url}/feed") as socket:
        assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"
        for _ in range(2000):
            api.fake.tell("x" * 100_000)
            await asyncio.sleep(0)
        assert feed._bytes <= 8 * 2**20
        message: dict[str, Any] = {"cursor": None}
        async with asyncio.timeout(LIMIT_S):
            while message["cursor"] != feed.cursor:
                message = await socket.receive_json()
                kinds.add(message["type"])
        feed.close()
        assert (await socket.receive(timeout=LIMIT_S)).type in ENDED
    assert kinds == {"event", "snapshot"}


async def test_remembered_port_is_taken_again_while_it_is_free(tmp_path: Path) -> None:
    port, fake = free_port(), cast(Any, FakeRunner(tmp_path))
    first, second, third = (ControlServer(fake, TOKEN) for _ in range(3))
    await first.start(0, remembered=port)
    await second.start(0, remembered=port)
    assert first.port == port != second.port
    with pytest.raises(SoulsGuiError, match=f"Port {port} .* is taken"):
        await third.start(port)
    await first.close()
    await second.close()


async def test_who_shows_no_token_is_ended_soon_and_keeps_nobody_out(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_guard, "_STRANGER_S", 1.0)
    port = api.server.port
    async with api.web.ws_connect(f"{api.url}/feed") as window:
        assert "snapshot" in (await window.receive_str())
        silent = await asyncio.open_connection("127.0.0.1", port)
        slow = await asyncio.open_connection("127.0.0.1", port)
        slow[1].write(b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n")  # and never the rest
        crowd = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
        assert (await api.ask("GET", "status"))[0] == 200
        async with asyncio.timeout(LIMIT_S):
            for reader, writer in (silent, slow, *crowd):
                assert await reader.read() == b""
                writer.close()
        assert (await api.ask("GET", "status"))[0] == 200
        api.fake.tell("still here")
        assert "still here" in await window.receive_str(), "who has shown it stays"


async def test_of_too_many_without_the_token_the_oldest_are_ended(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_guard, "_STRANGER_S", 1e9)
    monkeypatch.setattr(http_guard, "_MOST_STRANGERS", 20)
    server = api.server._app_runner.server
    assert server is not None
    first = [await asyncio.open_connection("127.0.0.1", api.server.port) for _ in range(20)]
    deaf = first[0][1]
    # Asks and asks, and reads no answer: what waits for it must not hold it open.
    deaf.write(2000 * b"GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    await asyncio.sleep(1.0)  # they are seen before the others come
    later = [await asyncio.open_connection("127.0.0.1", api.server.port) for _ in range(20)]
    await until(lambda: len(server.connections) <= 20)
    for reader, writer in first[1:]:
        assert await reader.read() == b""
        writer.close()
    assert not any(reader.at_eof() for reader, _ in later)
    for _, writer in (first[0], *later):
        writer.close()


async def test_a_window_says_which_job_it_watches(api: Api) -> None:
    feed = api.fake.feed
    async with api.web.ws_connect(f"{api.url}/feed") as socket:
        await socket.receive_json(timeout=LIMIT_S)
        wrong = ("{", "[]", '{"watch": "j"}', '{"watch": {"j": -1}}', '{"watch": {"j": NaN}}')
        for words in (*wrong, '{"watch": {"j": 0.5}}'):
            await socket.send_str(words)
        await until(lambda: feed.pace("j") == 0.5)
        feed.show("j", Picture(episode=0, step=7, return_so_far=1.5, said=[0.5, None], jpeg="AAAA"))
        shown = await socket.receive_json(timeout=LIMIT_S)
        assert (shown["type"], shown["job"], shown["picture"]["said"]) == ("picture", "j", [0.5, None])
        await socket.send_json({"watch": {}})
        await until(lambda: feed.pace("j") is None)
        await socket.send_str("x" * 5000)
        assert (await socket.receive(timeout=LIMIT_S)).type in ENDED
    await until(lambda: feed.followers == 0)
