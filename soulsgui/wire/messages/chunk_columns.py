"""The bytes of many chunks, column by column: what lies at the same place in each, laid end to end."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.wire.messages.chunk_layout import HEAD


class ChunkColumns:
    """Takes columns out of chunks.

    Chunks that are cut alike, as most of a run are, lie below each other like the rows of a table: then a
    column is taken in one go instead of chunk by chunk.

    Args:
        chunks: The chunks.

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
