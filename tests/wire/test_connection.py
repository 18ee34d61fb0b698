"""The connection outlives the server: it waits, with jitter, and says so once."""

import logging
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from soulsgui.errors import UsageError
from soulsgui.system import free_port
from soulsgui.wire.beacon import Beacon
from soulsgui.wire.connection import Address, Backoff, Link, Stopped, connect
from tests.faults.server import FaultyServer, faulty_server
from tests.faults.waiting import LIMIT_S, until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FaultyServer]:
    with faulty_server(tmp_path) as running:
        yield running


@pytest.mark.parametrize("seed", range(5))
def test_delays_double_up_to_the_longest_with_jitter_of_a_half(seed: int) -> None:
    backoff = Backoff(first_s=0.1, longest_s=1.0, rng=random.Random(seed))
    for base in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0):
        assert base / 2 <= backoff.delay_s() <= base
    backoff.reset()
    assert backoff.delay_s() <= 0.1


def test_delays_of_two_clients_differ() -> None:
    first, second = Backoff(), Backoff()
    assert [first.delay_s() for _ in range(5)] != [second.delay_s() for _ in range(5)]


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
def test_waiting_for_the_server_ends_when_stopped() -> None:
    stop = threading.Event()
    link = Link(Address("127.0.0.1", free_port()), stop, "worker")
    stop.set()
    with pytest.raises(Stopped):
        link.run(lambda connection: connection.ping())
    link.close()


@pytest.mark.allow_warnings
def test_wrong_password_is_tried_again(server: FaultyServer) -> None:
    link = Link(Address("127.0.0.1", server.address.port, "wrong"), threading.Event(), "worker")
    with pytest.raises(redis.AuthenticationError) as caught:
        link.redis.ping()
    link.lost(caught.value)
    assert link.away
    link.close()


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
def test_a_beacon_outlives_refusals_and_absence(server: FaultyServer) -> None:
    connection = connect(server.address)
    written = threading.Semaphore(0)
    count = 0

    def content() -> str:
        nonlocal count
        count += 1
        written.release()
        return f"{count} {'x' * 1000}"

    beacon = Beacon(server.address, "beacon", "test:beat", 0.05, content, expiry_s=100)
    beacon.start()
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
    beacon.close()
    stored = connection.get("test:beat")
    assert isinstance(stored, bytes)
    assert stored.startswith(f"{count} ".encode())  # the last word
    assert 0 < int(str(connection.ttl("test:beat"))) <= 100
    connection.close()


@pytest.mark.allow_warnings
def test_a_beacon_ends_at_once_while_the_server_is_away() -> None:
    beacon = Beacon(Address("127.0.0.1", free_port()), "beacon", "test:beat", 10, lambda: "x")
    beacon.start()
    began = time.monotonic()
    beacon.close()
    assert time.monotonic() - began < 2


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
    answers: list[Exception] = [
        redis.ResponseError("MISCONF Errors writing to the AOF file"),
        redis.ResponseError("Command # 1 (SET) of pipeline caused error: MISCONF"),
        redis.OutOfMemoryError("command not allowed"),
    ]

    def operation(_connection: redis.Redis) -> str:
        if answers:
            raise answers.pop(0)
        return "done"

    assert link.run(operation) == "done"
    answers.append(redis.ResponseError("WRONGTYPE"))
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        link.run(operation)
    link.close()
