"""Chunks: what is well formed comes back, everything else is refused with its reason."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.wire.codec import pack, unpack
from soulsgui.wire.messages.chunk import (
    MAX_CHUNK_BYTES,
    ChunkError,
    Reason,
    Segments,
    digest_number,
    unpack_chunk,
)
from tests.wire.chunks import CONTRACT, OBS_DTYPE, OBS_SHAPE, RUN, chunk, segments


def _open(data: bytes) -> Segments:
    return unpack_chunk(data, RUN, CONTRACT, OBS_SHAPE, OBS_DTYPE)


def _refused(data: bytes) -> ChunkError:
    with pytest.raises(ChunkError) as caught:
        _open(data)
    return caught.value


@pytest.mark.parametrize("lengths", [(3, 2), (1,), (256,) * 8])
def test_segments_come_back_as_they_were(lengths: tuple[int, ...]) -> None:
    sent = segments(lengths)
    got = _open(chunk(sent))
    for field in fields(Segments):
        first, second = getattr(sent, field.name), getattr(got, field.name)
        assert first.dtype == second.dtype
        np.testing.assert_array_equal(first, second)
    assert (got.count, got.steps) == (len(lengths), sum(lengths))


def test_digest_fits_into_64_bits() -> None:
    assert digest_number("ff" * 8) == 2**64 - 1


def _with(**changed: Any) -> bytes:
    message = unpack(chunk())
    return pack(message | changed)


def _with_column(name: str, value: Any) -> bytes:
    message = unpack(chunk())
    return pack(message | {"s": message["s"] | {name: value}})


def _without_column() -> bytes:
    message = unpack(chunk())
    del message["s"]["reward"]
    return pack(message)


TWO = np.array([1, 1])

REFUSED = [
    (Reason.TOO_LARGE, bytes(MAX_CHUNK_BYTES + 1)),
    (Reason.UNREADABLE, b""),
    (Reason.UNREADABLE, b"\xc1"),
    (Reason.UNREADABLE, pack([1, 2])),
    (Reason.UNREADABLE, pack({"v": 1})),
    (Reason.UNREADABLE, pack({"v": 1, "s": [1]})),
    (Reason.PROTOCOL, _with(v=2)),
    (Reason.PROTOCOL, _with(v=None)),
    (Reason.PROTOCOL, _with(v=True)),
    (Reason.PROTOCOL, _with(v=TWO)),
    (Reason.PROTOCOL, _with(v="x" * 100_000)),
    (Reason.RUN, _with(run="other")),
    (Reason.RUN, _with(run=TWO)),
    (Reason.CONTRACT, _with(contract="other")),
    (Reason.CONTRACT, _with(contract=TWO)),
    (Reason.SHAPE, _without_column()),
    (Reason.SHAPE, _with_column("more", TWO)),
    (Reason.SHAPE, _with_column("reward", 3)),
    (Reason.SHAPE, _with_column("length", np.array([], np.int32))),
    (Reason.SHAPE, _with_column("length", np.array([3, 0], np.int32))),
    (Reason.SHAPE, _with_column("length", np.array([6, -1], np.int32))),
    (Reason.SHAPE, _with_column("length", np.array([2**31 - 1] * 2, np.int32))),
    (Reason.SHAPE, _with_column("length", np.array([3, 2], np.int64))),
    (Reason.SHAPE, _with_column("length", np.array([[3, 2]], np.int32))),
    (Reason.SHAPE, _with_column("length", np.array(5, np.int32))),
    (Reason.SHAPE, _with_column("reward", np.ones(5, np.float64))),
    (Reason.SHAPE, _with_column("reward", np.ones((5, 1), np.float32))),
    (Reason.SHAPE, _with_column("reward", np.ones(4, np.float32))),
    (Reason.SHAPE, _with_column("obs", np.zeros((7, 3), np.float32))),
    (Reason.SHAPE, _with_column("obs", np.zeros((5, 2), np.float32))),
    (Reason.SHAPE, _with_column("obs", np.zeros((7, 2), np.uint8))),
    (Reason.SHAPE, _with_column("env_index", np.zeros(3, np.int32))),
    (Reason.SHAPE, _with_column("digest", np.zeros(2, np.int64))),
]


@pytest.mark.parametrize(("reason", "data"), REFUSED, ids=lambda value: str(value)[:20])
def test_malformed_chunks_are_refused_with_their_reason(reason: Reason, data: bytes) -> None:
    error = _refused(data)
    assert error.reason == reason
    assert len(str(error)) < 300  # what a stranger wrote does not flood the log


FORGED = st.none() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5) | st.just(TWO)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.sampled_from(["v", "run", "contract", "s", "x"]), FORGED))
def test_forged_maps_raise_nothing_but_chunk_errors(message: dict[str, Any]) -> None:
    _refused(pack(message))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([field.name for field in fields(Segments)]),
    st.sampled_from(["<i4", "<i8", "<u8", "|u1", "<f4", "<f8", "|b1"]),
    st.lists(st.integers(0, 4), max_size=3),
)
def test_a_column_of_another_kind_never_passes(name: str, dtype: str, shape: list[int]) -> None:
    good = unpack(chunk())["s"][name]
    column = np.ones(shape, dtype)
    if (column.dtype, column.shape) != (good.dtype, good.shape):
        assert _refused(_with_column(name, column)).reason == Reason.SHAPE
