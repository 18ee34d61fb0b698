"""Samples on their way to the trainer: several segments in columns, one array per field.

A segment is a run of contiguous steps of one environment within one episode. Its observations are sent
once: a segment of T steps has T + 1 of them, the last one being what followed its last step.
"""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.wire.codec import CodecError, pack, unpack
from soulsgui.wire.keys import PROTOCOL

TERMINATED = 1
TRUNCATED = 2

MAX_CHUNK_BYTES = 16 * 2**20
NUMBER_FIELD = b"n"


class Reason(StrEnum):
    """Why samples were refused."""

    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    PROTOCOL = "protocol"
    RUN = "other_run"
    CONTRACT = "contract"
    SHAPE = "shape"
    NOT_FINITE = "not_finite"
    BOUNDS = "out_of_bounds"
    LATE = "late"
    LINEAGE = "lineage"
    REPEATED = "repeated"
    WRONG_TYPE = "wrong_type"
    NOT_ADMITTED = "not_admitted"


_MAX_DETAIL = 200


class ChunkError(ValueError):
    """A chunk that must be refused whole.

    Args:
        reason: Why.
        detail: More of it, for the log; what a stranger wrote is cut short.
    """

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value}: {detail[:_MAX_DETAIL]}" if detail else reason.value)
        self.reason = reason


@dataclass(frozen=True)
class Segments:
    """`S` segments with `N` steps in all.

    | field | shape, dtype | meaning |
    |---|---|---|
    | env_index | `[S]` int32 | environment of the client |
    | episode | `[S]` int64 | number of the episode in that environment |
    | first_step | `[S]` int64 | number of the first step within its episode |
    | length | `[S]` int32 | steps |
    | model_id_first, model_id_last | `[S]` int64 | weights that chose the first and the last action |
    | digest | `[S]` uint64 | first 8 bytes of the hash of those weights, big-endian |
    | flags | `[S]` uint8 | `TERMINATED`, `TRUNCATED`, of the last step |
    | obs | `[N + S, *obs_shape]` | observations, segment after segment |
    | action | `[N]` int64 | |
    | reward | `[N]` float32 | |
    | log_prob | `[N]` float32 | log-probability of the action when it was chosen |
    """

    env_index: NDArray[np.int32]
    episode: NDArray[np.int64]
    first_step: NDArray[np.int64]
    length: NDArray[np.int32]
    model_id_first: NDArray[np.int64]
    model_id_last: NDArray[np.int64]
    digest: NDArray[np.uint64]
    flags: NDArray[np.uint8]
    obs: NDArray[Any]
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    log_prob: NDArray[np.float32]

    @property
    def steps(self) -> int:
        """Number of steps, `N`."""
        return len(self.action)

    @property
    def count(self) -> int:
        """Number of segments, `S`."""
        return len(self.length)


_PER_SEGMENT = {
    "env_index": "<i4",
    "episode": "<i8",
    "first_step": "<i8",
    "length": "<i4",
    "model_id_first": "<i8",
    "model_id_last": "<i8",
    "digest": "<u8",
    "flags": "|u1",
}
_PER_STEP = {"action": "<i8", "reward": "<f4", "log_prob": "<f4"}


def digest_number(digest: str) -> int:
    """Return the hexadecimal digest of a weights header as the number segments carry."""
    return int(digest, 16)


def pack_chunk(run_id: str, contract: str, segments: Segments) -> bytes:
    """Return segments as the bytes of one chunk."""
    columns = {field.name: getattr(segments, field.name) for field in fields(Segments)}
    return pack({"v": PROTOCOL, "run": run_id, "contract": contract, "s": columns})


def unpack_chunk(
    data: bytes, run_id: str, contract: str, obs_shape: tuple[int, ...], obs_dtype: str
) -> Segments:
    """Return the segments of a chunk after checking everything that can be told from its form.

    Args:
        data: The bytes of the entry.
        run_id: The present run.
        contract: Its contract hash.
        obs_shape: Shape of one observation.
        obs_dtype: Its dtype.

    Raises:
        ChunkError: With the reason.
    """
    if len(data) > MAX_CHUNK_BYTES:
        raise ChunkError(Reason.TOO_LARGE, f"{len(data)} bytes")
    try:
        message = unpack(data)
    except CodecError as error:
        raise ChunkError(Reason.UNREADABLE, str(error)) from error
    if not isinstance(message, dict) or not isinstance(message.get("s"), dict):
        raise ChunkError(Reason.UNREADABLE, "not a chunk")
    # Whatever stands there: an array compared with a word would be no yes or no.
    for name, expected, reason in (
        ("v", PROTOCOL, Reason.PROTOCOL),
        ("run", run_id, Reason.RUN),
        ("contract", contract, Reason.CONTRACT),
    ):
        found = message.get(name)
        if type(found) is not type(expected) or found != expected:
            raise ChunkError(reason, type(found).__name__ if isinstance(found, np.ndarray) else repr(found))
    return _segments(message["s"], obs_shape, np.dtype(obs_dtype))


def _segments(columns: dict[str, Any], obs_shape: tuple[int, ...], obs_dtype: np.dtype[Any]) -> Segments:
    if set(columns) != {field.name for field in fields(Segments)}:
        raise ChunkError(Reason.SHAPE, "other fields")
    if not all(isinstance(column, np.ndarray) for column in columns.values()):
        raise ChunkError(Reason.SHAPE, "a field is not an array")
    length = columns["length"]
    if length.ndim != 1 or length.dtype.str != _PER_SEGMENT["length"] or not len(length) or length.min() < 1:
        raise ChunkError(Reason.SHAPE, "lengths")
    count, steps = len(length), int(length.sum(dtype=np.int64))
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        name: (dtype, (count,)) for name, dtype in _PER_SEGMENT.items()
    }
    expected |= {name: (dtype, (steps,)) for name, dtype in _PER_STEP.items()}
    expected["obs"] = (obs_dtype.newbyteorder("<").str, (steps + count, *obs_shape))
    for name, (dtype, shape) in expected.items():
        column = columns[name]
        if column.dtype.str != dtype or column.shape != shape:
            raise ChunkError(Reason.SHAPE, f"{name} is {column.dtype.str}{list(column.shape)}")
    return Segments(**columns)
