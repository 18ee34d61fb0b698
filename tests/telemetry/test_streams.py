"""Reading and acknowledging the clients' streams of a real server, and what counts as an episode."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.telemetry.intake import Arrival, DropReason, Refusal, judge, sort_out
from soulsgui.telemetry.streams import BATCH_ENTRIES, EpisodeStreams, MetricsStream
from soulsgui.wire.group_reader import Entry
from soulsgui.wire.keys import TELEMETRY_GROUP, EntryId, Keys
from soulsgui.wire.messages.metrics import ROW_FIELD, EpisodeRows
from soulsgui.wire.messages.session import EPISODE_FIELD, HELLO_FIELD, Episode
from tests.telemetry.helpers import RUN_ID, Stage, attempt_row, episode, update_row


@pytest.fixture
def streams(keys: Keys) -> EpisodeStreams:
    return EpisodeStreams(keys)


def _numbers(entries: list[Entry]) -> list[tuple[str, int]]:
    return [(entry.client, entry.id.seq) for entry in entries]


def _add(stage: Stage, client: str, *numbers: int) -> None:
    pipeline = stage.redis.pipeline(transaction=False)
    for number in numbers:
        pipeline.xadd(stage.keys.episodes(client), {"e": "x"}, id=f"5-{number}")
    pipeline.execute()


def test_all_on_the_roster_are_read_from_their_beginning(streams: EpisodeStreams, stage: Stage) -> None:
    streams.discover(stage.redis)
    assert (streams.idle, streams.read(stage.redis, 10)) == (True, []), "there is nobody yet"
    clients = [f"c{n}" for n in range(100)]
    for client in clients:
        _add(stage, client, 1)
    stage.join(*clients)
    streams.discover(stage.redis)
    assert sorted(_numbers(streams.read(stage.redis, 0))) == [(client, 1) for client in sorted(clients)]
    # Of a client off the roster nothing is read any more, nor is its stream made anew.
    stage.redis.hdel(stage.keys.clients, "c0")
    stage.redis.delete(stage.keys.episodes("c0"))
    streams.discover(stage.redis)
    assert (streams.idle, streams.read(stage.redis, 0)) == (False, [])
    assert not stage.redis.exists(stage.keys.episodes("c0"))


def test_trimming_leaves_what_is_not_acknowledged(streams: EpisodeStreams, stage: Stage, keys: Keys) -> None:
    """More is pending than one read takes: each acknowledgement must leave the rest."""
    stage.join("a")
    streams.discover(stage.redis)
    count = BATCH_ENTRIES * 2 + 10
    _add(stage, "a", *range(1, count + 1))
    while streams.read(stage.redis, 0):
        pass
    restarted = EpisodeStreams(keys)
    restarted.discover(stage.redis)
    seen: list[tuple[str, int]] = []
    while entries := restarted.read(stage.redis, 0):
        seen += _numbers(entries)
        restarted.acknowledge(stage.redis, entries)
        assert stage.left("a") == count - len(seen)
    assert seen == [("a", number) for number in range(1, count + 1)]


def test_pending_entries_others_trimmed_are_over(streams: EpisodeStreams, stage: Stage, keys: Keys) -> None:
    stage.join("a")
    streams.discover(stage.redis)
    _add(stage, "a", 1, 2)
    streams.read(stage.redis, 0)
    stage.redis.xtrim(keys.episodes("a"), maxlen=0, approximate=False)
    streams.unsettle()
    entries = streams.read(stage.redis, 0)
    assert [entry.fields for entry in entries] == [{}, {}]
    streams.acknowledge(stage.redis, entries)
    assert stage.redis.xpending(keys.episodes("a"), TELEMETRY_GROUP)["pending"] == 0


_START = EntryId(0, 0)


def _message(first: int, count: int = 1, run_id: str = RUN_ID) -> EpisodeRows:
    whole = ("row", "attempt", "episode", "env_steps", "length", "model_id")
    columns = {name: range(first, first + count) for name in whole}
    columns |= {name: [0.0] * count for name in ("time", "total_return", "mean_return")}
    return EpisodeRows(run_id=run_id, client=["a"] * count, **columns)


@pytest.fixture
def metrics(keys: Keys) -> MetricsStream:
    return MetricsStream(keys, RUN_ID, _START)


@pytest.mark.allow_warnings
def test_rows_of_the_trainer_are_read_once_others_passed(metrics: MetricsStream, stage: Stage) -> None:
    rows = [attempt_row(1), *(update_row(n, loss=0.1) for n in range(1, 700))]
    stage.tell(*rows[:600])
    assert metrics.read(stage.redis) == rows[:600]
    stage.tell(*rows[600:])
    assert metrics.read(stage.redis) == rows[600:]
    assert metrics.read(stage.redis) == []
    stage.tell(update_row(1).model_copy(update={"run_id": "another"}))
    metrics.publish(stage.redis, _message(1))
    for fields in ({ROW_FIELD: b"\x80"}, {b"other": b"{}"}):
        stage.redis.xadd(stage.keys.metrics, fields)
    stage.tell(update_row(2))
    assert metrics.read(stage.redis) == [update_row(2)]
    assert metrics.unreadable == 2


def test_a_server_that_lost_the_stream_is_read_from_its_beginning(stage: Stage, keys: Keys) -> None:
    metrics = MetricsStream(keys, RUN_ID, EntryId(2**60, 0))
    metrics.resume(stage.redis)
    assert metrics.cursor == _START
    metrics.cursor = EntryId(2**60, 0)
    stage.tell(update_row(1))
    metrics.resume(stage.redis)
    assert metrics.read(stage.redis) == [update_row(1)]
    place = metrics.cursor
    metrics.resume(stage.redis)
    assert metrics.cursor == place
    # A row of the trainer comes under an id that one of ours had.
    metrics.publish(stage.redis, _message(1))
    *_, (entry, _) = stage.redis.xrange(keys.metrics)
    stage.redis.delete(keys.metrics)
    stage.redis.xadd(keys.metrics, {ROW_FIELD: update_row(2).to_json()}, id=entry)
    metrics.resume(stage.redis)
    assert metrics.read(stage.redis) == [update_row(2)]
    # The same where nobody saw that the connection was cut.
    metrics.publish(stage.redis, _message(2))
    *_, (entry, _) = stage.redis.xrange(keys.metrics)
    stage.redis.delete(keys.metrics)
    metrics.find_place(stage.redis)
    stage.redis.xadd(keys.metrics, {ROW_FIELD: update_row(3).to_json()}, id=entry)
    assert metrics.read(stage.redis) == [update_row(3)]


def test_the_newest_row_of_this_run_is_found_behind_others(metrics: MetricsStream, stage: Stage) -> None:
    assert metrics.last_published(stage.redis) is None
    assert metrics.publish(stage.redis, _message(5, count=3)) == 7
    metrics.publish(stage.redis, _message(90, run_id="another"))
    stage.tell(*(update_row(n) for n in range(120)))
    assert metrics.last_published(stage.redis) == 7


def test_our_rows_take_a_bounded_share_of_the_servers_memory(stage: Stage, keys: Keys) -> None:
    metrics = MetricsStream(keys, RUN_ID, _START, own_bytes=20_000)
    for first in range(1, 2000, 10):
        metrics.publish(stage.redis, _message(first, count=10))
    held = sum(len(row.to_json()) for row in stage.live_rows())
    assert held <= 20_000
    assert stage.live_numbers()[-1] == 2000


def _payload(**changes: Any) -> bytes:
    return json.dumps(episode().model_dump() | changes).encode()


BAD: dict[DropReason, list[dict[str, Any]]] = {
    DropReason.UNREADABLE: [{"length": "many"}],
    DropReason.TOO_LARGE: [{"padding": "x" * 5000}],
    DropReason.RUN: [{"run_id": "another"}],
    DropReason.NOT_FINITE: [{"total_return": math.nan}, {"total_return": math.inf}, {"seconds": -math.inf}],
    DropReason.BOUNDS: [
        *({"length": length} for length in (0, 2**70)),
        *({"model_id": model_id} for model_id in (2**63, -1)),
        *({"total_return": 1e300}, {"attempt": 0}, {"env_index": -1}),
    ],
}


@pytest.mark.parametrize(("reason", "changes"), [(name, one) for name, bad in BAD.items() for one in bad])
def test_everything_else_is_refused_with_its_reason(reason: DropReason, changes: dict[str, Any]) -> None:
    assert judge(_payload(**changes), RUN_ID) is reason
    for unreadable in (b"", b"\x80\x04K\x01.", b"[]"):
        assert judge(unreadable, RUN_ID) is DropReason.UNREADABLE


@given(st.binary(max_size=200))
def test_no_payload_makes_it_fail(payload: bytes) -> None:
    assert isinstance(judge(payload, RUN_ID), Episode | DropReason)


def test_hellos_and_trimmed_entries_are_neither_episodes_nor_refused() -> None:
    good = episode(1.0)
    entries = [
        Entry("a", EntryId(1, 0), {HELLO_FIELD: b"{}"}),
        Entry("a", EntryId(1, 1), {EPISODE_FIELD: good.to_json().encode()}),
        Entry("a", EntryId(1, 2), {}),
        Entry("b", EntryId(1, 3), {b"other": b"field"}),
    ]
    assert sort_out(entries, RUN_ID) == (
        [Arrival("a", EntryId(1, 1), good)],
        [Refusal("b", DropReason.UNREADABLE)],
    )
