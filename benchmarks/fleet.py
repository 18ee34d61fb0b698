"""A thousand simulated clients beside a real one: how soon they are in, what the real one loses, memory.

The reference of the real client's rate is its own rate in the same run before the others came.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from benchmarks.report import Measured, run
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from tests.end_to_end.server import RunningServer, wait_for

COUNT = 1000
RATE = 1.0
"""Environment steps per second of each simulated client."""
REAL_RATE_LOOKS = 5
_WORDS = (
    "--preset",
    "cartpole_dqn",
    "--local-clients",
    "1",
    "--set",
    "stop.mean_return=null",
    "--set",
    "env.num_envs=1",
)


class Fleet:
    """A server that trains, one real client, and as many simulated ones as are called.

    Args:
        folder: The server's folders.
    """

    def __init__(self, folder: Path) -> None:
        self.server = RunningServer(folder, _WORDS)
        self.redis = self.server.redis()
        self.keys = Keys("souls:")
        self.server.wait_updates(100)
        self.real = next(client.id for client in self.server.status().clients)

    def beats(self) -> dict[str, Heartbeat]:
        """Return what every simulated client says of itself."""
        names = [self.keys.beat(f"sim-{number}") for number in range(1, COUNT + 1)]
        read = (Heartbeat.read(text) for text in self.redis.mget(names))
        return {beat.client: beat for beat in read if beat is not None}

    def real_steps(self) -> int:
        """Return the environment steps of the real client so far."""
        beat = Heartbeat.read(self.redis.get(self.keys.beat(self.real)))
        assert beat is not None
        return beat.env_steps

    def real_rate(self, seconds: float) -> float:
        """Return the real client's environment steps per second, the median of several looks."""
        found = []
        for _ in range(REAL_RATE_LOOKS):
            began, before = time.perf_counter(), self.real_steps()
            time.sleep(seconds / REAL_RATE_LOOKS)
            found.append((self.real_steps() - before) / (time.perf_counter() - began))
        return statistics.median(found)

    def memory_mib(self) -> dict[str, float]:
        """Return the resident memory of the runner and its services, MiB."""
        found = {"runner": self.server.process.pid}
        found |= {one.name: one.pid for one in self.server.status().services if one.pid is not None}
        return {name: psutil.Process(pid).memory_info().rss / 2**20 for name, pid in found.items()}

    def call(self, count: int, rate: float) -> float:
        """Start simulated clients; return the seconds from the process's start until all are in a session."""
        began = time.perf_counter()
        self.server.spawn("client", "--name", "sim", "--simulate", str(count), "--rate", str(rate))
        wait_for(lambda: sum(bool(beat.session) for beat in self.beats().values()) == count, "sessions", 60)
        return time.perf_counter() - began


def _once(measure: Callable[[Fleet], list[Measured]]) -> list[Measured]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder))
        try:
            return measure(fleet)
        finally:
            fleet.server.close()


def _together(fleet: Fleet, seconds: float) -> list[Measured]:
    alone = fleet.real_rate(seconds / 5)
    connected_s = fleet.call(COUNT, RATE)
    time.sleep(min(10.0, seconds / 5))
    before = fleet.memory_mib()
    together = fleet.real_rate(seconds)
    after = fleet.memory_mib()
    listed = fleet.server.status().clients
    online = sum(client.state == "online" for client in listed)
    first = Measured(
        f"the real client beside {COUNT}", together, "steps/s", alone, "alone", together / alone, 1
    )
    ready = Measured("start to all in a session", connected_s, "s", 5.0, "promise R13", connected_s / 5.0, 1)
    seen = Measured("shown as online", online, "clients", COUNT + 1, "all there are", online / (COUNT + 1), 1)
    memory = [
        Measured(
            f"memory of {name}", after[name], "MiB", before[name], "before", after[name] / before[name], 1
        )
        for name in sorted(before.keys() & after.keys())
    ]
    return [first, ready, seen, *memory]


def measure(quick: bool) -> list[Measured]:
    """Measure 5 minutes together, 20 seconds when quick."""
    return _once(lambda fleet: _together(fleet, 20.0 if quick else 300.0))


if __name__ == "__main__":
    run(measure)
