"""Weights on the wire: whole or refused."""

import struct
from typing import Any

import numpy as np
import pytest

from soulsgui.wire.codec import CodecError, pack
from soulsgui.wire.weights import HEADER_BYTES, pack_weights, read_header, unpack_weights

TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "scalar": np.array(0.5, np.float32),
    "count": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float32),
}


def _blob(tensors: dict[str, Any] = TENSORS) -> bytes:
    return pack_weights("run", 2, 41, 40, tensors)[1]


def _with_header(**changed: Any) -> bytes:
    fields = {"run_id": "run", "attempt": 1, "model_id": 1, "update": 0, "digest": "00"} | changed
    head = pack(fields)
    return struct.pack("<I", len(head)) + head


def test_weights_come_back_with_their_shapes() -> None:
    sent, blob = pack_weights("run", 2, 41, 40, TENSORS)
    header, tensors = unpack_weights(blob)
    assert header == sent
    assert (header.run_id, header.attempt, header.model_id, header.update) == ("run", 2, 41, 40)
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert (tensors[name].shape, tensors[name].dtype) == (tensor.shape, tensor.dtype)
        np.testing.assert_array_equal(tensors[name], tensor)


def test_header_is_read_from_the_beginning_alone() -> None:
    blob = _blob({"big": np.zeros(100_000, np.float32)})
    assert read_header(blob[:HEADER_BYTES]) == unpack_weights(blob)[0]


def test_equal_tensors_have_equal_digests_and_others_have_not() -> None:
    first, _ = pack_weights("a", 1, 1, 1, TENSORS)
    second, _ = pack_weights("b", 2, 9, 9, TENSORS)
    other, _ = pack_weights("a", 1, 1, 1, TENSORS | {"count": np.array(8, np.int64)})
    assert first.digest == second.digest != other.digest


@pytest.mark.parametrize("at", [-1, -40, 60])
def test_damage_is_noticed_by_the_hash(at: int) -> None:
    blob = bytearray(_blob())
    blob[at] ^= 1
    with pytest.raises(CodecError):
        unpack_weights(bytes(blob))


@pytest.mark.parametrize("size", [0, 3, 10, 200])
def test_torn_weights_are_refused(size: int) -> None:
    with pytest.raises(CodecError):
        unpack_weights(_blob()[:size])


@pytest.mark.parametrize(
    "blob",
    [
        struct.pack("<I", 2**32 - 1),
        struct.pack("<I", 3) + b"abc",
        _with_header(more=1),
        _with_header(model_id="1"),
        _with_header(model_id=True),
        _with_header(run_id=None),
        struct.pack("<I", 1) + pack(3),
    ],
    ids=["length", "garbage", "more", "text for a number", "truth for a number", "nothing", "no map"],
)
def test_forged_headers_are_refused(blob: bytes) -> None:
    with pytest.raises(CodecError):
        read_header(blob)


def test_the_reference_travels_in_the_header_and_nothing_else_does() -> None:
    sent, blob = pack_weights("run", 2, 41, 40, TENSORS, (0.5, -1.25))
    assert read_header(blob) == sent
    assert sent.reference == (0.5, -1.25)
    _, longest = pack_weights("r" * 500, 2, 41, 40, TENSORS, (0.1,) * 64)
    assert len(read_header(longest[:HEADER_BYTES]).reference) == 64
    for bad in ("words", [1.0, "x"], {"a": 1.0}):
        _, forged = pack_weights("run", 2, 41, 40, TENSORS, bad)  # type: ignore[arg-type]
        with pytest.raises(CodecError, match="reference"):
            read_header(forged)
