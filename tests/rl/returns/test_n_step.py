"""Sums of n rewards against cases worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.rl.returns.n_step import NStep, n_step, one_step

REWARD = np.array([1.0, 2.0, 4.0, 8.0, 16.0], np.float32)
IN_ORDER = np.array([1, 2, 3, 4, -1])
NEVER = np.zeros(5, np.bool_)


def run(n: int, following: np.ndarray = IN_ORDER, terminated: np.ndarray = NEVER) -> NStep:
    return n_step(np.arange(5), following, REWARD, terminated, n, 0.5)


def test_one_step_is_the_reward_and_one_discount() -> None:
    window = run(1)
    assert window.reward.tolist() == REWARD.tolist()
    assert window.discount.tolist() == [0.5] * 5
    assert window.last.tolist() == [0, 1, 2, 3, 4]


def test_one_step_alone_gives_the_same_to_the_bit() -> None:
    terminated = np.array([0, 1, 0, 0, 1], np.bool_)
    window = n_step(np.arange(5), IN_ORDER, REWARD, terminated, 1, 0.99)
    reward, discount = one_step(REWARD, terminated, 0.99)
    assert (reward.dtype, discount.dtype) == (np.float32, np.float32)
    assert (reward.tolist(), discount.tolist()) == (window.reward.tolist(), window.discount.tolist())


def test_rewards_are_summed_with_powers_of_gamma_and_the_bootstrap_has_gamma_to_the_n() -> None:
    window = run(3)
    assert window.reward[:3].tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4 + 4]
    assert window.discount[:3].tolist() == [0.125] * 3
    assert window.last[:3].tolist() == [2, 3, 4]
    assert (window.reward.dtype, window.discount.dtype) == (np.float32, np.float32)


def test_a_short_window_is_discounted_by_the_steps_it_has() -> None:
    window = run(3)
    assert window.reward[3:].tolist() == [8 + 8, 16]
    assert window.discount[3:].tolist() == [0.25, 0.5]
    assert window.last[3:].tolist() == [4, 4]


def test_a_tail_that_terminates_has_no_future() -> None:
    window = run(3, terminated=np.array([0, 0, 0, 0, 1], np.bool_))
    assert window.discount.tolist() == [0.125, 0.125, 0, 0, 0]
    assert window.reward.tolist() == [3, 6, 12, 16, 16]


def test_a_tail_that_is_truncated_bootstraps_from_its_final_observation() -> None:
    # Truncation is the end of a chain without `terminated`.
    window = run(3, following=np.array([1, -1, 3, 4, -1]))
    assert window.discount[:2].tolist() == [0.25, 0.5]
    assert window.last[:2].tolist() == [1, 1]


def test_chains_are_followed_in_any_order_of_slots() -> None:
    window = n_step(np.array([[3, 0], [4, 4]]), np.array([2, -1, 4, 0, 1]), REWARD, NEVER, 3, 0.5)
    assert window.reward.tolist() == [[8 + 0.5 + 1, 1 + 2 + 4], [16 + 1, 17]]
    assert window.discount.tolist() == [[0.125, 0.125], [0.25, 0.25]]


def test_a_window_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        run(0)


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    n=st.integers(1, 8),
    gamma=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_sum_written_out_for_any_episodes(
    lengths: list[int], n: int, gamma: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    ends = np.cumsum(lengths)
    following = np.arange(1, count + 1)
    following[ends - 1] = -1
    reward, terminated = rng.normal(size=count).astype(np.float32), np.zeros(count, np.bool_)
    terminated[ends - 1] = rng.random(len(ends)) < 0.5
    window = n_step(np.arange(count), following, reward, terminated, n, gamma)
    for t in range(count):
        stop = min(t + n, int(ends[ends > t][0]))
        expected = sum(gamma**i * float(reward[t + i]) for i in range(stop - t))
        assert window.reward[t] == pytest.approx(expected, rel=1e-5, abs=1e-5)
        assert window.discount[t] == pytest.approx(0 if terminated[stop - 1] else gamma ** (stop - t))
        assert window.last[t] == stop - 1
