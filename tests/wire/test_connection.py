import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import redis

from soulsgui.errors import UsageError
from soulsgui.system import free_port
from soulsgui.wire import connection
from soulsgui.wire.access import secret_hash, user_of, user_words
from soulsgui.wire.beats import PeriodicWriter
from soulsgui.wire.connection import (
    LARGE_BYTES,
    NOT_LET_IN,
    REVOKED,
    Address,
    Backoff,
    CommandPacker,
    Link,
    ShutOut,
    Stopped,
    connect,
)
from tests.faults.server import FaultyServer, faulty_server
from tests.faults.waiting import LIMIT_S, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyServer]:
    with faulty_server(tmp_path) as running:
        yield running


@pytest.mark.parametrize("seed", range(3))
def test_delays_double_up_to_the_longest_with_jitter_of_a_half(seed: int) -> None:
    backoff = Backoff(first_s=0.1, longest_s=1.0, rng=random.Random(seed))
    for base in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0):
        assert base / 2 <= backoff.delay_s() <= base
    backoff.reset()
    assert backoff.delay_s() <= 0.1
    first, second = Backoff(), Backoff()
    assert [first.delay_s() for _ in range(5)] != [second.delay_s() for _ in range(5)], "of two clients"


def test_a_network_that_returns_is_found_within_seconds() -> None:
    backoff = Backoff()
    connection = connect(Address("127.0.0.1", 1))
    how = connection.connection_pool.connection_kwargs
    connection.close()
    # At worst a try has just begun that nobody can answer any more, and the next one waits for its turn.
    assert how["socket_connect_timeout"] + max(backoff.delay_s() for _ in range(50)) < 5


@contextmanager
def waiting(link: Link, operate: Callable[[redis.Redis], object]) -> Iterator[list[object]]:
    """Let an operation wait in a thread while the block runs; yields what it will have returned."""
    tried, results = threading.Event(), []

    def operation(connection: redis.Redis) -> object:
        try:
            return operate(connection)
        except redis.ConnectionError:
            tried.set()
            raise

    worker = threading.Thread(target=lambda: results.append(link.run(operation)))
    worker.start()
    assert tried.wait(LIMIT_S)
    yield results
    worker.join(LIMIT_S)
    assert not worker.is_alive()
    link.close()


@pytest.mark.allow_warnings
def test_an_operation_outlives_a_killed_server(
    server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "soulsgui.wire.connection")
    link = Link(server.address, threading.Event(), "worker")
    link.run(lambda connection: connection.set("test:a", 1))
    server.kill()
    with waiting(link, lambda connection: connection.incr("test:a")) as results:
        server.start()
    assert results == [1]
    said = [record.getMessage() for record in caplog.records]
    assert sum("is away" in line for line in said) == 1
    assert said[-1] == "worker: the server is back"


@pytest.mark.allow_warnings
def test_what_waits_for_an_absent_server_ends_when_stopped() -> None:
    nobody, stop = Address("127.0.0.1", free_port()), threading.Event()
    link = Link(nobody, stop, "worker")
    stop.set()
    for full in (None, redis.ResponseError("MISCONF disk")):
        with pytest.raises(Stopped):
            link.run(Mock(side_effect=full) if full else lambda connection: connection.ping())
    link.close()
    writer = PeriodicWriter(nobody, "writer", "test:beat", LIMIT_S, lambda: "x")
    writer.start()
    writer.close()
    assert not writer.is_alive()


@pytest.mark.allow_warnings
def test_an_operation_waits_while_the_server_has_no_room_and_says_each_reason_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "soulsgui.wire.connection")
    link = Link(Address("127.0.0.1", free_port()), threading.Event(), "worker")
    by_pipeline = "Command # 1 (SET) of pipeline caused error: MISCONF"
    refused = ["OOM used 10", "OOM used 11", "MISCONF disk", by_pipeline, "", "OOM used 12", "", "WRONGTYPE"]
    answers = [redis.ResponseError(text) if text else "done" for text in refused]
    operation = Mock(side_effect=[redis.OutOfMemoryError("command not allowed"), *answers])
    assert [link.run(operation), link.run(operation)] == ["done"] * 2
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        link.run(operation)
    link.close()
    said = [record.getMessage().removeprefix("worker: the server ") for record in caplog.records]
    assert [line.removeprefix("refuses: ") for line in said] == [
        "command not allowed", "OOM used 10", "MISCONF disk", by_pipeline, "is back",
        "OOM used 12", "is back",
    ]  # fmt: skip


@pytest.mark.allow_warnings
def test_a_writer_outlives_defects_refusals_and_absence(server: FaultyServer) -> None:
    connection = connect(server.address)
    written = threading.Semaphore(0)
    count = 0

    def content() -> str:
        nonlocal count
        count += 1
        written.release()
        if count == 2:
            raise RuntimeError("a defect costs one turn")
        return f"{count} {'x' * 1000}"

    writer = PeriodicWriter(server.address, "writer", "test:beat", 0.05, content, expiry_s=100)
    writer.start()
    assert written.acquire(timeout=LIMIT_S)
    connection.config_set("maxmemory", "1")
    for _ in range(3):  # refused, and goes on
        assert written.acquire(timeout=LIMIT_S)
    connection.config_set("maxmemory", "0")
    server.kill()
    for _ in range(2):
        assert written.acquire(timeout=LIMIT_S)
    server.start()
    until(lambda: connection.exists("test:beat"), "the key is written")
    writer.close()
    stored = connection.get("test:beat")
    assert isinstance(stored, bytes)
    assert stored.startswith(f"{count} ".encode())  # the last word
    assert 0 < int(str(connection.ttl("test:beat"))) <= 100
    connection.close()


def test_address_files_keep_the_password_private_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    address = Address("127.0.0.1", 6379, "secret", "souls:")
    path = tmp_path / "redis.json"
    with pytest.raises(UsageError):
        Address.read(path)
    address.write(path)
    assert Address.read(path) == address
    assert "secret" not in repr(address)
    for text in ("", "[]", "3", '{"host": "h"}', '{"host": "h", "port": "x"}'):
        path.write_text(text)
        with pytest.raises(UsageError):
            Address.read(path)


@pytest.mark.parametrize("size", [0, LARGE_BYTES, LARGE_BYTES + 1, 300_000])
def test_a_large_value_is_handed_on_as_it_is_between_what_frames_it(size: int) -> None:
    value = bytes(size)
    pieces = CommandPacker().pack("SET", "key", value, 7)
    framed = b"*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$%d\r\n" % size
    assert b"".join(pieces) == framed + value + b"\r\n$1\r\n7\r\n"
    assert any(piece is value for piece in pieces) == (size > LARGE_BYTES)
    assert b"".join(CommandPacker().pack("CLIENT INFO")) == b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"


def test_a_connection_tells_nothing_that_has_to_be_read_from_files_for_each(
    redis_client: redis.Redis,
) -> None:
    assert not redis_client.client_info()["lib-ver"]


def test_large_values_come_back_from_the_server_also_out_of_a_transaction(redis_client: redis.Redis) -> None:
    values = {f"packed:{size}": bytes([size % 251]) * size for size in (10, LARGE_BYTES + 1, 2_000_000)}
    with redis_client.pipeline(transaction=True) as pipeline:
        for name, value in values.items():
            pipeline.set(name, value, ex=60)
        pipeline.execute()
    assert {name: redis_client.get(name) for name in values} == values


def test_commands_sent_together_are_answered_in_order_also_after_one_was_refused(
    redis_address: Address,
) -> None:
    link = Link(redis_address, threading.Event(), "worker")
    assert link.exchange() == []
    assert link.exchange(("RPUSH", "l", b"a", b"b"), ("LPOP", "l"), ("BLPOP", "l", 1)) == [
        2,
        b"a",
        [b"l", b"b"],
    ]
    with pytest.raises(redis.ResponseError):
        link.exchange(("SET", "s", "x"), ("LPOP", "s"), ("GET", "s"))
    assert link.exchange(("GET", "s"), ("DEL", "s")) == [b"x", 1], "not what was left of those before"
    link.close()


NO = redis.AuthenticationError("WRONGPASS invalid username-password pair or user is disabled.")


@pytest.mark.parametrize("seed", range(3))
def test_a_client_that_is_shut_out_tries_more_rarely_and_is_revoked_after_a_minute(seed: int) -> None:
    shut_out = ShutOut(random.Random(seed))
    assert not shut_out.revoked(1000.0)
    delays = [shut_out.again(100.0) for _ in range(12)]
    assert delays[0] <= 0.5
    assert delays[3] > delays[0]
    assert all(15 <= delay <= 30 for delay in delays[7:])
    assert [shut_out.revoked(now) for now in (159.9, 160.0)] == [False, True]
    shut_out.over()
    assert not shut_out.revoked(160.0)
    assert shut_out.again(160.0) <= 0.5


class _Stop(threading.Event):
    """Never waits, and remembers how long it should have; a clock goes on by that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.waits: list[float] = []
        self.now = 0.0
        monkeypatch.setattr(connection.time, "monotonic", lambda: self.now)

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        self.now += timeout
        return self.is_set()


@pytest.mark.allow_warnings
def test_a_client_that_is_not_let_in_says_so_once_after_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = _Stop(monkeypatch)
    link = Link(Address("pc", 1, "s3cret", user=user_of("gamer")), stop, "heartbeat", "soulsgui serve")
    while stop.now < 300:
        link.lost(NO)
    assert max(stop.waits) <= 30
    assert len(stop.waits) < 30
    first, revoked = [record.getMessage() for record in caplog.records]
    assert first == f"heartbeat: the server at pc:1 {NOT_LET_IN} It is tried again."
    assert revoked == f"heartbeat: the server at pc:1 {REVOKED}"
    link.back()
    link.lost(NO)
    assert stop.waits[-1] <= 0.5
    while stop.now < 600:
        link.lost(NO)
    assert [record.getMessage() for record in caplog.records].count(revoked) == 2, "and once each time"
    link.close()


@pytest.mark.allow_warnings
def test_the_servers_own_processes_go_on_trying_quickly_and_they_alone_are_told_what_helps(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = _Stop(monkeypatch)
    elsewhere, own = (
        Link(Address("pc", 1, "x", user=user), stop, "trainer", "Start it: soulsgui serve")
        for user in (user_of("gamer"), "")
    )
    elsewhere.lost(redis.ConnectionError("refused"))
    for _ in range(50):
        own.lost(NO)
    assert 0.5 < max(stop.waits) <= 3
    own.back()
    own.lost(NO)
    assert stop.waits[-1] <= 0.1
    stop.set()
    with pytest.raises(Stopped):
        own.lost(NO)
    said = [record.getMessage().partition(" is away ")[2] for record in caplog.records]
    again = "(AuthenticationError); trying again. Start it: soulsgui serve"
    assert said == ["(ConnectionError); trying again", again, again]
    elsewhere.close()
    own.close()


@pytest.mark.allow_warnings
def test_a_client_is_in_again_once_the_server_knows_it(
    redis_address: Address, redis_client: redis.Redis
) -> None:
    address = replace(redis_address, user=user_of("late"), password="s3cret")
    words = user_words("late", address.prefix, secret_hash("s3cret"))
    with waiting(
        Link(address, threading.Event(), "late"), lambda own: own.get(f"{address.prefix}config")
    ) as results:
        redis_client.execute_command("ACL", "SETUSER", user_of("late"), *words)
    redis_client.acl_deluser(user_of("late"))
    assert results == [None]


@pytest.mark.allow_warnings
def test_an_absence_while_nothing_was_asked_is_noticed(server: FaultyServer) -> None:
    link = Link(server.address, threading.Event(), "")
    link.redis.ping()
    server.restart()
    with pytest.raises(redis.ConnectionError, match="while nothing was asked"):
        link.redis.ping()
    link.redis.ping()  # it is told once
    server.restart()
    assert link.run(lambda connection: connection.ping())
    link.close()
