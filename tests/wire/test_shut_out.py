"""A server that answers but does not let a client in: tried more and more rarely, said after a minute."""

import random
import threading
from dataclasses import replace

import pytest
import redis

from soulsgui.wire import connection
from soulsgui.wire.access import secret_hash, user_of, user_words
from soulsgui.wire.connection import NOT_LET_IN, REVOKED, Address, Link, ShutOut, Stopped
from tests.faults.waiting import LIMIT_S

NO = redis.AuthenticationError("WRONGPASS invalid username-password pair or user is disabled.")


@pytest.mark.parametrize("seed", range(5))
def test_tries_grow_rare_but_never_rarer_than_half_a_minute(seed: int) -> None:
    shut_out = ShutOut(random.Random(seed))
    delays = [shut_out.again(0.0) for _ in range(12)]
    assert delays[0] <= 0.5
    assert delays[3] > delays[0]
    assert all(15 <= delay <= 30 for delay in delays[7:])
    shut_out.over()
    assert shut_out.again(0.0) <= 0.5


def test_it_is_called_revoked_after_a_minute_without_being_let_in() -> None:
    shut_out = ShutOut()
    assert not shut_out.revoked(1000.0)
    shut_out.again(100.0)
    assert not shut_out.revoked(159.9)
    shut_out.again(159.9)
    assert shut_out.revoked(160.0)
    shut_out.over()
    assert not shut_out.revoked(160.0)


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
    assert max(stop.waits) <= 3
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
