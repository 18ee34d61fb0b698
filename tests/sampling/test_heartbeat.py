"""What a client tells its server of its troubles, and two with one name (R19): the second writes nothing."""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from soulsgui.errors import ClientRegistrationError, UsageError
from soulsgui.runner.api.client_commands import told_lines
from soulsgui.runner.refusal import Refused
from soulsgui.sampling import heartbeat
from soulsgui.sampling.heartbeat import (
    HeartbeatThread,
    ServerLogHandler,
    derived_seed,
    ensure_name_is_free,
    other_name_remedy,
)
from soulsgui.sampling.link import ClientLink
from soulsgui.sampling.progress import Progress
from soulsgui.wire.access import user_words
from soulsgui.wire.beats import PeriodicWriter, own_instance
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S, until

SECRET = "s3cret"
log = logging.getLogger("test.told")


@pytest.fixture
def lines() -> Iterator[ServerLogHandler]:
    made = ServerLogHandler(SECRET)
    log.addHandler(made)
    log.propagate = False
    yield made
    log.removeHandler(made)
    log.propagate = True


def test_warnings_travel_with_the_beat_and_secrets_do_not(
    lines: ServerLogHandler, keys: Keys, redis_address: Address, redis_client: redis.Redis
) -> None:
    log.info("nobody's business")
    log.warning("a step took 9 s, password %s", SECRET)
    try:
        raise ValueError("broken reward")
    except ValueError:
        log.exception("the game failed")
    HeartbeatThread(redis_address, Progress("c", own_instance(), 1, {}), lines).close()
    first, second = told_lines(redis_client, keys, "c", 10)
    assert (first.level, first.text) == ("warning", "test.told: a step took 9 s, password (hidden)")
    assert second.level == "error"
    assert second.text.startswith("test.told: the game failed\nTraceback")
    assert second.text.endswith("ValueError: broken reward")
    assert [line.number for line in told_lines(redis_client, keys, "c", 1)] == [1]
    assert abs((first.time or 0) - redis_client.time()[0]) < 60  # by the server's clock


@pytest.mark.allow_warnings
def test_a_log_that_is_no_log_is_taken_away_and_others_are_bounded(
    lines: ServerLogHandler, keys: Keys, redis_client: redis.Redis
) -> None:
    for write in (
        lambda: redis_client.set(keys.log("c"), "x"),
        lambda: redis_client.xadd(keys.log("c"), {"line": b"x" * (5 * 2**20)}),
    ):
        write()
        with pytest.raises(Refused, match="is not a log"):
            told_lines(redis_client, keys, "c", 10)
        assert not redis_client.exists(keys.log("c"))
    redis_client.xadd(keys.log("c"), {"line": b"\xff no json"})
    assert told_lines(redis_client, keys, "c", 10) == []
    redis_client.delete(keys.log("c"))
    for number in range(150):
        log.warning("%d %s end", number, "x" * 5000)
    for _ in range(10):
        lines.give(redis_client, keys.log("c"))
    told = told_lines(redis_client, keys, "c", 1000)
    assert len(told) == 100  # the oldest were lost while too many waited
    assert told[0].text.startswith("test.told: 50 ")
    assert told[0].text.endswith("x end")
    assert max(len(line.text) for line in told) <= 2500


def test_a_server_that_takes_no_lines_is_not_asked_again(
    lines: ServerLogHandler, keys: Keys, redis_address: Address, redis_client: redis.Redis
) -> None:
    words = [word for word in user_words("c", keys.prefix, "0" * 64) if keys.log("c") not in word]
    redis_client.execute_command("ACL", "SETUSER", "client.c", *words, ">pw")
    connection = connect(Address(redis_address.host, redis_address.port, "pw", keys.prefix, "client.c"))
    log.warning("nobody hears it")
    lines.give(connection, keys.log("c"))
    connection.close()
    redis_client.execute_command("ACL", "DELUSER", "client.c")
    lines.give(redis_client, keys.log("c"))
    assert not redis_client.exists(keys.log("c"))


OWN = own_instance()
ELSEWHERE = Instance(host="another-pc", boot_id="x", pid=5, start_time=1.0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(heartbeat, "_WATCH_S", 0.3)


def _beat(connection: redis.Redis, keys: Keys, instance: Instance, age_s: float = 0, **told: bool) -> None:
    beat = Heartbeat(client="c", instance=instance, counter=1, **told)
    connection.set(keys.beat("c"), beat.to_json(), px=round((EXPIRY_S - age_s) * 1000))


def _ensure(connection: redis.Redis, keys: Keys) -> None:
    ensure_name_is_free(connection, keys, "c", OWN, threading.Event())


def test_a_name_in_use_is_refused_and_nothing_is_written(
    redis_address: Address,
    redis_client: redis.Redis,
    keys: Keys,
    report: Report,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report.injected("a second client under the name of one that beats")
    monkeypatch.setattr(heartbeat, "_WATCH_S", LIMIT_S)
    progress = Progress("c", ELSEWHERE, 1, {})
    with closing(
        PeriodicWriter(
            redis_address, "other", keys.beat("c"), 0.02, lambda: progress.beat().to_json(), EXPIRY_S
        )
    ) as writer:
        writer.start()
        until(lambda: redis_client.exists(keys.beat("c")), "the first beat")
        link = ClientLink(redis_address, "c", 1, threading.Event())
        with pytest.raises(ClientRegistrationError, match="in use by process 5 on another-pc"):
            link.open()
        link.close()
    written = {key.decode() for key in redis_client.scan_iter(f"{redis_address.prefix}*")}
    assert written == {keys.beat("c")}
    assert Heartbeat.read(redis_client.get(keys.beat("c"))).instance == ELSEWHERE


@pytest.mark.parametrize("age_s", [0.5, -3600], ids=["a moment ago", "the server's clock was stepped back"])
def test_a_name_whose_owner_is_silent_is_taken_over(
    redis_client: redis.Redis, keys: Keys, age_s: float, report: Report
) -> None:
    _beat(redis_client, keys, ELSEWHERE, age_s=age_s)
    _ensure(redis_client, keys)
    report.injected("a second client under the name of one that is silent")


@pytest.mark.parametrize(
    "beat",
    [
        None,
        {"instance": ELSEWHERE, "age_s": 6.0},
        {"instance": ELSEWHERE, "leaving": True},
        {"instance": OWN},
        {"instance": OWN.model_copy(update={"pid": 2**22 + 1})},
        {"instance": OWN.model_copy(update={"start_time": OWN.start_time - 100})},
    ],
    ids=["nobody", "silent for 6 s", "said goodbye", "ourselves", "dead here", "another process of our pid"],
)
def test_a_name_that_is_surely_free_is_taken_without_waiting(
    redis_client: redis.Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch, beat: dict[str, Any] | None
) -> None:
    stop = threading.Event()
    monkeypatch.setattr(stop, "wait", None)
    if beat is not None:
        _beat(redis_client, keys, **beat)
    ensure_name_is_free(redis_client, keys, "c", OWN, stop)


def test_a_goodbye_meanwhile_frees_the_name(redis_client: redis.Redis, keys: Keys) -> None:
    _beat(redis_client, keys, ELSEWHERE)
    waits: list[float | None] = []

    class Goodbye(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            _beat(redis_client, keys, ELSEWHERE, leaving=True)
            waits.append(timeout)
            return False

    ensure_name_is_free(redis_client, keys, "c", OWN, Goodbye())
    assert len(waits) == 1


@pytest.mark.parametrize("name", ["", "a b", "../x", "-x", "x" * 65, "a:b", "é"])
def test_names_that_can_not_be_a_part_of_a_key_are_refused(redis_address: Address, name: str) -> None:
    with pytest.raises(UsageError):
        ClientLink(redis_address, name, 1, threading.Event())


def test_what_helps_against_equal_names_is_told_and_seeds_differ_by_client_and_attempt_and_repeat() -> None:
    assert "--name" in other_name_remedy("")
    invited = other_name_remedy("client.gamer-01")
    assert ("--name" in invited, "soulsgui invite NAME" in invited) == (False, True)
    seeds = [derived_seed(1, client, attempt) for client in ("a", "b") for attempt in (1, 2)]
    assert len(set(seeds)) == 4
    assert derived_seed(1, "a", 1) == seeds[0]
    assert all(0 <= seed < 2**31 for seed in seeds)
