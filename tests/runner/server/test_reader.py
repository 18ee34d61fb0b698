import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from soulsgui.runner.server.reader import ServerReader
from soulsgui.system import free_port
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from soulsgui.wire.messages.metrics import ROW_FIELD, UpdateRow
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.node_commands import CommandReader, NodeAnswer
from tests.servers import running_server
from tests.telemetry.helpers import update_row


@pytest.fixture
def reader(redis_address: Address) -> Iterator[ServerReader]:
    made = ServerReader(redis_address)
    yield made
    made.close()


def test_only_new_rows_are_read(reader: ServerReader, redis_client: redis.Redis, keys: Keys) -> None:
    redis_client.xadd(keys.metrics, {ROW_FIELD: update_row(1).to_json()})
    assert reader.turn(False).rows == []
    garbage = ({ROW_FIELD: b"garbage"}, {b"other": b"field"})
    for entry in ({ROW_FIELD: update_row(2).to_json()}, *garbage, {ROW_FIELD: update_row(3).to_json()}):
        redis_client.xadd(keys.metrics, entry)
    CommandReader(keys, "trainer").answer(redis_client, NodeAnswer(id="x", ok=True))
    turn = reader.turn(False)
    assert [found.update for found in turn.rows if isinstance(found, UpdateRow)] == [2, 3]
    assert [answer.id for answer in turn.answers] == ["x"]
    assert reader.turn(False).rows == []


def test_wrong_keys_hide_nobody(reader: ServerReader, redis_client: redis.Redis, keys: Keys) -> None:
    good = Heartbeat(client="good", instance=Instance(), counter=1)
    redis_client.set(keys.beat("good"), good.to_json(), ex=EXPIRY_S - 60)
    redis_client.set(keys.beat("thief"), good.to_json(), ex=EXPIRY_S)
    redis_client.set(keys.beat("bad"), "garbage", ex=EXPIRY_S)
    redis_client.rpush(keys.beat("list"), "x")
    redis_client.set(keys.beat("sp ace\n"), good.to_json())
    redis_client.set(keys.beat("x" * 65), good.to_json())
    redis_client.hset(keys.clients, mapping={b"\xff": b"x", b"sp ace": b"x", b"good": b"\xff"})
    redis_client.rpush(keys.node("telemetry"), "x")
    redis_client.set(keys.node("trainer"), NodeState(name="trainer", instance=Instance(), tick=3).to_json())
    turn = reader.turn(True)
    assert turn.clients is not None
    assert list(turn.roster or ()) == ["good"]
    assert {name: client.beat is not None for name, client in turn.clients.items()} == {
        "bad": False,
        "good": True,
        "list": False,
        "thief": False,
    }
    assert [(name, node.tick) for name, node in turn.nodes.items()] == [("trainer", 3)]
    assert turn.clients["good"].age_s == pytest.approx(60, abs=2)
    again = reader.turn(True).clients
    assert again["good"].age_s is None, "it is asked for at first sight only"


def test_empty_server_tells_version_and_memory_and_an_absent_one_is_unreachable(reader: ServerReader) -> None:
    turn, status = reader.turn(True), reader.server_status()
    assert turn.reachable
    assert (turn.nodes, turn.rows, turn.answers, turn.clients, turn.roster) == ({}, [], [], {}, {})
    assert reader.turn(False).clients is None
    assert status.reachable
    assert status.memory_bytes > 0
    assert status.version.split()[0] in ("redis", "valkey")
    absent = ServerReader(Address("127.0.0.1", free_port()))
    assert not absent.turn(True).reachable
    assert not absent.server_status().reachable
    absent.close()


@pytest.mark.allow_warnings
@pytest.mark.parametrize("stopped", [True, False])
def test_the_silence_of_a_server_that_was_stopped_is_no_warning(
    tmp_path: Path, stopped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with running_server(tmp_path) as address:
        reader = ServerReader(address, lambda: stopped)
        assert reader.turn(False).reachable
    assert not reader.turn(False).reachable
    reader.close()
    assert ("the server does not answer" in caplog.text) is not stopped


@pytest.mark.allow_warnings
@pytest.mark.parametrize("stream", ["metrics", "done"])
def test_stream_of_a_wrong_type_is_told_once_and_hides_nothing_else(
    reader: ServerReader, redis_client: redis.Redis, keys: Keys, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    other = {"metrics": keys.done, "done": keys.metrics}[stream]
    redis_client.set(getattr(keys, stream), "x")
    assert reader.turn(True).reachable
    if other == keys.metrics:
        redis_client.xadd(other, {ROW_FIELD: update_row(1).to_json()})
    else:
        CommandReader(keys, "trainer").answer(redis_client, NodeAnswer(id="x", ok=True))
    turn = reader.turn(True)
    assert turn.reachable
    assert len(turn.rows) + len(turn.answers) == 1
    assert len([record for record in caplog.records if record.levelno > logging.INFO]) == 1


def test_who_sends_without_beat_is_seen(reader: ServerReader, redis_client: redis.Redis, keys: Keys) -> None:
    redis_client.xadd(keys.chunks("silent"), {"c": b"x"})
    redis_client.xadd(keys.episodes("other"), {"e": b"x"})
    # The trainer was about to read what a client sent that was forgotten just then.
    redis_client.xgroup_create(keys.chunks("forgotten"), "trainer", id="0", mkstream=True)
    turn = reader.turn(True)
    assert {name: one.beat for name, one in turn.clients.items()} == {"silent": None}
