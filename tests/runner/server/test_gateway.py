"""The gateway before a real server: who comes in, who does not, and what nobody else notices of it."""

import contextlib
import gc
import re
import socket
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from soulsgui.runner.access.certificate import ensure_certificate
from soulsgui.runner.server import allowance, passing, protocol
from soulsgui.runner.server import gateway as gateway_module
from soulsgui.runner.server.addresses import private_addresses
from soulsgui.runner.server.gateway import packed
from soulsgui.system import free_port
from soulsgui.wire.access import secret_hash, user_of, user_words
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import GATEWAY, EntryId, Keys
from soulsgui.wire.messages.node import NodeState
from tests.faults.proxy import Proxy
from tests.faults.waiting import LIMIT_S, until
from tests.gateways import knock, running_gateway

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS")

SECRET = "0123456789abcdef-for-tests"
SOON_S = 3.0
"""A login that is waited for less long than is usual: on a busy machine a handshake takes its time."""
PAST_LOGIN = b"*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$%d\r\n%b\r\n"


@pytest.fixture
def inside(redis_address: Address, redis_folder: Path, redis_client: redis.Redis) -> Iterator[Address]:
    """The server, with the client `a` invited, and the port where a gateway is to be."""
    words = user_words("a", redis_address.prefix, secret_hash(SECRET))
    redis_client.execute_command("ACL", "SETUSER", user_of("a"), *words)
    yield replace(redis_address, port=free_port(), socket=str(redis_folder / "redis.sock"))
    redis_client.acl_deluser(user_of("a"))


@pytest.fixture
def outside(inside: Address, tmp_path: Path) -> Iterator[Address]:
    """What the client `a` was told; the gateway is there."""
    pin = ensure_certificate(tmp_path).pin
    with running_gateway(inside, tmp_path):
        yield replace(inside, socket="", pin=pin, user=user_of("a"), password=SECRET)


def is_closed(connection: socket.socket) -> bool:
    """Wait until the other side has closed it."""
    with contextlib.suppress(OSError):
        while connection.recv(65_536):
            pass
    return True


def test_the_invited_come_in_encrypted_and_what_they_send_arrives_whole(
    outside: Address, redis_client: redis.Redis
) -> None:
    keys = Keys(outside.prefix)
    weights = bytes(range(256)) * 80_000  # 20 MB
    redis_client.set(keys.weights, weights)
    with closing(connect(outside)) as own, closing(connect(outside)) as listens:
        assert own.getrange(keys.weights, 0, -1) == weights
        own.xadd(keys.chunks("a"), {"c": weights[:5_000_000]})
        ((_, fields),) = redis_client.xrange(keys.chunks("a"))
        assert fields == {b"c": weights[:5_000_000]}
        woken = listens.pubsub()
        woken.subscribe(keys.weights_event)
        assert woken.get_message(timeout=60)["type"] == "subscribe"
        redis_client.publish(keys.weights_event, "1")
        assert woken.get_message(timeout=60)["data"] == b"1"
        woken.close()
    with knock(outside) as tried:
        assert tried.version() == "TLSv1.3"


def test_who_listens_in_between_hears_no_secret_and_no_observation(outside: Address) -> None:
    observation = bytes(range(256)) * 40
    with closing(Proxy(outside)) as between, closing(connect(between.address)) as own:
        own.xadd(Keys(outside.prefix).chunks("a"), {"c": observation})
        heard = bytes(between.heard)
    assert len(heard) > len(observation)
    for word in (SECRET.encode(), outside.user.encode(), observation[:64], b"XADD", outside.prefix.encode()):
        assert word not in heard


@pytest.mark.parametrize(
    "change", [{"password": "x" * 26}, {"user": "client.b"}, {"user": "client.client-1"}]
)
def test_who_is_not_invited_is_told_so_by_the_server(outside: Address, change: dict[str, str]) -> None:
    with closing(connect(replace(outside, **change))) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_nobody_comes_in_with_the_servers_own_password_or_says_something_else_first(
    inside: Address, outside: Address
) -> None:
    password = inside.password.encode()
    for said in (
        PAST_LOGIN % (len(password), password),
        b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n" % (len(password), password),
        b"PING\r\n",
        b"GET / HTTP/1.1\r\n\r\n" + 2000 * b"x",
        # Lengths under which the server would read another user than the gateway.
        b"*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$8\r\nclient.a\r\n",
    ):
        with knock(outside) as stranger:
            stranger.sendall(said)
            assert re.fullmatch(rb"(-(NOAUTH|WRONGPASS) [^\r\n]+\r\n)?", stranger.recv(1000)), said
            assert is_closed(stranger)


def test_what_follows_the_login_at_once_is_said_as_that_client(
    outside: Address, redis_client: redis.Redis
) -> None:
    login = packed(b"AUTH", outside.user.encode(), SECRET.encode())
    with knock(outside) as own:
        own.sendall(login + packed(b"PING") + packed(b"GET", b"souls:"))
        said = b""
        while said.count(b"\r\n") < 3 and (part := own.recv(1000)):
            said += part
        assert re.fullmatch(rb"\+OK\r\n\+PONG\r\n-NOPERM [^\r\n]*\r\n", said)
        own.sendall(b"PING\r\n")  # what our clients don't write could be read in two ways
        assert own.recv(1000).startswith(b"-ERR Protocol error")
        assert is_closed(own)


def test_a_client_that_is_sent_away_has_no_connection_left(
    outside: Address, redis_client: redis.Redis
) -> None:
    with closing(connect(outside)) as own:
        own.ping()
        redis_client.acl_deluser(user_of("a"))
        with pytest.raises(redis.RedisError):
            own.ping()


def of_an_ended(one: object) -> bool:
    """Whether something belongs to a connection that was passed on, or to a side that is lost."""
    return type(one) is passing.Passing or (type(one) is passing.Side and one.lost)


def test_a_connection_that_has_ended_keeps_no_memory_until_somebody_looks_for_rings(outside: Address) -> None:
    gc.collect()
    gc.disable()
    try:
        with closing(connect(outside)) as own:
            own.ping()
        until(lambda: not any(map(of_an_ended, gc.get_objects())), "nothing of it is left")
    finally:
        gc.enable()


def test_who_says_nothing_is_ended_and_keeps_nobody_out(
    outside: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before the handshake, those behind it; of one address more than may be."""
    monkeypatch.setattr(gateway_module, "LOGIN_TIMEOUT_S", SOON_S)
    with ExitStack() as opened:
        place = (outside.host, outside.port)
        crowd = [
            opened.enter_context(socket.create_connection(place, 60))
            for _ in range(gateway_module.MOST_PENDING_OF_ADDRESS + 50)
        ]
        until(lambda: _comes_in(outside), "somebody who knows the secret comes in")
        assert all(is_closed(one) for one in crowd)
        stop = threading.Event()
        more = threading.Thread(target=_crowd, args=(place, stop), name="crowd")
        more.start()
        try:
            for _ in range(3):
                until(lambda: _comes_in(outside), "somebody comes in while others never cease to come")
        finally:
            stop.set()
            more.join()
        silent = opened.enter_context(knock(outside))
        assert is_closed(silent)
        until(lambda: _comes_in(outside), "somebody comes in behind them")


def _crowd(place: tuple[str, int], stop: threading.Event) -> None:
    """Come again and again, and say nothing."""
    while not stop.is_set():
        with ExitStack() as opened, contextlib.suppress(OSError):
            for _ in range(gateway_module.MOST_PENDING_OF_ADDRESS + 50):
                opened.enter_context(socket.create_connection(place, 60))


def _comes_in(outside: Address) -> bool:
    with closing(connect(outside)) as own, contextlib.suppress(redis.RedisError):
        return bool(own.ping())
    return False


@pytest.mark.allow_warnings
def test_when_too_many_are_at_the_door_some_are_ended(
    outside: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "MOST_PENDING", 20)
    with ExitStack() as opened:
        place = (outside.host, outside.port)
        crowd = [opened.enter_context(socket.create_connection(place, 60)) for _ in range(60)]
        until(lambda: _comes_in(outside), "who knows a secret comes in")
        assert all(is_closed(one) for one in crowd)


def test_one_client_has_a_bounded_number_of_connections(
    outside: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "MOST_OF_CLIENT", 3)
    with ExitStack() as opened:
        for _ in range(3):
            assert opened.enter_context(closing(connect(outside))).ping()
        with closing(connect(outside)) as more, pytest.raises(redis.RedisError, match="max number"):
            more.ping()
    until(lambda: _comes_in(outside), "there is room again")


def test_who_logs_in_many_times_at_once_has_no_more_connections(
    outside: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "MOST_OF_CLIENT", 3)
    monkeypatch.setattr(gateway_module, "LOGIN_TIMEOUT_S", LIMIT_S)  # the first waits for all the others
    with ExitStack() as opened:
        many = [opened.enter_context(closing(knock(outside))) for _ in range(20)]
        for one in many:
            one.sendall(_login(outside))
        answers = [one.recv(100) for one in many]
        assert Counter(answer[:3] for answer in answers) == {b"+OK": 3, b"-ER": 17}
    until(lambda: _comes_in(outside), "there is room again")


@pytest.mark.skipif(sys.platform != "linux", reason="others don't tell how much was read")
def test_who_sends_its_bytes_one_by_one_floods(
    outside: Address, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowance, "WORDS_PER_S", 200)
    monkeypatch.setattr(allowance, "FLOOD_S", 1.0)
    key = Keys(outside.prefix).node(GATEWAY)

    def drip(one: ssl.SSLSocket) -> None:
        with contextlib.suppress(OSError):  # the end of the test, where nobody reads any more
            for byte in packed(b"SET", b"x", bytes(2**20)):
                one.sendall(bytes([byte]))

    with closing(knock(outside)) as one:
        one.sendall(_login(outside))
        dripping = threading.Thread(target=drip, args=(one,))
        dripping.start()
        try:
            until(
                lambda: (state := NodeState.read(redis_client.get(key))) and state.floods == ["a"],
                "it is named",
            )
        finally:
            socket.socket.shutdown(one, socket.SHUT_RDWR)  # what belongs to TLS is the other thread's
            dripping.join()


@pytest.mark.parametrize("command", [b"GETRANGE", b"GET"])
def test_what_a_client_does_not_read_is_not_asked_for(
    outside: Address, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, command: bytes
) -> None:
    """On its newest connection all of it comes once it is read; other questions are answered meanwhile."""
    monkeypatch.setattr(passing, "ROOM_BYTES", 2**20)
    size, asked, keys = 4 * 2**20, 10, Keys(outside.prefix)
    if command == b"GETRANGE":
        redis_client.set(keys.weights, bytes(size))
        until(lambda: redis_client.get(keys.node(GATEWAY)), "the gateway has looked at the weights")
        said, ask = b"", packed(command, keys.weights.encode(), b"0", b"-1")
    else:
        said, ask = (
            packed(b"SET", keys.beat("a").encode(), bytes(size)),
            packed(command, keys.beat("a").encode()),
        )
    before = int(redis_client.info("memory")["mem_clients_normal"])
    with ExitStack() as opened:
        greedy = [opened.enter_context(closing(knock(outside))) for _ in range(3)]
        for one in greedy:
            one.settimeout(LIMIT_S)
            one.sendall(_login(outside))
            assert _read(one, 5) == b"+OK\r\n"
            one.sendall(said + asked * ask)
        with closing(connect(outside)) as other:
            for _ in range(50):
                assert other.ping()
                more = int(redis_client.info("memory")["mem_clients_normal"]) - before
                assert more < 6 * size
        answer, early = b"$%d\r\n" % size, b"+OK\r\n" if said else b""
        told = _read(greedy.pop(), len(early) + asked * (len(answer) + size + 2))
        assert told.startswith(early + answer)
        assert told.count(answer) == asked


def _login(address: Address) -> bytes:
    return packed(b"AUTH", address.user.encode(), address.password.encode())


def _read(connection: socket.socket, size: int) -> bytes:
    told = bytearray()
    while len(told) < size and (more := connection.recv(min(2**20, size - len(told)))):
        told += more
    return bytes(told)


@pytest.mark.parametrize(
    "words",
    [(b"RESET",), (b"AUTH", b"x", b"y"), (b"HELLO", b"2"), (b"XRANGE", b"x", b"-", b"+"), (b"QUIT",)],
    ids=lambda words: words[0].decode(),
)
def test_what_no_client_needs_is_not_passed_on(outside: Address, words: tuple[bytes, ...]) -> None:
    with closing(knock(outside)) as one:
        one.sendall(_login(outside) + packed(b"PING") + packed(*words) + packed(b"PING"))
        told = b""
        while more := one.recv(65_536):
            told += more
    assert told.startswith(b"+OK\r\n")
    assert b"-ERR Protocol error" in told
    assert told.count(b"PONG") <= 1


def test_no_client_uses_the_ids_of_its_stream_up(outside: Address) -> None:
    key, latest_ms = Keys(outside.prefix).chunks("a"), round(1000 * (time.time() + protocol._MOST_AHEAD_S))
    for id_ in (f"{latest_ms + 3_600_000}-0", f"{2**64 - 1}-{2**64 - 1}"):
        with closing(connect(outside)) as refused, pytest.raises(redis.RedisError):
            refused.xadd(key, {"c": b"x"}, id=id_)
    with closing(connect(outside)) as own:
        own.xadd(key, {"c": b"x"}, id=f"{latest_ms}-{2**64 - 1}")
        hello = EntryId.parse(own.xadd(key, {"hello": b"x"}))
        assert hello == (latest_ms + 1, 0)
        assert own.xadd(key, {"c": b"x"}, id=str(hello.next)) == str(hello.next).encode()


def test_who_listens_to_channels_asks_for_nothing_large_there(outside: Address) -> None:
    keys = Keys(outside.prefix)
    with closing(knock(outside)) as one:
        one.sendall(_login(outside))
        assert one.recv(100) == b"+OK\r\n"
        one.sendall(packed(b"UNSUBSCRIBE", b"x", b"x"))
        told = b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n"
        assert _read(one, 2 * len(told)) == 2 * told
        one.sendall(packed(b"GETRANGE", keys.weights.encode(), b"0", b"-1"))
        assert one.recv(100).startswith(b"-ERR Protocol error")
        assert is_closed(one)


def test_who_sends_small_commands_without_end_is_held_back_and_named_and_nobody_else_is(
    outside: Address, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On all its connections together, and on those that it opens meanwhile."""
    monkeypatch.setattr(allowance, "WORDS_PER_S", 2000)
    monkeypatch.setattr(allowance, "FLOOD_S", 2.0)
    words = user_words("b", outside.prefix, secret_hash(SECRET))
    redis_client.execute_command("ACL", "SETUSER", user_of("b"), *words)
    key = Keys(outside.prefix).node(GATEWAY)
    stop, answered = threading.Event(), Counter[int]()

    def flood(number: int) -> None:
        with closing(connect(outside)) as own, contextlib.suppress(redis.RedisError):
            while not stop.is_set():
                pipeline = own.pipeline(transaction=False)
                for _ in range(100):
                    pipeline.ping()
                answered[number] += len(pipeline.execute())

    began = time.monotonic()
    floods = [threading.Thread(target=flood, args=(number,)) for number in range(3)]
    for one in floods:
        one.start()
    try:

        def named() -> list[str]:
            state = NodeState.read(redis_client.get(key))
            return state.floods if state is not None else []

        with closing(connect(replace(outside, user=user_of("b")))) as other:
            until(lambda: other.ping() and named() and len(answered) == 3, "it is named")
            assert named() == ["a"]
            assert answered.total() <= 1000 * (time.monotonic() - began + allowance.BURST_S + 1.0)
    finally:
        stop.set()
        for one in floods:
            one.join()
        redis_client.acl_deluser(user_of("b"))
    until(lambda: not named(), "it is named no more")


def test_while_the_server_is_away_it_waits_for_it(tmp_path: Path) -> None:
    inside = Address("127.0.0.1", free_port(), "x", socket=str(tmp_path / "none.sock"))
    pin = ensure_certificate(tmp_path).pin
    with running_gateway(inside, tmp_path):
        outside = replace(inside, socket="", pin=pin, user=user_of("a"), password=SECRET)
        with closing(connect(outside)) as own, pytest.raises(redis.ConnectionError):
            own.ping()


def test_a_server_that_does_not_answer_is_left_without_a_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "LOGIN_TIMEOUT_S", SOON_S)
    pin = ensure_certificate(tmp_path).pin
    with socket.socket(socket.AF_UNIX) as frozen:
        frozen.bind(str(tmp_path / "redis.sock"))
        frozen.listen()
        inside = Address("127.0.0.1", free_port(), "x", socket=str(tmp_path / "redis.sock"))
        with running_gateway(inside, tmp_path):
            frozen.settimeout(60)
            first, _ = frozen.accept()  # the gateway's own, for its state
            outside = replace(inside, socket="", pin=pin, user=user_of("a"), password=SECRET)
            with first, closing(connect(outside)) as own, pytest.raises(redis.ConnectionError):
                own.ping()
            login = next(one for one, _ in iter(frozen.accept, None) if one.recv(1000).count(b"client.a"))
            with login:
                assert is_closed(login)


def test_it_says_who_is_inside_and_that_it_lives(outside: Address, redis_client: redis.Redis) -> None:
    key = Keys(outside.prefix).node(GATEWAY)

    def told(detail: str) -> NodeState | None:
        state = NodeState.read(redis_client.get(key))
        return state if state is not None and state.detail == detail else None

    first = until(lambda: told("nobody is connected"), "it says so")
    with closing(connect(outside)) as own:
        own.ping()
        later = until(lambda: told("a is connected"), "it says who")
    assert later.tick > first.tick
    assert (later.name, later.error) == (GATEWAY, "")


@pytest.mark.allow_warnings
def test_a_taken_port_is_said_with_who_has_it_and_taken_once_that_has_left(
    inside: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_module, "_NETWORKS_S", 0.02)
    pin = ensure_certificate(tmp_path).pin
    outside = replace(inside, socket="", pin=pin, user=user_of("a"), password=SECRET)
    with ExitStack() as opened:
        squatter = opened.enter_context(socket.create_server((inside.host, inside.port)))
        gateway = opened.enter_context(running_gateway(inside, tmp_path))
        until(lambda: gateway.trouble, "it says that the port is taken")
        assert re.search(r"the port is taken by .*\.", gateway.trouble)
        squatter.close()
        until(lambda: not gateway.trouble, "it takes the port")
        assert _comes_in(outside)


@pytest.mark.allow_warnings
@pytest.mark.skipif(sys.platform == "darwin", reason="loopback has one address there")
def test_networks_are_followed_and_a_taken_address_is_said(
    inside: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_certificate(tmp_path)
    monkeypatch.setattr(gateway_module, "_NETWORKS_S", 0.02)
    here: tuple[str, ...] = ()
    monkeypatch.setattr(gateway_module, "private_addresses", lambda public: here)

    def listens(host: str) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex((host, inside.port)) == 0

    with running_gateway(inside, tmp_path, lan=True) as gateway:
        until(lambda: gateway.trouble, "it says that nobody reaches it")
        assert gateway.trouble == "this machine has no private address"
        here = ("127.0.0.7",)
        until(lambda: listens("127.0.0.7") and not gateway.trouble, "it listens at a new address")
        with socket.create_server(("127.0.0.9", inside.port)):
            here = ("127.0.0.9",)
            until(lambda: gateway.trouble, "it says that an address is taken")
            assert gateway.trouble.startswith("The gateway can't listen at 127.0.0.9")
        until(lambda: listens("127.0.0.9") and not listens("127.0.0.7"), "it follows")


@pytest.mark.skipif(not private_addresses(), reason="this machine has no private address")
def test_with_the_lan_on_the_invited_come_in_from_other_computers(inside: Address, tmp_path: Path) -> None:
    pin = ensure_certificate(tmp_path).pin
    outside = replace(inside, socket="", pin=pin, user=user_of("a"), password=SECRET)
    elsewhere = replace(outside, host=private_addresses()[0])
    for lan in (False, True):
        with running_gateway(inside, tmp_path, lan=lan):
            assert _comes_in(outside)
            if lan:
                until(lambda: _comes_in(elsewhere), "it listens there")
            else:
                assert not _comes_in(elsewhere)


def test_half_a_login_does_not_wait_for_ever(outside: Address, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_module, "LOGIN_TIMEOUT_S", SOON_S)
    began = time.monotonic()
    with knock(outside) as stranger:
        stranger.sendall(b"*3\r\n$4\r\nAUTH\r\n")
        assert is_closed(stranger)
    assert time.monotonic() - began >= SOON_S
