from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.environments.box import BoxSpec
from soulsgui.errors import CheckpointError
from soulsgui.rl.buffers.replay import UniformReplay
from tests.rl.drawing import drawn, in_slots

BOX = BoxSpec((2,), "float32")


class Source:
    """Makes segments whose numbers tell which step they belong to.

    Step k has observation `[k, 1]`, action k, reward -k; the last observation of a segment that ends with
    step k is `[k, -1]`.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.ended: set[int] = set()

    def segments(self, *lengths: int, terminated: bool = False) -> dict[str, Any]:
        """Return what `add` takes; every segment ends alike."""
        obs = []
        first = self.steps
        for length in lengths:
            numbers = range(self.steps, self.steps + length)
            obs += [(k, 1) for k in numbers] + [(numbers[-1], -1)]
            self.steps += length
            self.ended |= {numbers[-1]} if terminated else set()
        action = np.arange(first, self.steps)
        return {
            "obs": np.array(obs, np.float32).reshape(-1, 2),
            "lengths": np.array(lengths, np.int64),
            "action": action,
            "reward": -action.astype(np.float32),
            "terminated": np.full(len(lengths), terminated),
        }


def held(replay: UniformReplay) -> set[int]:
    """Return the numbers of the steps that can be drawn, after a look at many draws."""
    batch = drawn(replay, 60 * len(replay), np.random.default_rng(0))
    return set(batch.action.tolist())


def check_draws(replay: UniformReplay, source: Source, lengths: list[int]) -> None:
    """Make sure that every transition drawn is one of those added, whole."""
    ends = set((np.cumsum(lengths) - 1).tolist())
    batch = drawn(replay, 60 * len(replay), np.random.default_rng(0))
    for obs, action, reward, next_obs, discount in zip(*batch[:5], strict=True):
        following = [action, -1] if int(action) in ends else [action + 1, 1]
        assert obs.tolist() == [action, 1]
        assert next_obs.tolist() == following, "the next observation of its own segment"
        assert reward == -action
        assert (discount == 0) == (int(action) in source.ended)


def test_transitions_come_back_whole_and_typed() -> None:
    replay, source = UniformReplay(100, BOX), Source()
    assert replay.add(**source.segments(3, 1)) == 4
    assert replay.add(**source.segments(5, terminated=True)) == 5
    assert (len(replay), replay.inserted) == (9, 9)
    assert held(replay) == set(range(9))
    check_draws(replay, source, [3, 1, 5])
    batch = drawn(replay, 6, np.random.default_rng(0))
    assert [column.dtype for column in batch[:5]] == [np.float32, np.int64, *[np.float32] * 3]
    assert [column.shape for column in batch[:5]] == [(6, 2), (6,), (6,), (6, 2), (6,)]
    copies = [column.copy() for column in batch[:5]]
    replay.add(**source.segments(100))
    assert all(np.array_equal(column, old) for column, old in zip(batch[:5], copies, strict=True))
    replay = UniformReplay(10, BOX)
    assert replay.add(**Source().segments()) == 0
    with pytest.raises(ValueError, match="no transition"):
        drawn(replay, 1, np.random.default_rng(0))


@given(
    capacity=st.integers(1, 12),
    calls=st.lists(st.lists(st.integers(1, 9), max_size=5), min_size=1, max_size=12),
)
def test_any_order_keeps_the_newest_and_a_row_per_observation(capacity: int, calls: list[list[int]]) -> None:
    replay, source = UniformReplay(capacity, BOX), Source()
    ends: deque[bool] = deque(maxlen=capacity)
    for call, lengths in enumerate(calls):
        added = replay.add(**source.segments(*lengths, terminated=call % 2 == 0))
        assert added == sum(lengths)
        ends.extend(last for n in lengths for last in [False] * (n - 1) + [True])
        assert len(replay) == len(ends) == min(source.steps, capacity)
        if source.steps:
            # The newest step always ends a segment, so that none is counted without its last row.
            assert rows_in_use(replay) == len(ends) + sum(ends)
            assert held(replay) == set(range(source.steps - len(ends), source.steps))
            check_draws(replay, source, [n for lengths in calls[: call + 1] for n in lengths])


def rows_in_use(replay: UniformReplay) -> int:
    """Count the observations that are kept, and make sure that no row is in use twice or lost."""
    rows = replay._rows
    free = rows._free[: rows._free_count].tolist()
    size = len(replay)
    steps = replay._transitions[:size]
    used = set(steps["row"].tolist()) | set(steps["next_row"].tolist())
    assert len(set(free)) == len(free)
    assert not used & set(free)
    assert len(used) + len(free) == rows._fresh
    return len(used)


def test_observations_that_follow_each_other_lie_together_however_often_the_memory_was_filled() -> None:
    replay, source = UniformReplay(1_000, BOX), Source()
    lengths = [60, 30, 10] * 55
    for begin in range(0, len(lengths), 5):
        replay.add(**source.segments(*lengths[begin : begin + 5]))
    row, last = (replay._transitions[name] for name in ("row", "last"))
    follow = (np.diff(row) == 1) | last[:-1]
    assert np.count_nonzero(~follow) < 20, "so that they are written in a few pieces"
    check_draws(replay, source, lengths)
    replay, source = UniformReplay(1_000, BOX), Source()
    for _ in range(100):
        replay.add(**source.segments(50, 50))
    assert len(replay) == 1_000
    assert replay._rows._fresh == 1_000 + 20, "a row per observation: 20 segments of 50 steps and one more"


def test_every_transition_is_drawn_alike() -> None:
    replay, source = UniformReplay(20, BOX), Source()
    for _ in range(9):
        replay.add(**source.segments(1, 5, 1, terminated=True))
    batch = drawn(replay, 20_000, np.random.default_rng(0))
    found = np.bincount(batch.action - (source.steps - 20), minlength=20)
    assert ((found - 1_000) ** 2 / 1_000).sum() < 43.8, "exceeded by chance once in 1000 (19 degrees)"


@pytest.mark.parametrize(
    "change",
    [
        {"obs": np.zeros((6, 2), np.float32)},
        {"obs": np.zeros((7, 3), np.float32)},
        {"lengths": np.array([5, 0])},
        {"lengths": np.array([2, 2])},
        {"action": np.arange(4)},
        {"reward": np.zeros(6, np.float32)},
        {"terminated": np.array([True])},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused_and_change_nothing(change: dict[str, Any]) -> None:
    replay, source = UniformReplay(5, BOX), Source()
    replay.add(**source.segments(5))
    with pytest.raises(ValueError, match=r"segments|shape"):
        replay.add(**(source.segments(3, 2) | change))
    assert (len(replay), replay.inserted) == (5, 5)
    assert held(replay) == set(range(5))
    for masked_actions, wrong in ((0, np.ones((3, 3), np.bool_)), (3, None)):
        masked = UniformReplay(10, BOX, masked_actions)
        with pytest.raises(ValueError, match="masks of shape"):
            masked.add(**Source().segments(2), action_mask=wrong)
        assert not len(masked)
    wide = UniformReplay(10, BOX, action_shape=(2,), action_dtype="float32")
    with pytest.raises(ValueError, match="actions of shape"):
        wide.add(**Source().segments(2))
    with pytest.raises(CheckpointError, match="actions of shape"):
        wide.load_state(replay.state())


@pytest.mark.parametrize("lengths", [(), (3,), (6, 1, 3), (9, 4, 1, 5)])
def test_after_save_and_restore_the_same_draws_follow_and_no_row_is_lost(lengths: tuple[int, ...]) -> None:
    replay, source = UniformReplay(10, BOX), Source()
    for length in lengths:
        replay.add(**source.segments(length, terminated=length > 3))
    again = UniformReplay(10, BOX)
    again.add(**Source().segments(2, 5))
    again.load_state({name: array.copy() for name, array in replay.state().items()})
    assert rows_in_use(again) == rows_in_use(replay)
    following = source.segments(2, 3)
    for memory in (replay, again):
        memory.add(**following)
    assert (len(again), again.inserted, again.stored) == (len(replay), replay.inserted, replay.stored)
    first, second = (drawn(memory, 60, np.random.default_rng(0)) for memory in (replay, again))
    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))
    check_draws(again, source, [*lengths, 2, 3])


ACTIONS: list[tuple[tuple[int, ...], str]] = [((3,), "int64"), ((5,), "int8"), ((2,), "float32")]


@pytest.mark.parametrize(("shape", "dtype"), ACTIONS)
def test_actions_of_any_shape_stay_with_their_observations(shape: tuple[int, ...], dtype: str) -> None:
    replay, source = UniformReplay(30, BOX, action_shape=shape, action_dtype=dtype), Source()
    for _ in range(5):
        made = source.segments(7, 3, 1)
        rows = np.broadcast_to(made["action"][:, None], (11, *shape)) / 2
        replay.add(**made | {"action": rows.astype(dtype)})
    sampled = drawn(replay, 300, np.random.default_rng(0))
    expected = np.broadcast_to(sampled.obs[:, :1] / 2, (300, *shape)).astype(dtype)
    np.testing.assert_array_equal(sampled.action, expected)
    assert sampled.action.dtype == dtype
    again = UniformReplay(30, BOX, action_shape=shape, action_dtype=dtype)
    again.load_state(replay.state())
    np.testing.assert_array_equal(drawn(again, 300, np.random.default_rng(0)).action, sampled.action)
    slots = replay.slot(np.arange(44, 55))
    np.testing.assert_array_equal(
        replay.windows(slots[:1], np.full(30, -1), 1, 0.9).action, in_slots(replay, slots[:1]).action
    )
    steps = replay.steps(slots[:3, None], np.array([[True], [True], [False]]))
    np.testing.assert_array_equal(steps.action[:2, 0], in_slots(replay, slots[:2]).action)
    assert not steps.action[2].any()
