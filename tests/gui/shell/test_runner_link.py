"""One connection, before programs that are no runners."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from soulsgui.errors import ServerUnreachableError
from soulsgui.gui.runner_link import RunnerLink
from soulsgui.wire.control import ControlFile, LogChange

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


def telling(*messages: str) -> Handler:
    """A feed that says this and ends."""

    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        for message in messages:
            await socket.send_str(message)
        await socket.close()
        return socket

    return handle


@pytest.mark.parametrize("answer", [{"result": {}}, {"result": {"version": 3}}, {}, []])
async def test_a_program_that_greets_otherwise_is_no_runner(listen: Listen, answer: object) -> None:
    async def handle(_: web.Request) -> web.Response:
        return web.json_response(answer)

    link = await listen(handle)
    with pytest.raises(ServerUnreachableError):
        await link.hello(5.0)


@pytest.mark.parametrize("message", ["welcome", "[]", "{}", '{"cursor": "one"}', '{"cursor": null}', "7"])
async def test_a_feed_without_cursors_is_no_runners(listen: Listen, message: str) -> None:
    link = await listen(telling(message))
    with pytest.raises(ServerUnreachableError, match="not a runner"):
        [one async for one in link.follow(None)]


async def test_a_message_that_only_a_newer_runner_knows_counts_as_read(listen: Listen) -> None:
    link = await listen(telling(json.dumps({"kind": "weather", "cursor": 7, "rain": True})))
    assert [one async for one in link.follow(None)] == [LogChange(cursor=7, lines=[])]
