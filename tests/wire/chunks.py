"""Chunks for tests: well formed, of a small environment, with one field at a time spoilt at will."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from soulsgui.experience.segments import Segments
from soulsgui.wire.messages.chunk import pack_chunk
from soulsgui.wire.messages.chunk_decoder import ChunkForm
from tests.experience.segments import segments_of

RUN, CONTRACT = "run-1", "contract-1"
OBS_SHAPE, OBS_DTYPE = (2,), "float32"


def segments(
    lengths: tuple[int, ...] = (3, 2), model_id: int = 1, digest: int = 7, **spoilt: Any
) -> Segments:
    """Return segments of the given lengths, one per environment; `spoilt` replaces whole columns."""
    count, steps = len(lengths), sum(lengths)
    made = segments_of(
        np.array(lengths, np.int32),
        obs=np.arange((steps + count) * 2, dtype=np.float32).reshape(-1, 2),
        env_index=np.arange(count, dtype=np.int32),
        model_id_first=np.full(count, model_id, np.int64),
        model_id_last=np.full(count, model_id, np.int64),
        digest=np.full(count, digest, np.uint64),
        action=np.arange(steps, dtype=np.int64) % 2,
        reward=np.ones(steps, np.float32),
        log_prob=np.full(steps, -0.7, np.float32),
    )
    return replace(made, **spoilt)


def chunk(made: Segments | None = None, run: str = RUN, contract: str = CONTRACT) -> bytes:
    return pack_chunk(run, contract, made or segments())


class Canary:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


def unpack_chunk(data: bytes, *form: Any, **more: Any) -> Segments:
    """Return the segments of one chunk, or raise why not; `form` and `more` are what `ChunkForm` takes."""
    return opened_chunk(data, ChunkForm(*form, **more))


def opened_chunk(data: bytes, form: ChunkForm) -> Segments:
    """Return the segments of one chunk, or raise why not."""
    opened = form.open([data])
    if opened.errors:
        raise opened.errors[0]
    return opened.segments
