"""Real client processes that are killed and frozen."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

import soulsgui
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat

_PROGRAM = """
import sys
from pathlib import Path
from soulsgui.sampling.client import run_client
from soulsgui.wire.connection import Address
sys.exit(run_client(Address.read(Path(sys.argv[1])), sys.argv[2], None, None))
"""


class Fleet:
    """Clients `c1`, `c2` … of one server, each a process, on the roster as the runner puts them.

    Args:
        address: The server.
        folder: Where their logs go.
        count: How many.
    """

    def __init__(self, address: Address, folder: Path, count: int) -> None:
        self.connection: redis.Redis = connect(address)
        self.keys = Keys(address.prefix)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._file = folder / "redis.json"
        address.write(self._file)
        for number in range(1, count + 1):
            self.start(f"c{number}")

    def start(self, name: str) -> None:
        """Start one of them, or one more."""
        self.connection.hset(self.keys.clients, name, "{}")
        root = str(Path(soulsgui.__file__).parents[1])
        with self._file.with_name(f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(self._file), name],
                env=os.environ | {"PYTHONPATH": root, "OMP_NUM_THREADS": "1"},
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """End one at once (-9)."""
        self.processes[name].kill()
        self.processes[name].wait()

    def freeze(self, name: str) -> None:
        """Let one do nothing (SIGSTOP)."""
        self.processes[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """Let it go on (SIGCONT)."""
        self.processes[name].send_signal(signal.SIGCONT)

    def beat(self, name: str) -> Heartbeat | None:
        """What it said last."""
        data = self.connection.get(self.keys.beat(name))
        return Heartbeat.read(data if isinstance(data, bytes) else None)

    def close(self) -> None:
        """End all of them."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.connection.close()


@contextmanager
def fleet(address: Address, folder: Path, count: int) -> Iterator[Fleet]:
    """Run clients until the block ends."""
    folder.mkdir(exist_ok=True)
    made = Fleet(address, folder, count)
    try:
        yield made
    finally:
        made.close()
