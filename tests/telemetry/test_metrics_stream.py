"""Both directions of the `metrics` stream of a real server."""

import pytest
import redis

from soulsgui.telemetry.metrics import MetricsStream
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.metrics import ROW_FIELD, EpisodeRows
from tests.telemetry.helpers import RUN_ID, Stage, attempt_row, update_row

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
