"""A thousand simulated clients beside a real one: how soon they are in, what it loses, memory, the table.

The real one keeps the pace of a game, as those on game PCs do: the reference of its rate is that pace. In a
second, shorter form it steps as fast as it can, so that whatever the others take of the machine is taken
from it; the reference is then its own rate before the others came. All the while a window's table of clients
is drawn five times a second from the server's feed, and the memory of every process is looked at: of the
straight line through it both ends are printed, its rise, and how well that is known (two standard errors).
"""

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from benchmarks.report import Measured, run
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import ControlFile
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from tests.end_to_end.live_table import TICKS_PER_S, LiveTable, Watched
from tests.end_to_end.server import RunningServer, wait_for

COUNT = 1000
RATE = 1.0
"""Environment steps per second of each simulated client."""
MEMORY_STEPS = 50_000
"""Size of the replay memory: it is full before anything is measured, and takes no more then."""
_WORDS = (
    "--preset", "cartpole_dqn", "--local-clients", "1", "--set", "stop.mean_return=null",
    "--set", f"dqn.buffer_size={MEMORY_STEPS}",
)  # fmt: skip
GAMES, STEPS_PER_S = 8, 60
OF_A_GAME = (
    "--set", f"env.num_envs={GAMES}", "--set", f"client.step_seconds={1 / STEPS_PER_S:.9f}",
    "--set", "dqn.replay_ratio=4",
)  # fmt: skip
"""The learner uses each sample so seldom that it takes in what all of them make: where it does not, credits
divide what it takes equally, and that, not the others, is what a client's pace then follows."""
AT_FULL_SPEED = ("--set", "env.num_envs=1")
SIMULATED = "the simulated clients"
_TABLE_LIMIT_S = 5.0
"""Age of a beat from which on a client is shown as late."""
_FULL_LIMIT_S = 180.0


@dataclass
class Seen:
    """What was looked at while all played together.

    Attributes:
        rate: Environment steps per second of the real client.
        taken: Steps per second that the trainer took in, of all.
        memory: Moments in seconds and MiB, by process.
        table: What a window's table did.
    """

    rate: float = 0.0
    taken: float = 0.0
    memory: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    table: Watched = field(default_factory=Watched)


class Fleet:
    """A server that trains, one real client, and as many simulated ones as are called.

    Args:
        folder: The server's folders.
        words: How the real client steps.
    """

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        self.server = RunningServer(folder, (*_WORDS, *words), draws=True)
        self.redis = self.server.redis()
        self.keys = Keys("souls:")
        self._called: dict[str, int] = {}
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

    def real_steps(self) -> tuple[float, int]:
        """Return when the server got the real client's newest beat, and the environment steps by then."""
        key = self.keys.beat(self.real)
        text, left_ms = self.redis.pipeline(transaction=True).get(key).pttl(key).execute()
        beat = Heartbeat.read(text)
        assert beat is not None
        return time.perf_counter() - (EXPIRY_S - left_ms / 1000), beat.env_steps

    def real_rate(self, seconds: float) -> float:
        """Return the real client's environment steps per second, by its beats."""
        before, done = self.real_steps()
        time.sleep(seconds)
        now, steps = self.real_steps()
        return (steps - done) / (now - before)

    def processes(self) -> dict[str, psutil.Process]:
        """Return the processes of the runner, its services and the simulated clients, by their names."""
        found = {"runner": self.server.process.pid} | self._called
        found |= {one.name: one.pid for one in self.server.status().services if one.pid is not None}
        return {name: psutil.Process(pid) for name, pid in found.items()}

    def together(self, seconds: float) -> Seen:
        """Look at everything for so long."""
        seen, processes = Seen(), self.processes()
        table = LiveTable(ControlFile.load(self.server.data / "server" / CONTROL_FILE))
        try:
            table.watch(2.0)  # the snapshot comes
            before, done = self.real_steps()
            began, taken = time.perf_counter(), self.server.status().run.env_steps
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                seen.table.add(table.watch(2.0))
                for name, process in processes.items():
                    mib = process.memory_info().rss / 2**20
                    seen.memory.setdefault(name, []).append((time.perf_counter(), mib))
            now, steps = self.real_steps()
            more = self.server.status().run.env_steps - taken
            seen.taken = more / (time.perf_counter() - began)
        finally:
            table.close()
        seen.rate = (steps - done) / (now - before)
        return seen

    def call(self, count: int, rate: float) -> float:
        """Start simulated clients; return the seconds from the process's start until all are in a session."""
        began = time.perf_counter()
        process = self.server.spawn("client", "--name", "sim", "--simulate", str(count), "--rate", str(rate))
        self._called = {SIMULATED: process.pid}
        wait_for(lambda: sum(bool(beat.session) for beat in self.beats().values()) == count, "sessions", 60)
        return time.perf_counter() - began

    def until_full(self) -> None:
        """Wait until the replay memory is full: its pages come with the samples."""
        wait_for(lambda: self.server.status().run.env_steps >= MEMORY_STEPS, "a full memory", _FULL_LIMIT_S)


def once(words: tuple[str, ...], measure: Callable[[Fleet], list[Measured]]) -> list[Measured]:
    """Measure on a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder), words)
        try:
            return measure(fleet)
        finally:
            fleet.server.close()


def line_through(points: Sequence[tuple[float, float]]) -> tuple[float, float, float, float]:
    """Fit a line by least squares.

    Args:
        points: At least three moments in seconds, with values.

    Returns:
        Its value at the first moment and at the last, its slope per second, and how far that is known: twice
        its standard error, as if the points did not depend on each other.
    """
    at, value = np.array(points, np.float64).T
    at = at - at[0]
    slope, start = np.polyfit(at, value, 1)
    left = value - (start + slope * at)
    spread = np.sqrt(left @ left / (len(at) - 2) / ((at - at.mean()) ** 2).sum())
    return float(start), float(start + slope * at[-1]), float(slope), float(2 * spread)


def _of_memory(name: str, points: Sequence[tuple[float, float]]) -> list[Measured]:
    """Return what a process had at the end of the line through its memory, and how that line rises."""
    start, end, slope, known = line_through(points)
    rise, noise, count = slope * 60, max(known * 60, 1e-3), len(points)
    return [
        Measured(f"memory of {name}", end, "MiB", start, "at the beginning", end / start, count),
        Measured(f"rise of {name}", rise, "MiB a minute", noise, "known to ±", rise / noise, count),
    ]


def _of_table(seen: Watched) -> list[Measured]:
    """Return how lively the table of a window was."""
    ticks, period_s, drawn = len(seen.ticks_s), 1 / TICKS_PER_S, seen.ticks_per_s
    median_s, slowest_s = float(np.median(seen.ticks_s)), max(seen.ticks_s)
    news_s = max(seen.news_s)
    return [
        Measured("table drawn", drawn, "Hz", TICKS_PER_S, "wanted", drawn / TICKS_PER_S, ticks),
        Measured("one drawing, median", median_s, "s", period_s, "a turn", median_s / period_s, ticks),
        Measured("one drawing, slowest", slowest_s, "s", period_s, "a turn", slowest_s / period_s, ticks),
        Measured("rows of the table", seen.rows, "clients", COUNT + 1, "all", seen.rows / (COUNT + 1), 1),
        Measured(
            "age of the oldest news in the table, at most", news_s, "s", _TABLE_LIMIT_S, "shown as late",
            news_s / _TABLE_LIMIT_S, ticks,
        ),
    ]  # fmt: skip


def _real(how: str, rate: float, reference: float, reference_name: str) -> Measured:
    name = f"the real client {how} beside {COUNT}"
    return Measured(name, rate, "steps/s", reference, reference_name, rate / reference, 1)


def at_the_pace_of_a_game(fleet: Fleet, seconds: float) -> list[Measured]:
    """Measure for so long."""
    connected_s = fleet.call(COUNT, RATE)
    fleet.until_full()
    seen = fleet.together(seconds)
    status = fleet.server.status()
    online = sum(client.state == "online" for client in status.clients)
    refused = sum(status.run.rejected.values()) + status.run.lost_chunks
    pace = float(GAMES * STEPS_PER_S)
    made = pace + COUNT * RATE
    return [
        _real("at the pace of a game", seen.rate, pace, "that pace"),
        Measured("taken in by the trainer", seen.taken, "steps/s", made, "all made", seen.taken / made, 1),
        Measured("start to all in a session", connected_s, "s", 5.0, "promise R13", connected_s / 5.0, 1),
        Measured("shown as online", online, "clients", COUNT + 1, "all there are", online / (COUNT + 1), 1),
        Measured("refused or lost", refused, "segments", status.run.env_steps, "steps trained with",
                 refused / status.run.env_steps, 1),
        *_of_table(seen.table),
        *(one for name in sorted(seen.memory) for one in _of_memory(name, seen.memory[name])),
    ]  # fmt: skip


def _at_full_speed(fleet: Fleet, seconds: float) -> list[Measured]:
    alone = fleet.real_rate(max(seconds / 5, 5.0))
    fleet.call(COUNT, RATE)
    time.sleep(min(10.0, seconds / 5))
    return [_real("at full speed", fleet.real_rate(seconds), alone, "alone")]


def measure(quick: bool) -> list[Measured]:
    """Measure 5 minutes at the pace of a game and one at full speed; 40 and 10 seconds when quick."""
    paced_s, full_s = (40.0, 10.0) if quick else (300.0, 60.0)
    return [
        *once(OF_A_GAME, lambda fleet: at_the_pace_of_a_game(fleet, paced_s)),
        *once(AT_FULL_SPEED, lambda fleet: _at_full_speed(fleet, full_s)),
    ]


if __name__ == "__main__":
    run(measure)
