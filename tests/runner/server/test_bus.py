import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from soulsgui.runner.refusal import Refused
from soulsgui.runner.server.bus import Bus, clear_run_keys
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.node_commands import CommandReader, NodeAnswer, NodeCommand
from tests.faults.waiting import LIMIT_S


@pytest.fixture
async def bus(redis_address: Address) -> AsyncIterator[Bus]:
    made = Bus(redis_address)
    yield made
    made.close()


async def test_answer_reaches_the_one_who_asked(bus: Bus, redis_client: redis.Redis) -> None:
    asking = asyncio.create_task(bus.ask("trainer", NodeCommand(command="save"), LIMIT_S))
    reader, found = CommandReader(bus.keys, "trainer"), []
    async with asyncio.timeout(LIMIT_S):
        while not found:
            found = reader.poll(redis_client)
            await asyncio.sleep(0.01)
    bus.resolve([NodeAnswer(id="somebody else's", ok=True)])
    assert not asking.done()
    bus.resolve([NodeAnswer(id=found[0].id, ok=True, result={"path": "checkpoint"})])
    assert (await asking).result == {"path": "checkpoint"}
    bus.resolve([NodeAnswer(id=found[0].id, ok=True)])


async def test_failure_is_told_with_its_reason_and_silence_after_the_limit(bus: Bus) -> None:
    command = NodeCommand(command="save")
    asking = asyncio.create_task(bus.ask("trainer", command, LIMIT_S))
    await asyncio.sleep(0)
    bus.resolve([NodeAnswer(id=command.id, ok=False, error="disk full")])
    for answer, code, said in (
        (asking, ErrorCode.FAILED, "disk full"),
        (bus.ask("trainer", NodeCommand(command="save"), 0.05), ErrorCode.NO_ANSWER, "did not answer"),
    ):
        with pytest.raises(Refused, match=said) as refusal:
            await answer
        assert refusal.value.code == code


@pytest.mark.parametrize(
    ("resumed", "left"),
    [
        ("", ["beat:a", "clients", "in:a"]),
        ("this", ["beat:a", "clients", "config", "grant:a", "in:a", "weights"]),
        ("other", ["beat:a", "clients", "grant:a", "in:a", "weights"]),
    ],
)
async def test_a_run_begins_without_the_traces_of_another_one(
    bus: Bus, redis_client: redis.Redis, keys: Keys, resumed: str, left: list[str]
) -> None:
    for key in (keys.node("trainer"), keys.node("telemetry"), keys.weights, keys.grant("a")):
        redis_client.set(key, "x")
    described = ServerConfig(run_id="this", attempt=1, contract="", spaces={}, policy={})
    redis_client.set(keys.config, described.to_json())
    redis_client.set(keys.beat("a"), "x")
    redis_client.xadd(keys.chunks("a"), {"x": "y"})
    redis_client.xadd(keys.commands("trainer"), {"x": "y"})
    redis_client.hset(keys.clients, "a", "{}")
    await bus.call(clear_run_keys(keys, resumed))
    found = redis_client.keys(f"{keys.prefix}*")
    assert sorted(key.decode().removeprefix(keys.prefix) for key in found) == left
