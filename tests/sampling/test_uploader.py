"""The uploader: credits, a bounded buffer, and an end in every situation."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from soulsgui.errors import ClientRegistrationError, ServiceError
from soulsgui.sampling import uploader as uploader_module
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.uploader import StreamSession, Uploader
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.session import Grant, SessionHello
from tests.faults.server import FaultyServer
from tests.faults.waiting import LIMIT_S, until

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

    def push(self, count: int = 1, size: int = 100, steps: int = 10) -> None:
        for _ in range(count):
            self.uploader.push_chunk(b"x" * size, steps)


@pytest.fixture
def client(server: FaultyServer, request: pytest.FixtureRequest) -> Iterator[_Client]:
    made = _Client(server.address, **getattr(request, "param", {}))
    yield made
    made.uploader.close()


DROPPING = pytest.mark.parametrize("client", [{"drops": True}], indirect=True, ids=[""])


@pytest.fixture
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploader_module, "_RETRY_S", 0.02)
    monkeypatch.setattr(uploader_module, "_LINGER_S", 0.1)


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
    server: FaultyServer, connection: redis.Redis, client: _Client
) -> None:
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
def test_whose_name_was_taken_over_says_so_and_is_silent(connection: redis.Redis, client: _Client) -> None:
    newer = connection.xadd(client.keys.chunks("c"), {"hello": "another process"}).decode()
    client.grant(10)
    client.push()
    # The trainer admits the other one a moment later.
    time.sleep(0.1)
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
    client.push(2)
    began = time.monotonic()
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
