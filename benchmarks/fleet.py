"""A thousand simulated clients beside a real one: how soon they are in, what the real one loses, memory.

The real one keeps the pace of a game, as those on game PCs do; in a second, shorter form it steps as fast as
it can, so that whatever the others take of the machine is taken from it. The reference of its rate is its own
rate in the same run before the others came.
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
_WORDS = ("--preset", "cartpole_dqn", "--local-clients", "1", "--set", "stop.mean_return=null")
OF_A_GAME = ("--set", "env.num_envs=8", "--set", "client.step_seconds=0.016666667")
AT_FULL_SPEED = ("--set", "env.num_envs=1")
_LOOK_S = 0.01
_TABLE_LIMIT_S = 5.0
"""Age of a beat from which on a client is shown as late."""


class Fleet:
    """A server that trains, one real client, and as many simulated ones as are called.

    Args:
        folder: The server's folders.
        words: How the real client steps.
    """

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        self.server = RunningServer(folder, (*_WORDS, *words))
        self.redis = self.server.redis()
        self.keys = Keys("souls:")
        try:
            self.server.wait_updates(100)
            self.real = next(client.id for client in self.server.status().clients)
        except BaseException:
            self.server.close()
            raise

    def beats(self) -> dict[str, Heartbeat]:
        """Return what every simulated client says of itself."""
        names = [self.keys.beat(f"sim-{number}") for number in range(1, COUNT + 1)]
        read = (Heartbeat.read(text) for text in self.redis.mget(names))
        return {beat.client: beat for beat in read if beat is not None}

    def real_beat(self) -> tuple[float, int]:
        """Return when the real client told of itself next, and its environment steps by then."""
        first: Heartbeat | None = None
        while True:
            beat = Heartbeat.read(self.redis.get(self.keys.beat(self.real)))
            assert beat is not None
            first = first or beat
            if beat.counter != first.counter:
                return time.perf_counter(), beat.env_steps
            time.sleep(_LOOK_S)

    def real_rate(self, seconds: float) -> float:
        """Return the real client's environment steps per second, the median of several looks."""
        found = []
        moment, steps = self.real_beat()
        for _ in range(REAL_RATE_LOOKS):
            time.sleep(max(seconds / REAL_RATE_LOOKS - 0.5, 0.0))
            (before, done), (moment, steps) = (moment, steps), self.real_beat()
            found.append((steps - done) / (moment - before))
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

    def ages_s(self) -> list[float]:
        """Return how old what the client table shows of each client is, seconds."""
        return [client.age_s for client in self.server.status().clients if client.age_s is not None]


def _once(words: tuple[str, ...], measure: Callable[[Fleet], list[Measured]]) -> list[Measured]:
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), words)
        try:
            return measure(fleet)
        finally:
            fleet.server.close()


def _alone_and_together(fleet: Fleet, how: str, seconds: float) -> tuple[Measured, float]:
    """Return the real client's rate beside the others, and the seconds until those were in a session."""
    alone = fleet.real_rate(max(seconds / 5, 5.0))
    connected_s = fleet.call(COUNT, RATE)
    time.sleep(min(10.0, seconds / 5))
    together = fleet.real_rate(seconds)
    name = f"the real client {how} beside {COUNT}"
    return Measured(name, together, "steps/s", alone, "alone", together / alone, 1), connected_s


def _at_the_pace_of_a_game(fleet: Fleet, seconds: float) -> list[Measured]:
    rate, connected_s = _alone_and_together(fleet, "at the pace of a game", seconds / 2)
    before, ages = fleet.memory_mib(), []
    end = time.monotonic() + seconds / 2
    while time.monotonic() < end:
        ages += fleet.ages_s()
        time.sleep(1.0)
    after = fleet.memory_mib()
    online = sum(client.state == "online" for client in fleet.server.status().clients)
    ready = Measured("start to all in a session", connected_s, "s", 5.0, "promise R13", connected_s / 5.0, 1)
    seen = Measured("shown as online", online, "clients", COUNT + 1, "all there are", online / (COUNT + 1), 1)
    found = [rate, ready, seen]
    for name, age in (("median", statistics.median(ages)), ("oldest", max(ages))):
        what = f"age of the client table, {name}"
        found.append(
            Measured(what, age, "s", _TABLE_LIMIT_S, "shown as late", age / _TABLE_LIMIT_S, len(ages))
        )
    for name in sorted(before.keys() & after.keys()):
        now, then = after[name], before[name]
        found.append(Measured(f"memory of {name}", now, "MiB", then, "at the beginning", now / then, 1))
    return found


def measure(quick: bool) -> list[Measured]:
    """Measure 5 minutes at the pace of a game and one at full speed; 40 and 10 seconds when quick."""
    paced_s, full_s = (40.0, 10.0) if quick else (300.0, 60.0)
    return [
        *_once(OF_A_GAME, lambda fleet: _at_the_pace_of_a_game(fleet, paced_s)),
        *_once(AT_FULL_SPEED, lambda fleet: [_alone_and_together(fleet, "at full speed", full_s)[0]]),
    ]


if __name__ == "__main__":
    run(measure)
