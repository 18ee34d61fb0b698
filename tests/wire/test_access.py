"""What a client may do on the server, tried out on every server program of this machine."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from soulsgui.errors import UsageError
from soulsgui.runner.server.binary import packaged_binary
from soulsgui.wire.access import client_rights, secret_hash, user_of
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


NAMES = (
    "chunks", "episodes", "log", "beat", "wish", "grant", "wake_up",
    "weights", "weights_event", "config", "metrics", "done", "clients", "requests", "replies",
)  # fmt: skip


def commands(text: str, client: str) -> list[tuple[str, ...]]:
    """Take commands apart that are separated by commas; names in braces are keys, of a client or of all."""
    keys = {name: getattr(KEYS, name) for name in NAMES}
    names = {name: key(client) if callable(key) else key for name, key in keys.items()}
    names |= {"node": KEYS.node("trainer"), "orders": KEYS.commands("trainer"), "theirs": KEYS.chunks(OTHER)}
    return [tuple(command.split()) for command in text.format(**names).split(", ")]


ALLOWED = commands(
    "XADD {chunks} * hello x, XADD {episodes} NOMKSTREAM * e x, XADD {log} MAXLEN 1000 * line x, "
    "SET {beat} x PX 1000, GET {beat}, PTTL {beat}, "
    "GETRANGE {weights} 0 10, STRLEN {weights}, GET {config}, GET {wish}, GET {grant}, PING, "
    "CLIENT SETNAME x, RPUSH {requests} x, BLPOP {replies} 0.01",
    OWN,
)
OWN_KEYS_MISUSED = commands(
    "SET {chunks} x, SET {episodes} x, SET {log} x, XRANGE {log} - +, XADD {beat} * a b, DEL {chunks}, "
    "UNLINK {beat}, XTRIM {chunks} MAXLEN 0, XDEL {chunks} 1-1, XRANGE {chunks} - +, "
    "GET {weights}, GETRANGE {config} 0 10, GETRANGE {beat} 0 10, "
    "XREAD STREAMS {chunks} 0, XGROUP DESTROY {chunks} trainer, XGROUP CREATE {chunks} g 0, "
    "XREADGROUP GROUP trainer x STREAMS {chunks} >, XACK {chunks} trainer 1-1, XSETID {chunks} 9-9, "
    "XLEN {chunks}, XINFO STREAM {chunks}, XINFO STREAM {log} FULL COUNT 0, XREVRANGE {chunks} + - COUNT 1, "
    "XINFO GROUPS {chunks}, RENAME {chunks} {theirs}, COPY {beat} {theirs}, EXPIRE {beat} 1, PERSIST {beat}, "
    "APPEND {beat} x, TYPE {beat}, DUMP {beat}, SET {grant} x, SET {wish} x, SET {weights} x, "
    "SET {config} x, PUBLISH {wake_up} x, PUBLISH {weights_event} 1, LPUSH {requests} x, "
    "LRANGE {requests} 0 9, BLPOP {requests} 1, SET {requests} x, DEL {requests}, "
    "RPUSH {replies} x, LPOP {replies}",
    OWN,
)
OF_OTHERS = commands(
    "XADD {chunks} * c x, XADD {episodes} * e x, XADD {log} * line x, XADD {metrics} * row x, "
    "XADD {done} * a x, XADD {orders} * a x, XLEN {chunks}, XINFO STREAM {chunks}, SET {beat} x, GET {beat}, "
    "GET {grant}, GET {wish}, GET {node}, SET {node} x, HGETALL {clients}, HSET {clients} pc-2 {{}}, "
    "HDEL {clients} pc-2, GET elsewhere, SET elsewhere x, SUBSCRIBE {wake_up}, RPUSH {requests} x, "
    "BLPOP {replies} 1",
    OTHER,
)
OF_THE_SERVER = commands(
    "KEYS *, SCAN 0, DBSIZE, RANDOMKEY, FLUSHALL, FLUSHDB, SAVE, BGREWRITEAOF, SHUTDOWN NOSAVE, INFO, "
    "CONFIG GET *, CONFIG SET maxmemory 1, ACL LIST, ACL WHOAMI, CLIENT LIST, CLIENT PAUSE 1000, "
    "CLIENT KILL TYPE normal, CLIENT ID, MONITOR, REPLICAOF 127.0.0.1 1, DEBUG SLEEP 0, MODULE LIST, "
    "MULTI, SCRIPT FLUSH, FUNCTION LIST, SELECT 0, SWAPDB 0 0, PSUBSCRIBE *, SLOWLOG GET, LATENCY LATEST, "
    "MEMORY DOCTOR, OBJECT HELP, EVAL return 0, ACL SETUSER client.pc-1 allcommands",
    OWN,
)


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


def test_what_a_client_needs_is_allowed(client: redis.Redis, report: Report) -> None:
    for command in ALLOWED:
        report.injected("a command that a client needs")
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


def test_everything_else_is_refused(client: redis.Redis, report: Report) -> None:
    def answer(command: tuple[str, ...]) -> str:
        report.injected("a command beyond a client's rights")
        try:
            return f"answered: {client.execute_command(*command)!r}"
        except redis.ResponseError as error:
            return str(error)

    answers = {command: answer(command) for command in (*OWN_KEYS_MISUSED, *OF_OTHERS, *OF_THE_SERVER)}
    refused = re.compile("no permissions|noperm|not allowed", re.IGNORECASE)
    assert {command: said for command, said in answers.items() if not refused.search(said)} == {}


def test_a_wrong_secret_is_refused_and_a_deleted_user_cut_off_at_once(
    server: Address, owner: redis.Redis
) -> None:
    words = ("on", f"#{secret_hash('two')}", *client_rights(OTHER, KEYS.prefix))
    owner.execute_command("ACL", "SETUSER", user_of(OTHER), *words)
    known, stranger = (
        connect(replace(server, user=user_of(OTHER), password=password)) for password in ("two", "guessed")
    )
    known.get(KEYS.config)
    owner.execute_command("ACL", "DELUSER", user_of(OTHER))
    for cut_off, error in ((stranger, redis.AuthenticationError), (known, redis.ConnectionError)):
        with pytest.raises(error):
            cut_off.get(KEYS.config)
        cut_off.close()


def test_a_user_has_the_name_of_a_client() -> None:
    assert user_of("pc-1") == "client.pc-1"
    with pytest.raises(UsageError):
        user_of("two words")
