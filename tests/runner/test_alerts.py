"""Alerts as a webhook receives them, and what is never told."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from soulsgui.config.paths import Folders
from soulsgui.config.sections.server import AlertSettings
from soulsgui.runner.alerts import Alerts
from soulsgui.runner.events import EventLog
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import Empty, Event, RunStatus
from tests.runner.running import call, new_runner, opened, until

_SECRET = "token-of-a-webhook"


class Hook:
    """A webhook: what came, and with which status it answers."""

    def __init__(self) -> None:
        self.came: asyncio.Queue[tuple[dict[str, str], bytes]] = asyncio.Queue()
        self.status = 204
        self.url = ""

    async def take(self, request: web.Request) -> web.Response:
        await self.came.put((dict(request.headers), await request.read()))
        return web.Response(status=self.status, headers={"Location": "/elsewhere"})


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    hook = Hook()
    app = web.Application()
    app.router.add_post(f"/{_SECRET}", hook.take)
    async with TestServer(app) as server:
        hook.url = str(server.make_url(f"/{_SECRET}"))
        yield hook


@pytest.fixture
def log(folders: Folders) -> EventLog:
    folders.server.mkdir(parents=True)
    return EventLog(folders.server / "events.jsonl", lambda event: None)


def _event(what: str = "@everyone `x` <b>&", **fields: Any) -> Event:
    return Event(number=1, time=1.0, level="error", what=what, topic="divergence", run_id="r", **fields)


@pytest.mark.parametrize("kind", ["generic", "ntfy", "discord", "slack"])
async def test_each_kind_gets_text_that_is_no_markup_and_calls_nobody(hook: Hook, kind: Any) -> None:
    await Alerts(AlertSettings(webhook=hook.url, format=kind)).send(_event(cause="why", remedy="do"))
    headers, body = await hook.came.get()
    text = "@everyone `x` <b>&\nwhy\ndo\nrun r"
    if kind == "ntfy":
        assert body.decode() == text
        assert headers["Priority"] == "urgent"
        return
    told = json.loads(body)
    if kind == "generic":
        assert (told["text"], told["topic"], told["level"]) == (text, "divergence", "error")
    elif kind == "discord":
        assert told["allowed_mentions"] == {"parse": []}
        assert told["content"] == "```\n@everyone 'x' <b>&\nwhy\ndo\nrun r\n```"
    else:
        assert told["blocks"][0]["text"] == {"type": "plain_text", "text": text, "emoji": False}
        assert "&lt;b&gt;&amp;" in told["text"]


async def test_only_what_is_wanted_is_sent_once_and_not_too_often(hook: Hook) -> None:
    alerts = Alerts(AlertSettings(webhook=hook.url, on=["divergence"], per_hour=2))
    sending = asyncio.create_task(alerts.send_waiting())
    for what in ("a", "a", "b", "c", "d"):
        alerts.take(_event(what))
    alerts.take(_event("no alert").model_copy(update={"topic": ""}))
    alerts.take(_event("not wanted").model_copy(update={"topic": "goal"}))
    found = [json.loads((await hook.came.get())[1])["text"].splitlines()[0] for _ in range(2)]
    assert found == ["a (2 more were left out: alerts.per_hour)", "b"]
    sending.cancel()
    assert hook.came.empty()


async def test_how_many_were_left_out_is_told_until_an_alert_is_taken(hook: Hook) -> None:
    alerts = Alerts(AlertSettings(webhook=hook.url, on=["divergence"], per_hour=1))
    alerts.take(_event("a"))
    alerts.take(_event("b"))
    found = []
    for hook.status in (500, 204, 204):
        with contextlib.suppress(Refused):
            await alerts.send(_event("c"))
        found.append(b"1 more were left out" in (await hook.came.get())[1])
    assert found == [True, True, False]


async def test_what_fails_is_told_without_the_address(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    told = []
    for url, status in ((hook.url, 404), (hook.url, 302), (f"http://127.0.0.1:1/{_SECRET}", 0)):
        hook.status = status
        with pytest.raises(Refused) as caught:
            await Alerts(AlertSettings(webhook=url)).send(_event())
        told.append(f"{caught.value}{caught.value.__cause__}{caught.value.remedy}")
    assert "answered 404" in told[0]
    assert "answered 302" in told[1]
    assert "can't be reached" in told[2]
    logged = [one.getMessage() for one in caplog.records if one.name.startswith("soulsgui")]
    assert _SECRET not in "".join(told + logged)


def test_a_run_that_stands_still_is_told_once(log: EventLog) -> None:
    alerts = Alerts(AlertSettings(no_progress_minutes=1))
    run = RunStatus(id="r", state="running", env_steps=5)
    for now in (0.0, 59.0, 61.0, 200.0):
        alerts.look(run, now, log)
    assert [event.topic for event in log.since(0)] == ["no_progress"]
    alerts.look(run.model_copy(update={"env_steps": 6}), 201.0, log)
    alerts.look(run.model_copy(update={"env_steps": 6, "state": "paused"}), 500.0, log)
    assert [event.topic for event in log.since(1)] == [""]


@pytest.mark.processes
async def test_the_command_sends_one_and_the_secret_stays_where_it_is(folders: Folders, hook: Hook) -> None:
    async with opened(new_runner(folders)) as runner:
        assert "No webhook" in runner.status().allowed["alerts.test"]
        with pytest.raises(Refused, match="No webhook"):
            await runner.command("alerts.test", Empty())
        await call(runner, "config.save", changes={"alerts.webhook": hook.url})
        await until(lambda: not runner.status().allowed["alerts.test"])
        sent = await runner.command("alerts.test", Empty())
        assert sent.status == 204
        assert json.loads((await hook.came.get())[1])["topic"] == "test"
        runner.events.add("error", "trainer is given up", topic="given_up")
        assert json.loads((await hook.came.get())[1])["topic"] == "given_up"
    written = [path.read_bytes() for path in folders.data.rglob("*") if path.is_file()]
    assert not any(_SECRET.encode() in text for text in written)
