"""Real client processes that are killed and frozen."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import soulsgui
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys

_PROGRAM = """
import sys
from pathlib import Path
from soulsgui.sampling.client import ClientOptions, run_client
from soulsgui.wire.connection import Address
sys.exit(run_client(Address.read(Path(sys.argv[1])), sys.argv[2], ClientOptions()))
"""


@contextmanager
def fleet(address: Address, folder: Path, count: int) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """Run clients `c1`, `c2` … of a server until the block ends, each on the list as the runner puts them."""
    folder.mkdir()
    file = folder / "redis.json"
    address.write(file)
    env = os.environ | {"PYTHONPATH": str(Path(soulsgui.__file__).parents[1])}
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with closing(connect(address)) as connection, ExitStack() as running:
        for name in (f"c{number}" for number in range(1, count + 1)):
            connection.hset(Keys(address.prefix).clients, name, "{}")
            log = running.enter_context((folder / f"{name}.log").open("wb"))
            words = [sys.executable, "-c", _PROGRAM, str(file), name]
            processes[name] = running.enter_context(subprocess.Popen(words, env=env, stderr=log))
            running.callback(processes[name].kill)
        yield processes
