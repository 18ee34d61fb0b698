"""Opening chunks: the segments of many chunks as one, after checking all that their form can tell."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, Images, Observations, Pictures
from soulsgui.experience.segments import Segments
from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.chunk import FLOAT, HEAD, MAGIC, MAX_CHUNK_BYTES, RECORD, ChunkError, Reason, mark
from soulsgui.wire.messages.frames import (
    FramesError,
    frames_of,
    is_image,
    stacks_of,
    unpack_each_once,
    unpack_frames,
)


class ChunkColumns:
    """Takes columns out of chunks.

    Chunks that are cut alike, as most of a run are, lie below each other like the rows of a table: then a
    column is taken in one go instead of chunk by chunk.

    Attributes:
        sizes: `[C]` int64: bytes of each.
    """

    def __init__(self, chunks: Sequence[bytes]) -> None:
        self._chunks = chunks
        self.sizes: NDArray[np.int64] = np.fromiter(map(len, chunks), np.int64, len(chunks))
        self._alike = len(chunks) > 1 and bool((self.sizes == self.sizes[0]).all())

    @cached_property
    def _table(self) -> NDArray[np.uint8]:
        return np.frombuffer(b"".join(self._chunks), np.uint8).reshape(len(self._chunks), -1)

    def heads(self) -> NDArray[Any]:
        """Return the heads `[C]` (`HEAD`); where a chunk is too short zeros follow it."""
        if self._alike and self.sizes[0] >= HEAD.itemsize:
            return np.ascontiguousarray(self._table[:, : HEAD.itemsize]).reshape(-1).view(HEAD)
        beginnings = [data[: HEAD.itemsize].ljust(HEAD.itemsize, b"\0") for data in self._chunks]
        return np.frombuffer(b"".join(beginnings), HEAD)

    def take(self, begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return what lies in each chunk from `begins` `[C]` on, `sizes` `[C]` bytes of it, end to end."""
        if self._alike and (begins == begins[0]).all() and (sizes == sizes[0]).all():
            begin, end = int(begins[0]), int(begins[0] + sizes[0])
            return np.ascontiguousarray(self._table[:, begin:end]).reshape(-1)
        ends = (begins + sizes).tolist()
        parts = [data[a:b] for data, a, b in zip(self._chunks, begins.tolist(), ends, strict=True)]
        return np.frombuffer(b"".join(parts), np.uint8)


_STACKING_AT = int(HEAD.fields["stacking"][1]) if HEAD.fields else 0


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


class ChunkForm:
    """What chunks of one run look like.

    Args:
        contract: Hash of what client and server agree on.
        obs_shape, obs_dtype: Of one observation.
        masked_actions: Number of actions, where there are masks; 0 where there are none.
        state: Shape of each field of the state.
        action_shape, action_dtype: Of one stored action.

    Attributes:
        is_compressed: Whether chunks may be far larger when they are opened.
    """

    def __init__(
        self,
        run_id: str,
        contract: str,
        obs_shape: tuple[int, ...],
        obs_dtype: str,
        masked_actions: int = 0,
        state: Mapping[str, Sequence[int]] | None = None,
        action_shape: tuple[int, ...] = (),
        action_dtype: str = "int64",
    ) -> None:
        self._run = mark(run_id)
        self._contract = mark(contract)
        self._shape = obs_shape
        self._dtype = np.dtype(obs_dtype).newbyteorder("<")
        self._obs_bytes = math.prod(obs_shape) * self._dtype.itemsize
        # Of images with numbers beside them the images alone are compressed.
        self._numbers: np.dtype[Any] | None = None
        if self._dtype.fields is not None:
            self._shape, self._numbers = self._dtype.fields[IMAGE][0].shape, self._dtype.fields[NUMBERS][0]
        self.is_compressed = self._numbers is not None or is_image(obs_shape, obs_dtype)
        self._action_shape = action_shape
        self._action_dtype = np.dtype(action_dtype).newbyteorder("<")
        self._action_bytes = math.prod(action_shape) * self._action_dtype.itemsize
        self._masked_actions = masked_actions
        self._mask_bytes = -(-masked_actions // 8)
        self._state = {name: tuple(shape) for name, shape in sorted((state or {}).items())}
        sizes = [math.prod(shape) * FLOAT.itemsize for shape in self._state.values()]
        # Of what has a size of its own, whatever stands in it: bytes a step, and bytes a segment.
        self._beside_bytes = 0 if self._numbers is None else self._numbers.itemsize
        self._step_bytes = self._action_bytes + 2 * FLOAT.itemsize + self._mask_bytes + self._beside_bytes
        self._segment_bytes = RECORD.itemsize + sum(sizes) + self._mask_bytes + self._beside_bytes
        if not self.is_compressed:
            self._step_bytes += self._obs_bytes
            self._segment_bytes += self._obs_bytes

    def opened_size(self, data: bytes) -> int:
        """Return about how many bytes a chunk takes once it is opened; what it claims is believed."""
        if not self.is_compressed or not HEAD.itemsize <= len(data) <= MAX_CHUNK_BYTES:
            return len(data)
        head = np.frombuffer(data, HEAD, 1)[0]
        claimed: int = len(data) + (int(head["count"]) + int(head["steps"])) * self._obs_bytes
        return min(claimed, 2 * MAX_CHUNK_BYTES)  # what claims to be larger is not opened

    def open(self, chunks: Sequence[bytes]) -> OpenedChunks:
        """Return the segments of many chunks, after checking everything that can be told from their form.

        The arrays are copies; a chunk that must be refused does not disturb the others.
        """
        errors: dict[int, ChunkError] = {}
        columns = ChunkColumns(chunks)
        counts, steps = self._sizes(columns, errors)
        records = self._records(columns, counts)
        wrong = _wrong_lengths(records, counts, steps)
        if len(wrong):
            errors |= {int(position): ChunkError(Reason.SHAPE, "lengths") for position in wrong}
            counts[wrong] = steps[wrong] = 0
            records = self._records(columns, counts)
        obs: Images | None = None
        if self.is_compressed:
            obs = self._unpack_all(chunks, counts, steps, records["length"], errors)
            records = self._records(columns, counts)
        return OpenedChunks(self._join(columns, counts, steps, records, obs), counts, steps, errors)

    def _unpack_all(
        self,
        chunks: Sequence[bytes],
        counts: NDArray[np.int64],
        steps: NDArray[np.int64],
        lengths: NDArray[np.int32],
        errors: dict[int, ChunkError],
    ) -> Images:
        """Return the images of all chunks; one whose frames are bad counts for nothing from then on."""
        opened = np.flatnonzero(counts).tolist()
        stackings = {position: chunks[position][_STACKING_AT] for position in opened}
        kinds = set(stackings.values())
        depth, frame = 0, self._shape
        # Each frame is kept once where all chunks are stacked alike, as those of one game are.
        if len(kinds) == 1:
            with suppress(FramesError):  # observations that travel whole
                depth, frame = frames_of(kinds.pop(), self._shape)
        rows = counts + steps + counts * (depth - 1 if depth else 0)
        begins = (HEAD.itemsize + steps * self._step_bytes + counts * self._segment_bytes).tolist()
        images = np.empty((int(rows.sum()), *frame), np.uint8)
        first = written = 0
        used = []
        for position in opened:
            data, last = chunks[position][begins[position] :], first + int(counts[position])
            end, here = written + int(rows[position]), lengths[first:last]
            try:
                if depth:
                    unpack_each_once(data, images[written:end])
                else:
                    unpack_frames(data, stackings[position], here, images[written:end])
                written = end
                used.append(here)
            except FramesError as error:
                errors[position] = ChunkError(Reason.SHAPE, f"frames: {error}")
                counts[position] = steps[position] = 0
            first = last
        if not depth or not used:
            return images[:written]
        return stacks_of(images[:written], stackings[opened[0]], np.concatenate(used), depth)

    def _sizes(
        self, columns: ChunkColumns, errors: dict[int, ChunkError]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return how many segments and steps each chunk holds, 0 for those that are none of this run.

        What is wrong with those is put into `errors`.
        """
        sizes, heads = columns.sizes, columns.heads()
        counts, steps = heads["count"].astype(np.int64), heads["steps"].astype(np.int64)
        rows, behind = counts + steps, sizes - HEAD.itemsize
        expected = counts * self._segment_bytes + steps * self._step_bytes
        fits = behind > expected if self.is_compressed else behind == expected
        opened = rows * self._obs_bytes if self.is_compressed else behind
        # The first that is true is the reason; where none is, nothing is wrong.
        problems = {
            (Reason.TOO_LARGE, "{size} bytes"): sizes > MAX_CHUNK_BYTES,
            (Reason.UNREADABLE, "no head"): behind < 0,
            (Reason.UNREADABLE, "not a chunk"): heads["magic"] != MAGIC,
            (Reason.PROTOCOL, "{protocol}"): heads["protocol"] != PROTOCOL,
            (Reason.RUN, ""): heads["run"] != self._run,
            (Reason.CONTRACT, ""): heads["contract"] != self._contract,
            (Reason.TOO_LARGE, "{rows} images"): opened > MAX_CHUNK_BYTES,
            (Reason.SHAPE, "{size} bytes for {count} segments of {steps} steps"): ~fits | (counts == 0),
        }
        wrong = np.array(list(problems.values()))
        told = {"size": sizes, "protocol": heads["protocol"], "rows": rows, "count": counts, "steps": steps}
        for position in np.flatnonzero(wrong.any(axis=0)).tolist():
            reason, words = list(problems)[int(wrong[:, position].argmax())]
            detail = words.format(**{name: column[position] for name, column in told.items()})
            errors[position] = ChunkError(reason, detail)
            counts[position] = steps[position] = 0
        return counts, steps

    @staticmethod
    def _records(columns: ChunkColumns, counts: NDArray[np.int64]) -> NDArray[Any]:
        begins = np.full(len(counts), HEAD.itemsize)
        return columns.take(begins, counts * RECORD.itemsize).view(RECORD)

    def _join(
        self,
        columns: ChunkColumns,
        counts: NDArray[np.int64],
        steps: NDArray[np.int64],
        records: NDArray[Any],
        images: Images | None,
    ) -> Segments:
        begins = HEAD.itemsize + counts * RECORD.itemsize

        def column(step_bytes: int, segment_bytes: int) -> NDArray[np.uint8]:
            nonlocal begins
            sizes = steps * step_bytes + counts * segment_bytes
            found = columns.take(begins, sizes)
            begins = begins + sizes
            return found

        action = column(self._action_bytes, 0).view(self._action_dtype)
        reward, log_prob = (column(FLOAT.itemsize, 0).view(FLOAT) for _ in range(2))
        state = {
            name: column(0, math.prod(shape) * FLOAT.itemsize).view(FLOAT).reshape(-1, *shape)
            for name, shape in self._state.items()
        }
        mask = None
        if self._masked_actions:
            bits = column(self._mask_bytes, self._mask_bytes).reshape(-1, self._mask_bytes)
            mask = np.unpackbits(bits, axis=1, count=self._masked_actions).view(np.bool_)
        if self._numbers is not None and images is not None:
            numbers = column(self._beside_bytes, self._beside_bytes).view(self._numbers.base)
            obs: Observations = Pictures(images, numbers.reshape(-1, *self._numbers.shape))
        elif images is None:
            flat = column(self._obs_bytes, self._obs_bytes).view(self._dtype)
            obs = flat.reshape(-1, *self._shape)
        else:
            obs = images
        return Segments(
            **{name: records[name] for name in RECORD.names or () if name != "padding"},
            action=action.reshape(-1, *self._action_shape),
            reward=reward,
            log_prob=log_prob,
            obs=obs,
            action_mask=mask,
            state=state,
        )


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
