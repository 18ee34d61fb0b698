"""What a client tells its server of its troubles."""

import logging
from collections.abc import Iterator

import pytest
import redis

from soulsgui.runner.api.client_commands import told_lines
from soulsgui.runner.refusal import Refused
from soulsgui.sampling.heartbeat import HeartbeatThread, ServerLogHandler
from soulsgui.sampling.progress import Progress
from soulsgui.wire.access import user_words
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys

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


def test_what_is_told_is_bounded(lines: ServerLogHandler, keys: Keys, redis_client: redis.Redis) -> None:
    for number in range(150):
        log.warning("%d %s end", number, "x" * 5000)
    for _ in range(10):
        lines.give(redis_client, keys.log("c"))
    told = told_lines(redis_client, keys, "c", 1000)
    assert len(told) == 100  # the oldest were lost while too many waited
    assert told[0].text.startswith("test.told: 50 ")
    assert told[0].text.endswith("x end")
    assert max(len(line.text) for line in told) <= 2500


@pytest.mark.allow_warnings
def test_a_log_that_is_no_log_is_taken_away(keys: Keys, redis_client: redis.Redis) -> None:
    for write in (
        lambda: redis_client.set(keys.log("c"), "x"),
        lambda: redis_client.xadd(keys.log("c"), {"line": b"x" * (5 * 2**20)}),
    ):
        write()
        with pytest.raises(Refused, match="no log"):
            told_lines(redis_client, keys, "c", 10)
        assert not redis_client.exists(keys.log("c"))
    redis_client.xadd(keys.log("c"), {"line": b"\xff no json"})
    assert told_lines(redis_client, keys, "c", 10) == []


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
