"""Whether a server answers, where none does, or somebody else; a real one: `test_redis_server`."""

import errno
import socket
import sys
from contextlib import closing

import pytest

from soulsgui.runner.server.health import Pinger
from soulsgui.system import free_port
from soulsgui.wire.connection import Address
from tests.runner.children import until_now
from tests.runner.running import ping

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS")


@pytest.fixture
def address() -> Address:
    """Where nobody listens."""
    return Address("127.0.0.1", free_port(), "secret")


def test_who_does_not_answer_or_is_no_server_is_not_ready_and_its_tick_stands_still(address: Address) -> None:
    health = ping(address)
    assert (health.ready, health.tick) == (False, None)
    assert health.detail == "no answer (ConnectionError)"
    with socket.create_server((address.host, address.port)):
        assert not ping(address, limit_s=0.1).ready


@pytest.mark.parametrize("answer", [b"-MOVED\r\n", b"-ASK 1 a:b\r\n", b"%1\r\n*0\r\n+x\r\n"])
def test_whatever_answers_in_its_place_the_watching_goes_on(address: Address, answer: bytes) -> None:
    with (
        socket.create_server((address.host, address.port)) as squatter,
        closing(Pinger(address)) as pinger,
    ):
        connection, _ = squatter.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(20 * answer)
            until_now(lambda: pinger.health().detail)
        squatter.accept()[0].close()
        assert not pinger.health().ready, "it asks again"


def test_who_has_no_room_for_a_connection_here_takes_the_server_for_alive(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "connect", full)
    health = ping(address)
    assert (health.ready, health.tick is not None) == (False, True)
    assert health.detail == "this computer has reached its limit of open files and connections"
