"""Generalised advantage estimation against cases worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from soulsgui.rl.returns import gae

GAMMA, LAM = 0.5, 0.5


def run(
    rewards: list[float],
    values: list[float],
    next_values: list[float],
    terminated: list[int],
    ends: list[int],
    gamma: float = GAMMA,
    lam: float = LAM,
) -> NDArray[np.float32]:
    return gae(
        np.array(rewards, np.float32),
        np.array(values, np.float32),
        np.array(next_values, np.float32),
        np.array(terminated, np.bool_),
        np.array(ends, np.bool_),
        gamma,
        lam,
    )


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


def test_cutting_an_episode_keeps_the_td_errors_and_shortens_the_sum() -> None:
    # The same four steps in one piece and cut in the middle: with λ = 0 nothing differs.
    rewards, values, next_values = [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 0.0]
    whole = run(rewards, values, next_values, [0, 0, 0, 1], [0, 0, 0, 1], lam=0.0)
    cut = run(rewards, values, next_values, [0, 0, 0, 1], [0, 1, 0, 1], lam=0.0)
    assert whole == pytest.approx(cut)


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


def test_a_last_step_that_ends_no_segment_is_refused() -> None:
    with pytest.raises(ValueError, match="end of its segment"):
        run([1, 1], [0, 0], [0, 0], [0, 0], [1, 0])
