"""On-policy rounds: in the order of their segments, whatever came first, and cut into chunks."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from soulsgui.experience.segments import Segments
from soulsgui.rl.buffers.rollout import BPTTChunks, RolloutStore, SegmentQueue
from tests.experience.segments import segments_of


def _segment(client: int, env: int, episode: int, first: int, length: int) -> Segments:
    """Return one segment whose numbers tell where it belongs."""
    mark = 10_000 * client + 1000 * env + 100 * episode + first
    return segments_of(
        model_id_first=np.array([client]),
        env_index=np.array([env]),
        episode=np.array([episode]),
        first_step=np.array([first]),
        length=np.array([length]),
        terminated=np.array([mark % 2 == 0]),
        truncated=np.array([mark % 3 == 0]),
        obs=np.full((length + 1, 2), mark, np.float32) + np.arange(length + 1, dtype=np.float32)[:, None],
        action=np.arange(length) + mark,
        log_prob=np.full(length, -mark, np.float32),
        reward=np.full(length, mark / 10, np.float32),
    )


def _add(store: RolloutStore, *parts: Segments) -> None:
    whole = Segments.concat(parts)
    store.add(whole, whole.model_id_first)


PARTS = [
    _segment(client, env, episode, first, length)
    for client in (0, 1)
    for env, episode, first, length in [(0, 0, 0, 3), (0, 0, 3, 1), (0, 1, 0, 2), (1, 0, 7, 4)]
]
STEPS = 20


def _equal(first: Segments, second: Segments) -> None:
    for name in Segments.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_segments_come_in_the_order_of_client_environment_episode_and_step() -> None:
    store = RolloutStore()
    store.begin(STEPS)
    for part in reversed(PARTS[:4]):
        hidden = np.full((1, 2), part.obs[0, 0], np.float32)
        _add(store, replace(part, action_mask=part.obs > 3, state={"hidden": hidden}))
    batch = store.batch(["a"])
    assert batch.action_mask is not None
    np.testing.assert_array_equal(batch.action_mask, batch.obs > 3)
    assert batch.state["hidden"].tolist() == [[0, 0], [3, 3], [100, 100], [1007, 1007]]
    assert batch.joined is not None
    assert batch.joined.tolist() == [False, False, False, False]  # the first one ended
    assert batch.length.tolist() == [3, 1, 2, 4]
    assert batch.action.tolist() == [0, 1, 2, 3, 100, 101, 1007, 1008, 1009, 1010]
    assert batch.obs[:, 0].tolist() == [0, 1, 2, 3, 3, 4, 100, 101, 102, 1007, 1008, 1009, 1010, 1011]
    assert batch.terminated.tolist() == [True, False, True, False]
    assert batch.reward[-1] == np.float32(100.7)
    store.begin(4)  # another round begins empty
    _add(store, PARTS[0])
    assert (store.steps, store.clients) == (3, [0])
    with pytest.raises(ValueError, match="more than 4"):
        _add(store, PARTS[3])
    store.begin(STEPS)  # and may be larger
    assert (store.steps, store.clients) == (0, [])
    with pytest.raises(ValueError, match="segments"):
        store.batch([])
    _add(store, *PARTS[2:6])
    assert (store.steps, store.clients) == (2 + 4 + 3 + 1, [0, 1])


@pytest.mark.parametrize("names", [["a", "b"], ["b", "a"]])
def test_the_batch_does_not_depend_on_what_came_first_or_together(names: list[str]) -> None:
    rng = np.random.default_rng(3)
    store = RolloutStore()
    store.begin(STEPS)
    by_name = [PARTS[4 * names.index(name) + n] for name in ("a", "b") for n in range(4)]
    expected = [int(part.action[0]) for part in by_name]
    _add(store, *PARTS)
    whole = store.batch(names)
    starts = np.cumsum(whole.length) - whole.length
    assert whole.action[starts].tolist() == expected
    for _ in range(5):
        store.begin(STEPS)
        order = rng.permutation(len(PARTS))
        cut = int(rng.integers(1, len(PARTS)))
        for some in (order[:cut], order[cut:]):
            _add(store, *[PARTS[n] for n in some])
        _equal(store.batch(names), whole)


def arrived(lengths: list[int], model_ids: list[int], first: int = 0, masked: bool = False) -> Segments:
    """Segments whose steps are numbered from `first` on; observation `n` precedes step `n`, or is -1."""
    numbers, bounds = np.arange(first, first + sum(lengths)), np.cumsum([0, *lengths])
    rows = np.concatenate([[*numbers[low:high], -1] for low, high in pairwise(bounds)])[:, None]
    return segments_of(
        episode=np.arange(len(lengths)),
        model_id_first=np.array(model_ids),
        update=np.array(model_ids) * 10,
        length=np.array(lengths, np.int32),
        terminated=np.arange(len(lengths)) % 2 == 0,
        obs=rows.astype(np.float32),
        action=numbers,
        log_prob=-numbers.astype(np.float32),
        reward=numbers.astype(np.float32),
        action_mask=(rows == [[0, -1]]) if masked else None,
        state={"hidden": np.array(lengths, np.float32)[:, None]},
    )


def test_as_few_whole_segments_as_hold_the_steps_are_taken_oldest_first() -> None:
    waiting = SegmentQueue()
    waiting.add(arrived([2, 3], [1, 2]))
    waiting.add(arrived([4, 1, 2], [3, 4, 5], first=5))
    assert waiting.steps == 12
    batch = waiting.take(6)
    assert batch.action.tolist() == list(range(9))
    assert batch.length.tolist() == [2, 3, 4]
    assert batch.obs[:, 0].tolist() == [0, 1, -1, 2, 3, 4, -1, 5, 6, 7, 8, -1]
    assert (batch.terminated.tolist(), batch.update.tolist()) == ([True, False, True], [10, 20, 30])
    assert (batch.log_prob[3], batch.reward[3]) == (-3, 3)
    assert batch.state["hidden"][:, 0].tolist() == [2, 3, 4]
    assert batch.action_mask is None
    assert waiting.steps == 3
    batch = waiting.take(100)
    assert (batch.action.tolist(), batch.update.tolist()) == ([9, 10, 11], [40, 50])
    assert waiting.steps == 0
    with pytest.raises(ValueError, match="no segments"):
        waiting.take(1)
    for wanted, got in ((1, 2), (2, 2), (3, 5), (5, 5)):
        waiting = SegmentQueue()
        waiting.add(arrived([2, 3, 4], [1, 1, 1]))
        assert (waiting.take(wanted).steps, waiting.steps) == (got, 9 - got)


def test_what_older_weights_made_is_dropped_and_counted() -> None:
    waiting = SegmentQueue()
    waiting.add(arrived([2, 3], [1, 3], masked=True))
    waiting.add(arrived([4], [2], first=5, masked=True))
    waiting.add(arrived([1], [4], first=9, masked=True))
    assert waiting.drop_older(1) == 0
    assert waiting.drop_older(3) == 6
    assert waiting.steps == 4
    batch = waiting.take(10)
    assert batch.action.tolist() == [2, 3, 4, 9]
    assert batch.action_mask is not None
    assert batch.action_mask[:, 1].tolist() == [False, False, False, True, False, True]


def round_of(lengths: list[int], joined: list[bool] | None) -> Segments:
    """Return a round whose observation rows are numbered."""
    steps, segments = sum(lengths), len(lengths)
    return segments_of(
        obs=np.arange(steps + segments, dtype=np.float32)[:, None],
        length=np.array(lengths),
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
    found = BPTTChunks.of(round_of([4, 2], None), 2)  # none follows one that ends with its chain
    assert found.length.tolist() == [2, 2, 2]
    assert found.rows.tolist() == [[0, 1, 2], [2, 3, 4], [5, 6, 7]]
    assert found.goes_on.tolist() == [True, False, False]
