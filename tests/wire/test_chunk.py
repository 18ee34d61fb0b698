"""Chunks: what is well formed comes back, everything else is refused with its reason."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, Reason, digest_number
from soulsgui.wire.messages.chunk_decoder import ChunkForm
from tests.wire.chunks import CONTRACT, OBS_DTYPE, OBS_SHAPE, RUN, chunk, segments

FORM = ChunkForm(RUN, CONTRACT, OBS_SHAPE, OBS_DTYPE)


def test_the_bytes_of_a_chunk_stay_the_same_for_clients_of_other_versions() -> None:
    sent = segments(
        (3, 2, 1, 64),
        digest=2**63 + 5,
        action_mask=np.random.default_rng(1).random((74, 11)) < 0.5,
        state={"hidden": np.arange(24, dtype=np.float32).reshape(4, 2, 3), "cell": np.ones(4, np.float32)},
    )
    known = "b454384531fa13397c64bb414782f3ceaba94271d45152d5e437fdea413504a4"
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
def test_malformed_chunks_are_refused_with_their_reason_and_disturb_no_other(
    reason: Reason, data: bytes
) -> None:
    alike = FORM.open([data, data]).errors
    opened = FORM.open([chunk(), data, chunk(segments(digest=8))])
    assert [error.reason for error in (*alike.values(), *opened.errors.values())] == [reason] * 3
    assert (list(alike), list(opened.errors), opened.counts.tolist()) == ([0, 1], [1], [2, 0, 2])
    assert len(str(alike[0])) < 300  # what a stranger wrote does not flood the log
    assert opened.segments.digest.tolist() == [7, 7, 8, 8]
    assert opened.segments.length.tolist() == [3, 2] * 2


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_raise_nothing_but_chunk_errors(data: bytes) -> None:
    assert list(FORM.open([data]).errors) == [0]


def test_a_transition_of_eight_floats_takes_at_most_fifty_bytes() -> None:
    made = segments((64,), obs=np.zeros((65, 8), np.float32))
    assert len(chunk(made)) <= 50 * 64
