"""The sum tree against plain sums over all its leaves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.rl.buffers.sum_tree import SumTree


def tree_of(*values: float) -> SumTree:
    tree = SumTree(len(values))
    tree.update(np.arange(len(values)), np.array(values))
    return tree


def test_the_total_is_the_sum_of_the_leaves() -> None:
    tree = tree_of(1, 2, 3, 4)
    assert tree.total == 10
    tree.update(np.array([1]), np.array([7.0]))
    assert tree.total == 15
    assert tree.values(np.array([3, 1])).tolist() == [4, 7]


def test_a_position_falls_into_the_leaf_that_covers_it() -> None:
    tree = tree_of(1, 2, 0, 4)
    positions = np.array([0.0, 0.5, 1.0, 2.999, 3.0, 6.999])
    assert tree.find(positions).tolist() == [0, 0, 1, 1, 3, 3]


def test_the_position_at_the_very_end_falls_into_the_last_leaf_with_a_value() -> None:
    assert tree_of(1, 2, 4, 0, 0).find(np.array([7.0])).tolist() == [2]


@pytest.mark.parametrize("leaves", [1, 15, 16, 17, 256, 257, 5_000])
def test_every_size_finds_every_leaf(leaves: int) -> None:
    tree = SumTree(leaves)
    everything = np.arange(leaves)
    tree.update(everything, np.ones(leaves))
    assert tree.total == leaves == len(tree)
    np.testing.assert_array_equal(tree.find(everything + 0.5), everything)


def test_of_an_index_that_repeats_in_one_update_the_last_value_holds_and_the_sums_count_it_once() -> None:
    tree = tree_of(*[1.0] * 100)
    tree.update(np.array([7, 50, 7, 7]), np.array([10.0, 3.0, 20.0, 5.0]))
    assert tree.values(np.array([7, 50])).tolist() == [5, 3]
    assert tree.total == 98 + 5 + 3


@settings(deadline=None)
@given(
    leaves=st.integers(1, 600),
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 599), st.floats(0, 1e6)), min_size=1, max_size=30), max_size=8
    ),
)
def test_any_updates_leave_exact_sums_on_every_level(
    leaves: int, batches: list[list[tuple[int, float]]]
) -> None:
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


def test_draws_are_in_proportion_to_the_values() -> None:
    values = np.array([1.0, 0.0, 2.0, 3.0, 4.0] * 8)
    tree = tree_of(*values)
    rng = np.random.default_rng(0)
    # One draw at a time: the parts of a larger draw would make the counts more even than chance.
    drawn = np.concatenate([tree.draw(1, rng) for _ in range(8_000)])
    found, expected = np.bincount(drawn, minlength=40), 8_000 * values / values.sum()
    present = expected > 0
    assert not found[~present].any()
    chi2 = ((found - expected)[present] ** 2 / expected[present]).sum()
    assert chi2 < 61.1, "exceeded by chance once in 1000 (31 degrees)"


def test_a_batch_takes_one_out_of_each_equal_part() -> None:
    tree = tree_of(*[1.0] * 64)
    for seed in range(20):
        np.testing.assert_array_equal(tree.draw(64, np.random.default_rng(seed)), np.arange(64))


def test_nothing_is_drawn_from_nothing() -> None:
    with pytest.raises(ValueError, match="all leaves"):
        SumTree(5).draw(1, np.random.default_rng(0))
    with pytest.raises(ValueError, match="at least one leaf"):
        SumTree(0)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
def test_a_value_that_would_spoil_the_sums_is_refused_and_changes_nothing(value: float) -> None:
    tree = tree_of(1, 2, 3)
    with pytest.raises(ValueError, match="finite"):
        tree.update(np.array([0, 1]), np.array([5.0, value]))
    assert tree.values(np.arange(3)).tolist() == [1, 2, 3]


@pytest.mark.parametrize("index", [-1, 3])
def test_a_leaf_that_does_not_exist_is_refused(index: int) -> None:
    tree = tree_of(1, 2, 3)
    with pytest.raises(IndexError, match="0 to 2"):
        tree.update(np.array([0, index]), np.array([5.0, 5.0]))
    assert tree.total == 6
