from typing import cast

import redis

from soulsgui.wire.keys import Keys
from soulsgui.wire.node_commands import CommandReader, NodeAnswer, NodeCommand, read_answer, send_command


def _answers(connection: redis.Redis, keys: Keys) -> list[NodeAnswer | None]:
    entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", connection.xrange(keys.done))
    return [read_answer(fields) for _, fields in entries]


def test_a_command_is_seen_once_and_answered_once(redis_client: redis.Redis, keys: Keys) -> None:
    reader = CommandReader(keys, "trainer")
    assert reader.poll(redis_client) == []
    command = NodeCommand(command="save", args={"kind": "manual", "note": "é"})
    for _ in range(2):  # the reply to the first was lost
        send_command(redis_client, keys, "trainer", command)
    send_command(redis_client, keys, "telemetry", NodeCommand(command="stop"))
    assert reader.poll(redis_client) == [command]
    assert reader.poll(redis_client) == []
    answer = NodeAnswer(id=command.id, ok=True, result={"path": "manual_save/x"})
    reader.answer(redis_client, answer)
    assert reader.poll(redis_client) == []
    assert _answers(redis_client, keys) == [answer]
    assert redis_client.xlen(keys.commands("trainer")) == 0
    assert redis_client.xlen(keys.commands("telemetry")) == 1


def test_a_node_that_was_restarted_finds_what_it_did_not_answer(
    redis_client: redis.Redis, keys: Keys
) -> None:
    first, second = NodeCommand(command="save"), NodeCommand(command="stop")
    for command in (first, second):
        send_command(redis_client, keys, "trainer", command)
    before = CommandReader(keys, "trainer")
    assert before.poll(redis_client) == [first, second]
    before.answer(redis_client, NodeAnswer(id=first.id, ok=True))
    assert CommandReader(keys, "trainer").poll(redis_client) == [second]


def test_garbage_is_taken_off_the_stream(redis_client: redis.Redis, keys: Keys) -> None:
    stream = keys.commands("trainer")
    for name, value in (("m", b"\xff"), ("x", "1"), ("m", '{"command": "rm"}'), ("m", '{"id": 3}')):
        redis_client.xadd(stream, {name: value})
    assert CommandReader(keys, "trainer").poll(redis_client) == []
    assert redis_client.xlen(stream) == 0


def test_old_answers_are_trimmed(redis_client: redis.Redis, keys: Keys) -> None:
    pipeline = redis_client.pipeline()
    for _ in range(2000):
        pipeline.xadd(keys.done, {"m": "{}"})
    pipeline.execute()
    to_nobody = NodeAnswer(id="unknown", ok=False, error="why")
    CommandReader(keys, "trainer").answer(redis_client, to_nobody)
    assert redis_client.xlen(keys.done) <= 1100
    assert _answers(redis_client, keys)[-1] == to_nobody
