"""Prioritised replay: proportions, importance weights, and priorities of what is new, repeated or gone."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from soulsgui.environments.box import BoxSpec
from soulsgui.rl.buffers.prioritised import PrioritisedReplay, SumTree
from soulsgui.rl.buffers.replay import UniformReplay
from tests.rl.drawing import in_slots

BOX = BoxSpec((2,), "float32")


def replay_of(capacity: int, steps: int, alpha: float = 1.0) -> PrioritisedReplay:
    replay = PrioritisedReplay(UniformReplay(capacity, BOX), alpha)
    if steps:
        add(replay, steps)
    return replay


def add(replay: PrioritisedReplay, steps: int) -> None:
    """Add one segment; each step's action is its number."""
    action = np.arange(replay.ring.inserted, replay.ring.inserted + steps)
    obs = np.repeat(np.append(action, -1)[:, None], 2, axis=1).astype(np.float32)
    replay.add(obs, np.array([steps]), action, action.astype(np.float32), np.array([False]))


def test_draws_are_in_proportion_to_the_errors_to_the_power_of_alpha() -> None:
    replay = replay_of(10, 10, alpha=0.5)
    error = np.array([0.0, 1.0, 4.0, 9.0, 16.0, -25.0, 1.0, 1.0, 1.0, 1.0])
    replay.update_priorities(np.arange(10), error)
    rng = np.random.default_rng(0)
    drawn = np.concatenate([replay.draw(1, 0.0, rng).number for _ in range(6_000)])
    expected = 6_000 * np.sqrt(np.abs(error)) / np.sqrt(np.abs(error)).sum()
    found = np.bincount(drawn, minlength=10)
    assert found[0] < 10, "no error, hardly drawn"
    chi2 = ((found - expected)[1:] ** 2 / expected[1:]).sum()
    assert chi2 < 26.1, "exceeded by chance once in 1000 (8 degrees)"


def test_weights_undo_the_proportions_and_the_largest_is_1() -> None:
    replay = replay_of(4, 4)
    replay.update_priorities(np.arange(4), np.array([1.0, 2.0, 4.0, 8.0]))
    drawn = replay.draw(15, 1.0, np.random.default_rng(0))
    assert drawn.weight.dtype == np.float32
    np.testing.assert_allclose(drawn.weight, 2.0**-drawn.number, rtol=1e-5)
    half = replay.draw(15, 0.5, np.random.default_rng(0))
    np.testing.assert_allclose(half.weight, np.sqrt(drawn.weight), rtol=1e-5)
    assert (replay.draw(15, 0.0, np.random.default_rng(0)).weight == 1).all()


def test_new_transitions_have_the_largest_priority_seen() -> None:
    replay = replay_of(10, 2)
    assert replay.draw(2, 1.0, np.random.default_rng(0)).number.tolist() == [0, 1]
    replay.update_priorities(np.array([0, 1]), np.array([3.0, 1.0]))
    add(replay, 1)
    drawn = replay.draw(7_000, 0.0, np.random.default_rng(0)).number
    np.testing.assert_allclose(np.bincount(drawn), [3_000, 1_000, 3_000], atol=2)
    replay.update_priorities(np.array([0, 1, 2]), np.array([1.0, 1.0, 1.0]))
    add(replay, 1)
    drawn = replay.draw(6_000, 0.0, np.random.default_rng(0)).number
    np.testing.assert_allclose(np.bincount(drawn), [1_000, 1_000, 1_000, 3_000], atol=2)


def test_an_error_that_arrives_after_its_transition_gave_way_touches_nothing() -> None:
    replay = replay_of(4, 4)
    drawn = replay.draw(4, 1.0, np.random.default_rng(0))
    add(replay, 2)  # 4 and 5 stand where 0 and 1 stood
    replay.update_priorities(drawn.number, np.full(4, 100.0))
    found = np.bincount(replay.draw(20_200, 0.0, np.random.default_rng(0)).number, minlength=6)
    np.testing.assert_allclose(found, [0, 0, 10_000, 10_000, 100, 100], atol=2)
    replay.update_priorities(drawn.number[:2], np.array([1e9, 1e9]))
    assert replay.state()["largest"] < 101, "what is gone sets no priority for new ones"
    replay = replay_of(3, 3)
    with pytest.raises(ValueError, match="finite"):
        replay.update_priorities(np.arange(3), np.array([5.0, np.nan, 1.0]))
    assert (replay.state()["priority"].tolist(), replay.state()["largest"]) == ([1, 1, 1], 1)


@pytest.mark.parametrize("steps", [3, 7, 10, 23])
def test_numbers_lead_to_the_transitions_drawn(steps: int) -> None:
    replay = replay_of(7, 4)
    add(replay, steps)
    drawn = replay.draw(200, 0.4, np.random.default_rng(0))
    batch = in_slots(replay.ring, replay.ring.slot(drawn.number))
    assert set(batch.action.tolist()) == set(range(steps + 4)[-7:])
    stored = replay.ring.stored
    assert np.flatnonzero(replay.ring.holds(np.arange(stored + 2))).tolist() == list(
        range(stored - 7, stored)
    )
    # A segment longer than the memory loses its head before it is numbered.
    lost = replay.ring.inserted - replay.ring.stored
    np.testing.assert_array_equal(batch.action, drawn.number + lost)
    np.testing.assert_array_equal(batch.obs[:, 0], batch.action)


def tree_of(*values: float) -> SumTree:
    tree = SumTree(len(values))
    tree.update(np.arange(len(values)), np.array(values))
    return tree


@pytest.mark.parametrize("leaves", [1, 15, 16, 17, 256, 257, 5_000])
def test_every_size_finds_every_leaf_and_a_batch_takes_one_out_of_each_equal_part(leaves: int) -> None:
    tree = SumTree(leaves)
    everything = np.arange(leaves)
    tree.update(everything, np.ones(leaves))
    assert tree.total == leaves == len(tree)
    np.testing.assert_array_equal(tree.find(everything + 0.5), everything)
    np.testing.assert_array_equal(tree.draw(leaves, np.random.default_rng(leaves)), everything)
    uneven = tree_of(1, 2, 0, 4)
    assert uneven.find(np.array([0.0, 0.5, 1.0, 2.999, 3.0, 6.999])).tolist() == [0, 0, 1, 1, 3, 3]
    assert tree_of(1, 2, 4, 0, 0).find(np.array([7.0])).tolist() == [2], "the very end: the last with a value"


@settings(deadline=None)
@given(
    leaves=st.integers(1, 600),
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 599), st.floats(0, 1e6)), min_size=1, max_size=30), max_size=8
    ),
)
@example(100, [[(7, 10.0), (50, 3.0), (7, 20.0), (7, 5.0)]])
def test_any_updates_leave_exact_sums(leaves: int, batches: list[list[tuple[int, float]]]) -> None:
    tree, plain = SumTree(leaves), np.zeros(leaves)
    for batch in batches:
        for index, value in batch:
            plain[index % leaves] = value
        tree.update(np.array([i % leaves for i, _ in batch]), np.array([v for _, v in batch]))
    np.testing.assert_array_equal(tree.values(np.arange(leaves)), plain)
    assert tree.total == pytest.approx(plain.sum(), rel=1e-12, abs=1e-300)
    for children, parents in zip(tree._levels, tree._levels[1:], strict=False):
        np.testing.assert_allclose(children.sum(axis=1), parents.reshape(-1)[: len(children)], rtol=1e-12)
    if tree.total > 0:
        drawn = tree.draw(200, np.random.default_rng(0))
        assert (plain[drawn] > 0).all(), "what has no value is never drawn"
