"""Chunks: what is well formed comes back, everything else is refused with its reason."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.experience.segments import Segments
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, ChunkError, Reason, digest_number
from tests.wire.chunks import CONTRACT, OBS_DTYPE, OBS_SHAPE, RUN, chunk, segments, unpack_chunk


def _open(data: bytes) -> Segments:
    return unpack_chunk(data, RUN, CONTRACT, OBS_SHAPE, OBS_DTYPE)


def _refused(data: bytes) -> ChunkError:
    with pytest.raises(ChunkError) as caught:
        _open(data)
    return caught.value


def test_the_bytes_of_a_chunk_stay_the_same_for_clients_of_other_versions() -> None:
    sent = segments(
        (3, 2, 1, 64),
        digest=2**63 + 5,
        action_mask=np.random.default_rng(1).random((74, 11)) < 0.5,
        state={"hidden": np.arange(24, dtype=np.float32).reshape(4, 2, 3), "cell": np.ones(4, np.float32)},
    )
    known = "2fa373c5e4f09da95089753098be956e77fcb4d07a6068d5557595fcbcfc756f"
    assert hashlib.sha256(chunk(sent)).hexdigest() == known
    assert digest_number("ff" * 8) == 2**64 - 1


def _head(at: int, value: bytes) -> bytes:
    data = chunk()
    return data[:at] + value + data[at + len(value) :]


def _lengths(*lengths: int) -> bytes:
    """A chunk of five steps whose segments claim to have these lengths."""
    return chunk(segments(length=np.array(lengths, np.int32)))


PROTOCOL_AT, RUN_AT, COUNT_AT = 4, 8, 24

REFUSED = [
    (Reason.TOO_LARGE, bytes(MAX_CHUNK_BYTES + 1)),
    (Reason.UNREADABLE, b""),
    (Reason.UNREADABLE, chunk()[:20]),
    (Reason.UNREADABLE, bytes(200)),
    (Reason.UNREADABLE, b"pickle" + chunk()[6:]),
    (Reason.PROTOCOL, _head(PROTOCOL_AT, b"\x63")),
    (Reason.RUN, chunk(run="other")),
    (Reason.RUN, _head(RUN_AT, bytes(8))),
    (Reason.CONTRACT, chunk(contract="other")),
    (Reason.SHAPE, chunk()[:-1]),
    (Reason.SHAPE, chunk() + b"x"),
    (Reason.SHAPE, _head(COUNT_AT, b"\xff\xff\xff\xff\xff\xff\xff\xff")),
    (Reason.SHAPE, _head(COUNT_AT, bytes(8))[:32]),
    (Reason.SHAPE, _lengths(3, 3)),
    (Reason.SHAPE, _lengths(5, 0)),
    (Reason.SHAPE, _lengths(6, -1)),
    (Reason.SHAPE, _lengths(2**31 - 1, 2**31 - 1)),
    (Reason.SHAPE, chunk(segments(obs=np.zeros((7, 3), np.float32)))),
    (Reason.SHAPE, chunk(segments(obs=np.zeros((5, 2), np.float32)))),
    (Reason.SHAPE, chunk(segments(obs=np.zeros((7, 2), np.uint8)))),
]


@pytest.mark.parametrize(("reason", "data"), REFUSED, ids=lambda value: str(value)[:20])
def test_malformed_chunks_are_refused_with_their_reason(reason: Reason, data: bytes) -> None:
    error = _refused(data)
    assert error.reason == reason
    assert len(str(error)) < 300  # what a stranger wrote does not flood the log


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_raise_nothing_but_chunk_errors(data: bytes) -> None:
    _refused(data)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(chunk()) - 1), st.integers(0, 255))
def test_a_chunk_with_one_wrong_byte_is_refused_or_has_its_form(at: int, value: int) -> None:
    data = bytearray(chunk())
    data[at] = value
    try:
        got = _open(bytes(data))
    except ChunkError:
        return
    assert (got.count, got.steps) == (2, 5)
    assert got.length.sum() == 5
    assert got.obs.shape == (7, 2)


def test_a_transition_of_eight_floats_takes_at_most_fifty_bytes() -> None:
    made = segments((64,), obs=np.zeros((65, 8), np.float32))
    assert len(chunk(made)) <= 50 * 64
