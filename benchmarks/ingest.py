"""From a backlog on 16 streams into the replay ring, every check on, against reading the same bytes only.

The reference reads and acknowledges the same backlog through the same group reader, and looks at nothing.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import redis

from benchmarks.report import Measured, beside, run
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import TERMINATED, Ints, Segments
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.training.intake.checks import Codes, check_segments
from soulsgui.training.intake.chunks import Accepted, Owned, Steps
from soulsgui.training.intake.reader import Intake
from soulsgui.training.intake.sessions import Session
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import connect
from soulsgui.wire.group_reader import GroupReader
from soulsgui.wire.keys import TRAINER_GROUP, Keys
from soulsgui.wire.messages.chunk import digest_number, pack_chunk
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import CHUNK_FIELD, HELLO_FIELD, SessionHello
from tests.servers import running_server

SPACES = SpacesSpec(BoxSpec((8,), "float32"), DiscreteSpec(4))
CONFIG = ServerConfig(run_id="bench", attempt=1, contract="c", spaces=SPACES.to_json(), policy={})
STREAMS = 16
KEYS = Keys("bench:")
RING = 1_000_000
"""Transitions in the replay ring: that of an ordinary run."""


def segment(steps: int, digest: int) -> Segments:
    """One segment of transitions with 8 floats and 4 actions."""
    rng = np.random.default_rng(0)
    return Segments(
        env_index=np.zeros(1, np.int32),
        episode=np.zeros(1, np.int64),
        first_step=np.zeros(1, np.int64),
        length=np.array([steps], np.int32),
        model_id_first=np.ones(1, np.int64),
        model_id_last=np.ones(1, np.int64),
        digest=np.array([digest], np.uint64),
        flags=np.zeros(1, np.uint8),
        obs=rng.normal(size=(steps + 1, 8)).astype(np.float32),
        action=rng.integers(0, 4, steps),
        reward=np.ones(steps, np.float32),
        log_prob=np.full(steps, -1.4, np.float32),
    )


def packed(made: Segments) -> bytes:
    """The chunk of a segment, as a client packs it."""
    return pack_chunk(CONFIG.run_id, CONFIG.contract, made)


def chunk(steps: int, digest: int) -> bytes:
    """A chunk with one such segment."""
    return packed(segment(steps, digest))


class RingSink:
    """Takes samples over as an asynchronous learner does: every check, then into the replay ring.

    Args:
        publisher: Knows the weights.
        ring: The replay ring.
        spaces: What is checked.
    """

    newest = 1

    def refused_late(self, model_ids: Ints, lengths: Steps) -> None:
        """Nothing is late."""

    def __init__(self, publisher: Publisher, ring: UniformReplay, spaces: SpacesSpec = SPACES) -> None:
        self.taken = 0
        self._spaces = spaces
        self._publisher = publisher
        self._ring = ring

    def judge(self, owned: Owned) -> Codes:
        """Every check of the learner."""
        spaces, newest = self._spaces, self.newest
        return check_segments(owned.segments, spaces, self._publisher.digests, 0, newest, owned.num_envs)

    def wants(self, session: Session) -> float:
        """All are wanted."""
        return float("inf")

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """All are wanted."""

    def insert(self, accepted: Accepted) -> None:
        """Write into the ring."""
        made = accepted.segments
        terminated = (made.flags & TERMINATED) > 0
        self.taken += self._ring.add(made.obs, made.length, made.action, made.reward, terminated)

    def lost(self, client: str, reason: str) -> None:
        """Nobody does."""


class Backlog:
    """Chunks that wait on the streams of clients.

    Args:
        connection: The server.
        steps: Transitions in a chunk.
        entries: Chunks on each stream.
        make: Makes a chunk of so many steps with a digest.
        spaces: Spaces of the run.
        capacity: Transitions in the replay ring.
    """

    def __init__(
        self,
        connection: redis.Redis,
        steps: int,
        entries: int,
        make: Callable[[int, int], bytes] = chunk,
        spaces: SpacesSpec = SPACES,
        capacity: int = RING,
    ) -> None:
        self.connection, self.steps, self.entries, self.spaces = connection, steps, entries, spaces
        self.publisher = Publisher(KEYS, CONFIG)
        header = self.publisher.prepare(TrainingPosition(1, 0, 0, 0), {"w": np.zeros(1, np.float32)})
        self.payload = make(steps, digest_number(header.digest))
        self.ring = UniformReplay(capacity, spaces.observation)
        self.names = [f"c{number}" for number in range(STREAMS)]

    def fill(self) -> None:
        """Put all of it on the streams, behind a hello each."""
        self.connection.flushall()
        for name in self.names:
            self.connection.hset(KEYS.clients, name, "{}")
            hello = SessionHello(
                client=name, instance=own_instance(), run_id="bench", contract="c", num_envs=1
            )
            self.connection.xadd(KEYS.chunks(name), {HELLO_FIELD: hello.to_json()})
            pipeline = self.connection.pipeline(transaction=False)
            for number in range(self.entries):
                pipeline.xadd(KEYS.chunks(name), {CHUNK_FIELD: self.payload, b"n": number})
            pipeline.execute()

    @property
    def transitions(self) -> int:
        """How many wait."""
        return STREAMS * self.entries * self.steps

    def taken_by_the_trainer(self) -> float:
        """Return transitions per second, checked and in the ring."""
        self.fill()
        sink = RingSink(self.publisher, self.ring, self.spaces)
        intake = Intake(KEYS, CONFIG, self.spaces, self.publisher, 2**31, sink)
        intake.begin(self.connection)
        intake.look_around(self.connection, often=True)
        began = time.perf_counter()
        while sink.taken < self.transitions:
            intake.take(self.connection, 0)
        seconds = time.perf_counter() - began
        assert not intake.sessions.refusals().total
        return self.transitions / seconds

    def only_read(self) -> float:
        """Return transitions per second that are read and acknowledged unseen."""
        self.fill()
        reader = GroupReader(TRAINER_GROUP, KEYS.chunks, lambda _: 200)
        reader.set_clients(self.connection, self.names)
        left = STREAMS * (self.entries + 1)
        began = time.perf_counter()
        while left:
            parts = reader.read_parts(self.connection, 0)
            left -= sum(len(part.ids) for part in parts)
            if parts:
                reader.acknowledge_parts(self.connection, parts)
        return self.transitions / (time.perf_counter() - began)


def measure(quick: bool) -> list[Measured]:
    """Measure chunks of 64 and of 256 transitions."""
    found = []
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as address:
        connection = connect(address)
        for steps in (64, 256):
            backlog = Backlog(connection, steps, 100 if quick else 500)
            found.append(
                beside(
                    f"ingest, chunks of {steps}",
                    "transitions/s",
                    backlog.taken_by_the_trainer,
                    "reading and acknowledging alone",
                    backlog.only_read,
                    3 if quick else 5,
                )
            )
        connection.close()
    return found


if __name__ == "__main__":
    run(measure)
