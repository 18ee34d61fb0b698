"""A real server that is killed, frozen, wiped and started again in the course of a test."""

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from soulsgui.system import free_port
from soulsgui.wire.connection import Address
from tests.servers import start_server


class FaultyServer:
    """A server of one test, on one port for all of its lives.

    Args:
        folder: Where its log and its data go.
        keeps_data: Whether it comes back with what it had (append-only file, written at every command; what
            is written outlives the process, so that nothing waits for the disk).
    """

    def __init__(self, folder: Path, keeps_data: bool = False) -> None:
        self.address = Address("127.0.0.1", free_port(), secrets.token_urlsafe(16), "test:")
        self.keeps_data = keeps_data
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        kept = "yes" if self.keeps_data else "no"
        more = f"appendonly {kept}\nappendfsync no"
        self._process = start_server(self.address, self._folder, more)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    @property
    def written_bytes(self) -> int:
        return self._appended.stat().st_size

    def restart_with(self, kept_bytes: int) -> None:
        """Kill it and start it again as after a power cut: with the beginning of its append-only file."""
        self.kill()
        os.truncate(self._appended, kept_bytes)
        self.start()

    @property
    def _appended(self) -> Path:
        (path,) = (self._folder / "appendonlydir").glob("*.incr.aof")
        return path

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it take what is sent, but do nothing until the block ends (SIGSTOP)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@contextmanager
def faulty_server(folder: Path, keeps_data: bool = False) -> Iterator[FaultyServer]:
    server = FaultyServer(folder, keeps_data)
    server.start()
    try:
        yield server
    finally:
        server.kill()
