"""A round in the order of its segments, whatever came first."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from soulsgui.experience.segments import TERMINATED, Segments, flags_of
from soulsgui.rl.buffers.rollout import RolloutStore, SegmentQueue
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
        _add(store, part)
    batch = store.batch(["a"])
    assert batch.length.tolist() == [3, 1, 2, 4]
    assert batch.action.tolist() == [0, 1, 2, 3, 100, 101, 1007, 1008, 1009, 1010]
    assert batch.obs[:, 0].tolist() == [0, 1, 2, 3, 3, 4, 100, 101, 102, 1007, 1008, 1009, 1010, 1011]
    assert batch.terminated.tolist() == [True, False, True, False]
    assert batch.reward[-1] == np.float32(100.7)


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


def test_another_round_begins_empty_and_may_be_larger() -> None:
    store = RolloutStore()
    store.begin(4)
    _add(store, PARTS[0])
    assert (store.steps, store.clients) == (3, [0])
    with pytest.raises(ValueError, match="more than 4"):
        _add(store, PARTS[3])
    store.begin(STEPS)
    assert (store.steps, store.clients) == (0, [])
    with pytest.raises(ValueError, match="segments"):
        store.batch([])
    _add(store, *PARTS[2:6])
    assert (store.steps, store.clients) == (2 + 4 + 3 + 1, [0, 1])


def test_masks_and_states_come_in_the_order_of_their_segments() -> None:
    store = RolloutStore()
    store.begin(STEPS)
    for part in reversed(PARTS[:4]):
        numbers = part.obs[:, 0].astype(np.int64)
        mask = (numbers[:, None] >> np.arange(3)) % 2 == 1
        hidden = np.full((1, 2), part.obs[0, 0], np.float32)
        _add(store, replace(part, action_mask=mask, state={"hidden": hidden}))
    batch = store.batch(["a"])
    assert batch.action_mask is not None
    np.testing.assert_array_equal(batch.action_mask @ (1 << np.arange(3)), batch.obs[:, 0].astype(int) % 8)
    assert batch.state["hidden"].tolist() == [[0, 0], [3, 3], [100, 100], [1007, 1007]]


def test_actions_of_several_numbers_come_in_the_order_of_their_segments() -> None:
    store = RolloutStore()
    store.begin(STEPS)
    for part in reversed(PARTS[:4]):
        _add(store, replace(part, action=np.stack([part.action + 0.25, -part.action], 1).astype(np.float32)))
    batch = store.batch(["a"])
    assert batch.action.dtype == np.float32
    numbers = np.concatenate([part.action for part in PARTS[:4]])
    np.testing.assert_array_equal(batch.action, np.stack([numbers + 0.25, -numbers], 1))


@pytest.mark.parametrize("state", [{}, {"hidden": (2,)}], ids=["without", "with a memory"])
def test_segments_of_an_episode_are_joined_where_one_goes_on_from_the_other(
    state: dict[str, tuple[int, ...]],
) -> None:
    def part(env: int, episode: int, first: int, length: int, obs: float = 0.0) -> Segments:
        whole = _segment(0, env, episode, first, length)
        steps = np.arange(first, first + length + 1, dtype=np.float32)[:, None]
        return replace(
            whole,
            obs=np.tile(steps + obs, (1, 2)),
            flags=np.zeros(1, np.uint8),
            state={name: np.zeros((1, *shape), np.float32) for name, shape in state.items()},
        )

    store = RolloutStore()
    store.begin(30)
    parts = [
        part(0, 0, 0, 3),
        part(0, 0, 3, 2),
        part(0, 0, 5, 1),
        part(0, 0, 7, 1),  # a step is missing
        part(0, 1, 8, 2),  # of another episode
        part(1, 1, 10, 2),  # of another environment
        part(1, 1, 12, 1, obs=0.5),  # of another session, the numbers by chance
        replace(part(1, 1, 13, 1, obs=0.5), flags=np.array([TERMINATED], np.uint8)),
        part(1, 1, 14, 1, obs=0.5),  # behind an end
    ]
    for index in (4, 2, 0, 7, 5, 1, 3, 8, 6):
        _add(store, parts[index])
    joined = store.batch(["a"]).joined
    assert joined is not None
    assert joined.tolist() == [False, True, True, False, False, False, False, True, False]


def test_where_segments_come_from_is_told_in_their_order_or_not_at_all() -> None:
    store = RolloutStore()
    store.begin(100)
    parts = [_segment(1, 0, 2, 0, 3), _segment(0, 1, 5, 4, 2)]
    for part, source in zip(parts, (70, 80), strict=True):
        _add(store, replace(part, source=np.array([source])))
    batch = store.batch(["a", "b"])
    assert batch.source is not None
    assert [column.tolist() for column in (batch.source, batch.episode, batch.first_step)] == [
        [80, 70],
        [5, 2],
        [4, 0],
    ]
    store.begin(100)
    _add(store, parts[0])
    assert store.batch(["a", "b"]).source is None


def arrived(
    lengths: list[int], model_ids: list[int], first: int = 0, masked: bool = False, **columns: Any
) -> Segments:
    """Segments whose steps are numbered from `first` on; observation `n` precedes step `n`, or is -1."""
    count, steps = len(lengths), sum(lengths)
    numbers = np.arange(first, first + steps)
    bounds = np.cumsum([0, *lengths])
    rows = np.concatenate([[*numbers[low:high], -1] for low, high in pairwise(bounds)]).astype(np.float32)[
        :, None
    ]
    found = segments_of(
        episode=np.arange(count),
        model_id_first=np.array(model_ids),
        update=np.array(model_ids) * 10,
        length=np.array(lengths, np.int32),
        terminated=np.arange(count) % 2 == 0,
        truncated=np.zeros(count, bool),
        obs=rows,
        action=numbers,
        log_prob=-numbers.astype(np.float32),
        reward=numbers.astype(np.float32),
        action_mask=(rows == [[0, -1]]) if masked else None,
        state={"hidden": np.array(lengths, np.float32)[:, None]},
    )
    ended = [columns.pop(name, getattr(found, name)) for name in ("terminated", "truncated")]
    return replace(
        found,
        flags=flags_of(*map(np.asarray, ended)),
        **{name: np.array(values) for name, values in columns.items()},
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


@pytest.mark.parametrize(("wanted", "got"), [(1, 2), (2, 2), (3, 5), (5, 5)])
def test_a_batch_ends_with_the_segment_that_fills_it(wanted: int, got: int) -> None:
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
    waiting, first = SegmentQueue(), 0
    for number, (piece, size, over) in enumerate(zip(pieces, lengths, ended, strict=True)):
        obs = np.array(piece["obs"], np.float32)[:, None]
        columns = piece | {"obs": obs, "terminated": none, "truncated": over}
        waiting.add(arrived(size, [3 * number, 3 * number + 1, 3 * number + 2], first, **columns))
        first += sum(size)
    batch = waiting.take(20)
    assert batch.joined is not None
    assert batch.source is not None
    assert batch.source.tolist() == [7] * 6 + [9] * 3
    assert (batch.update // 10).tolist() == [0, 2, 5, 6, 4, 8, 1, 3, 7]
    assert batch.joined.tolist() == [False, True, True, False, False, False, False, True, False]
    assert batch.length.tolist() == [2, 1, 2, 1, 1, 1, 1, 1, 1]
    assert batch.action.tolist() == [0, 1, 3, 6, 7, 8, 5, 10, 2, 4, 9]
    assert batch.obs[:8, 0].tolist() == [1, 2, 3, 3, 4, 4, 5, 6]
    assert batch.ends.tolist() == [False] * 4 + [True] * 4 + [False] + [True] * 2
    assert (batch.reward.tolist(), batch.state["hidden"][:3, 0].tolist()) == (
        batch.action.tolist(),
        [2, 1, 2],
    )
