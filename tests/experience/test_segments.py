"""The record of experience: its layout, and what is taken, cut, laid end to end and put in order."""

import tracemalloc
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from soulsgui.experience.frame_stacks import FrameStacks
from soulsgui.experience.segments import TERMINATED, Segments
from soulsgui.rl.returns import gae
from tests.experience.segments import segments_of


def test_rows_skip_the_last_observation_of_each_segment_and_ends_stand_at_the_last_steps() -> None:
    def batch(**columns: Any) -> Segments:
        ended = {"terminated": [True, False, True], "truncated": [False, True, False]}
        return segments_of([2, 1, 3], np.zeros((9, 1)), **ended, **columns)

    rollout = batch()
    assert (rollout.steps, rollout.step_rows.tolist()) == (6, [0, 1, 3, 5, 6, 7])
    assert rollout.ends.tolist() == [False, True, True, False, False, True]
    assert rollout.terminated_steps.tolist() == [False, True, False, False, False, True]
    goes_on = batch(joined=np.array([False, True, False]))
    assert goes_on.ends.tolist() == [False, False, True, False, False, True]


def test_an_episode_in_pieces_has_the_advantages_of_the_whole() -> None:
    rng, steps = np.random.default_rng(1), 12
    reward, value = rng.normal(size=steps).astype(np.float32), rng.normal(size=steps + 1).astype(np.float32)
    found = []
    for lengths in ([12], [5, 4, 3]):
        joined = np.arange(len(lengths)) > 0
        rollout = segments_of(lengths, np.zeros(steps + len(lengths)), reward=reward, joined=joined)
        ended = rollout.terminated_steps
        found.append(gae(reward, value[:-1], value[1:], ended, rollout.ends, 0.9, 0.8))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    "changes",
    [
        {"obs": np.zeros((8, 1), np.float32)},
        {"action": np.zeros(5, np.int64)},
        {"length": np.array([2, 0, 4, 4])},
        {"length": np.array([], np.int64)},
        {"flags": np.array([TERMINATED], np.uint8)},
        {"source": np.zeros(3, np.int64)},
        {"action_mask": np.ones((10, 2), np.bool_)},
        {"state": {"hidden": np.zeros((2, 1), np.float32)}},
        {"joined": np.array([True, False, False, False])},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes: dict[str, Any]) -> None:
    good = numbered()
    good.check()
    with pytest.raises(ValueError, match="segments"):
        replace(good, **changes).check()


LENGTHS = np.array([2, 1, 3, 4])


def numbered(obs: Any = None, **columns: Any) -> Segments:
    """Four segments in which each row of each column has a number of its own."""
    count, steps = len(LENGTHS), int(LENGTHS.sum())
    rows = steps + count
    return segments_of(
        LENGTHS,
        obs=np.arange(rows, dtype=np.float32)[:, None] if obs is None else obs,
        truncated=[True, False, False, True],
        env_index=np.arange(count, dtype=np.int32),
        episode=np.arange(count) + 10,
        first_step=np.arange(count) + 20,
        model_id_first=np.arange(count) + 30,
        digest=np.arange(count, dtype=np.uint64) + 40,
        action=np.arange(steps),
        reward=np.arange(steps, dtype=np.float32),
        log_prob=-np.arange(steps, dtype=np.float32),
        action_mask=np.arange(rows)[:, None] % 3 == [[0, 1]],
        state={"hidden": np.arange(count, dtype=np.float32)[:, None]},
        source=np.arange(count) + 50,
        **columns,
    )


_FIRST = np.arange(int(LENGTHS.sum()) + len(LENGTHS))
STACKS = FrameStacks(np.arange(len(_FIRST) + 2, dtype=np.uint8)[:, None], _FIRST, 3, 1)
"""Observations of three frames each, each frame once."""


def assert_equal(one: Segments, other: Segments) -> None:
    for field in fields(Segments):
        first, second = getattr(one, field.name), getattr(other, field.name)
        if field.name == "state":
            assert first.keys() == second.keys()
            first, second = first.get("hidden"), second.get("hidden")
        np.testing.assert_array_equal(first, second, err_msg=field.name)


@pytest.mark.parametrize("obs", [None, STACKS], ids=["array", "frames held once"])
@pytest.mark.parametrize("positions", [[1, 3], [3, 0, 2, 1], [2], [0, 1, 2, 3]])
def test_segments_are_taken_with_all_their_rows(obs: Any, positions: list[int]) -> None:
    whole = numbered(obs, joined=np.array([False, True, False, False]))
    taken = whole.take(np.array(positions))
    taken.check()
    assert taken.joined is None
    assert taken.env_index.tolist() == positions
    assert_equal(taken, Segments.concat([whole.cut(position, position + 1) for position in positions]))
    if positions == sorted(positions):
        of_mask = whole.take(np.isin(np.arange(4), positions))
        if len(positions) == 4:
            assert of_mask is whole
        else:
            assert_equal(of_mask, taken)
    nothing = whole.take(np.zeros(4, np.bool_))
    assert (nothing.count, nothing.steps, len(nothing.obs)) == (0, 0, 0)


def test_a_part_shares_the_memory_and_both_parts_make_the_whole() -> None:
    whole = numbered()
    parts = [whole.cut(0, 1), whole.cut(1, 4)]
    for part in parts:
        part.check()
        assert np.shares_memory(part.obs, whole.obs)
        assert np.shares_memory(part.action, whole.action)
    assert parts[1].action.tolist() == list(range(2, 10))
    assert_equal(Segments.concat(parts), whole)


def test_what_one_part_does_not_tell_the_whole_does_not_tell() -> None:
    told = numbered()
    untold = segments_of([2], np.zeros((3, 1)), action_mask=np.ones((3, 2)), state=told.cut(0, 1).state)
    both = Segments.concat([told, untold])
    assert both.source is None
    assert both.action_mask is not None
    with pytest.raises(ValueError, match="no segments"):
        Segments.concat([])


def test_episodes_come_in_order_and_are_joined_where_nothing_lies_between() -> None:
    # Environment 0 in two pieces that see the same at their seam; environment 1 in four: what is seen at the
    # first seam differs, the second one is good, and behind it a step is missing.
    pieces = [
        (1, 4, [7, 8]),
        (1, 9, [9, 1]),
        (0, 2, [2, 3]),
        (1, 5, [0, 9]),
        (0, 0, [0, 1, 2]),
        (1, 6, [9, 9]),
    ]
    env, first, rows = zip(*pieces, strict=True)
    given = segments_of(
        [len(seen) - 1 for seen in rows],
        np.concatenate(rows)[:, None],
        env_index=np.array(env),
        first_step=np.array(first),
        action=np.arange(7),
    )
    found = given.in_order(given.env_index)
    found.check()
    assert found.first_step.tolist() == [0, 2, 4, 5, 6, 9]
    assert found.action.tolist() == [4, 5, 2, 0, 3, 6, 1]
    assert found.obs[:, 0].tolist() == [0, 1, 2, 2, 3, 7, 8, 0, 9, 9, 9, 9, 1]
    assert found.joined.tolist() == [False, True, False, False, True, False]


def test_images_of_many_parts_are_held_once_when_they_are_put_in_order() -> None:
    rows, parts = np.arange(65), []
    for first in range(0, 512, 64):
        frames = np.full((68, 40, 40), first % 251, np.uint8)
        parts.append(segments_of([64], FrameStacks(frames, rows, 4, 1), first_step=np.array([-first])))
    tracemalloc.start()
    try:
        found = Segments.concat_in_order(parts, np.zeros(8, np.int64))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.first_step.tolist() == sorted(found.first_step.tolist())
    assert found.obs[::65, 0, 0, 0].tolist() == [448 % 251, 384 % 251, 320 % 251, 256 % 251, 192, 128, 64, 0]
    size = np.asarray(found.obs).nbytes
    assert held < 1.1 * size
    assert peak < 1.4 * size
    assert parts == []
