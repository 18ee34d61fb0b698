"""A run to tell telemetry about: its folder, its episodes, its trainer's rows, and the node at work on it."""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.telemetry.intake import Arrival
from soulsgui.telemetry.node import TelemetryNode
from soulsgui.telemetry.recorder import Recorder
from soulsgui.wire.codec import pack_weights
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import EntryId, Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.metrics import (
    ROW_FIELD,
    AttemptRow,
    CheckpointRow,
    EpisodeRows,
    UpdateRow,
    read_row,
)
from soulsgui.wire.messages.node import Arrived, NodeState
from soulsgui.wire.messages.session import EPISODE_FIELD, HELLO_FIELD, Episode, Grant, GrantStatus
from tests.faults.waiting import LIMIT_S, until

RUN_ID = "2026-11-20_10-00-00"


def make_run(folder: Path, **sections: dict[str, Any]) -> RunFolder:
    run = RunFolder(folder / RUN_ID)
    run.root.mkdir()
    run.config.write_text(Settings(**sections).model_dump_json())
    return run


def episode(total_return: float = 1.0, length: int = 10, **fields: Any) -> Episode:
    plain = {"attempt": 1, "number": 0, "env_index": 0, "terminated": True, "model_id": 1, "seconds": 0.1}
    return Episode(total_return=total_return, length=length, **({"run_id": RUN_ID} | plain | fields))


def arrivals(*episodes: Episode, client: str = "a", first: int = 1) -> list[Arrival]:
    """Give episodes entry ids of one session."""
    return [Arrival(client, EntryId(1000, first + n), one) for n, one in enumerate(episodes)]


def _place(attempt: int, update: int, env_steps: int, episodes: int) -> dict[str, Any]:
    figures = {"env_steps": env_steps, "episodes": episodes, "model_id": update}
    return {"run_id": RUN_ID, "attempt": attempt, "update": update} | figures


def attempt_row(attempt: int, env_steps: int = 0, episodes: int = 0, update: int = 0) -> AttemptRow:
    return AttemptRow(time=50.0 + attempt, **_place(attempt, update, env_steps, episodes))


def update_row(update: int, attempt: int = 1, env_steps: int = 0, **values: float) -> UpdateRow:
    place = _place(attempt, update, env_steps, update * 10)
    return UpdateRow(previous=update - 1, time=100.0 + update, values=values, **place)


def checkpoint_row(update: int, attempt: int = 1, saved: str = "current") -> CheckpointRow:
    place = _place(attempt, update, update * 100, update)
    return CheckpointRow(time=200.0 + update, saved=saved, path="checkpoint", **place)


@contextmanager
def recorder_of(path: Path, window: int = 2, goal: float | None = None, **how: Any) -> Iterator[Recorder]:
    recorder = Recorder(path, RUN_ID, window, goal, **how)
    try:
        yield recorder
    finally:
        recorder.close()


class Stage:
    """The server as clients, trainer and windows use it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.keys = Keys(address.prefix)
        self.redis = connect(address, "stage")
        self._came: dict[str, list[float]] = {}  # of each client: episodes, steps, rewards, their sizes

    def join(self, *clients: str) -> None:
        """Put clients on the roster, and let the trainer admit them."""
        for client in clients:
            self.redis.hset(self.keys.clients, client, "{}")
            self.grant(client)

    def grant(self, client: str, status: GrantStatus = "accepted") -> None:
        """Let the trainer say what it takes of a client."""
        self.redis.set(self.keys.grant(client), Grant(session="1-0", status=status).to_json())

    def publish(self, model_id: int) -> None:
        """Let the trainer publish weights."""
        self.redis.set(self.keys.weights, pack_weights(RUN_ID, 1, model_id, 0, {})[1])

    def hello(self, client: str) -> None:
        self.redis.xadd(self.keys.episodes(client), {HELLO_FIELD: "{}"})

    def steps_of(self, client: str, *episodes: Episode) -> None:
        """Let the trainer say that the steps of episodes came; of a greedy one none come."""
        came = self._came.setdefault(client, [0, 0.0, 0.0, 0.0])
        for one in episodes:
            value = one.total_return
            if math.isfinite(value) and not one.greedy:
                came[:] = (sum(pair) for pair in zip(came, (1, one.length, value, abs(value)), strict=True))
        found = self.redis.get(self.keys.node("trainer"))
        new = NodeState(name="trainer", instance=Instance(), tick=0, phase="collecting", run_id=RUN_ID)
        told = NodeState.read(found) or new
        counted = {name: sums for name, sums in self._came.items() if sums[0]}
        arrived = {name: Arrived(int(n), *(one / n for one in sums)) for name, (n, *sums) in counted.items()}
        told = told.model_copy(update={"arrived": arrived, "tick": told.tick + 1})
        self.redis.set(self.keys.node("trainer"), told.to_json())

    def play(self, client: str, *episodes: Episode) -> None:
        """Let a client play episodes, and their steps come."""
        self.steps_of(client, *episodes)
        self.tell_of(client, *episodes)

    def tell_of(self, client: str, *episodes: Episode) -> None:
        """Let a client tell of episodes."""
        pipeline = self.redis.pipeline(transaction=False)
        for one in episodes:
            pipeline.xadd(self.keys.episodes(client), {EPISODE_FIELD: one.to_json()})
        pipeline.execute()

    def tell(self, *rows: AttemptRow | UpdateRow | CheckpointRow) -> None:
        for row in rows:
            self.redis.xadd(self.keys.metrics, {ROW_FIELD: row.to_json()})

    def state(self) -> NodeState | None:
        return NodeState.read(self.redis.get(self.keys.node("telemetry")))

    def wait_state(self, condition: Callable[[NodeState], bool], what: str) -> NodeState:
        """Return the node's state once it is as wanted."""
        found: list[NodeState] = []

        def look() -> bool:
            found[:] = filter(None, [self.state()])
            return bool(found) and condition(found[0])

        until(look, what)
        return found[0]

    def live_rows(self) -> list[EpisodeRows]:
        """Read everything telemetry told the windows."""
        entries = self.redis.xrange(self.keys.metrics)
        rows = [read_row(fields.get(ROW_FIELD, b"")) for _, fields in entries]
        return [row for row in rows if isinstance(row, EpisodeRows)]

    def live_numbers(self) -> list[int]:
        """Row numbers of everything telemetry told the windows."""
        return [number for row in self.live_rows() for number in row.row]

    def left(self, client: str) -> int:
        """Entries on a client's stream."""
        return self.redis.xlen(self.keys.episodes(client))


class NoDrawing:
    """Stands where the drawing child would be, in tests about other things."""

    def __init__(self, *_: object) -> None: ...

    def turn(self, *_: object) -> None: ...

    def finish(self, *_: object) -> None: ...


@contextmanager
def node_at_work(run: RunFolder, address: Address, **sections: dict[str, Any]) -> Iterator[threading.Event]:
    """Run a node in a thread until the block ends; yields what stops it."""
    stop = threading.Event()

    def work() -> None:  # SQLite wants the thread that opened a file to use it
        TelemetryNode(Settings(**sections), run, address, Instance(host="here", pid=1), stop).run()

    thread = threading.Thread(target=work, name="telemetry")
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(LIMIT_S)
        assert not thread.is_alive()
