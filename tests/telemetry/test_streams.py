"""Reading and acknowledging the clients' streams of a real server."""

from typing import Any, cast

import pytest
import redis

from soulsgui.telemetry.intake import DropReason, Refusal
from soulsgui.telemetry.streams import BATCH_ENTRIES, EpisodeStreams, MetricsStream
from soulsgui.wire.group_reader import Entry
from soulsgui.wire.keys import TELEMETRY_GROUP, EntryId, Keys
from soulsgui.wire.messages.metrics import ROW_FIELD, EpisodeRows
from tests.telemetry.helpers import RUN_ID, Stage, attempt_row, update_row


@pytest.fixture
def streams(keys: Keys) -> EpisodeStreams:
    return EpisodeStreams(keys)


def _numbers(entries: list[Entry]) -> list[tuple[str, int]]:
    return [(entry.client, entry.id.seq) for entry in entries]


def _add(stage: Stage, client: str, *numbers: int) -> None:
    for number in numbers:
        stage.redis.xadd(stage.keys.episodes(client), {"e": "x"}, id=f"5-{number}")


def _pending(stage: Stage, client: str) -> int:
    found = cast("dict[str, Any]", stage.redis.xpending(stage.keys.episodes(client), TELEMETRY_GROUP))
    return cast("int", found["pending"])


def test_streams_of_all_on_the_roster_are_read_from_their_beginning(
    streams: EpisodeStreams, stage: Stage, redis_client: redis.Redis
) -> None:
    streams.discover(redis_client)
    assert (streams.idle, streams.read(redis_client, 10)) == (True, []), "there is nobody yet"
    clients = [f"c{n}" for n in range(100)]
    for client in clients:
        _add(stage, client, 1)
    stage.join(*clients)
    streams.discover(redis_client)
    assert sorted(_numbers(streams.read(redis_client, 0))) == [(client, 1) for client in sorted(clients)]
    # Of a client off the roster nothing is read any more, nor is its stream made anew.
    stage.redis.hdel(stage.keys.clients, "c0")
    stage.redis.delete(stage.keys.episodes("c0"))
    streams.discover(redis_client)
    assert (streams.idle, streams.read(redis_client, 0)) == (False, [])
    assert not stage.redis.exists(stage.keys.episodes("c0"))


def test_trimming_never_removes_what_is_delivered_and_not_acknowledged(
    streams: EpisodeStreams, stage: Stage, redis_client: redis.Redis, keys: Keys
) -> None:
    """More is pending than one read takes: each acknowledgement must leave the rest."""
    stage.join("a")
    streams.discover(redis_client)
    count = BATCH_ENTRIES * 2 + 10
    pipeline = stage.redis.pipeline(transaction=False)
    for number in range(1, count + 1):
        pipeline.xadd(keys.episodes("a"), {"e": "x"}, id=f"5-{number}")
    pipeline.execute()
    while streams.read(redis_client, 0):
        pass
    restarted = EpisodeStreams(keys)
    restarted.discover(redis_client)
    seen: list[tuple[str, int]] = []
    while entries := restarted.read(redis_client, 0):
        seen += _numbers(entries)
        restarted.acknowledge(redis_client, entries)
        assert stage.left("a") == count - len(seen)
    assert seen == [("a", number) for number in range(1, count + 1)]


def test_pending_entries_that_were_trimmed_by_others_are_acknowledged(
    streams: EpisodeStreams, stage: Stage, redis_client: redis.Redis, keys: Keys
) -> None:
    stage.join("a")
    streams.discover(redis_client)
    _add(stage, "a", 1, 2)
    streams.read(redis_client, 0)
    stage.redis.xtrim(keys.episodes("a"), maxlen=0, approximate=False)
    streams.unsettle()
    entries = streams.read(redis_client, 0)
    assert [entry.fields for entry in entries] == [{}, {}]
    streams.acknowledge(redis_client, entries)
    assert _pending(stage, "a") == 0


@pytest.mark.allow_warnings
def test_a_wrong_typed_stream_is_set_aside_once_and_the_others_are_read(
    streams: EpisodeStreams, stage: Stage, redis_client: redis.Redis, keys: Keys
) -> None:
    stage.join("a", "b")
    streams.discover(redis_client)
    stage.redis.set(keys.episodes("b"), "mine")
    _add(stage, "a", 1)
    assert _numbers(streams.read(redis_client, 0)) == [("a", 1)]
    assert streams.take_refusals() == [Refusal("b", DropReason.WRONG_TYPE)]
    for _ in range(3):
        streams.discover(redis_client)
        streams.read(redis_client, 0)
    assert streams.take_refusals() == []
    stage.redis.delete(keys.episodes("b"))
    _add(stage, "b", 7)
    streams.discover(redis_client)
    assert _numbers(streams.read(redis_client, 0)) == [("b", 7)]


_START = EntryId(0, 0)


def _message(first: int, count: int = 1, run_id: str = RUN_ID) -> EpisodeRows:
    rows = list(range(first, first + count))
    return EpisodeRows(
        run_id=run_id,
        row=rows,
        attempt=rows,
        client=["a"] * count,
        episode=rows,
        env_steps=rows,
        time=[0.0] * count,
        total_return=[0.0] * count,
        length=rows,
        model_id=rows,
        mean_return=[0.0] * count,
    )


@pytest.fixture
def metrics(keys: Keys) -> MetricsStream:
    return MetricsStream(keys, RUN_ID, _START)


def test_rows_of_the_trainer_are_read_once_and_in_order(
    metrics: MetricsStream, stage: Stage, redis_client: redis.Redis
) -> None:
    rows = [attempt_row(1), *(update_row(n, loss=0.1) for n in range(1, 700))]
    stage.tell(*rows[:600])
    assert metrics.read(redis_client) == rows[:600]
    stage.tell(*rows[600:])
    assert metrics.read(redis_client) == rows[600:]
    assert metrics.read(redis_client) == []


def test_rows_of_other_runs_and_our_own_are_passed_over(
    metrics: MetricsStream, stage: Stage, redis_client: redis.Redis
) -> None:
    stage.tell(update_row(1).model_copy(update={"run_id": "another"}))
    metrics.publish(redis_client, _message(1))
    stage.tell(update_row(2))
    assert metrics.read(redis_client) == [update_row(2)]


@pytest.mark.allow_warnings
def test_an_entry_that_is_no_row_is_counted_and_passed_over(
    metrics: MetricsStream, stage: Stage, redis_client: redis.Redis, keys: Keys
) -> None:
    for fields in ({ROW_FIELD: b"\x80"}, {b"other": b"{}"}):
        stage.redis.xadd(keys.metrics, fields)  # type: ignore[arg-type]
    stage.tell(update_row(1))
    assert metrics.read(redis_client) == [update_row(1)]
    assert metrics.unreadable == 2


def test_a_server_that_lost_the_stream_is_read_from_its_beginning(
    stage: Stage, redis_client: redis.Redis, keys: Keys
) -> None:
    metrics = MetricsStream(keys, RUN_ID, EntryId(2**60, 0))
    metrics.resume(redis_client)
    assert metrics.cursor == _START
    metrics.cursor = EntryId(2**60, 0)
    stage.tell(update_row(1))
    metrics.resume(redis_client)
    assert metrics.read(redis_client) == [update_row(1)]
    place = metrics.cursor
    metrics.resume(redis_client)
    assert metrics.cursor == place


def test_a_row_with_the_id_that_one_of_ours_had_before_the_server_lost_its_data_is_read(
    metrics: MetricsStream, stage: Stage, redis_client: redis.Redis, keys: Keys
) -> None:
    metrics.publish(redis_client, _message(1))
    ((entry, _),) = redis_client.xrange(keys.metrics)  # type: ignore[misc]
    redis_client.delete(keys.metrics)
    redis_client.xadd(keys.metrics, {ROW_FIELD: update_row(2).to_json()}, id=entry)
    metrics.resume(redis_client)
    assert metrics.read(redis_client) == [update_row(2)]


def test_the_newest_published_row_of_this_run_is_found_behind_others(
    metrics: MetricsStream, stage: Stage, redis_client: redis.Redis
) -> None:
    assert metrics.last_published(redis_client) is None
    assert metrics.publish(redis_client, _message(5, count=3)) == 7
    metrics.publish(redis_client, _message(90, run_id="another"))
    stage.tell(*(update_row(n) for n in range(120)))
    assert metrics.last_published(redis_client) == 7


def test_our_rows_take_a_bounded_share_of_the_servers_memory(
    stage: Stage, redis_client: redis.Redis, keys: Keys
) -> None:
    metrics = MetricsStream(keys, RUN_ID, _START, own_bytes=20_000)
    for first in range(1, 2000, 10):
        metrics.publish(redis_client, _message(first, count=10))
    held = sum(len(row.to_json()) for row in stage.live_rows())
    assert held <= 20_000
    assert stage.live_numbers()[-1] == 2000
