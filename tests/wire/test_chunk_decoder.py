"""Chunks with every combination of optional columns: masks, states, and images in their several forms."""

import tracemalloc
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from soulsgui.experience.frame_stacks import FrameStacks, Pictures
from soulsgui.experience.segments import Segments
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, ChunkError, Reason, pack_chunk
from soulsgui.wire.messages.chunk_decoder import ChunkForm
from soulsgui.wire.messages.frames import FramesError, Stacking, pack_frames, unpack_frames
from tests.wire.chunks import CONTRACT, OBS_DTYPE, OBS_SHAPE, RUN, chunk, segments, unpack_chunk

STACK = 4
SIDE = 12
HEAD_BYTES = 32
STACKING_AT, COUNT_AT, STEPS_AT = 6, 24, 28

Observations = NDArray[Any]


def vectors(rng: np.random.Generator, lengths: list[int]) -> Observations:
    return rng.normal(size=(sum(lengths) + len(lengths), 3)).astype(np.float32)


def pictures(rng: np.random.Generator, lengths: list[int]) -> Observations:
    return rng.integers(0, 256, (sum(lengths) + len(lengths), SIDE, SIDE), np.uint8)


def channels(rng: np.random.Generator, lengths: list[int]) -> Observations:
    return rng.integers(0, 256, (sum(lengths) + len(lengths), SIDE, SIDE, 3), np.uint8)


def stacks_first(rng: np.random.Generator, lengths: list[int]) -> Observations:
    """Of each segment, windows over its frames: `[N + S, STACK, SIDE, SIDE]`."""
    parts = [
        sliding_window_view(rng.integers(0, 256, (length + STACK, SIDE, SIDE), np.uint8), STACK, axis=0)
        for length in lengths
    ]
    return np.moveaxis(np.concatenate(parts), -1, 1)


def stacks_last(rng: np.random.Generator, lengths: list[int]) -> Observations:
    return np.moveaxis(stacks_first(rng, lengths), 1, -1)


def beside_numbers(rng: np.random.Generator, lengths: list[int]) -> Observations:
    images, numbers = stacks_first(rng, lengths), vectors(rng, lengths)
    return np.asarray(Pictures(images, numbers))


KINDS = [vectors, pictures, channels, stacks_first, stacks_last, beside_numbers]
STATE = {"hidden": (2, 3), "cell": (), "aside": (5,)}


ACTIONS = [((), "int64"), ((3,), "int64"), ((9,), "int8"), ((1,), "float32"), ((4,), "float32")]
"""Shape and dtype of what is stored of an action, as `environments.actions` has them."""


def made(
    kind: Any,
    lengths: list[int],
    actions: int,
    state: dict[str, tuple[int, ...]],
    seed: int,
    action: tuple[tuple[int, ...], str] = ACTIONS[0],
) -> Segments:
    rng = np.random.default_rng(seed)
    rows, count = sum(lengths) + len(lengths), len(lengths)
    shape, dtype = action
    columns: dict[str, Any] = {
        "action": rng.normal(0, 50, (sum(lengths), *shape)).astype(dtype),
        "obs": kind(rng, lengths),
        "action_mask": rng.random((rows, actions)) < 0.5 if actions else None,
        "state": {name: rng.normal(size=(count, *shape)).astype(np.float32) for name, shape in state.items()},
    }
    return segments(tuple(lengths), **columns)


def form_of(one: Segments, actions: int, state: dict[str, tuple[int, ...]]) -> ChunkForm:
    action = one.action.shape[1:], one.action.dtype.str
    dtype = f"({STACK},{SIDE},{SIDE})u1,(3,)f4" if one.obs.dtype.names else one.obs.dtype.str
    return ChunkForm(RUN, CONTRACT, one.obs.shape[1:], dtype, actions, state, *action)


def assert_equal(first: Segments, second: Segments) -> None:
    assert first.state.keys() == second.state.keys()
    pairs = [(getattr(first, field.name), getattr(second, field.name)) for field in fields(Segments)]
    pairs += [(values, second.state[name]) for name, values in first.state.items()]
    for one, other in pairs:
        assert (one is None) == (other is None)
        if one is not None and not isinstance(one, dict):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_array_equal(one, other)


LENGTHS = st.lists(st.integers(1, 6), min_size=1, max_size=4)
ALIKE_OR_NOT = st.lists(LENGTHS, min_size=1, max_size=3) | st.builds(
    lambda lengths, count: [lengths] * count, LENGTHS, st.integers(2, 4)
)


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    chunks=ALIKE_OR_NOT,
    actions=st.sampled_from([0, 1, 7, 8, 9]),
    fields_of_state=st.sets(st.sampled_from(sorted(STATE))),
    action=st.sampled_from(ACTIONS),
    seed=st.integers(0, 2**16),
    spoilt=st.sets(st.integers(0, 3)),
    frames=st.booleans(),
    more=st.sampled_from([[], [b"garbage"]]),  # without it, chunks that are cut alike are opened as one
)
def test_every_combination_of_columns_comes_back_whichever_chunk_is_bad(
    kind: Any,
    chunks: list[list[int]],
    actions: int,
    fields_of_state: set[str],
    action: tuple[tuple[int, ...], str],
    seed: int,
    spoilt: set[int],
    frames: bool,
    more: list[bytes],
) -> None:
    state = {name: STATE[name] for name in fields_of_state}
    sent = [made(kind, lengths, actions, state, seed + n, action) for n, lengths in enumerate(chunks)]
    form = form_of(sent[0], actions, state)
    packed = [pack_chunk(RUN, CONTRACT, one) for one in sent]
    for one, data in zip(sent, packed, strict=True):
        alone = form.open([data])
        assert not alone.errors
        assert_equal(one, alone.segments)
    bad = sorted(number for number in spoilt if number < len(sent))
    given_ = list(packed)
    for number in bad:
        data = packed[number]
        begin = data.index(zstandard.FRAME_HEADER) if frames and form.is_compressed else 0
        given_[number] = data[:begin] + bytes(4) + data[begin + 4 :]
    together = form.open([*given_, *more])
    good = [one for number, one in enumerate(sent) if number not in bad]
    assert sorted(together.errors) == [*bad, *range(len(sent), len(sent) + len(more))]
    counts = [0 if number in bad else one.count for number, one in enumerate(sent)]
    assert together.counts.tolist() == [*counts, *[0] * len(more)]
    for name in ("length", "model_id_first", "reward", "obs", "action", "action_mask") if good else ():
        parts = [getattr(one, name) for one in good]
        if parts[0] is not None:
            np.testing.assert_array_equal(getattr(together.segments, name), np.concatenate(parts))
    for name, values in together.segments.state.items() if good else ():
        np.testing.assert_array_equal(values, np.concatenate([one.state[name] for one in good]))


@pytest.mark.parametrize(
    ("kind", "stacking"),
    [
        (pictures, Stacking.NONE),
        (channels, Stacking.NONE),
        (stacks_first, Stacking.FIRST),
        (stacks_last, Stacking.LAST),
    ],
)
def test_frames_of_a_stack_travel_once(kind: Any, stacking: Stacking) -> None:
    lengths = np.array([20, 1, 7])
    obs = kind(np.random.default_rng(0), lengths.tolist())
    found, data = pack_frames(obs, lengths)
    assert found is stacking
    frames = len(obs) if stacking is Stacking.NONE else len(obs) + len(lengths) * (STACK - 1)
    frame_bytes = obs[0].size if stacking is Stacking.NONE else SIDE * SIDE
    assert zstandard.frame_content_size(data) == frames * frame_bytes


@pytest.mark.parametrize("row", [1, 12, 23])
def test_one_frame_that_does_not_fit_the_others_is_not_lost(row: int) -> None:
    lengths = np.array([10, 12])
    obs = stacks_first(np.random.default_rng(0), lengths.tolist())
    obs[row, 0, 3, 4] ^= 1
    stacking, data = pack_frames(obs, lengths)
    found = np.empty_like(obs)
    unpack_frames(data, stacking, lengths, found)
    np.testing.assert_array_equal(found, obs)


def _zstd(size: int) -> bytes:
    return zstandard.ZstdCompressor().compress(bytes(size))


GOOD_LENGTHS = np.array([3, 2])
GOOD_SIZE = 7 * SIDE * SIDE


NO_FRAMES = {
    "empty": b"",
    "text": b"no frames at all",
    "cut": _zstd(GOOD_SIZE)[:-1],
    "more": _zstd(GOOD_SIZE) + b"x",
    "twice": _zstd(GOOD_SIZE) * 2,
    "less": _zstd(GOOD_SIZE - 1),
    "larger": _zstd(GOOD_SIZE + 1),
    "bomb": _zstd(2**28),
    "unsaid": zstandard.ZstdCompressor(write_content_size=False).compress(bytes(GOOD_SIZE)),
}


@pytest.mark.parametrize("data", NO_FRAMES.values(), ids=NO_FRAMES)
def test_frames_that_are_not_what_they_claim_are_refused_and_take_no_memory(data: bytes) -> None:
    obs = np.ones((7, SIDE, SIDE), np.uint8)
    unpack_frames(_zstd(GOOD_SIZE), 0, GOOD_LENGTHS, obs)
    assert not obs.any()
    tracemalloc.start()
    try:
        with pytest.raises(FramesError):
            unpack_frames(data, 0, GOOD_LENGTHS, obs)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def _picture_chunk() -> bytes:
    return pack_chunk(RUN, CONTRACT, made(pictures, [3, 2], 0, {}, 0))


def _refused(at: int, value: bytes, more: int = 0) -> Reason:
    """Return why a chunk of images is refused that claims something else at a place of its head."""
    data = _picture_chunk() + bytes(more)
    with pytest.raises(ChunkError) as caught:
        unpack_chunk(data[:at] + value + data[at + len(value) :], RUN, CONTRACT, (SIDE, SIDE), "uint8")
    return caught.value.reason


def test_lying_sizes_are_refused_before_memory_is_taken() -> None:
    steps = MAX_CHUNK_BYTES // (SIDE * SIDE) + 1
    too_many = steps.to_bytes(4, "little")
    assert _refused(STEPS_AT, too_many) is Reason.TOO_LARGE
    assert _refused(STEPS_AT, too_many, more=17 * steps) is Reason.TOO_LARGE, "all else is there"
    assert _refused(STEPS_AT, (6).to_bytes(4, "little")) is Reason.SHAPE
    for stacking in (9, Stacking.FIRST):
        assert _refused(STACKING_AT, bytes([stacking])) is Reason.SHAPE


@pytest.mark.parametrize("kind", [stacks_first, stacks_last, beside_numbers])
def test_chunks_stacked_alike_are_opened_with_each_frame_once(kind: Any) -> None:
    sent = [made(kind, lengths, 0, {}, seed) for seed, lengths in enumerate([[3, 2], [4], [1, 5]])]
    packed = [pack_chunk(RUN, CONTRACT, one) for one in sent]
    bad = bytearray(packed[1])
    bad[packed[1].index(zstandard.FRAME_HEADER)] ^= 1
    opened = form_of(sent[0], 0, {}).open([packed[0], bytes(bad), packed[2]])
    found = opened.segments.obs
    stacks = found.images if isinstance(found, Pictures) else found
    assert isinstance(stacks, FrameStacks)
    assert len(stacks.frames) == 3 + 2 + 1 + 5 + 4 * STACK
    assert list(opened.errors) == [1]
    np.testing.assert_array_equal(found, np.concatenate([sent[0].obs, sent[2].obs]))
    # Sent on as they are, they are the same bytes.
    assert pack_chunk(RUN, CONTRACT, replace(sent[0], obs=found[:7])) == packed[0]


def test_chunks_stacked_otherwise_than_their_neighbours_are_opened_as_well() -> None:
    kinds = [stacks_first, lambda rng, lengths: rng.integers(0, 256, (8, STACK, SIDE, SIDE), np.uint8)]
    sent = [made(kind, [4, 2], 0, {}, seed) for seed, kind in enumerate(kinds)]
    opened = form_of(sent[0], 0, {}).open([pack_chunk(RUN, CONTRACT, one) for one in sent])
    assert not opened.errors
    np.testing.assert_array_equal(opened.segments.obs, np.concatenate([one.obs for one in sent]))


@pytest.mark.parametrize(
    ("good", "shape", "dtype"),
    [(chunk(), OBS_SHAPE, OBS_DTYPE), (_picture_chunk(), (SIDE, SIDE), "uint8")],
    ids=["numbers", "images"],
)
@settings(max_examples=120, deadline=None)
@given(data=st.data(), value=st.integers(0, 255))
def test_a_chunk_with_a_wrong_byte_is_refused_or_has_its_form(
    good: bytes, shape: tuple[int, ...], dtype: str, data: st.DataObject, value: int
) -> None:
    at = data.draw(st.integers(0, len(good) - 1))
    try:
        got = unpack_chunk(good[:at] + bytes([value]) + good[at + 1 :], RUN, CONTRACT, shape, dtype)
    except ChunkError:
        return
    assert (got.count, got.steps, got.length.sum()) == (2, 5, 5)
    assert got.obs.shape == (7, *shape)


def test_what_a_chunk_takes_when_opened_is_known_before() -> None:
    form = ChunkForm(RUN, CONTRACT, (SIDE, SIDE), "uint8")
    data = _picture_chunk()
    assert form.opened_size(data) == len(data) + 7 * SIDE * SIDE
    lying = data[:STEPS_AT] + b"\xff\xff\xff\xff" + data[STEPS_AT + 4 :]
    assert form.opened_size(lying) == 2 * MAX_CHUNK_BYTES
    assert form.opened_size(b"") == 0


def test_a_form_without_masks_refuses_a_chunk_with_them_and_the_other_way_round() -> None:
    for actions, others in ((5, 0), (0, 5)):
        one = made(vectors, [3], actions, {}, 0)
        opened = form_of(one, others, {}).open([pack_chunk(RUN, CONTRACT, one)])
        assert opened.errors[0].reason is Reason.SHAPE
