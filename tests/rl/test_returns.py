import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from soulsgui.rl.returns import NStep, gae, n_step, one_step

GAMMA, LAM = 0.5, 0.5


def run(*columns: list[float], gamma: float = GAMMA, lam: float = LAM) -> NDArray[np.float32]:
    """Return the advantages of rewards, values, next values, and of what is final and ends a segment."""
    *numbers, terminated, ends = columns
    arrays = (np.array(one, np.float32) for one in numbers)
    return gae(*arrays, np.array(terminated, np.bool_), np.array(ends, np.bool_), gamma, lam)


def test_inside_an_episode_errors_decay_with_gamma_times_lambda() -> None:
    # deltas: 1 + 2 - 2 = 1;  1 + 3 - 4 = 0;  1 + 4 - 6 = -1, bootstrapping from the value 8 after the cut.
    advantages = run([1, 1, 1], [2, 4, 6], [4, 6, 8], [0, 0, 0], [0, 0, 1])
    assert advantages == pytest.approx([1 + 0.25 * (0 + 0.25 * -1), -0.25, -1])
    assert advantages.dtype == np.float32


def test_at_termination_the_next_value_counts_for_nothing() -> None:
    # deltas: 1 + 2 - 2 = 1;  1 - 4 = -3, whatever the final observation is worth.
    assert run([1, 1], [2, 4], [4, 1000], [0, 1], [0, 1]) == pytest.approx([1 + 0.25 * -3, -3])


def test_at_truncation_the_value_of_the_final_observation_counts() -> None:
    # deltas: 1;  1 + 0.5 * 10 - 4 = 2
    assert run([1, 1], [2, 4], [4, 10], [0, 0], [0, 1]) == pytest.approx([1 + 0.25 * 2, 2])


def test_nothing_crosses_from_one_segment_into_another() -> None:
    first = run([1, 1], [2, 4], [4, 10], [0, 0], [0, 1])
    second = run([5, -1, 7], [0, 1, 2], [1, 2, 3], [0, 0, 1], [0, 0, 1])
    both = run([1, 1, 5, -1, 7], [2, 4, 0, 1, 2], [4, 10, 1, 2, 3], [0, 0, 0, 0, 1], [0, 1, 0, 0, 1])
    assert both == pytest.approx(np.concatenate((first, second)))


def test_lambda_1_is_the_monte_carlo_return_minus_the_value() -> None:
    rewards, values = [1.0, 2.0, 3.0], [0.3, -0.7, 1.1]
    advantages = run(rewards, values, [-0.7, 1.1, 9.0], [0, 0, 1], [0, 0, 1], gamma=0.9, lam=1.0)
    returns = [1 + 0.9 * 2 + 0.81 * 3, 2 + 0.9 * 3, 3]
    assert advantages == pytest.approx(np.array(returns) - values, abs=1e-6)


def test_lambda_0_is_the_td_error() -> None:
    advantages = run([1, 2, 3], [0.3, -0.7, 1.1], [-0.7, 1.1, 9.0], [0, 0, 1], [0, 0, 1], gamma=0.9, lam=0.0)
    assert advantages == pytest.approx([1 - 0.63 - 0.3, 2 + 0.99 + 0.7, 3 - 1.1], abs=1e-6)


@settings(deadline=None)
@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=8),
    gamma=st.floats(0, 1),
    lam=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_equals_the_recursion_for_any_segments(
    lengths: list[int], gamma: float, lam: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    count = sum(lengths)
    rewards, values, next_values = rng.normal(size=(3, count)).astype(np.float32)
    ends = np.zeros(count, np.bool_)
    ends[np.cumsum(lengths) - 1] = True
    terminated = ends & (rng.random(count) < 0.5)
    expected, following = np.zeros(count), 0.0
    for t in reversed(range(count)):
        delta = rewards[t] + gamma * (not terminated[t]) * next_values[t] - values[t]
        following = expected[t] = delta + gamma * lam * (not ends[t]) * following
    advantages = gae(rewards, values, next_values, terminated, ends, gamma, lam)
    np.testing.assert_allclose(advantages, expected, rtol=1e-4, atol=1e-5)


REWARD = np.array([1.0, 2.0, 4.0, 8.0, 16.0], np.float32)
IN_ORDER = np.array([1, 2, 3, 4, -1])
NEVER = np.zeros(5, np.bool_)


def windows(n: int, following: np.ndarray = IN_ORDER, terminated: np.ndarray = NEVER) -> NStep:
    return n_step(np.arange(5), following, REWARD, terminated, n, 0.5)


def test_one_step_alone_gives_the_same_to_the_bit() -> None:
    terminated = np.array([0, 1, 0, 0, 1], np.bool_)
    window = n_step(np.arange(5), IN_ORDER, REWARD, terminated, 1, 0.99)
    reward, discount = one_step(REWARD, terminated, 0.99)
    assert (reward.dtype, discount.dtype) == (np.float32, np.float32)
    assert (reward.tolist(), discount.tolist()) == (window.reward.tolist(), window.discount.tolist())


def test_rewards_are_summed_with_powers_of_gamma_and_the_bootstrap_has_gamma_to_the_n() -> None:
    window = windows(3)
    assert window.reward[:3].tolist() == [1 + 1 + 1, 2 + 2 + 2, 4 + 4 + 4]
    assert window.discount[:3].tolist() == [0.125] * 3
    assert window.last[:3].tolist() == [2, 3, 4]
    assert (window.reward.dtype, window.discount.dtype) == (np.float32, np.float32)


def test_a_tail_that_terminates_has_no_future() -> None:
    window = windows(3, terminated=np.array([0, 0, 0, 0, 1], np.bool_))
    assert window.discount.tolist() == [0.125, 0.125, 0, 0, 0]
    assert window.reward.tolist() == [3, 6, 12, 16, 16]


def test_a_tail_that_is_truncated_bootstraps_from_its_final_observation() -> None:
    # Truncation is the end of a chain without `terminated`.
    window = windows(3, following=np.array([1, -1, 3, 4, -1]))
    assert window.discount[:2].tolist() == [0.25, 0.5]
    assert window.last[:2].tolist() == [1, 1]


def test_chains_are_followed_in_any_order_of_slots() -> None:
    window = n_step(np.array([[3, 0], [4, 4]]), np.array([2, -1, 4, 0, 1]), REWARD, NEVER, 3, 0.5)
    assert window.reward.tolist() == [[8 + 0.5 + 1, 1 + 2 + 4], [16 + 1, 17]]
    assert window.discount.tolist() == [[0.125, 0.125], [0.25, 0.25]]


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
