"""What waits, and entry ids: nothing is stored twice, and nothing is lost in silence (R8, R31)."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import redis

from soulsgui.sampling.uploader import Backlog, Credit, StreamEntry, StreamSession, StreamTakenOver
from soulsgui.wire.connection import AWAY
from soulsgui.wire.keys import EntryId
from tests.faults.server import FaultyServer

KEY = "test:in:c"
MOST = 2**62
ALL = Credit(MOST, MOST, MOST)


def _begun(connection: redis.Redis) -> StreamSession:
    stream = StreamSession(KEY, lambda: "hello", b"c", b"n")
    stream.begin(connection)
    return stream


def _push(stream: StreamSession, *payloads: str) -> None:
    for payload in payloads:
        stream.waiting.add(StreamEntry(payload.encode(), steps=10))


def _bring(stream: StreamSession, connection: redis.Redis) -> int:
    """Do what the uploader does: settle, say hello where there is no session, send."""
    stream.settle(connection)
    if stream.session is None:
        stream.begin(connection)
    return stream.flush(connection, ALL)


def _entries(connection: redis.Redis) -> list[tuple[EntryId, dict[bytes, bytes]]]:
    return [(EntryId.parse(entry), fields) for entry, fields in connection.xrange(KEY)]


def _payloads(connection: redis.Redis) -> list[str]:
    return [fields[b"c"].decode() for _, fields in _entries(connection) if b"c" in fields]


def _numbers(connection: redis.Redis) -> list[int]:
    return [int(fields[b"n"]) for _, fields in _entries(connection) if b"n" in fields]


def test_entries_follow_the_hello_under_ids_of_their_own(connection: redis.Redis) -> None:
    stream = _begun(connection)
    _push(stream, "a", "b", "c")
    assert stream.waiting.size == 3
    assert stream.flush(connection, ALL) == 3
    (hello, fields), *rest = _entries(connection)
    assert fields == {b"hello": b"hello"}
    assert stream.session == hello
    assert [entry for entry, _ in rest] == [EntryId(hello.ms, hello.seq + n) for n in (1, 2, 3)]
    assert (_payloads(connection), _numbers(connection)) == (["a", "b", "c"], [0, 1, 2])
    assert (stream.stored, stream.stored_bytes, len(stream.waiting), stream.waiting.size) == (3, 3, 0, 0)


class _Spoilt:
    """A connection whose pipelines are carried out in a way of a test: it gets the pipeline and `execute`."""

    def __init__(self, connection: redis.Redis, how: Callable[..., Any]) -> None:
        self._connection, self._how = connection, how

    def pipeline(self, transaction: bool) -> Any:
        pipeline = self._connection.pipeline(transaction=transaction)
        pipeline.execute = partial(self._how, pipeline, pipeline.execute)
        return pipeline


def _reply_is_lost(_: Any, execute: Callable[..., Any], **how: Any) -> None:
    execute(**how)
    raise redis.ConnectionError("reply lost")


def _no_room_for_the_first(pipeline: Any, execute: Callable[..., Any], **how: Any) -> list[Any]:
    del pipeline.command_stack[0]
    return [redis.OutOfMemoryError("no room"), *execute(**how)]


@pytest.mark.parametrize("noticed", [True, False], ids=["the last id tells", "the refusal tells"])
def test_stored_entries_are_not_sent_again_after_a_lost_reply(connection: redis.Redis, noticed: bool) -> None:
    stream = _begun(connection)
    _push(stream, "a", "b")
    with pytest.raises(redis.ConnectionError):
        stream.flush(_Spoilt(connection, _reply_is_lost), ALL)
    assert stream.unsure
    stream.unsure = noticed
    assert _bring(stream, connection) == 0
    assert (_payloads(connection), stream.stored, len(stream.waiting)) == (["a", "b"], 2, 0)
    assert not stream.unsure
    _push(stream, "c")
    assert _bring(stream, connection) == 1
    assert _numbers(connection) == [0, 1, 2]


@pytest.mark.allow_warnings
@pytest.mark.parametrize("group_first", [False, True], ids=["no stream", "stream made by the trainer"])
def test_lost_data_needs_a_hello(server: FaultyServer, connection: redis.Redis, group_first: bool) -> None:
    """R31: the server restarts and has nothing."""
    stream = _begun(connection)
    _push(stream, "a")
    stream.flush(connection, ALL)
    _push(stream, "b", "c")
    server.kill()
    with pytest.raises(AWAY):
        stream.flush(connection, ALL)
    stream.unsure = True
    server.start()
    if group_first:
        connection.xgroup_create(KEY, "trainer", id="0", mkstream=True)
    before = stream.session
    assert _bring(stream, connection) == 2
    assert stream.session > before
    assert (_payloads(connection), _numbers(connection)) == (["b", "c"], [0, 1])
    assert stream.stored == 2  # credits count from the new hello


def test_one_refused_of_two_pipelined_goes_again_and_only_it(connection: redis.Redis) -> None:
    """R31: the second is stored, the first was refused for want of memory."""
    stream = _begun(connection)
    _push(stream, "xxx", "b")
    with pytest.raises(redis.OutOfMemoryError):
        stream.flush(_Spoilt(connection, _no_room_for_the_first), ALL)
    assert (stream.stored, len(stream.waiting)) == (1, 1)
    _push(stream, "c")
    assert _bring(stream, connection) == 2
    assert [payload[:1] for payload in _payloads(connection)] == ["b", "x", "c"]
    assert _numbers(connection) == [1, 0, 2]  # by their numbers nothing is missing
    ids = [entry for entry, _ in _entries(connection)]
    assert ids == sorted(set(ids))


def test_a_fenced_session_sends_nothing_more_and_says_no_hello(connection: redis.Redis) -> None:
    older = _begun(connection)
    _push(older, "a")
    older.flush(connection, ALL)
    newer = _begun(connection)
    _push(older, "b")
    for older.unsure in (False, True):
        with pytest.raises(StreamTakenOver):
            _bring(older, connection)
    _push(newer, "c")
    assert _bring(newer, connection) == 1
    assert _payloads(connection) == ["a", "c"]
    assert sum(b"hello" in fields for _, fields in _entries(connection)) == 2
    # As when the server's clock was stepped back: `*` then continues the milliseconds of our session.
    for unsure in (False, True):
        connection.delete(KEY)
        older = _begun(connection)
        connection.xadd(KEY, {"hello": "x"}, id=str(older.session.next))
        older.unsure = unsure
        _push(older, "a")
        with pytest.raises(StreamTakenOver):
            _bring(older, connection)
        assert _payloads(connection) == []


@pytest.mark.parametrize("doubtful", [False, True])
def test_who_starts_over_sends_what_was_surely_not_stored(connection: redis.Redis, doubtful: bool) -> None:
    stream = _begun(connection)
    _push(stream, "a")
    if doubtful:  # the reply was lost, and what it would have told is hidden by what came behind it
        with pytest.raises(redis.ConnectionError):
            stream.flush(_Spoilt(connection, _reply_is_lost), ALL)
    else:
        stream.flush(connection, ALL)
    time.sleep(0.002)  # the clock of the server leaves the millisecond of the hello
    connection.xadd(KEY, {"c": "garbage"})
    _push(stream, "b", "c")
    with pytest.raises(StreamTakenOver):
        _bring(stream, connection)
    assert stream.start_over() == int(doubtful)
    assert stream.waiting.size == 2
    assert _bring(stream, connection) == 2
    assert _payloads(connection) == ["a", "garbage", "b", "c"]
    assert _numbers(connection) == [0, 0, 1]
    assert sum(b"hello" in fields for _, fields in _entries(connection)) == 2


def test_a_stream_of_another_type_is_an_error_not_a_loss(connection: redis.Redis) -> None:
    stream = _begun(connection)
    connection.set(KEY, "mine")
    _push(stream, "a")
    for stream.unsure in (False, True):
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            _bring(stream, connection)
    assert len(stream.waiting) == 1


@pytest.mark.parametrize(
    ("credit", "count"),
    [
        (Credit(MOST, MOST, MOST), 3),
        (Credit(2, MOST, MOST), 2),
        (Credit(MOST, 6, MOST), 2),
        (Credit(MOST, 5, MOST), 1),
        (Credit(MOST, MOST, 59), 2),
        (Credit(MOST, MOST, 30), 2),
        (Credit(1, 1, 1), 1),
        (Credit(0, MOST, MOST), 0),
        (Credit(MOST, 0, MOST), 0),
        (Credit(MOST, MOST, -5), 0),
    ],
)
def test_a_credit_covers_what_fits_and_one_at_least_while_any_is_left(credit: Credit, count: int) -> None:
    backlog = Backlog()
    assert not backlog.covered(credit)
    for size, steps in ((4, 10), (2, 20), (2, 30)):
        backlog.add(StreamEntry(b"x" * size, steps))
    covered = backlog.covered(credit)
    assert [entry.steps for entry in covered] == [10, 20, 30][:count]
    for entry in reversed(covered):
        backlog.remove(entry)
    assert len(backlog) == 3 - count
    assert backlog.steps == sum([10, 20, 30][count:])
    assert backlog.size == sum([4, 2, 2][count:])
    assert [backlog.take_oldest().steps for _ in range(3 - count)] == [10, 20, 30][count:]
    assert (len(backlog), backlog.size, backlog.steps) == (0, 0, 0)
