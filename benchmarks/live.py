"""Producer, server and consumer at the same time: packed, sent, read, checked and in the ring, per second.

The reference sends the same bytes, packed once, through the same pipelines, and its consumer reads and
acknowledges them and looks at nothing. Three processes share the machine's cores on both sides.
"""

import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import numpy as np
import redis

from benchmarks.ingest import CONFIG, KEYS, RING, SPACES, RingSink, packed, segment
from benchmarks.report import Measured, beside, run
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.training.intake.reader import Intake
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.group_reader import GroupReader
from soulsgui.wire.keys import TRAINER_GROUP
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.session import CHUNK_FIELD, HELLO_FIELD, SessionHello
from tests.servers import running_server

PRODUCERS = ("c0", "c1")
_AT_ONCE = 16
_MOST_WAITING = 1000
_PAUSE_S = 0.001


def produce(address: Address, client: str, steps: int, digest: int, packs: bool, stop: Event) -> None:
    """Send chunks until told to stop, never more ahead of the consumer than a client may be.

    Args:
        address: The server.
        client: Whose stream.
        steps: Transitions in a chunk.
        digest: First bytes of the hash of the weights.
        packs: Whether each chunk is packed anew, as a client does.
        stop: Set at the end.
    """
    connection = connect(address)
    made, number = segment(steps, digest), 0
    payload = packed(made)
    while not stop.is_set():
        pipeline = connection.pipeline(transaction=False)
        for _ in range(_AT_ONCE):
            body = packed(made) if packs else payload
            pipeline.xadd(KEYS.chunks(client), {CHUNK_FIELD: body, b"n": number})
            number += 1
        pipeline.xlen(KEYS.chunks(client))
        if pipeline.execute()[-1] > _MOST_WAITING:
            time.sleep(_PAUSE_S)
    connection.close()


@contextmanager
def producers(address: Address, steps: int, digest: int, packs: bool) -> Iterator[None]:
    """Processes that send."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    made = [
        context.Process(target=produce, args=(address, name, steps, digest, packs, stop))
        for name in PRODUCERS
    ]
    for process in made:
        process.start()
    try:
        yield
    finally:
        stop.set()
        for process in made:
            process.join()


def greet(connection: redis.Redis) -> None:
    """Empty the server and begin the producers' sessions."""
    connection.flushall()
    for name in PRODUCERS:
        connection.hset(KEYS.clients, name, "{}")
        hello = SessionHello(
            client=name, instance=own_instance(), run_id=CONFIG.run_id, contract="c", num_envs=1
        )
        connection.xadd(KEYS.chunks(name), {HELLO_FIELD: hello.to_json()})


class Live:
    """Both sides, once.

    Args:
        address: The server.
        steps: Transitions in a chunk.
        seconds: How long to count.
    """

    def __init__(self, address: Address, steps: int, seconds: float) -> None:
        self._address, self._steps, self._seconds = address, steps, seconds
        self._connection = connect(address)
        self._publisher = Publisher(KEYS, CONFIG)
        header = self._publisher.prepare(TrainingPosition(1, 0, 0, 0), {"w": np.zeros(1, np.float32)})
        self._digest = digest_number(header.digest)
        self._ring = UniformReplay(RING, SPACES.observation)

    def ours(self) -> float:
        """Return transitions per second that end in the ring."""
        greet(self._connection)
        sink = RingSink(self._publisher, self._ring)
        intake = Intake(KEYS, CONFIG, SPACES, self._publisher, 2**30, sink)
        intake.begin(self._connection)
        intake.look_around(self._connection, often=True)
        with producers(self._address, self._steps, self._digest, packs=True):
            rate = self._rate(lambda: intake.take(self._connection, 10), lambda: sink.taken)
        assert not intake.sessions.refusals().total
        return rate

    def raw(self) -> float:
        """Return transitions per second that are read and acknowledged."""
        greet(self._connection)
        reader = GroupReader(TRAINER_GROUP, KEYS.chunks, lambda _: 200)
        reader.set_clients(self._connection, PRODUCERS)
        entries = 0

        def take() -> None:
            nonlocal entries
            parts = reader.read_parts(self._connection, 10)
            entries += sum(len(part.ids) for part in parts)
            if parts:
                reader.acknowledge_parts(self._connection, parts)

        with producers(self._address, self._steps, self._digest, packs=False):
            return self._rate(take, lambda: entries * self._steps)

    def _rate(self, take: Callable[[], None], taken: Callable[[], int]) -> float:
        while taken() < _MOST_WAITING * self._steps:  # the processes have to start first
            take()
        before, began = taken(), time.perf_counter()
        while time.perf_counter() - began < self._seconds:
            take()
        return (taken() - before) / (time.perf_counter() - began)


def measure(quick: bool) -> list[Measured]:
    """Measure chunks of 64 and of 256 transitions."""
    found = []
    for steps in (64, 256):
        with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as address:
            live = Live(address, steps, 2.0 if quick else 5.0)
            name = f"live, chunks of {steps}"
            found.append(
                beside(name, "transitions/s", live.ours, "the same bytes unseen", live.raw, 3 if quick else 5)
            )
    return found


if __name__ == "__main__":
    run(measure)
