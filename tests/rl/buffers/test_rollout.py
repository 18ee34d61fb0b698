"""The layout of an on-policy round."""

import numpy as np
import pytest

from soulsgui.rl.buffers.rollout import BPTTChunks, RolloutBatch
from soulsgui.rl.returns import gae


def batch(lengths: tuple[int, ...] = (2, 1, 3), **changes: object) -> RolloutBatch:
    steps = sum(lengths)
    fields: dict[str, object] = {
        "obs": np.arange(steps + len(lengths), dtype=np.float32)[:, None],
        "lengths": np.array(lengths),
        "action": np.zeros(steps, np.int64),
        "log_prob": np.zeros(steps, np.float32),
        "reward": np.zeros(steps, np.float32),
        "terminated": np.array([True, False, True]),
        "truncated": np.array([False, True, False]),
    }
    return RolloutBatch(**(fields | changes))  # type: ignore[arg-type]


def test_rows_skip_the_last_observation_of_each_segment() -> None:
    rollout = batch()
    assert rollout.steps == 6
    assert rollout.step_rows.tolist() == [0, 1, 3, 5, 6, 7]


def test_ends_and_terminations_stand_at_the_last_steps() -> None:
    rollout = batch()
    assert rollout.ends.tolist() == [False, True, True, False, False, True]
    assert rollout.terminated_steps.tolist() == [False, True, False, False, False, True]


def test_no_estimate_ends_where_another_segment_goes_on() -> None:
    rollout = batch((2, 1, 3), joined=np.array([False, True, False]))
    assert rollout.ends.tolist() == [False, False, True, False, False, True]


def test_an_episode_in_pieces_has_the_advantages_of_the_whole() -> None:
    rng, steps = np.random.default_rng(1), 12
    reward, value = rng.normal(size=steps).astype(np.float32), rng.normal(size=steps + 1).astype(np.float32)
    found = []
    for lengths in ((12,), (5, 4, 3)):
        pieces = np.ones(len(lengths), np.bool_)
        pieces[0] = False
        never = np.zeros(len(lengths), np.bool_)
        rollout = batch(lengths, reward=reward, joined=pieces, terminated=never, truncated=never)
        ended = rollout.terminated_steps
        found.append(gae(reward, value[:-1], value[1:], ended, rollout.ends, 0.9, 0.8))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize(
    "changes",
    [
        {"obs": np.zeros((8, 1), np.float32)},
        {"action": np.zeros(5, np.int64)},
        {"lengths": np.array([2, 0, 4])},
        {"lengths": np.array([], np.int64)},
        {"terminated": np.array([True])},
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="segments"):
        batch(**changes)


def round_of(lengths: list[int], joined: list[bool] | None) -> RolloutBatch:
    """Return a round whose observation rows are numbered."""
    steps, segments = sum(lengths), len(lengths)
    return RolloutBatch(
        obs=np.arange(steps + segments, dtype=np.float32)[:, None],
        lengths=np.array(lengths),
        action=np.zeros(steps, np.int64),
        log_prob=np.zeros(steps, np.float32),
        reward=np.zeros(steps, np.float32),
        terminated=np.zeros(segments, np.bool_),
        truncated=np.zeros(segments, np.bool_),
        joined=None if joined is None else np.array(joined),
    )


def test_chains_are_cut_into_stretches_whatever_their_segments_were() -> None:
    # Rows 0 to 2 (one behind), 3 to 6 (one behind), 7 and 8: the first two segments are one chain of 5 steps.
    found = BPTTChunks.of(round_of([2, 3, 1], [False, True, False]), 3)
    assert found.length.tolist() == [3, 2, 1]
    assert found.place.tolist() == [0, 1, 0]
    assert found.segment.tolist() == [0, 0, 2]
    assert found.goes_on.tolist() == [True, False, False]
    assert found.steps.tolist() == [[0, 1, 2], [3, 4, 4], [5, 5, 5]]
    assert found.rows.tolist() == [[0, 1, 3, 4], [4, 5, 6, 6], [7, 8, 8, 8]]
    assert found.ends().tolist() == [False, False, False, False, True, True]
    assert found.valid(2).tolist() == [[True, True], [True, True], [True, False]]


def test_a_stretch_that_ends_with_its_chain_is_not_followed_by_an_empty_one() -> None:
    found = BPTTChunks.of(round_of([4, 2], None), 2)
    assert found.length.tolist() == [2, 2, 2]
    assert found.rows.tolist() == [[0, 1, 2], [2, 3, 4], [5, 6, 7]]
    assert found.goes_on.tolist() == [True, False, False]
