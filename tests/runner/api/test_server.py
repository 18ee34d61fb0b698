"""The control API over real HTTP: who may ask, what is answered, the feed."""

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
    Hello,
    Job,
    LocalClientsParams,
    Params,
    Snapshot,
    Status,
)
from tests.faults.waiting import LIMIT_S

TOKEN = "the-token"


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
        if name == "server.hello":
            return Hello(
                version="1", server_id="s", pid=1, started=0.0, data_dir="", config_dir="", capabilities=[]
            )
        assert isinstance(params, LocalClientsParams)
        return ClientCount(count=params.count)


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


async def test_status_job_and_command_are_answered(
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
    status, answer = await post(web, url, "server.hello")
    assert answer["result"]["server_id"] == "s"


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


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
async def test_pages_that_point_their_name_at_us_are_refused(
    web: aiohttp.ClientSession, url: str, host: str
) -> None:
    async with web.get(f"{url}/status", headers={"Host": host}) as response:
        assert response.status == 403


@pytest.mark.parametrize("host", ["localhost:5555", "127.0.0.1:1234", "[::1]:80", "localhost"])
async def test_tunnels_from_any_port_are_let_in(web: aiohttp.ClientSession, url: str, host: str) -> None:
    async with web.get(f"{url}/status", headers={"Host": host}) as response:
        assert response.status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1"])
async def test_web_pages_of_others_are_refused(web: aiohttp.ClientSession, url: str, origin: str) -> None:
    async with web.get(f"{url}/feed", headers={"Origin": origin}) as response:
        assert response.status == 403


@pytest.mark.parametrize(
    ("name", "request_", "status", "said"),
    [
        ("run.fly", {"json": {}}, 404, "run.fly"),
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
    assert found == status
    assert not answer["ok"]
    assert said in answer["error"]["message"]
    assert answer["error"]["code"] == "bad_request"
    assert fake.commands == []


@pytest.mark.allow_warnings
async def test_refusals_travel_with_code_and_remedy_and_a_defect_of_a_command_is_an_answer(
    web: aiohttp.ClientSession, url: str, fake: FakeRunner
) -> None:
    _, answer = await post(web, url, "run.strat", json={})
    assert answer["error"]["remedy"] == "Did you mean run.start?"
    for code, status in ((ErrorCode.NOT_NOW, 409), (ErrorCode.NO_ANSWER, 504)):
        fake.error = Refused(code, "not like this", "like that")
        found, answer = await post(web, url, "server.hello")
        told = {"code": code.value, "message": "not like this", "remedy": "like that"}
        assert (found, answer["error"]) == (status, told)
    fake.error = KeyError("oops")
    found, answer = await post(web, url, "server.hello")
    assert (found, answer["error"]["code"]) == (500, "failed")
    assert "KeyError" in answer["error"]["message"]


async def test_unknown_page_and_wrong_method_are_answered_as_json(
    web: aiohttp.ClientSession, url: str
) -> None:
    async with web.get(f"{url}/nowhere") as response:
        assert (response.status, (await response.json())["error"]["code"]) == (404, "not_found")
    async with web.post(f"{url}/status") as response:
        assert (response.status, (await response.json())["error"]["code"]) == (405, "bad_request")


async def test_feed_begins_with_a_snapshot_and_resumes_from_a_cursor(
    web: aiohttp.ClientSession, url: str, fake: FakeRunner
) -> None:
    async with web.ws_connect(f"{url}/feed") as socket:
        assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"
        tell(fake)
        tell(fake)
        assert [(await socket.receive_json(timeout=LIMIT_S))["cursor"] for _ in range(2)] == [1, 2]
    async with web.ws_connect(f"{url}/feed?cursor=1") as socket:
        message = await socket.receive_json(timeout=LIMIT_S)
        assert (message["type"], message["cursor"]) == ("event", 2)
    for never_ours in ("x", "\u00b2", "1" * 5000):
        async with web.ws_connect(f"{url}/feed?cursor={never_ours}") as socket:
            assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"


def tell(fake: FakeRunner) -> None:
    fake.feed.push(EventChange, event=Event(number=1, time=0.0, level="info", what="x"))


async def test_window_that_does_not_read_costs_no_memory(
    web: aiohttp.ClientSession, url: str, fake: FakeRunner
) -> None:
    async with web.ws_connect(f"{url}/feed") as socket:
        assert (await socket.receive_json(timeout=LIMIT_S))["type"] == "snapshot"
        long = Event(number=1, time=0.0, level="info", what="x" * 100_000)
        for _ in range(2000):
            fake.feed.push(EventChange, event=long)
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
    assert kinds == {"event", "snapshot"}


async def test_feed_ends_when_the_runner_does(web: aiohttp.ClientSession, url: str, fake: FakeRunner) -> None:
    async with web.ws_connect(f"{url}/feed") as socket:
        await socket.receive_json(timeout=LIMIT_S)
        fake.feed.close()
        assert (await socket.receive(timeout=LIMIT_S)).type in (
            aiohttp.WSMsgType.CLOSE,
            aiohttp.WSMsgType.CLOSED,
        )


async def test_remembered_port_is_taken_again_while_it_is_free(fake: FakeRunner) -> None:
    port = free_port()
    first = ControlServer(cast(Any, fake), TOKEN)
    await first.start(0, remembered=port)
    assert first.port == port
    second = ControlServer(cast(Any, fake), TOKEN)
    await second.start(0, remembered=port)
    assert second.port != port
    third = ControlServer(cast(Any, fake), TOKEN)
    with pytest.raises(SoulsGuiError, match=f"Port {port} .* is taken"):
        await third.start(port)
    await first.close()
    await second.close()
