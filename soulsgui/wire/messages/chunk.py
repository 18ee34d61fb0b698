"""Samples on their way to the trainer: several segments in columns, one array per field.

A segment is a run of contiguous steps of one environment within one episode. Its observations are sent
once: a segment of T steps has T + 1 of them, the last one being what followed its last step.

A chunk is a head, then its columns, little-endian, each whole and on a multiple of 8 bytes:

    head (`_HEAD`) | S records (`_RECORD`) | action [N] | reward [N] | log_prob [N] | obs [N + S]

What an observation is, both sides know from the contract; the bytes must be exactly as many as it says.
"""

import hashlib
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
# `_HEAD` once more, for many at once.
_HEADS = np.dtype(
    [
        ("magic", "<u4"),
        ("protocol", "<u2"),
        ("padding", "|V2"),
        ("run", "<u8"),
        ("contract", "<u8"),
        ("count", "<u4"),
        ("steps", "<u4"),
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
        counts: `[C]` int64: segments of each chunk that was given, 0 for one that could not be opened.
        steps: `[C]` int64: its steps, likewise.
        errors: What is wrong with those that could not be opened, by position.
    """

    segments: Segments
    counts: NDArray[np.int64]
    steps: NDArray[np.int64]
    errors: dict[int, ChunkError]

    @property
    def source(self) -> NDArray[np.int64]:
        """`[S]`: which chunk each segment came in, as a position in what was given."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


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
        head = _HEAD.pack(_MAGIC, PROTOCOL, self._run, self._contract, 0, 0)
        self._ours = np.frombuffer(head, _HEADS)[0]
        self._shape = obs_shape
        self._dtype = np.dtype(obs_dtype).newbyteorder("<")
        self._obs_bytes = int(np.prod(obs_shape, dtype=np.int64)) * self._dtype.itemsize

    def open(self, chunks: Sequence[bytes]) -> OpenedChunks:
        """Return the segments of many chunks, after checking everything that can be told from their form.

        The arrays are copies; a chunk that must be refused does not disturb the others.
        """
        errors: dict[int, ChunkError] = {}
        counts, steps = self._sizes_of_all(chunks, errors)
        records = self._records(chunks, counts)
        wrong = _wrong_lengths(records, counts, steps)
        if len(wrong):
            errors |= {int(position): ChunkError(Reason.SHAPE, "lengths") for position in wrong}
            counts[wrong] = steps[wrong] = 0
            records = self._records(chunks, counts)
        return OpenedChunks(self._join(chunks, counts, steps, records), counts, steps, errors)

    def _sizes_of_all(
        self, chunks: Sequence[bytes], errors: dict[int, ChunkError]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many segments and steps each chunk holds, 0 for those that are none of this run.

        What is wrong with those is put into `errors`.
        """
        sizes = np.fromiter(map(len, chunks), np.int64, len(chunks))
        beginnings = [data[: _HEAD.size] for data in chunks]
        if len(chunks) and sizes.min() < _HEAD.size:
            beginnings = [data.ljust(_HEAD.size, b"\0") for data in beginnings]
        heads = np.frombuffer(b"".join(beginnings), _HEADS)
        counts, steps = heads["count"].astype(np.int64), heads["steps"].astype(np.int64)
        expected = counts * _RECORD.itemsize + steps * _STEP_BYTES + (steps + counts) * self._obs_bytes
        good = (
            (sizes <= MAX_CHUNK_BYTES)
            & (heads["magic"] == self._ours["magic"])
            & (heads["protocol"] == self._ours["protocol"])
            & (heads["run"] == self._ours["run"])
            & (heads["contract"] == self._ours["contract"])
            & (counts > 0)
            & (sizes - _HEAD.size == expected)
        )
        for position in np.flatnonzero(~good).tolist():
            counts[position] = steps[position] = 0
            try:
                self._sizes(chunks[position])
            except ChunkError as error:
                errors[position] = error
        return counts, steps

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
    def _records(chunks: Sequence[bytes], counts: NDArray[np.int64]) -> NDArray[Any]:
        ends = (_HEAD.size + counts * _RECORD.itemsize).tolist()
        joined = b"".join([data[_HEAD.size : end] for data, end in zip(chunks, ends, strict=True)])
        return np.frombuffer(joined, _RECORD)

    def _join(
        self,
        chunks: Sequence[bytes],
        counts: NDArray[np.int64],
        steps: NDArray[np.int64],
        records: NDArray[Any],
    ) -> Segments:
        begin = _HEAD.size + counts * _RECORD.itemsize
        action, reward, log_prob, obs = (
            _column(chunks, begin + steps * offset, steps * width + counts * more)
            for offset, width, more in self._columns
        )
        return Segments(
            **{name: records[name] for name in _RECORD.names or () if name != "padding"},
            action=np.frombuffer(action, _ACTION),
            reward=np.frombuffer(reward, _FLOAT),
            log_prob=np.frombuffer(log_prob, _FLOAT),
            obs=np.frombuffer(obs, self._dtype).reshape(-1, *self._shape),
        )

    @property
    def _columns(self) -> tuple[tuple[int, int, int], ...]:
        """Bytes a step before each column behind the records, bytes a step in it, and bytes a segment."""
        wide, narrow = _ACTION.itemsize, _FLOAT.itemsize
        return (
            (0, wide, 0),
            (wide, narrow, 0),
            (wide + narrow, narrow, 0),
            (_STEP_BYTES, self._obs_bytes, self._obs_bytes),
        )


def _column(chunks: Sequence[bytes], begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> bytes:
    """Return a column of all chunks; of a chunk that is left out `sizes` says 0."""
    ends = (begins + sizes).tolist()
    return b"".join([data[a:b] for data, a, b in zip(chunks, begins.tolist(), ends, strict=True)])


def _wrong_lengths(
    records: NDArray[Any], counts: NDArray[np.int64], steps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the positions of chunks whose segments are not as long as the chunk says."""
    filled = np.flatnonzero(counts)
    if not len(filled):
        return filled
    length = records["length"].astype(np.int64)
    starts = np.cumsum(counts[filled]) - counts[filled]
    wrong = (np.add.reduceat(length, starts) != steps[filled]) | (np.minimum.reduceat(length, starts) < 1)
    found: NDArray[np.int64] = filled[wrong]
    return found


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
