"""Samples on their way to the trainer: several segments in columns, one array per field.

A segment is a run of contiguous steps of one environment within one episode. Its observations are sent
once: a segment of T steps has T + 1 of them, the last one being what followed its last step.

A chunk is a head, then its columns, little-endian, each whole and on a multiple of 8 bytes:

    head (`_HEAD`) | S records (`_RECORD`) | action [N] | reward [N] | log_prob [N] | obs [N + S]

What an observation is, both sides know from the contract; the bytes must be exactly as many as it says.
"""

import hashlib
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
    CUT_OFF = "cut_off"


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


_MAGIC = b"SGC1"
_HEAD = struct.Struct("<4sHxx8s8sII")
_RECORD = np.dtype(
    [
        ("episode", "<i8"),
        ("first_step", "<i8"),
        ("model_id_first", "<i8"),
        ("model_id_last", "<i8"),
        ("digest", "<u8"),
        ("env_index", "<i4"),
        ("length", "<i4"),
        ("flags", "|u1"),
        ("padding", "|V7"),
    ]
)
_ACTION, _FLOAT = np.dtype("<i8"), np.dtype("<f4")
_STEP_BYTES = _ACTION.itemsize + 2 * _FLOAT.itemsize


def digest_number(digest: str) -> int:
    """Return the hexadecimal digest of a weights header as the number segments carry."""
    return int(digest, 16)


@lru_cache(maxsize=16)
def _mark(text: str) -> bytes:
    """Return what stands for a run or a contract in a head."""
    return hashlib.sha256(text.encode()).digest()[:8]


def pack_chunk(run_id: str, contract: str, segments: Segments) -> bytes:
    """Return segments as the bytes of one chunk."""
    records = np.zeros(segments.count, _RECORD)
    for name in _RECORD.names or ():
        if name != "padding":
            records[name] = getattr(segments, name)
    obs = np.ascontiguousarray(segments.obs)
    head = _HEAD.pack(_MAGIC, PROTOCOL, _mark(run_id), _mark(contract), segments.count, segments.steps)
    return b"".join(
        (
            head,
            records.tobytes(),
            segments.action.astype(_ACTION, copy=False).tobytes(),
            segments.reward.astype(_FLOAT, copy=False).tobytes(),
            segments.log_prob.astype(_FLOAT, copy=False).tobytes(),
            obs.astype(obs.dtype.newbyteorder("<"), copy=False).tobytes(),
        )
    )


class OpenedChunks(NamedTuple):
    """Several chunks as one.

    Attributes:
        segments: The segments of all chunks that could be opened, in their order.
        source: `[S]` int64: which chunk each segment came in, as a position in what was given.
        errors: What is wrong with the others, by position.
    """

    segments: Segments
    source: NDArray[np.int64]
    errors: dict[int, ChunkError]


class ChunkForm:
    """What chunks of one run look like.

    Args:
        run_id: The run.
        contract: Its contract hash.
        obs_shape: Shape of one observation.
        obs_dtype: Its dtype.
    """

    def __init__(self, run_id: str, contract: str, obs_shape: tuple[int, ...], obs_dtype: str) -> None:
        self._run = _mark(run_id)
        self._contract = _mark(contract)
        self._shape = obs_shape
        self._dtype = np.dtype(obs_dtype).newbyteorder("<")
        self._obs_bytes = int(np.prod(obs_shape, dtype=np.int64)) * self._dtype.itemsize

    def open(self, chunks: Sequence[bytes]) -> OpenedChunks:
        """Return the segments of many chunks, after checking everything that can be told from their form.

        The arrays are copies; a chunk that must be refused does not disturb the others.
        """
        errors: dict[int, ChunkError] = {}
        heads: list[tuple[int, int, int]] = []
        for position, data in enumerate(chunks):
            try:
                heads.append((position, *self._sizes(data)))
            except ChunkError as error:
                errors[position] = error
        records = self._records(chunks, heads)
        wrong = self._wrong_lengths(records, heads)
        if wrong:
            errors |= {position: ChunkError(Reason.SHAPE, "lengths") for position in wrong}
            heads = [head for head in heads if head[0] not in wrong]
            records = self._records(chunks, heads)
        return OpenedChunks(self._join(chunks, heads, records), _sources(heads), errors)

    def _sizes(self, data: bytes) -> tuple[int, int]:
        """Return how many segments and steps a chunk holds.

        Raises:
            ChunkError: It is none of this run, or has another size than it says.
        """
        if len(data) > MAX_CHUNK_BYTES:
            raise ChunkError(Reason.TOO_LARGE, f"{len(data)} bytes")
        if len(data) < _HEAD.size:
            raise ChunkError(Reason.UNREADABLE, "no head")
        magic, protocol, run, contract, count, steps = _HEAD.unpack_from(data)
        if magic != _MAGIC:
            raise ChunkError(Reason.UNREADABLE, "not a chunk")
        if protocol != PROTOCOL:
            raise ChunkError(Reason.PROTOCOL, str(protocol))
        if run != self._run:
            raise ChunkError(Reason.RUN)
        if contract != self._contract:
            raise ChunkError(Reason.CONTRACT)
        expected = count * _RECORD.itemsize + steps * _STEP_BYTES + (steps + count) * self._obs_bytes
        if not count or len(data) - _HEAD.size != expected:
            raise ChunkError(Reason.SHAPE, f"{len(data)} bytes for {count} segments of {steps} steps")
        return count, steps

    @staticmethod
    def _records(chunks: Sequence[bytes], heads: list[tuple[int, int, int]]) -> NDArray[Any]:
        begin, size = _HEAD.size, _RECORD.itemsize
        joined = b"".join([chunks[position][begin : begin + count * size] for position, count, _ in heads])
        return np.frombuffer(joined, _RECORD)

    @staticmethod
    def _wrong_lengths(records: NDArray[Any], heads: list[tuple[int, int, int]]) -> set[int]:
        """Return the chunks whose segments are not as long as the chunk says."""
        if not heads:
            return set()
        length = records["length"].astype(np.int64)
        starts = list(itertools.accumulate((count for _, count, _ in heads[:-1]), initial=0))
        wrong = (np.add.reduceat(length, starts) != [steps for *_, steps in heads]) | (
            np.minimum.reduceat(length, starts) < 1
        )
        return {heads[index][0] for index in np.flatnonzero(wrong)}

    def _join(
        self, chunks: Sequence[bytes], heads: list[tuple[int, int, int]], records: NDArray[Any]
    ) -> Segments:
        action, reward, log_prob, obs = [], [], [], []
        size, wide, narrow = _RECORD.itemsize, _ACTION.itemsize, _FLOAT.itemsize
        for position, count, steps in heads:
            data = chunks[position]
            first = _HEAD.size + count * size
            second = first + steps * wide
            third = second + steps * narrow
            fourth = third + steps * narrow
            action.append(data[first:second])
            reward.append(data[second:third])
            log_prob.append(data[third:fourth])
            obs.append(data[fourth:])
        return Segments(
            **{name: records[name] for name in _RECORD.names or () if name != "padding"},
            action=np.frombuffer(b"".join(action), _ACTION),
            reward=np.frombuffer(b"".join(reward), _FLOAT),
            log_prob=np.frombuffer(b"".join(log_prob), _FLOAT),
            obs=np.frombuffer(b"".join(obs), self._dtype).reshape(-1, *self._shape),
        )


def _sources(heads: list[tuple[int, int, int]]) -> NDArray[np.int64]:
    positions = np.array([position for position, *_ in heads], np.int64)
    return np.repeat(positions, np.array([count for _, count, _ in heads], np.int64))


def unpack_chunk(
    data: bytes, run_id: str, contract: str, obs_shape: tuple[int, ...], obs_dtype: str
) -> Segments:
    """Return the segments of one chunk, as `ChunkForm.open`.

    Raises:
        ChunkError: With the reason.
    """
    opened = ChunkForm(run_id, contract, obs_shape, obs_dtype).open([data])
    if opened.errors:
        raise opened.errors[0]
    return opened.segments
