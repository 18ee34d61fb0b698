"""Frames like those of Pong, four to an observation: their size on the wire, and how fast they travel.

The references handle the same observations uncompressed, in the same run. What frames of the real game take
stands in `soulsgui.wire.messages.frames`.
"""

import tempfile
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from benchmarks.ingest import CONFIG, Backlog
from benchmarks.report import Measured, beside, run
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.wire.connection import connect
from soulsgui.wire.messages.chunk import pack_chunk
from soulsgui.wire.messages.chunk_decoder import ChunkForm
from tests.servers import running_server

SIDE, STACK, STEPS = 84, 4, 64
SPACES = SpacesSpec(BoxSpec((STACK, SIDE, SIDE), "uint8", (0,), (255,)), DiscreteSpec(6))
RING = 4096
"""Transitions in the replay ring, which keeps each frame once."""


def pong_like(count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return frames `[count, 84, 84]`: walls, two paddles, a ball and the scores, with blurred edges."""
    rng = np.random.default_rng(seed)
    frames = np.full((count, SIDE, SIDE), 87, np.uint8)
    frames[:, 13:17], frames[:, 77:82] = 236, 236
    ball, speed, paddles, score = np.array([45.0, 42.0]), np.array([1.5, 2.5]), [40.0, 50.0], [0, 0]
    for frame in frames:
        ball += speed
        if not 19 < ball[0] < 74:
            speed[0] *= -1
        if not 8 < ball[1] < 75:
            score[int(ball[1] > 42)] += 1
            speed[1] *= -1
            ball[:] = rng.uniform(25, 70), 42
        for side, (column, shade) in enumerate(((8, 148), (74, 147))):
            paddles[side] = float(np.clip(paddles[side] + rng.choice((-3, 0, 3)), 18, 68))
            _draw(frame, paddles[side], column, 7, 2, shade)
        _draw(frame, float(ball[0]), float(ball[1]), 2, 1, 236)
        for side, column in enumerate((18, 58)):
            frame[1 : 2 + score[side] % 9, column : column + 6] = 150
    return frames


def _draw(frame: NDArray[np.uint8], row: float, column: float, height: int, width: int, shade: int) -> None:
    """Draw a rectangle; its upper and lower edge are as grey as they reach into their pixels."""
    top, left = int(row), int(column)
    frame[top + 1 : top + height, left : left + width] = shade
    part = 1 - (row - top)
    for at, covered in ((top, part), (top + height, 1 - part)):
        frame[at, left : left + width] = round(87 + (shade - 87) * covered)


@lru_cache(maxsize=8)
def segment(steps: int, digest: int) -> Segments:
    """Return one segment of stacked frames."""
    rng = np.random.default_rng(0)
    windows = sliding_window_view(pong_like(steps + STACK), STACK, axis=0)
    return Segments(
        env_index=np.zeros(1, np.int32),
        episode=np.zeros(1, np.int64),
        first_step=np.zeros(1, np.int64),
        length=np.array([steps], np.int32),
        model_id_first=np.ones(1, np.int64),
        model_id_last=np.ones(1, np.int64),
        digest=np.array([digest], np.uint64),
        flags=np.zeros(1, np.uint8),
        obs=np.ascontiguousarray(np.moveaxis(windows, -1, 1)),
        action=rng.integers(0, 6, steps),
        reward=np.zeros(steps, np.float32),
        log_prob=np.full(steps, -1.8, np.float32),
    )


def packed(steps: int, digest: int) -> bytes:
    """Return a chunk as a client packs it."""
    return pack_chunk(CONFIG.run_id, CONFIG.contract, segment(steps, digest))


def raw(steps: int, digest: int) -> bytes:
    """Return the same observations uncompressed."""
    return segment(steps, digest).obs.tobytes()


def rate(work: Any, repeats: int) -> float:
    """Return transitions a second, of something done with `STEPS` transitions."""
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return repeats * STEPS / (time.perf_counter() - began)


def measure(quick: bool) -> list[Measured]:
    """Measure size, packing, opening, and the way from a backlog into the replay ring."""
    repeats, often = (3, 20) if quick else (5, 100)
    made, data = segment(STEPS, 0), packed(STEPS, 0)
    uncompressed = raw(STEPS, 0)
    shape = SPACES.observation.shape
    form = ChunkForm(CONFIG.run_id, CONFIG.contract, shape, "uint8")
    together = [data] * 8
    found = [
        beside(
            "image transition on the wire", "bytes", lambda: len(data) / STEPS,
            "uncompressed", lambda: len(uncompressed) / STEPS, 1,
        ),
        beside(
            "packing images", "transitions/s", lambda: rate(lambda: packed(STEPS, 0), often),
            "copying them uncompressed", lambda: rate(made.obs.tobytes, often), repeats,
        ),
        beside(
            "opening images", "transitions/s", lambda: 8 * rate(lambda: form.open(together), often // 4),
            "copying them uncompressed",
            lambda: 8 * rate(lambda: b"".join([uncompressed] * 8), often // 4), repeats,
        ),
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as address:
        connection = connect(address)
        entries = 16 if quick else 32
        ours = Backlog(connection, STEPS, entries, packed, SPACES, RING)
        reference = Backlog(connection, STEPS, entries // 8, raw, SPACES, 1)
        found.append(
            beside(
                "ingest of images into the ring", "transitions/s", ours.taken_by_the_trainer,
                "reading them uncompressed", reference.only_read, repeats,
            )
        )  # fmt: skip
        connection.close()
    return found


if __name__ == "__main__":
    run(measure)
