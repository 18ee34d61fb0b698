"""What a client may do on the server, tried out on every server program of this machine."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from soulsgui.errors import UsageError
from soulsgui.runner.server.binary import packaged_binary
from soulsgui.wire.access import client_rights, secret_hash, user_line, user_of
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S
from tests.servers import running_server

KEYS = Keys("t:")
OWN, OTHER = "pc-1", "pc-2"
PROGRAMS = [
    str(found)
    for found in (packaged_binary(), shutil.which("valkey-server"), shutil.which("redis-server"))
    if found is not None
]

ALLOWED: list[tuple[object, ...]] = [
    ("XADD", KEYS.chunks(OWN), "*", "hello", "x"),
    ("XADD", KEYS.episodes(OWN), "*", "e", "x"),
    ("XADD", KEYS.log(OWN), "MAXLEN", "1000", "*", "line", "x"),
    ("XLEN", KEYS.chunks(OWN)),
    ("XINFO", "STREAM", KEYS.chunks(OWN)),
    ("SET", KEYS.beat(OWN), "x", "PX", "1000"),
    ("GET", KEYS.beat(OWN)),
    ("PTTL", KEYS.beat(OWN)),
    ("GET", KEYS.weights),
    ("GETRANGE", KEYS.weights, "0", "10"),
    ("STRLEN", KEYS.weights),
    ("GET", KEYS.config),
    ("GET", KEYS.wish(OWN)),
    ("GET", KEYS.grant(OWN)),
    ("PING",),
    ("CLIENT", "SETNAME", "x"),
    ("CLIENT", "ID"),
]

OWN_KEYS_MISUSED: list[tuple[object, ...]] = [
    ("SET", KEYS.chunks(OWN), "x"),
    ("SET", KEYS.episodes(OWN), "x"),
    ("SET", KEYS.log(OWN), "x"),
    ("XRANGE", KEYS.log(OWN), "-", "+"),
    ("XADD", KEYS.beat(OWN), "*", "a", "b"),
    ("DEL", KEYS.chunks(OWN)),
    ("UNLINK", KEYS.beat(OWN)),
    ("XTRIM", KEYS.chunks(OWN), "MAXLEN", "0"),
    ("XDEL", KEYS.chunks(OWN), "1-1"),
    ("XRANGE", KEYS.chunks(OWN), "-", "+"),
    ("XREAD", "STREAMS", KEYS.chunks(OWN), "0"),
    ("XGROUP", "DESTROY", KEYS.chunks(OWN), "trainer"),
    ("XGROUP", "CREATE", KEYS.chunks(OWN), "g", "0"),
    ("XREADGROUP", "GROUP", "trainer", "x", "STREAMS", KEYS.chunks(OWN), ">"),
    ("XACK", KEYS.chunks(OWN), "trainer", "1-1"),
    ("XSETID", KEYS.chunks(OWN), "9-9"),
    ("XINFO", "GROUPS", KEYS.chunks(OWN)),
    ("RENAME", KEYS.chunks(OWN), KEYS.chunks(OTHER)),
    ("COPY", KEYS.beat(OWN), KEYS.beat(OTHER)),
    ("EXPIRE", KEYS.beat(OWN), "1"),
    ("PERSIST", KEYS.beat(OWN)),
    ("APPEND", KEYS.beat(OWN), "x"),
    ("TYPE", KEYS.beat(OWN)),
    ("DUMP", KEYS.beat(OWN)),
    ("SET", KEYS.grant(OWN), "x"),
    ("SET", KEYS.wish(OWN), "x"),
    ("SET", KEYS.weights, "x"),
    ("SET", KEYS.config, "x"),
    ("PUBLISH", KEYS.wake_up(OWN), "x"),
    ("PUBLISH", KEYS.weights_event, "1"),
]

OF_OTHERS: list[tuple[object, ...]] = [
    ("XADD", KEYS.chunks(OTHER), "*", "c", "x"),
    ("XADD", KEYS.episodes(OTHER), "*", "e", "x"),
    ("XADD", KEYS.log(OTHER), "*", "line", "x"),
    ("XADD", KEYS.metrics, "*", "row", "x"),
    ("XADD", KEYS.done, "*", "a", "x"),
    ("XADD", KEYS.commands("trainer"), "*", "a", "x"),
    ("XLEN", KEYS.chunks(OTHER)),
    ("XINFO", "STREAM", KEYS.chunks(OTHER)),
    ("SET", KEYS.beat(OTHER), "x"),
    ("GET", KEYS.beat(OTHER)),
    ("GET", KEYS.grant(OTHER)),
    ("GET", KEYS.wish(OTHER)),
    ("GET", KEYS.node("trainer")),
    ("SET", KEYS.node("trainer"), "x"),
    ("HGETALL", KEYS.clients),
    ("HSET", KEYS.clients, OTHER, "{}"),
    ("HDEL", KEYS.clients, OTHER),
    ("GET", "elsewhere"),
    ("SET", "elsewhere", "x"),
]

SERVER_WIDE = (
    "KEYS *, SCAN 0, DBSIZE, RANDOMKEY, FLUSHALL, FLUSHDB, SAVE, BGREWRITEAOF, SHUTDOWN NOSAVE, INFO, "
    "CONFIG GET *, CONFIG SET maxmemory 1, ACL LIST, ACL WHOAMI, CLIENT LIST, CLIENT PAUSE 1000, "
    "CLIENT KILL TYPE normal, MONITOR, REPLICAOF 127.0.0.1 1, DEBUG SLEEP 0, MODULE LIST, MULTI, "
    "SCRIPT FLUSH, FUNCTION LIST, SELECT 0, SWAPDB 0 0, PSUBSCRIBE *, SLOWLOG GET, LATENCY LATEST, "
    "MEMORY DOCTOR, OBJECT HELP"
)
OF_THE_SERVER: list[tuple[object, ...]] = [
    *(tuple(command.split()) for command in SERVER_WIDE.split(", ")),
    ("EVAL", "return 1", "0"),
    ("ACL", "SETUSER", user_of(OWN), "allcommands"),
    ("SUBSCRIBE", KEYS.wake_up(OTHER)),
]


@pytest.fixture(scope="module", params=PROGRAMS, ids=lambda program: Path(program).name)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with running_server(tmp_path_factory.mktemp("acl"), request.param) as address:
        yield replace(address, prefix=KEYS.prefix)


@pytest.fixture(scope="module")
def owner(server: Address) -> Iterator[redis.Redis]:
    connection = connect(server)
    rights = client_rights(OWN, server.prefix)
    connection.execute_command("ACL", "SETUSER", user_of(OWN), "on", f"#{secret_hash('s3cret')}", *rights)
    connection.set(KEYS.weights, b"weights")
    yield connection
    connection.close()


@pytest.fixture
def client(server: Address, owner: redis.Redis) -> Iterator[redis.Redis]:
    connection = connect(replace(server, user=user_of(OWN), password="s3cret"))
    yield connection
    connection.close()


@pytest.mark.parametrize("command", ALLOWED, ids=str)
def test_what_a_client_needs_is_allowed(
    client: redis.Redis, command: tuple[object, ...], report: Report
) -> None:
    report.injected("a command that a client needs")
    if command[0] == "XINFO":
        client.execute_command("XADD", KEYS.chunks(OWN), "*", "c", "x")
    client.execute_command(*command)


def test_a_client_hears_of_new_weights_and_of_its_own_wake_ups(
    client: redis.Redis, owner: redis.Redis
) -> None:
    heard = client.pubsub()
    heard.subscribe(KEYS.weights_event, KEYS.wake_up(OWN))
    assert [heard.get_message(timeout=LIMIT_S)["type"] for _ in range(2)] == ["subscribe"] * 2  # type: ignore[index]
    owner.publish(KEYS.wake_up(OWN), "grant")
    message = heard.get_message(timeout=LIMIT_S)
    assert message is not None
    assert message["data"] == b"grant"
    heard.close()


@pytest.mark.parametrize("command", [*OWN_KEYS_MISUSED, *OF_OTHERS, *OF_THE_SERVER], ids=str)
def test_everything_else_is_refused(client: redis.Redis, command: tuple[object, ...], report: Report) -> None:
    report.injected("a command beyond a client's rights")
    with pytest.raises(redis.ResponseError, match=r"(?i)no permissions|noperm|not allowed"):
        client.execute_command(*command)


def test_a_wrong_secret_is_refused(server: Address, owner: redis.Redis) -> None:
    stranger = connect(replace(server, user=user_of(OWN), password="guessed"))
    with pytest.raises(redis.AuthenticationError):
        stranger.ping()
    stranger.close()


def test_the_line_of_the_configuration_lets_the_client_in(tmp_path: Path, server: Address) -> None:
    """The server takes the line as it starts, beside `requirepass`."""
    line = user_line(OWN, KEYS.prefix, secret_hash("s3cret"))
    with running_server(tmp_path, PROGRAMS[0], more=line) as started:
        own = connect(replace(started, user=user_of(OWN), password="s3cret"))
        assert own.get(KEYS.config) is None
        with pytest.raises(redis.exceptions.NoPermissionError):
            own.get(KEYS.beat(OTHER))
        own.close()
        admin = connect(started)
        assert admin.ping()
        admin.close()


def test_a_deleted_user_is_cut_off_at_once(client: redis.Redis, owner: redis.Redis) -> None:
    rights = client_rights(OTHER, KEYS.prefix)
    owner.execute_command("ACL", "SETUSER", user_of(OTHER), "on", f"#{secret_hash('two')}", *rights)
    kwargs = client.get_connection_kwargs()
    other = connect(Address(kwargs["host"], kwargs["port"], "two", KEYS.prefix, user_of(OTHER)))
    other.get(KEYS.config)
    owner.execute_command("ACL", "DELUSER", user_of(OTHER))
    with pytest.raises((redis.ConnectionError, redis.AuthenticationError)):
        other.get(KEYS.config)
    other.close()


def test_a_user_has_the_name_of_a_client() -> None:
    assert user_of("pc-1") == "client.pc-1"
    with pytest.raises(UsageError):
        user_of("two words")
