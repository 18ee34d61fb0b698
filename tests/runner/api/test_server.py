import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import aiohttp
import pytest

from soulsgui.errors import SoulsGuiError
from soulsgui.runner.api.feed import FeedBuffer
from soulsgui.runner.api.server import ControlServer
from soulsgui.runner.refusal import Refused
from soulsgui.system import free_port
from soulsgui.wire.control import (
    ClientCount,
    ErrorCode,
    Event,
    EventChange,
    Job,
    LocalClientsParams,
    Params,
    Snapshot,
    Status,
)
from tests.faults.waiting import LIMIT_S

TOKEN = "the-token"
ENDED = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)


class FakeRunner:
    """Answers `service.local_clients` by its count, fails where it is told to."""

    def __init__(self) -> None:
        self.feed = FeedBuffer(lambda cursor: Snapshot(cursor=cursor, status=Status()), first_cursor=0)
        self.jobs = {"known": Job(id="known", command="run.start", state="running")}
        self.commands: list[tuple[str, Params]] = []
        self.error: Exception | None = None

    def status(self) -> Status:
        return Status()

    async def command(self, name: str, params: Params) -> Any:
        self.commands.append((name, params))
        if self.error is not None:
            raise self.error
        assert isinstance(params, LocalClientsParams)
        return ClientCount(count=params.count)

    def tell(self, what: str = "x") -> None:
        self.feed.push(EventChange, event=Event(number=1, time=0.0, level="info", what=what))


@pytest.fixture
async def fake() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
async def url(fake: FakeRunner) -> AsyncIterator[str]:
    server = ControlServer(cast(Any, fake), TOKEN)
    await server.start(0)
    yield f"http://127.0.0.1:{server.port}/v1"
    fake.feed.close()
    await server.close()


@pytest.fixture
async def web() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:
        yield session


async def post(web: aiohttp.ClientSession, url: str, name: str, **request: Any) -> tuple[int, dict[str, Any]]:
    async with web.post(f"{url}/commands/{name}", **request) as response:
        return response.status, await response.json()


async def test_status_job_and_command_are_told(
    web: aiohttp.ClientSession, url: str, fake: FakeRunner
) -> None:
    async with web.get(f"{url}/status") as response:
        assert Status.model_validate(await response.json()) == Status()
    async with web.get(f"{url}/jobs/known") as response:
        assert (await response.json())["state"] == "running"
    async with web.get(f"{url}/jobs/unknown") as response:
        assert response.status == 404
    status, answer = await post(web, url, "service.local_clients", json={"count": 3})
    assert (status, answer) == (200, {"ok": True, "result": {"count": 3}})
    assert fake.commands == [("service.local_clients", LocalClientsParams(count=3))]


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"],
)
@pytest.mark.parametrize("path", ["/status", "/feed", "/jobs/known", "/nowhere"])
async def test_nothing_is_told_without_the_token(url: str, path: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with aiohttp.ClientSession() as session, session.get(url + path, headers=headers) as response:
        assert response.status == 401
        assert (await response.json())["error"]["code"] == "not_allowed"


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        *(("Host", name, 403) for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "")),
        *(("Host", name, 200) for name in ("localhost:5555", "127.0.0.1:1234", "[::1]:80", "localhost")),
        *(("Origin", f"http://{name}", 403) for name in ("evil.example", "localhost:1")),
        ("Origin", "https://127.0.0.1", 403),
        ("Origin", "null", 403),
    ],
)
async def test_web_pages_of_others_are_refused_and_tunnels_from_any_port_are_let_in(
    web: aiohttp.ClientSession, url: str, header: str, value: str, status: int
) -> None:
    for page in ("status", "feed") if status == 403 else ("status",):
        async with web.get(f"{url}/{page}", headers={header: value}) as response:
            assert response.status == status


@pytest.mark.parametrize(
    ("name", "request_", "status", "said"),
    [
        ("run.strat", {"json": {}}, 404, "run.strat"),
        ("service.local_clients", {"json": {"count": -1}}, 400, "count"),
        ("service.local_clients", {"json": {"count": 1, "colour": "red"}}, 400, "colour"),
        ("service.local_clients", {"json": {}}, 400, "count: Field required"),
        ("service.local_clients", {"data": b"{"}, 400, "JSON"),
        ("service.local_clients", {"data": b"[1]"}, 400, "list"),
        ("service.local_clients", {"data": b"\xff\xfe"}, 400, "JSON"),
    ],
)
async def test_wrong_requests_are_answered_in_words(
    web: aiohttp.ClientSession,
    url: str,
    fake: FakeRunner,
    name: str,
    request_: dict[str, Any],
    status: int,
    said: str,
) -> None:
    found, answer = await post(web, url, name, **request_)
    error = answer["error"]
    assert (found, answer["ok"], error["code"]) == (status, False, "bad_request")
    assert said in error["message"]
    assert status != 404 or error["remedy"] == "Did you mean run.start?"
    assert fake.commands == []


@pytest.mark.allow_warnings
async def test_refusals_travel_with_code_and_remedy_and_a_defect_of_a_command_is_an_answer(
    web: aiohttp.ClientSession, url: str, fake: FakeRunner
) -> None:
    for code, status in ((ErrorCode.NOT_NOW, 409), (ErrorCode.NO_ANSWER, 504)):
        fake.error = Refused(code, "not like this", "like that")
        found, answer = await post(web, url, "server.hello")
        told = {"code": code.value, "message": "not like this", "remedy": "like that"}
        assert (found, answer["error"]) == (status, told)
    fake.error = KeyError("oops")
    found, answer = await post(web, url, "server.hello")
    assert (found, answer["error"]["code"]) == (500, "failed")
    assert "KeyError" in answer["error"]["message"]


async def test_unknown_page_and_wrong_method_are_answered_in_json(
    web: aiohttp.ClientSession, url: str
) -> None:
    for method, page, answer in (
        ("GET", "nowhere", (404, "not_found")),
        ("POST", "status", (405, "bad_request")),
    ):
        async with web.request(method, f"{url}/{page}") as response:
            assert (response.status, (await response.json())["error"]["code"]) == answer


async def test_feed_resumes_from_a_cursor(web: aiohttp.ClientSession, url: str, fake: FakeRunner) -> None:
    async with web.ws_connect(f"{url}/feed") as socket:
        assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"
        fake.tell()
        fake.tell()
        assert [(await socket.receive_json(timeout=LIMIT_S))["cursor"] for _ in range(2)] == [1, 2]
    async with web.ws_connect(f"{url}/feed?cursor=1") as socket:
        message = await socket.receive_json(timeout=LIMIT_S)
        assert (message["type"], message["cursor"]) == ("event", 2)
    for never_ours in ("x", "\u00b2", "1" * 5000):
        async with web.ws_connect(f"{url}/feed?cursor={never_ours}") as socket:
            assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"


async def test_window_that_does_not_read_costs_no_memory_and_ends_with_the_runner(
    web: aiohttp.ClientSession, url: str, fake: FakeRunner
) -> None:
    async with web.ws_connect(f"{url}/feed") as socket:
        assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"
        for _ in range(2000):
            fake.tell("x" * 100_000)
            await asyncio.sleep(0)
        assert fake.feed._bytes <= 8 * 2**20
        last = fake.feed.cursor
        kinds = set()
        async with asyncio.timeout(LIMIT_S):
            while True:
                message = await socket.receive_json()
                kinds.add(message["type"])
                if message["cursor"] == last:
                    break
        fake.feed.close()
        assert (await socket.receive(timeout=LIMIT_S)).type in ENDED
    assert kinds == {"event", "snapshot"}


async def test_remembered_port_is_taken_again_while_it_is_free(fake: FakeRunner) -> None:
    port = free_port()
    first, second, third = (ControlServer(cast(Any, fake), TOKEN) for _ in range(3))
    await first.start(0, remembered=port)
    await second.start(0, remembered=port)
    assert first.port == port != second.port
    with pytest.raises(SoulsGuiError, match=f"Port {port} .* is taken"):
        await third.start(port)
    await first.close()
    await second.close()
