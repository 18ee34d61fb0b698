"""The runner of client mode: every command of its API, with its effect on the client and its files."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator

import pytest

from soulsgui.config.paths import Folders
from soulsgui.errors import SoulsGuiError
from soulsgui.runner.join.app import ClientRunner, StateChanges
from soulsgui.runner.refusal import Refused
from soulsgui.system import free_port, is_private, process_identity
from soulsgui.wire.connection import Address
from soulsgui.wire.control import COMMANDS, ControlFile
from soulsgui.wire.messages.session import Wish
from tests.faults.waiting import LIMIT_S
from tests.runner.joining import NAME, client, comes_to_be, left_by_a_crash, service, wish
from tests.runner.running import call, following, opened, until

pytestmark = pytest.mark.usefixtures("fake_client")


@pytest.fixture
async def waiting(folders: Folders) -> AsyncIterator[ClientRunner]:
    """On a machine without a server."""
    async with opened(ClientRunner(folders, NAME)) as made:
        yield made


async def test_it_says_who_it_is_keeps_others_out_and_refuses_what_is_not_here(playing: ClientRunner) -> None:
    hello = await call(playing, "server.hello")
    assert hello["role"] == "client"
    assert set(hello["capabilities"]) < set(COMMANDS)
    assert "run.start" not in hello["capabilities"]
    with pytest.raises(Refused, match=r"run\.start is not a command"):
        await call(playing, "run.start")
    for command, params in (
        ("service.start", {"name": "trainer"}),
        ("service.stop", {"name": "redis"}),
        ("clients.pause", {"client": "somebody"}),
        ("clients.resume", {"client": "somebody"}),
        ("history.query", {"run": "another"}),
        ("history.logs", {"service": "oven"}),
    ):
        with pytest.raises(Refused):
            await call(playing, command, **params)
    folders = playing.folders
    for name in ("control.json", "server.json", "wish.json", "runner.json"):
        assert is_private(folders.client / name), name
    assert [path.name for path in folders.server.iterdir()] == ["redis.json"]
    before = (folders.client / "runner.json").read_bytes()
    with pytest.raises(SoulsGuiError, match=f"process {os.getpid()}"):
        await ClientRunner(folders, "another").open()
    assert (folders.client / "runner.json").read_bytes() == before
    assert ControlFile.load(folders.client / "control.json") == playing.control


async def test_own_episodes_are_told_gapless_and_the_switch_stops_the_client(playing: ClientRunner) -> None:
    def rows(told: list[str]) -> list[int]:
        changes = map(json.loads, told)
        return [row for one in changes if one["type"] == "rows" for row in one["rows"][0]["row"]]

    async with following(playing) as told:
        await until(lambda: len(rows(told)) >= 5)
        history = await call(playing, "history.query", metric="return", points=200_000)
        seen = rows(told)
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    assert history["row"] == list(range(1, history["last_row"] + 1))
    assert history["last_row"] >= seen[-1]
    status = playing.status()
    assert (status.run.id, status.run.env_id, status.run.state) == ("run-1", "Toy-v0", "running")
    assert client(playing).episodes == status.run.episodes >= 5

    old = service(playing).pid
    await call(playing, "clients.pause", client=NAME)
    await call(playing, "service.stop", name="client")
    assert service(playing).state == "stopped"
    assert process_identity(old or 0) is None
    with pytest.raises(Refused, match="does not help"):
        await call(playing, "clients.pause", client=NAME)
    await call(playing, "service.start", name="client")
    assert service(playing).state == "running"
    await comes_to_be(playing, "online")
    assert wish(playing) == "run"
    before = client(playing).episodes
    await until(lambda: client(playing).episodes > before)
    history = await call(playing, "history.query", metric="return", points=200_000)
    assert history["row"] == list(range(1, history["last_row"] + 1)), "another process goes on with the curve"


async def test_pauses_reach_the_client_and_outlive_its_death_and_a_restart(playing: ClientRunner) -> None:
    for after_episode, wanted in ((False, "pause"), (True, "pause_after_episode")):
        await call(playing, "clients.pause", client=NAME, after_episode=after_episode)
        assert wish(playing) == wanted
        await comes_to_be(playing, "paused")
        assert client(playing).wish == wanted
        await call(playing, "clients.resume", client=NAME)
        assert wish(playing) == "run"
        await comes_to_be(playing, "online")
    await call(playing, "clients.pause", client=NAME)
    old = service(playing).pid
    assert old is not None
    os.kill(old, 9)
    await until(lambda: service(playing).pid not in (None, old))
    await until(lambda: service(playing).state == "running" and client(playing).state == "paused")
    assert service(playing).restarts == 1
    events = (await call(playing, "history.events"))["events"]
    assert "client ended unexpectedly" in events[0]["what"]
    logs = await call(playing, "history.logs", service="client")
    assert "start of client" in logs["lines"][0]["text"]
    everything = await call(playing, "history.logs")
    assert {line["service"] for line in everything["lines"]} == {"client", "runner"}
    old = service(playing).pid
    await call(playing, "service.restart", name="client")
    assert service(playing).pid not in (None, old)
    assert wish(playing) == "pause"


@pytest.mark.parametrize("off", [False, True], ids=["waiting", "switched off"])
async def test_without_a_server_it_waits_and_plays_once_there_is_one_unless_it_was_switched_off(
    waiting: ClientRunner, redis_address: Address, off: bool
) -> None:
    assert (service(waiting).state, service(waiting).pid) == ("starting", None)
    server = waiting.status().server
    assert (server.reachable, server.url) == (False, "")
    assert server.changed_at == pytest.approx(waiting.started, abs=60)
    # A start is answered at once: it is wanted already.
    await call(waiting, "service.stop" if off else "service.start", name="client")
    waiting.folders.server.mkdir(parents=True)
    redis_address.write(waiting.folders.server_address)
    await until(lambda: waiting.status().server.reachable)
    if off:
        assert service(waiting).state == "stopped"
        return
    await comes_to_be(waiting, "online")
    assert Address.read(waiting.folder.server_address) == redis_address


async def test_a_server_that_moved_is_followed_as_wished(playing: ClientRunner, address: Address) -> None:
    await call(playing, "clients.pause", client=NAME)
    old = service(playing).pid
    moved = Address(address.host, free_port(), address.password, address.prefix)
    moved.write(playing.folders.server_address)
    await until(lambda: service(playing).pid not in (None, old))
    assert Address.read(playing.folder.server_address) == moved
    await comes_to_be(playing, "paused")
    assert wish(playing) == "pause"
    assert not playing.status().server.reachable


async def test_a_client_that_the_server_sent_away_is_not_started_again(playing: ClientRunner) -> None:
    told = Wish(command_id="x", state="stop")
    (playing.folder.root / "server_wish.json").write_text(told.to_json())
    await until(lambda: service(playing).state == "stopped")
    assert "the server asked it to stop" in service(playing).outcome
    assert service(playing).restarts == 0
    (playing.folder.root / "server_wish.json").unlink()
    await call(playing, "service.start", name="client")
    await comes_to_be(playing, "online")


async def test_a_client_that_a_crashed_runner_left_is_taken_over_with_what_its_owner_wanted(
    folders: Folders, address: Address
) -> None:
    left = await left_by_a_crash(folders, address, "pause")
    async with opened(ClientRunner(folders, NAME)) as playing:
        await comes_to_be(playing, "paused")
        assert (service(playing).pid, service(playing).restarts) == (left.pid, 0)
        assert client(playing).wish == "pause"
        await call(playing, "clients.resume", client=NAME)
        await comes_to_be(playing, "online")
    assert left.wait(LIMIT_S) is not None


async def test_close_ends_the_client_and_leaves_no_way_in_and_what_it_left_is_no_news(
    playing: ClientRunner, folders: Folders, caplog: pytest.LogCaptureFixture
) -> None:
    pid = service(playing).pid
    assert await call(playing, "server.shutdown") == {}
    assert playing.closing.is_set()
    await playing.close()
    assert process_identity(pid or 0) is None
    assert not (folders.client / "control.json").exists()
    assert not (folders.client / "runner.json").exists()
    caplog.set_level(logging.INFO)
    caplog.clear()
    async with opened(ClientRunner(folders, NAME)):
        await until(lambda: f"{NAME}: online Toy-v0" in caplog.messages)
    assert f"{NAME}: left" not in " ".join(caplog.messages).partition("online")[0]


async def test_without_a_window_it_ends_and_with_one_it_goes_on(folders: Folders, address: Address) -> None:
    async with opened(ClientRunner(folders, NAME, unwatched_limit_s=0.8)) as playing:
        async with following(playing):
            await comes_to_be(playing, "online")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(playing.closing.wait(), 1.2)
        await asyncio.wait_for(playing.closing.wait(), LIMIT_S)
        assert service(playing).pid is None
        assert "asked to stop" in service(playing).outcome


def test_a_wait_between_rounds_is_no_news_and_one_that_lasts_is() -> None:
    told = StateChanges("left")
    assert told.is_new("online CartPole-v1", 0.0)
    for now in range(1, 100):
        assert not told.is_new("waiting CartPole-v1" if now % 2 else "online CartPole-v1", float(now))
    assert not told.is_new("waiting CartPole-v1", 101.0)
    assert told.is_new("waiting CartPole-v1", 106.0)
    assert not told.is_new("waiting CartPole-v1", 107.0)
    assert told.is_new("online CartPole-v1", 107.2)
    assert told.is_new("left", 107.3), "only waits have to last"
