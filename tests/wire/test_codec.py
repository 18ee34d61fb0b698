import contextlib
import pickle
import struct
import time
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from soulsgui.wire.codec import (
    HEADER_BYTES,
    MAX_MESSAGE_BYTES,
    CodecError,
    pack,
    pack_sample,
    pack_weights,
    read_header,
    unpack,
    unpack_sample,
    unpack_weights,
)
from tests.wire.chunks import Canary

DTYPES = st.one_of(
    nps.boolean_dtypes(),
    nps.integer_dtypes(endianness="<"),
    nps.unsigned_integer_dtypes(endianness="<"),
    nps.floating_dtypes(endianness="<", sizes=(16, 32, 64)),
)
ARRAYS = nps.arrays(DTYPES, nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
MESSAGES = st.recursive(
    SCALARS | ARRAYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, np.ndarray):
        return (
            isinstance(second, np.ndarray)
            and first.dtype == second.dtype
            and first.shape == second.shape
            and first.tobytes() == second.tobytes()
        )
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_same, first, second))
    if isinstance(first, dict):
        return list(first) == list(second) and all(_same(first[key], second[key]) for key in first)
    return type(first) is type(second) and bool(first == second)


@settings(max_examples=40, deadline=None)
@given(MESSAGES)
def test_messages_come_back_as_they_were(message: Any) -> None:
    assert _same(message, unpack(pack(message)))


@settings(max_examples=40, deadline=None)
@given(ARRAYS)
def test_arrays_in_any_layout_come_back(array: np.ndarray[Any, Any]) -> None:
    turned = array.T
    assert _same(np.array(turned, order="C"), unpack(pack(turned)))
    swapped = array.astype(array.dtype.newbyteorder(">"))
    assert _same(array, unpack(pack(swapped)))


def test_numpy_scalars_become_plain_numbers_and_arrays_can_not_be_written_to() -> None:
    assert unpack(pack([np.float32(0.5), np.int64(3), np.bool_(True)])) == [0.5, 3, True]
    array = unpack(pack(np.zeros(3)))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@settings(max_examples=60, deadline=None)
@given(MESSAGES, st.binary(max_size=200), st.data())
def test_garbage_and_damaged_messages_raise_nothing_but_codec_errors(
    message: Any, garbage: bytes, data: st.DataObject
) -> None:
    packed = bytearray(pack(message))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    for harmed in (garbage, bytes(packed[: data.draw(st.integers(0, len(packed)))])):
        with contextlib.suppress(CodecError):
            unpack(harmed)


def test_pickles_are_never_executed(tmp_path: Path) -> None:
    canary = Canary(tmp_path / "canary")
    pickled = pickle.dumps(canary)
    object_array = np.array([canary], dtype=object)
    forged = [
        pickled,
        msgpack.packb(msgpack.ExtType(1, msgpack.packb(("|O", (1,))) + pickled)),
        msgpack.packb(msgpack.ExtType(1, msgpack.packb(("|O8", (1,))) + pickled[:8])),
        msgpack.packb(msgpack.ExtType(1, b"\x93NUMPY\x01\x00" + object_array.dumps())),
        msgpack.packb(msgpack.ExtType(2, pickled)),
        msgpack.packb(msgpack.ExtType(1, pickled)),
    ]
    for data in forged:
        with pytest.raises(CodecError):
            unpack(data)
    assert unpack(pack(pickled)) == pickled  # as bytes it travels, and stays bytes
    assert not canary.path.exists()
    pickle.loads(pickled)
    assert canary.path.exists()  # the canary would have sung


NO_NUMBERS = [np.zeros(1, kind) for kind in ("O", "U4", "S4", [("a", "i4")], "datetime64[s]", "complex", "g")]


@pytest.mark.parametrize(
    "message", [*NO_NUMBERS, object(), {1, 2}, {"a": lambda: 0}, Path(), 2**64, -(2**63) - 1]
)
def test_what_is_neither_numbers_nor_plain_data_can_not_be_sent(message: Any) -> None:
    with pytest.raises(TypeError):
        pack(message)


def _array(dtype: Any, shape: Any, data: bytes = b"") -> bytes:
    return bytes(msgpack.packb(msgpack.ExtType(1, msgpack.packb((dtype, shape)) + data)))


@pytest.mark.parametrize(
    "forged",
    [
        _array("<f4", (10**12,), b"1234"),
        _array("<f4", (10**6, 10**6), b"1234"),
        _array("<f8", (2**63 - 1, 2**62)),
        _array("<f4", (-1, -1), b"1234"),
        _array("<f4", (1,) * 9, b"1234"),
        _array("<f4", (1.0,), b"1234"),
        _array("<f4", None, b"1234"),
        _array("<f4", "4", b"1234"),
        _array("<f16", (1,), bytes(16)),
        _array(">f4", (1,), b"1234"),
        _array("a", (1,), b"1"),
        _array("(1000000000,)f4", (1,), b"1234"),
        _array("f4,f4", (1,), bytes(8)),
        _array({"names": ["a"], "formats": ["O"]}, (1,), bytes(8)),
        _array("no type", (1,), b"1234"),
        _array("|b1", (1,), b"\x02"),
        b"\xdd\xff\xff\xff\xff",  # a list of 2**32 - 1 items
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        b"\x91" * 100_000,
        b"",
        pack(1) + pack(2),
        pack([0] * 5000),
        msgpack.packb({1: 2}),
        bytes(MAX_MESSAGE_BYTES + 1),
    ],
    ids=lambda data: f"{data[:12].hex()}-{len(data)}",
)
def test_claims_that_are_not_kept_are_refused(forged: bytes) -> None:
    with pytest.raises(CodecError):
        unpack(forged)


def test_nested_claims_of_great_length_are_refused_cheaply() -> None:
    # Each level claims a list as long as the message: allocated one inside the other, that takes minutes.
    size = 8 * 2**20
    bomb = b"".join(b"\xdd" + (size // 2).to_bytes(4, "big") for _ in range(500))
    began = time.process_time()
    with pytest.raises(CodecError):
        unpack(bomb.ljust(size, b"\xc0"))
    assert time.process_time() - began < 0.5


def test_samples_come_back_and_what_is_none_is_refused() -> None:
    obs, next_obs = np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)
    parts = unpack_sample(pack_sample(obs, 1, 0.5, next_obs, False, True, {"log_prob": -0.1}, 7, 3))
    assert _same(list(parts), [obs, 1, 0.5, next_obs, False, True, {"log_prob": -0.1}, 7, 3])
    for no_sample in (pack([1, 2]), pack("word"), b"\xc1"):
        with pytest.raises(CodecError):
            unpack_sample(no_sample)


TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "scalar": np.array(0.5, np.float32),
    "count": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float32),
}
BLOB = pack_weights("run", 2, 41, 40, TENSORS)[1]


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


def test_equal_tensors_have_equal_digests_and_others_have_not() -> None:
    first, _ = pack_weights("a", 1, 1, 1, TENSORS)
    second, _ = pack_weights("b", 2, 9, 9, TENSORS)
    other, _ = pack_weights("a", 1, 1, 1, TENSORS | {"count": np.array(8, np.int64)})
    assert first.digest == second.digest != other.digest


@pytest.mark.parametrize("at", [60, -40, -2])
def test_damaged_and_torn_weights_are_refused(at: int) -> None:
    damaged = BLOB[:at] + bytes([BLOB[at] ^ 1]) + BLOB[at:][1:]
    for blob in (damaged, *(BLOB[:n] for n in (0, 3, 10, 200))):
        with pytest.raises(CodecError):
            unpack_weights(blob)


FORGED = {
    "length": struct.pack("<I", 2**32 - 1),
    "garbage": struct.pack("<I", 3) + b"abc",
    "more": _with_header(more=1),
    "text for a number": _with_header(model_id="1"),
    "truth for a number": _with_header(model_id=True),
    "nothing": _with_header(run_id=None),
    "no map": struct.pack("<I", 1) + pack(3),
}


@pytest.mark.parametrize("blob", FORGED.values(), ids=FORGED)
def test_forged_headers_are_refused(blob: bytes) -> None:
    with pytest.raises(CodecError):
        read_header(blob)


def test_the_reference_travels_in_the_header_and_nothing_else_does() -> None:
    sent, blob = pack_weights("run", 2, 41, 40, TENSORS, (0.5, -1.25))
    assert read_header(blob) == sent
    assert sent.reference == (0.5, -1.25)
    big = {"big": np.zeros(100_000, np.float32)}
    sent, longest = pack_weights("r" * 500, 2, 41, 40, big, (0.1,) * 64)
    assert read_header(longest[:HEADER_BYTES]) == sent, "its beginning is enough"
    for bad in ("words", [1.0, "x"], {"a": 1.0}):
        _, forged = pack_weights("run", 2, 41, 40, TENSORS, bad)  # type: ignore[arg-type]
        with pytest.raises(CodecError, match="reference"):
            read_header(forged)
