"""The uploader: credits, a bounded buffer, an end in every situation; nothing is stored twice (R8, R31)."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from soulsgui.errors import ClientRegistrationError, ServiceError
from soulsgui.sampling import uploader as uploader_module
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.uploader import Backlog, Credit, StreamEntry, StreamSession, StreamTakenOver, Uploader
from soulsgui.wire.connection import AWAY, Address
from soulsgui.wire.keys import EntryId, Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.session import Grant, SessionHello
from tests.faults.server import FaultyServer
from tests.faults.waiting import LIMIT_S, until

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


class _RepliesAreLost:
    """A connection whose pipelines are carried out, and whose replies do not come."""

    def __init__(self, connection: redis.Redis) -> None:
        self._connection = connection

    def pipeline(self, transaction: bool) -> Any:
        pipeline = self._connection.pipeline(transaction=transaction)
        execute = pipeline.execute

        def lost(**how: Any) -> None:
            execute(**how)
            raise redis.ConnectionError("reply lost")

        pipeline.execute = lost  # type: ignore[method-assign, assignment]
        return pipeline


@pytest.mark.parametrize("noticed", [True, False], ids=["after the hello was said again", "by itself"])
def test_stored_entries_are_not_sent_again_after_a_lost_reply(connection: redis.Redis, noticed: bool) -> None:
    stream = _begun(connection)
    _push(stream, "a", "b")
    with pytest.raises(redis.ConnectionError):
        stream.flush(_RepliesAreLost(connection), ALL)
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
            stream.flush(_RepliesAreLost(connection), ALL)
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


Log = pytest.LogCaptureFixture


class _Client:
    """An uploader with what surrounds it."""

    def __init__(self, address: Address, buffer_bytes: int = 10_000, drops: bool = False) -> None:
        self.keys = Keys(address.prefix)
        self.progress = Progress("c", Instance(pid=1), 3, {}, run_id="run-1")
        self.sessions: list[str] = []
        self.told: list[tuple[int, int]] = []
        self.uploader = Uploader(address, self.progress, "contract-1", buffer_bytes, self._begun, drops)
        self.uploader.start()
        until(lambda: self.sessions, "the hello")

    def _begun(self) -> None:
        self.told.append((self.progress.sent_chunks, self.progress.sent_bytes))
        self.sessions.append(self.progress.session)

    def grant(self, entries: int, size: int = 10**9, **changed: Any) -> None:
        fields: dict[str, Any] = {"session": self.progress.session, "status": "accepted"} | changed
        self.uploader.granted(Grant(credit_entries=entries, credit_bytes=size, **fields))

    def push(self, count: int = 1, size: int = 100, steps: int = 10, model_id: int | None = None) -> None:
        for _ in range(count):
            self.uploader.push_chunk(b"x" * size, steps, model_id)


@pytest.fixture
def client(server: FaultyServer, request: pytest.FixtureRequest) -> Iterator[_Client]:
    made = _Client(server.address, **getattr(request, "param", {}))
    yield made
    made.uploader.close()


DROPPING = pytest.mark.parametrize("client", [{"drops": True}], indirect=True, ids=[""])


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploader_module, "_RETRY_S", 0.02)


def _hellos(connection: redis.Redis, key: str) -> list[SessionHello]:
    entries = [fields for _, fields in connection.xrange(key)]
    return [SessionHello.read(fields[b"hello"]) for fields in entries if b"hello" in fields]


def _chunks(connection: redis.Redis, client: _Client) -> int:
    key = client.keys.chunks("c")
    return connection.xlen(key) - len(_hellos(connection, key))


@pytest.mark.allow_warnings
def test_credit_limits_what_is_sent(client: _Client, connection: redis.Redis, server: FaultyServer) -> None:
    (hello,) = _hellos(connection, client.keys.chunks("c"))
    assert (hello.client, hello.run_id, hello.contract, hello.num_envs) == ("c", "run-1", "contract-1", 3)
    assert client.sessions == [client.progress.session]
    client.push(5)
    until(lambda: client.progress.buffered_bytes == 500, "the pushes are taken over")
    assert _chunks(connection, client) == 0
    client.grant(2)
    until(lambda: client.progress.buffered_bytes == 300, "two are sent")
    assert _chunks(connection, client) == 2
    client.grant(9, size=300)  # totals since the hello: one more by bytes
    until(lambda: client.progress.buffered_bytes == 200, "one more is sent")
    client.grant(9, size=300)  # a repeat gives nothing
    assert _chunks(connection, client) == 3
    client.grant(9, credit_steps=31)
    until(lambda: client.progress.buffered_bytes == 100, "one more begins within its steps")
    client.grant(9)
    until(lambda: client.progress.sent_chunks == 5, "all are sent")
    assert _chunks(connection, client) == 5
    server.restart()  # without its data
    client.uploader.distrust()
    until(lambda: len(client.sessions) == 2, "a new session, though nothing waits")


@pytest.mark.parametrize(
    "changed", [{"session": "1-0"}, {"status": "quarantined"}, {"status": "refused"}], ids=str
)
def test_grants_that_are_none_are_no_credit_but_episodes_need_none(
    client: _Client, connection: redis.Redis, changed: dict[str, str]
) -> None:
    client.push(2)
    client.grant(100, **changed)
    for _ in range(3):
        client.uploader.push_episode(b"{}")
    until(lambda: connection.xlen(client.keys.episodes("c")) == 4, "the episodes are sent all the same")
    assert len(_hellos(connection, client.keys.episodes("c"))) == 1
    assert _chunks(connection, client) == 0


UNLIMITED = 200


def _room(client: _Client) -> int:
    """Return for how many more open steps there is room."""
    return next((steps for steps in range(UNLIMITED) if not client.uploader.has_room(steps)), UNLIMITED)


def test_steps_have_room_as_far_as_grant_and_buffer_go(client: _Client, connection: redis.Redis) -> None:
    assert _room(client) == 0
    client.grant(100, credit_steps=25)
    assert _room(client) == 25
    client.push(2, steps=10)
    assert _room(client) == 5
    until(lambda: _chunks(connection, client) == 2, "both are sent")
    until(lambda: not client.progress.buffered_bytes, "the answer is there, too")
    assert _room(client) == 5, "stored or not: they count since the hello"
    for steps, changed, room in (
        (26, {}, 6),
        (26, {"status": "quarantined"}, 0),
        (26, {"session": "1-0"}, 0),
    ):
        client.grant(100, credit_steps=steps, **changed)
        assert _room(client) == room
    client.grant(2)
    client.push(2, size=5000)
    assert _room(client) == UNLIMITED, "as much as it should hold"
    client.push()
    assert client.uploader.full
    assert _room(client) == 0
    client.grant(3)
    until(lambda: _room(client), "room")
    assert client.progress.buffered_bytes == 5100


@pytest.mark.allow_warnings
def test_new_sessions_have_what_waits(server: FaultyServer, connection: redis.Redis, client: _Client) -> None:
    client.uploader.distrust()  # for no reason
    client.grant(2, credit_steps=100)
    client.push(5, steps=10)
    until(lambda: _chunks(connection, client) == 2, "two are sent")
    assert len(_hellos(connection, client.keys.chunks("c"))) == 1
    assert _room(client) == 50
    server.restart()  # without its data
    client.uploader.distrust()
    until(lambda: len(client.sessions) == 2, "a new session")
    assert len(_hellos(connection, client.keys.chunks("c"))) == 1
    assert client.told[1] == (0, 0)  # what it stored, too, is counted since the hello
    assert _room(client) == 0  # nobody has granted anything to it
    client.grant(100, credit_steps=100)
    assert _room(client) == 70
    until(lambda: _chunks(connection, client) == 3, "what waited is sent")
    assert _room(client) == 70


@DROPPING
def test_the_oldest_beyond_the_grant_are_dropped(client: _Client, connection: redis.Redis) -> None:
    for size in (1, 2, 3):
        client.push(size=size)
    assert client.progress.dropped == 0  # nobody has said how many steps it may send
    client.grant(0, credit_steps=25)
    client.push(size=4)
    assert client.progress.dropped == 20
    client.push(2, size=5)
    assert client.progress.dropped == 40
    client.grant(2, credit_steps=25)
    until(lambda: client.progress.sent_chunks == 2, "the newest ones are sent")
    entries = connection.xrange(client.keys.chunks("c"))
    assert [(len(fields[b"c"]), fields[b"n"]) for _, fields in entries[1:]] == [(5, b"0"), (5, b"1")]
    client.push(size=6)
    client.push(size=7)  # not covered either, but the newest one stays for the next credit
    assert (client.progress.buffered_bytes, client.progress.dropped) == (7, 50)
    client.grant(3, credit_steps=35)
    until(lambda: client.progress.sent_chunks == 3, "it is sent")


@DROPPING
def test_a_full_buffer_drops_the_oldest_chunks_first(client: _Client) -> None:
    client.grant(0)
    client.push(3, size=5000)
    assert (client.progress.dropped, client.progress.buffered_bytes) == (10, 10_000)
    client.uploader.push_episode(b"e" * 100)
    assert client.progress.dropped == 20
    client.push(size=20_000)
    assert client.progress.dropped == 30  # the newest chunk stays, however large
    assert client.uploader.failure is None


@pytest.mark.allow_warnings
@pytest.mark.usefixtures("_hasty")
def test_close_sends_what_waits_and_ends_while_the_server_is_away(
    server: FaultyServer, connection: redis.Redis, client: _Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploader_module, "_LINGER_S", LIMIT_S)
    client.grant(1000)
    client.push(50)
    client.uploader.push_episode(b"{}")
    client.uploader.close()
    assert _chunks(connection, client) == 50
    assert connection.xlen(client.keys.episodes("c")) == 2
    other = _Client(server.address)
    other.grant(10)
    server.kill()
    other.push(3)
    monkeypatch.setattr(uploader_module, "_LINGER_S", 0.1)
    other.uploader.close()
    assert not other.uploader.is_alive()


@pytest.mark.allow_warnings
@pytest.mark.usefixtures("_hasty")
def test_a_refusal_is_tried_again(server: FaultyServer, connection: redis.Redis, client: _Client) -> None:
    client.grant(100)
    connection.config_set("maxmemory", "1")
    client.push(3)
    until(lambda: "refuses samples" in client.progress.error, "the refusal is told")
    connection.config_set("maxmemory", "0")
    until(lambda: client.progress.sent_chunks == 3, "all are sent")
    until(lambda: client.progress.error == "", "the refusal is over")
    assert _chunks(connection, client) == 3


@pytest.mark.allow_warnings
def test_whose_name_was_taken_over_says_so_and_is_silent(
    connection: redis.Redis, client: _Client, monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    monkeypatch.setattr(uploader_module, "_TAKEN_OVER_WITHIN_S", LIMIT_S)
    newer = connection.xadd(client.keys.chunks("c"), {"hello": "another process"}).decode()
    client.grant(10)
    client.push()
    until(lambda: "somebody else wrote" in caplog.text, "it looks who wrote")
    # The trainer admits the other one a moment later.
    client.grant(10, session=newer)
    client.uploader.join(LIMIT_S)
    with pytest.raises(ClientRegistrationError, match="took over"):
        client.push()
    assert "took over" in client.progress.error
    assert connection.xlen(client.keys.chunks("c")) == 2


@pytest.mark.allow_warnings
def test_garbage_in_our_streams_costs_a_session_alone(connection: redis.Redis, client: _Client) -> None:
    key, episodes = client.keys.chunks("c"), client.keys.episodes("c")
    client.grant(10)
    client.push()
    client.uploader.push_episode(b"first")
    until(lambda: client.progress.sent_chunks == 1, "the first is sent")
    until(lambda: connection.xlen(episodes) == 2, "hello and episode")
    connection.xadd(episodes, {"e": b"garbage"})
    client.uploader.push_episode(b"second")
    until(lambda: connection.xlen(episodes) == 5, "another hello and the episode")
    told = [fields[b"e"] for _, fields in connection.xrange(episodes) if b"e" in fields]
    assert told == [b"first", b"garbage", b"second"]
    until(lambda: len(client.sessions) == 2, "a new session")
    connection.delete(key, episodes)
    client.grant(10)
    client.push()
    until(lambda: client.progress.sent_chunks == 1, "the first of the session is sent")
    connection.xadd(key, {"c": b"garbage"})
    began = time.monotonic()
    client.push(2)
    until(lambda: len(client.sessions) == 3, "a new session")
    assert time.monotonic() - began > 0.8, "the one who took over would have had the time to be admitted"
    client.grant(10)
    until(lambda: client.progress.sent_chunks == 2, "what waited is sent")
    ours = [fields for _, fields in connection.xrange(key) if fields.get(b"c") == b"x" * 100]
    assert len(ours) == 3
    assert [int(fields[b"n"]) for fields in ours] == [0, 0, 1]
    assert client.uploader.failure is None


@pytest.mark.allow_warnings
def test_closing_does_not_wait_for_who_wrote(
    connection: redis.Redis, client: _Client, monkeypatch: pytest.MonkeyPatch, caplog: Log
) -> None:
    monkeypatch.setattr(uploader_module, "_TAKEN_OVER_WITHIN_S", 1000.0)
    connection.xadd(client.keys.chunks("c"), {"c": b"garbage"})
    client.grant(10)
    client.push()
    until(lambda: "somebody else wrote" in caplog.text, "it looks who wrote")
    client.uploader.close()
    assert not client.uploader.is_alive()
    assert connection.xlen(client.keys.chunks("c")) == 2


@pytest.mark.allow_warnings
def test_an_uploader_that_fails_tells_the_pusher(monkeypatch: pytest.MonkeyPatch, client: _Client) -> None:
    def fail(*_: object) -> int:
        raise ValueError("a defect")

    monkeypatch.setattr(StreamSession, "flush", fail)
    client.push(3, size=5000)
    client.grant(10)
    client.uploader.join(LIMIT_S)
    with pytest.raises(ServiceError, match="a defect"):
        client.push()
    assert "a defect" in client.progress.error


def test_what_the_server_would_refuse_as_too_old_is_dropped_here(
    client: _Client, connection: redis.Redis
) -> None:
    for model_id in (3, 4, 5, None):
        client.push(model_id=model_id)
    until(lambda: client.progress.buffered_bytes == 400, "the pushes are taken over")
    client.uploader.drop_older(5)
    assert (client.progress.dropped, client.progress.buffered_bytes) == (20, 200)
    client.grant(9, credit_steps=20)  # what was dropped counts for nothing
    until(lambda: client.progress.sent_chunks == 2, "the others are sent")
    numbers = [fields[b"n"] for _, fields in connection.xrange(client.keys.chunks("c")) if b"n" in fields]
    assert [int(number) for number in numbers] == [0, 1]  # none is missed
