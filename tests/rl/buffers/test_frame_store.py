"""A replay memory of stacked frames: each is kept once, and what is drawn is what whole stacks would be."""

from typing import Any

import numpy as np
import pytest

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.observations import Part, PartsSpec
from soulsgui.errors import CheckpointError
from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, FrameStacks, Pictures
from soulsgui.rl.buffers.replay import UniformReplay
from tests.rl.drawing import drawn, in_slots

DEPTH, SIDE = 3, 2
SHAPES = {1: (DEPTH, SIDE, SIDE), -1: (SIDE, SIDE, DEPTH)}


def stacks(rng: np.random.Generator, lengths: list[int], axis: int) -> FrameStacks:
    """Observations of segments of random frames."""
    frames = rng.integers(0, 256, (sum(lengths) + DEPTH * len(lengths), SIDE, SIDE), np.uint8)
    begins = np.cumsum([0, *(length + DEPTH for length in lengths[:-1])])
    first = [np.arange(begin, begin + length + 1) for begin, length in zip(begins, lengths, strict=True)]
    return FrameStacks(frames, np.concatenate(first), DEPTH, axis)


def memory(capacity: int, axis: int) -> UniformReplay:
    return UniformReplay(capacity, BoxSpec(SHAPES[axis], "uint8", (0,), (255,)))


def added(obs: Any, lengths: list[int], ring: UniformReplay) -> None:
    action = np.arange(sum(lengths))
    ring.add(obs, np.array(lengths), action, action.astype(np.float32), np.zeros(len(lengths), np.bool_))


def in_use(ring: UniformReplay) -> int:
    """Return the rows that hold something."""
    return ring._rows._fresh - ring._rows._free_count


def assert_alike(one: UniformReplay, other: UniformReplay) -> None:
    slots = np.arange(len(one))
    for found, expected in zip(in_slots(one, slots)[:5], in_slots(other, slots)[:5], strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("axis", [1, -1])
def test_the_array_of_stacks_holds_each_frame_at_its_place(axis: int) -> None:
    made = stacks(np.random.default_rng(0), [2, 1], axis)
    whole = np.asarray(made)
    assert whole.shape == made.shape == (5, *SHAPES[axis])
    assert made.own.tolist() == [1, 1, DEPTH, 1, DEPTH]
    for row, first in enumerate([0, 1, 2, 5, 6]):
        for place in range(DEPTH):
            found = np.take(whole[row], place, axis=0 if axis == 1 else -1)
            np.testing.assert_array_equal(found, made.frames[first + place])
    np.testing.assert_array_equal(np.asarray(made[1:3]), whole[1:3])


@pytest.mark.parametrize("axis", [1, -1])
def test_stacks_are_drawn_as_if_they_were_kept_whole_also_by_turns_with_whole_ones(axis: int) -> None:
    rng = np.random.default_rng(1)
    frames, whole, *mixed = (memory(20, axis) for _ in range(4))
    for call in range(60):
        lengths = rng.integers(1, 12, rng.integers(1, 4)).tolist()
        made = stacks(rng, lengths, axis)
        added(made, lengths, frames)
        added(np.asarray(made), lengths, whole)
        for turn, one in enumerate(mixed):
            added(made if call % 2 == turn else np.asarray(made), lengths, one)
            assert_alike(one, whole)
        assert_alike(frames, whole)
    path = np.array([[3], [4]])
    valid = np.ones((2, 1), np.bool_)
    np.testing.assert_array_equal(frames.steps(path, valid).obs, whole.steps(path, valid).obs)


def test_each_frame_is_kept_once_and_given_up_with_the_last_that_needs_it() -> None:
    rng = np.random.default_rng(2)
    ring = memory(10, 1)
    for _ in range(5):
        added(stacks(rng, [10], 1), [10], ring)
    assert in_use(ring) == ring._rows._fresh == 10 + DEPTH
    added(stacks(rng, [2, 2, 2, 2, 2], 1), [2] * 5, ring)
    assert in_use(ring) == 5 * (2 + DEPTH)
    chosen = stacks(rng, [4, 3, 2], 1)[np.repeat([True, False, True], [5, 4, 3])]
    ring, whole = memory(8, 1), memory(8, 1)
    added(chosen, [4, 2], ring)
    added(np.asarray(chosen), [4, 2], whole)
    assert in_use(ring) == 6 + 2 * DEPTH, "only those that were asked for"
    assert_alike(ring, whole)


@pytest.mark.parametrize("axis", [1, -1])
def test_a_saved_memory_of_stacks_goes_on_alike_and_holds_each_frame_once(axis: int) -> None:
    rng = np.random.default_rng(5)
    ring = memory(10, axis)
    for lengths in ([7], [2, 3]):
        added(stacks(rng, lengths, axis), lengths, ring)
    saved = ring.state()
    again = memory(10, axis)
    again.load_state({name: array.copy() for name, array in saved.items()})
    assert len(saved["frames"]) == 10 + 3 * DEPTH
    made = stacks(rng, [4], axis)
    for one in (ring, again):
        added(made, [4], one)
    assert in_use(ring) == in_use(again)
    draws = [drawn(one, 40, np.random.default_rng(0)) for one in (ring, again)]
    np.testing.assert_array_equal(draws[0].obs, draws[1].obs)
    for wrong in (saved["first"] + 50, saved["first"][::-1] + DEPTH, saved["first"] - 1):
        with pytest.raises(CheckpointError, match="frames are not those"):
            again.load_state(saved | {"first": wrong})


def test_masks_stay_with_their_stacks() -> None:
    rng = np.random.default_rng(6)
    ring = UniformReplay(5, BoxSpec(SHAPES[1], "uint8", (0,), (255,)), masked_actions=2)
    for _ in range(4):
        made = stacks(rng, [3], 1)
        masks = np.asarray(made)[:, 0, 0, :2] % 2 == 0
        ring.add(made, np.array([3]), np.arange(3), np.zeros(3), np.array([False]), masks)
    batch = in_slots(ring, np.arange(5))
    np.testing.assert_array_equal(batch.next_mask, batch.next_obs[:, 0, 0, :2] % 2 == 0)


def with_numbers(rng: np.random.Generator, lengths: list[int], stacked: bool) -> Pictures:
    """Images with numbers beside them, which say how bright the newest frame is."""
    images = stacks(rng, lengths, 1)
    newest = np.asarray(images)[:, -1, :, :].reshape(len(images), -1)
    return Pictures(images if stacked else np.asarray(images), newest.astype(np.float32))


@pytest.mark.parametrize("stacked", [True, False])
def test_numbers_stay_beside_their_images_and_frames_are_kept_once(stacked: bool) -> None:
    rng = np.random.default_rng(7)
    space = PartsSpec((Part(("a",), BoxSpec(SHAPES[1], "uint8")), Part(("b",), BoxSpec((4,), "float32"))))
    ring, again = UniformReplay(10, space), UniformReplay(10, space)
    for lengths in ([4], [2, 3], [4]):
        added(with_numbers(rng, lengths, stacked), lengths, ring)
    saved = ring.state()
    again.load_state({name: array.copy() for name, array in saved.items()})
    assert ("frames" in saved) is stacked
    # Of the first segment one step is left.
    assert in_use(ring) == (10 + 4 * DEPTH if stacked else 10 + 4)
    for one in (ring, again):
        batch = in_slots(one, np.arange(10))
        for obs in (batch.obs, batch.next_obs):
            assert (obs.shape, obs.dtype) == ((10,), np.dtype(space.dtype))
            np.testing.assert_array_equal(obs[NUMBERS], obs[IMAGE][:, -1].reshape(10, -1))
    for wrong in (np.zeros((3, *SHAPES[1]), np.uint8), np.zeros(3, "(2,2)u1,(4,)f4")):
        with pytest.raises(ValueError, match="is needed"):
            added(wrong, [2], ring)
