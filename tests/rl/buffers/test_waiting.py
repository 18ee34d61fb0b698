"""Segments that wait: taken whole and in order, dropped when their weights are too old."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from soulsgui.rl.buffers.collecting import CollectedSegments
from soulsgui.rl.buffers.waiting import Arrived, WaitingSegments


def arrived(
    lengths: list[int], model_ids: list[int], first: int = 0, masked: bool = False, **columns: Any
) -> Arrived:
    """Segments whose steps are numbered from `first` on; observation `n` precedes step `n`, or is -1."""
    count, steps = len(lengths), sum(lengths)
    numbers = np.arange(first, first + steps)
    bounds = np.cumsum([0, *lengths])
    rows = np.concatenate([[*numbers[low:high], -1] for low, high in pairwise(bounds)]).astype(np.float32)[
        :, None
    ]
    found = CollectedSegments(
        client=np.zeros(count, int),
        env_index=np.zeros(count, int),
        episode=np.arange(count),
        first_step=np.zeros(count, int),
        lengths=np.array(lengths, np.int32),
        terminated=np.arange(count) % 2 == 0,
        truncated=np.zeros(count, bool),
        obs=rows,
        action=numbers,
        log_prob=-numbers.astype(np.float32),
        reward=numbers.astype(np.float32),
        action_mask=(rows == [[0, -1]]) if masked else None,
        state={"hidden": np.array(lengths, np.float32)[:, None]},
    )._replace(**{name: np.array(values) for name, values in columns.items()})
    return Arrived(found, np.array(model_ids), np.array(model_ids) * 10)


def test_as_few_whole_segments_as_hold_the_steps_are_taken_oldest_first() -> None:
    waiting = WaitingSegments()
    waiting.add(arrived([2, 3], [1, 2]))
    waiting.add(arrived([4, 1, 2], [3, 4, 5], first=5))
    assert waiting.steps == 12
    batch, update = waiting.take(6)
    assert batch.action.tolist() == list(range(9))
    assert batch.lengths.tolist() == [2, 3, 4]
    assert batch.obs[:, 0].tolist() == [0, 1, -1, 2, 3, 4, -1, 5, 6, 7, 8, -1]
    assert (batch.terminated.tolist(), update.tolist()) == ([True, False, True], [10, 20, 30])
    assert (batch.log_prob[3], batch.reward[3]) == (-3, 3)
    assert batch.state["hidden"][:, 0].tolist() == [2, 3, 4]
    assert batch.action_mask is None
    assert waiting.steps == 3
    batch, update = waiting.take(100)
    assert (batch.action.tolist(), update.tolist()) == ([9, 10, 11], [40, 50])
    assert waiting.steps == 0
    with pytest.raises(ValueError, match="no segment"):
        waiting.take(1)


@pytest.mark.parametrize(("wanted", "got"), [(1, 2), (2, 2), (3, 5), (5, 5)])
def test_a_batch_ends_with_the_segment_that_fills_it(wanted: int, got: int) -> None:
    waiting = WaitingSegments()
    waiting.add(arrived([2, 3, 4], [1, 1, 1]))
    assert (waiting.take(wanted).batch.steps, waiting.steps) == (got, 9 - got)


def test_what_older_weights_made_is_dropped_and_counted() -> None:
    waiting = WaitingSegments()
    waiting.add(arrived([2, 3], [1, 3], masked=True))
    waiting.add(arrived([4], [2], first=5, masked=True))
    waiting.add(arrived([1], [4], first=9, masked=True))
    assert waiting.drop_older(1) == 0
    assert waiting.drop_older(3) == 6
    assert waiting.steps == 4
    batch, _ = waiting.take(10)
    assert batch.action.tolist() == [2, 3, 4, 9]
    assert batch.action_mask is not None
    assert batch.action_mask[:, 1].tolist() == [False, False, False, True, False, True]


def test_segments_of_an_episode_stand_behind_each_other_and_are_joined_where_nothing_lies_between() -> None:
    none = [False, False, False]
    pieces = [
        # One environment's episode in three pieces, another's between them, and one that began anew.
        {"source": [7, 9, 7], "episode": [3, 3, 3], "first_step": [5, 0, 7], "obs": [1, 2, 3, 0, 8, 3, 4]},
        {"source": [9, 7, 7], "episode": [3, 4, 3], "first_step": [1, 0, 8], "obs": [8, 0, 0, 0, 4, 5, 6]},
        # A piece after a gap, one before which another observation stood, one behind an end.
        {"source": [7, 9, 7], "episode": [3, 3, 4], "first_step": [12, 2, 1], "obs": [6, 7, 5, 0, 0, 0]},
    ]
    lengths, ended = ([2, 1, 1], [1, 1, 2], [1, 1, 1]), (none, [False, True, False], none)
    waiting, first = WaitingSegments(), 0
    for number, (piece, size, over) in enumerate(zip(pieces, lengths, ended, strict=True)):
        obs = np.array(piece["obs"], np.float32)[:, None]
        columns = piece | {"obs": obs, "terminated": none, "truncated": over}
        waiting.add(arrived(size, [3 * number, 3 * number + 1, 3 * number + 2], first, **columns))
        first += sum(size)
    batch, update = waiting.take(20)
    assert batch.joined is not None
    assert batch.origin is not None
    assert batch.origin.source.tolist() == [7] * 6 + [9] * 3
    assert (update // 10).tolist() == [0, 2, 5, 6, 4, 8, 1, 3, 7]
    assert batch.joined.tolist() == [False, True, True, False, False, False, False, True, False]
    assert batch.lengths.tolist() == [2, 1, 2, 1, 1, 1, 1, 1, 1]
    assert batch.action.tolist() == [0, 1, 3, 6, 7, 8, 5, 10, 2, 4, 9]
    assert batch.obs[:8, 0].tolist() == [1, 2, 3, 3, 4, 4, 5, 6]
    assert batch.ends.tolist() == [False] * 4 + [True] * 4 + [False] + [True] * 2
    assert (batch.reward.tolist(), batch.state["hidden"][:3, 0].tolist()) == (
        batch.action.tolist(),
        [2, 1, 2],
    )
