"""The connection outlives the server: it waits, with jitter, and says so once."""

import logging
import random
import threading
from collections.abc import Iterator
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


@pytest.mark.allow_warnings
def test_an_operation_outlives_a_killed_server(
    server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "soulsgui.wire.connection")
    link = Link(server.address, threading.Event(), "worker")
    link.run(lambda connection: connection.set("test:a", 1))
    server.kill()
    tried = threading.Event()
    results: list[object] = []

    def operate(connection: redis.Redis) -> object:
        try:
            return connection.incr("test:a")
        except redis.ConnectionError:
            tried.set()
            raise

    worker = threading.Thread(target=lambda: results.append(link.run(operate)))
    worker.start()
    assert tried.wait(LIMIT_S)
    server.start()
    worker.join(LIMIT_S)
    link.close()
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
def test_refusals_are_said_once_until_they_are_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "soulsgui.wire.connection")
    link = Link(Address("127.0.0.1", free_port()), threading.Event(), "worker")
    for text in ("OOM used 10", "OOM used 11", "MISCONF disk"):
        link.refused(redis.ResponseError(text))
    link.back()
    link.refused(redis.ResponseError("OOM used 12"))
    link.close()
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(": ")[-1] for line in said] == [
        "OOM used 10", "MISCONF disk", "the server is back", "OOM used 12",
    ]  # fmt: skip


@pytest.mark.allow_warnings
def test_a_writer_outlives_refusals_and_absence(server: FaultyServer) -> None:
    connection = connect(server.address)
    written = threading.Semaphore(0)
    count = 0

    def content() -> str:
        nonlocal count
        count += 1
        written.release()
        return f"{count} {'x' * 1000}"

    writer = PeriodicWriter(server.address, "writer", "test:beat", 0.05, content, expiry_s=100)
    writer.start()
    assert written.acquire(timeout=10)
    connection.config_set("maxmemory", "1")
    for _ in range(3):  # refused, and goes on
        assert written.acquire(timeout=10)
    connection.config_set("maxmemory", "0")
    server.kill()
    for _ in range(2):
        assert written.acquire(timeout=10)
    server.start()
    until(lambda: connection.exists("test:beat"), "the key is written")
    writer.close()
    stored = connection.get("test:beat")
    assert isinstance(stored, bytes)
    assert stored.startswith(f"{count} ".encode())  # the last word
    assert 0 < int(str(connection.ttl("test:beat"))) <= 100
    connection.close()


def test_address_files_keep_the_password_private_and_unsaid(tmp_path: Path) -> None:
    address = Address("127.0.0.1", 6379, "secret", "souls:")
    address.write(tmp_path / "redis.json")
    assert Address.read(tmp_path / "redis.json") == address
    assert "secret" not in repr(address)


@pytest.mark.parametrize("text", [None, "", "[]", "3", '{"host": "h"}', '{"host": "h", "port": "x"}'])
def test_damaged_address_files_are_refused(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "redis.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError):
        Address.read(path)


@pytest.mark.allow_warnings
def test_an_operation_waits_while_the_server_has_no_room() -> None:
    link = Link(Address("127.0.0.1", free_port()), threading.Event(), "worker")
    answers = [
        redis.ResponseError("MISCONF Errors writing to the AOF file"),
        redis.ResponseError("Command # 1 (SET) of pipeline caused error: MISCONF"),
        redis.OutOfMemoryError("command not allowed"),
        "done",
        redis.ResponseError("WRONGTYPE"),
    ]
    operation = Mock(side_effect=answers)
    assert link.run(operation) == "done"
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        link.run(operation)
    link.close()


@pytest.mark.parametrize("size", [0, LARGE_BYTES, LARGE_BYTES + 1, 300_000])
def test_a_large_value_is_handed_on_as_it_is_between_what_frames_it(size: int) -> None:
    value = bytes(size)
    pieces = CommandPacker().pack("SET", "key", value, 7)
    framed = b"*4\r\n$3\r\nSET\r\n$3\r\nkey\r\n$%d\r\n" % size
    assert b"".join(pieces) == framed + value + b"\r\n$1\r\n7\r\n"
    assert any(piece is value for piece in pieces) == (size > LARGE_BYTES)
    assert b"".join(CommandPacker().pack("CLIENT INFO")) == b"*2\r\n$6\r\nCLIENT\r\n$4\r\nINFO\r\n"


def test_large_values_come_back_from_the_server_also_out_of_a_transaction(redis_client: redis.Redis) -> None:
    values = {f"packed:{size}": bytes([size % 251]) * size for size in (10, LARGE_BYTES + 1, 2_000_000)}
    with redis_client.pipeline(transaction=True) as pipeline:
        for name, value in values.items():
            pipeline.set(name, value, ex=60)
        pipeline.execute()
    assert {name: redis_client.get(name) for name in values} == values


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
def test_what_helps_on_the_servers_own_machine_is_not_told_elsewhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop = _Stop(monkeypatch)
    for user in ("", user_of("gamer")):
        link = Link(Address("pc", 1, "x", user=user), stop, "heartbeat", "Start it: soulsgui serve")
        link.lost(redis.ConnectionError("refused"))
        link.close()
    here, elsewhere = [record.getMessage() for record in caplog.records]
    assert here.endswith("is away (ConnectionError); trying again. Start it: soulsgui serve")
    assert elsewhere.endswith("is away (ConnectionError); trying again")


@pytest.mark.allow_warnings
def test_the_servers_own_processes_go_on_trying_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = _Stop(monkeypatch)
    link = Link(Address("pc", 1, "wrong"), stop, "trainer")
    for _ in range(50):
        link.lost(NO)
    assert 0.5 < max(stop.waits) <= 3
    link.back()
    link.lost(NO)
    assert stop.waits[-1] <= 0.1
    stop.set()
    with pytest.raises(Stopped):
        link.lost(NO)
    link.close()


@pytest.mark.allow_warnings
def test_a_client_is_in_again_once_the_server_knows_it(
    redis_address: Address, redis_client: redis.Redis
) -> None:
    address = replace(redis_address, user=user_of("late"), password="s3cret")
    link = Link(address, threading.Event(), "late")
    tried = threading.Event()

    def look(own: redis.Redis) -> object:
        try:
            return own.get(f"{address.prefix}config")
        except redis.AuthenticationError:
            tried.set()
            raise

    done = threading.Thread(target=link.run, args=(look,))
    done.start()
    assert tried.wait(LIMIT_S)
    words = user_words("late", address.prefix, secret_hash("s3cret"))
    redis_client.execute_command("ACL", "SETUSER", user_of("late"), *words)
    try:
        done.join(LIMIT_S)
        assert not done.is_alive()
    finally:
        redis_client.acl_deluser(user_of("late"))
        link.close()
