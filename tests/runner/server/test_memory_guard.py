"""The memory of a real server with a small limit: warned of, held, cut, and let go again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from soulsgui.runner.events import EventLog
from soulsgui.runner.server import memory_guard
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.server.memory_guard import MOST_LOG_BYTES, Level, MemoryGuard, level_of, memory_used
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.node_commands import CommandReader, NodeAnswer, NodeCommand
from tests.faults.waiting import LIMIT_S
from tests.servers import running_server

LIMIT = 20 * 2**20
CHUNK = b"x" * 2**16


def test_a_level_is_left_a_little_below_where_it_is_entered() -> None:
    expected: dict[Level, dict[float, Level]] = {
        "": {0.0: "", 0.49: "", 0.5: "half", 0.9: "full"},
        "half": {0.69: "half", 0.7: "full", 0.46: "half", 0.44: ""},
        "full": {0.66: "full", 0.64: "half", 0.3: ""},
    }
    for before, levels in expected.items():
        assert {used: level_of(used, before) for used in levels} == levels


def test_what_only_waits_for_a_slow_disk_does_not_count() -> None:
    assert memory_used({"used_memory": 12_741_992, "mem_not_counted_for_evict": 6_303_728}) == 6_438_264
    assert memory_used({"used_memory": 5, "maxmemory": 9}) == 5, "of a server that does not tell"
    assert memory_used({"used_memory": 5, "mem_not_counted_for_evict": 9}) == 0, "told at two moments"


class Guarded:
    """A guard with a small server, and what was asked of the trainer."""

    def __init__(self, server: Address, folder: Path) -> None:
        self.bus = Bus(server)
        self.events = EventLog(folder / "events.jsonl", lambda _: None)
        self.connection, self.keys = connect(server), self.bus.keys
        self.trainer_runs = True
        self.asked: list[NodeCommand] = []
        self.clients = ["good", "flood"]
        self.guard = MemoryGuard(
            self.bus, self.events, lambda: self.clients, lambda: self.trainer_runs, lambda: "run-1"
        )

    def fill(self, key: str, part: float) -> None:
        """Put entries on a stream until so much of the memory is used."""
        while memory_used(self.connection.info("memory")) < part * LIMIT:
            self.connection.xadd(key, {"c": CHUNK})

    def ask(self, part: float, *clients: str) -> None:
        """Have clients send requests, small ones first, until so much of the memory is used."""
        keys = [self.keys.requests(client) for client in clients]
        for key in keys:
            self.connection.rpush(key, *[b"x" * 4000] * 20)
        while memory_used(self.connection.info("memory")) < part * LIMIT:
            for key in keys:
                self.connection.rpush(key, CHUNK)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(event.level, event.what) for event in self.events.newest(100)]

    @property
    def asked_for(self) -> list[str]:
        return [command.command for command in self.asked]

    def held(self, client: str) -> int:
        return self.connection.xlen(self.keys.chunks(client))

    async def be_the_trainer(self) -> None:
        """Do what is asked, and say so."""
        reader = CommandReader(self.keys, "trainer")
        while True:
            for command in reader.poll(self.connection):
                self.asked.append(command)
                answer = NodeAnswer(id=command.id, ok=True)
                with suppress(redis.OutOfMemoryError):  # a full server may take a command and no answer
                    reader.answer(self.connection, answer)
                if command.command == "cut":
                    self.connection.xtrim(self.keys.chunks(command.args["client"]), maxlen=0)
                self.bus.resolve([answer])
            await asyncio.sleep(0.01)


@pytest.fixture
async def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Guarded]:
    monkeypatch.setattr(memory_guard, "_ANSWER_S", LIMIT_S)  # who is only slow does answer
    with running_server(tmp_path, more=f"maxmemory {LIMIT}\nmaxmemory-policy noeviction") as address:
        made = Guarded(address, tmp_path)
        answering = asyncio.create_task(made.be_the_trainer())
        yield made
        answering.cancel()
        with suppress(asyncio.CancelledError):
            await answering
        made.bus.close()
        made.connection.close()


async def test_from_half_on_credits_are_held_until_there_is_room(guarded: Guarded) -> None:
    key = guarded.keys.chunks("good")
    guarded.fill(key, 0.55)
    for _ in range(3):
        await guarded.guard.look()
    assert guarded.asked_for == ["hold"] * 3, "said again while it lasts"
    assert guarded.asked[0].args["seconds"] > 2
    assert "full: clients wait. " in guarded.guard.words
    assert "wait to be read, most of it from good (" in guarded.guard.words
    ((level, what),) = guarded.told
    assert level == "warning"
    assert "clients get no more credits" in what
    guarded.connection.xtrim(key, maxlen=0)
    await guarded.guard.look()
    assert guarded.guard.words == ""
    assert [level for level, _ in guarded.told] == ["warning", "info"]
    assert "space again" in guarded.told[-1][1]
    await guarded.guard.look()
    assert len(guarded.asked) == 3


async def test_who_holds_most_is_cut_off_and_the_weights_still_go_out(guarded: Guarded) -> None:
    guarded.fill(guarded.keys.chunks("good"), 0.3)
    guarded.fill(guarded.keys.chunks("flood"), 0.75)
    guarded.connection.xadd(guarded.keys.log("flood"), {"x": "y"})
    await guarded.guard.look()
    assert guarded.asked_for == ["hold", "cut"]
    cut = guarded.asked[1]
    assert cut.args["client"] == "flood"
    assert "of the server's" in cut.args["reason"]
    assert guarded.connection.xlen(guarded.keys.log("flood")) == 0
    assert guarded.held("flood") == 0 < guarded.held("good")
    cut_off = guarded.events.newest(1)[0]
    assert "flood was cut off" in cut_off.what
    assert "soulsgui clients release flood" in cut_off.remedy
    guarded.connection.set(guarded.keys.weights, CHUNK)  # refused, were the memory full
    await guarded.guard.look()
    assert guarded.asked_for == ["hold", "cut"], "there is room again"


async def test_without_a_trainer_streams_are_emptied_and_each_is_told_of_once(guarded: Guarded) -> None:
    guarded.trainer_runs = False
    guarded.fill(guarded.keys.metrics, 0.66)  # it stays full, whoever is emptied
    for _ in range(3):
        guarded.fill(guarded.keys.chunks("flood"), 0.85)
        await guarded.guard.look()
    assert (guarded.asked, guarded.held("flood")) == ([], 0)
    (event,) = [one for one in guarded.events.newest(100) if "flood" in one.what]
    assert "What flood had sent was deleted" in event.what
    assert "No trainer answers" in event.cause
    guarded.trainer_runs = True
    guarded.fill(guarded.keys.chunks("flood"), 0.85)
    await guarded.guard.look()
    assert "flood was cut off" in guarded.told[-1][1], "that is news"
    guarded.connection.delete(guarded.keys.metrics, guarded.keys.chunks("flood"))
    async with asyncio.timeout(LIMIT_S):
        while guarded.guard.words:  # the server may free memory a moment later
            await guarded.guard.look()
    guarded.trainer_runs = False
    guarded.fill(guarded.keys.chunks("flood"), 0.85)
    await guarded.guard.look()
    assert sum("What flood had sent" in what for _, what in guarded.told) == 2, "full once more"


async def test_a_full_server_is_freed_by_who_holds_much_alone(guarded: Guarded) -> None:
    with pytest.raises(redis.ResponseError):
        guarded.fill(guarded.keys.chunks("flood"), 1.5)
    await guarded.guard.look()  # not even a command to the trainer would be taken
    assert guarded.held("flood") == 0
    guarded.connection.set(guarded.keys.weights, CHUNK)
    guarded.asked.clear()
    guarded.fill(guarded.keys.chunks("good"), 0.12)
    guarded.connection.xtrim(guarded.keys.chunks("good"), maxlen=10)
    guarded.fill(guarded.keys.metrics, 0.75)
    await guarded.guard.look()
    assert guarded.asked_for == ["hold"]
    assert guarded.held("good") > 0


async def test_what_fills_the_memory_is_said_where_no_client_does(guarded: Guarded) -> None:
    await guarded.guard.look()
    assert (guarded.guard.words, guarded.told, guarded.asked) == ("", [], [])
    guarded.connection.config_set("maxmemory", "0")
    guarded.fill("t:somebody-else", 0.55)
    await guarded.guard.look()
    assert (guarded.guard.words, guarded.told, guarded.asked) == ("", [], [])
    guarded.connection.config_set("maxmemory", str(LIMIT))
    await guarded.guard.look()
    assert "Clients are not the cause" in guarded.guard.words
    (event,) = guarded.events.newest(10)
    assert event.cause.startswith("Clients are not the cause")
    assert "redis.max_memory" in event.remedy


async def test_requests_that_nobody_takes_are_of_their_client_too(guarded: Guarded) -> None:
    guarded.trainer_runs = False
    while memory_used(guarded.connection.info("memory")) < 0.85 * LIMIT:
        guarded.connection.rpush(guarded.keys.requests("flood"), CHUNK)
    await guarded.guard.look()
    assert not guarded.connection.exists(guarded.keys.requests("flood"))
    assert any("What flood had sent" in what for _, what in guarded.told)


async def test_from_half_on_who_alone_asks_for_much_is_cut_off_and_nobody_waits_for_that(
    guarded: Guarded,
) -> None:
    guarded.clients.append("inference-1")
    guarded.fill(guarded.keys.chunks("good"), 0.3)  # more than the other holds, and what it may send
    guarded.ask(0.55, "flood")
    await guarded.guard.look()
    assert guarded.asked_for == ["cut"]
    assert guarded.asked[0].args["client"] == "flood"
    assert not guarded.connection.exists(guarded.keys.requests("flood"))
    assert guarded.held("good") > 0
    assert "flood was cut off" in guarded.told[-1][1]
    async with asyncio.timeout(LIMIT_S):
        while guarded.guard.words:  # the server may free memory a moment later
            await guarded.guard.look()
    assert "good" not in [command.args.get("client") for command in guarded.asked]


async def test_from_half_on_clients_that_hold_about_the_same_wait_and_none_is_cut_off(
    guarded: Guarded,
) -> None:
    guarded.clients.append("inference-1")
    guarded.ask(0.55, "good", "flood")
    for _ in range(2):
        await guarded.guard.look()
    assert guarded.asked_for == ["hold"] * 2
    assert guarded.connection.exists(*map(guarded.keys.requests, ("good", "flood"))) == 2


async def test_where_no_inference_server_is_requests_are_thrown_away_and_who_asks_for_much_is_named(
    guarded: Guarded,
) -> None:
    guarded.connection.rpush(guarded.keys.requests("good"), b"its last one")
    for _ in range(2):
        for _ in range(MOST_LOG_BYTES // len(CHUNK) + 2):
            guarded.connection.rpush(guarded.keys.requests("flood"), CHUNK)
        await guarded.guard.look()
        assert not guarded.connection.exists(*map(guarded.keys.requests, ("good", "flood")))
    ((level, what),) = guarded.told
    assert level == "warning"
    assert what.startswith("flood asks an inference server, and there is none")
    guarded.clients.append("inference-1")
    guarded.connection.rpush(guarded.keys.requests("good"), b"another one")
    await guarded.guard.look()
    assert guarded.connection.exists(guarded.keys.requests("good"))


@pytest.mark.allow_warnings
async def test_a_log_that_its_client_does_not_trim_is_taken_away(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    keys, connection = guarded.keys, guarded.connection
    connection.xadd(keys.log("good"), {"line": "one"})
    for _ in range(MOST_LOG_BYTES // len(CHUNK) + 2):
        connection.xadd(keys.log("flood"), {"line": CHUNK})
    async with asyncio.timeout(LIMIT_S):
        while connection.exists(keys.log("flood")):
            await guarded.guard.look()
    assert connection.xlen(keys.log("good")) == 1
    assert "taken away: flood" in caplog.text
    assert guarded.told == []
