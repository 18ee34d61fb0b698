"""A stranger who answers in the server's place hears nothing; not even who wanted to come in."""

import asyncio
import re
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis

from soulsgui.runner.access.certificate import Certificate, ensure_certificate
from soulsgui.wire.connection import (
    AWAY,
    Address,
    AnswerTooLong,
    AsyncPinnedConnection,
    PinnedConnection,
    WrongServer,
    check_pin,
    connect,
    connect_async,
    pin_of,
)
from tests.faults.waiting import LIMIT_S

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS"),
]


class Stranger:
    """Answers with a certificate, or without any, and writes down what it hears."""

    def __init__(self, certificate: Certificate | None, answer: bytes = b"", rest: bytes = b"") -> None:
        self.heard = b""
        self._answer, self._rest = answer, rest
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate.path, certificate.key)
        self._thread = threading.Thread(target=self._serve, name="stranger")
        self._thread.start()

    def _serve(self) -> None:
        with self._listening, self._listening.accept()[0] as taken, suppress(OSError):
            taken.settimeout(5)
            if self._context is None:
                self.heard = taken.recv(65_536)
                return
            with self._context.wrap_socket(taken, server_side=True) as wrapped:
                self.heard = wrapped.recv(65_536)
                if self._answer:
                    self._obey(wrapped)

    def _obey(self, wrapped: ssl.SSLSocket) -> None:
        """Answer PING with more and more, and everything else as expected."""
        asked = self.heard
        while asked:
            if b"PING" in asked:
                wrapped.sendall(self._answer + self._rest * (2**26 // max(len(self._rest), 1)))
            else:
                wrapped.sendall(b"+OK\r\n" * len(re.findall(rb"\*\d+\r\n\$", asked)))
            asked = wrapped.recv(65_536)

    def close(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()


@pytest.fixture
def certificate(tmp_path: Path) -> Certificate:
    return ensure_certificate(tmp_path)


@pytest.fixture
def stranger(certificate: Certificate) -> Iterator[Stranger]:
    made = Stranger(certificate)
    yield made
    made.close()


def ask(port: int, pin: str) -> None:
    address = Address("127.0.0.1", port, "s3cret", user="client.pc", pin=pin)
    with closing(connect(address, timeout_s=5.0)) as connection:
        connection.ping()


def ask_async(port: int, pin: str) -> None:
    async def ping() -> None:
        address = Address("127.0.0.1", port, "s3cret", user="client.pc", pin=pin)
        async with connect_async(address, timeout_s=5.0) as connection:
            await connection.ping()

    asyncio.run(ping())


Ask = Callable[[int, str], None]


# redis-py for asyncio hands on what was raised while it connected as an error of its own.
@pytest.mark.parametrize(("ask", "error"), [(ask, WrongServer), (ask_async, redis.ConnectionError)])
def test_a_stranger_with_another_certificate_hears_nothing(
    ask: Ask, error: type[Exception], stranger: Stranger
) -> None:
    with pytest.raises(error, match="is not the one that was agreed on"):
        ask(stranger.port, "0" * 64)
    stranger.close()
    assert stranger.heard == b""


@pytest.mark.parametrize("ask", [ask, ask_async])
def test_the_pinned_one_hears_who_wants_to_come_in_and_who_does_not_encrypt_hears_no_secret(
    ask: Ask, certificate: Certificate
) -> None:
    pinned, plain = Stranger(certificate), Stranger(None)
    for one in (pinned, plain):
        with pytest.raises(redis.ConnectionError):  # it hangs up after the first words
            ask(one.port, certificate.pin)
        one.close()
    assert b"s3cret" in pinned.heard
    assert plain.heard.startswith(b"\x16\x03")  # the beginning of a handshake
    assert not any(word in plain.heard for word in (b"s3cret", b"client.pc"))


@pytest.mark.parametrize("ask", [ask, ask_async])
@pytest.mark.parametrize(
    ("answer", "rest"),
    [(b"+", bytes(4096)), (b"*2\r\n:1\r\n-", b"x\ny\r" * 1024), (b"$9", b"9" * 4096)],
    ids=["alone", "in a list", "a length"],
)
def test_a_line_that_does_not_end_is_not_read_again_and_again(
    ask: Ask, answer: bytes, rest: bytes, certificate: Certificate
) -> None:
    stranger = Stranger(certificate, answer, rest)
    with pytest.raises(AnswerTooLong, match="a line of more than 64 KiB"):
        ask(stranger.port, certificate.pin)
    stranger.close()


@pytest.mark.parametrize("ask", [ask, ask_async])
@pytest.mark.parametrize(
    ("answer", "rest"),
    [
        (b"$3221225472\r\n", bytes(4096)),
        (b"*1000000\r\n", b":1\r\n" * 512),
        (b"*1000000\r\n", b"*1000\r\n" + b"*0\r\n" * 1000),
    ],
    ids=["one value", "numbers", "lists in lists"],
)
def test_an_answer_that_does_not_end_is_not_taken_into_memory(
    ask: Ask, answer: bytes, rest: bytes, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.wire.connection.LONGEST_ANSWER_BYTES", 2**20)
    stranger = Stranger(certificate, answer, rest)
    with pytest.raises(AnswerTooLong, match="more than 1 MiB"):
        ask(stranger.port, certificate.pin)
    stranger.close()


@pytest.mark.parametrize("answer", [b"?what\r\n", b"*1\r\n" * 1000], ids=["no kind of answer", "too deep"])
def test_who_says_what_no_server_says_is_taken_for_one_that_is_away(
    answer: bytes, certificate: Certificate
) -> None:
    stranger = Stranger(certificate, answer)
    with pytest.raises(AWAY):
        ask(stranger.port, certificate.pin)
    stranger.close()


def test_answers_are_bounded_each_by_itself(
    certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("soulsgui.wire.connection.LONGEST_ANSWER_BYTES", 2**20)
    server = Stranger(certificate, b"$600000\r\n" + b"$6000000\r\n" * 60_000 + b"\r\n")
    address = Address("127.0.0.1", server.port, pin=certificate.pin)

    async def ping() -> None:
        async with connect_async(address, timeout_s=LIMIT_S) as connection:
            for _ in range(4):
                assert len(await connection.execute_command("ECHO", "PING")) == 600_000

    asyncio.run(ping())
    server.close()


def test_a_pin_is_the_hash_of_the_certificate() -> None:
    assert pin_of(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    check_pin(pin_of(b"x"), b"x")
    for other in (b"y", b"", None):
        with pytest.raises(WrongServer):
            check_pin(pin_of(b"x"), other)


@pytest.mark.parametrize(
    ("ask", "kind", "method"),
    [(ask, PinnedConnection, "_wrap_socket_with_ssl"), (ask_async, AsyncPinnedConnection, "_connect")],
)
def test_where_the_library_connects_in_another_way_nothing_is_said(
    ask: Ask,
    kind: type,
    method: str,
    certificate: Certificate,
    stranger: Stranger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when redis-py renames the method in which the pin is compared."""
    monkeypatch.delattr(kind, method)
    with pytest.raises(WrongServer, match="was not compared"):
        ask(stranger.port, certificate.pin)
    stranger.close()
    assert stranger.heard == b""
