"""ε-greedy around the numpy policy."""

import numpy as np
import pytest

from soulsgui.policies.exploration import START, Moment, boltzmann, epsilon_greedy, ladder
from soulsgui.policies.numpy_mlp import MLPPolicySpec, NumpyMLPPolicy


def policy(actions: int = 4, first_action: int = 10) -> NumpyMLPPolicy:
    """Values grow with the action for positive observations and fall for negative ones."""
    made = NumpyMLPPolicy(MLPPolicySpec((1,), actions, first_action, (), "tanh", False).to_json())
    weight = np.arange(actions, dtype=np.float32)[:, None]
    made.load({"policy.0.weight": weight, "policy.0.bias": np.zeros(actions, np.float32)})
    return made


def test_frequencies_and_log_probs_are_those_of_the_rule() -> None:
    count, epsilon = 40_000, 0.3
    obs = np.ones((count, 1), np.float32)
    action, log_prob = epsilon_greedy(policy(), obs, np.random.default_rng(0), epsilon)
    assert (action.dtype, log_prob.dtype) == (np.int64, np.float32)
    probs = np.array([epsilon / 4] * 3 + [1 - epsilon + epsilon / 4])
    np.testing.assert_allclose(log_prob, np.log(probs)[action - 10], rtol=1e-6)
    expected = count * probs
    chi_squared = ((np.bincount(action - 10, minlength=4) - expected) ** 2 / expected).sum()
    assert chi_squared < 16.3, "exceeded by chance once in 1000 (3 degrees of freedom)"


def test_each_observation_has_its_own_greedy_action() -> None:
    obs = np.array([[1.0], [-1.0], [2.0]], np.float32)
    action, log_prob = epsilon_greedy(policy(), obs, np.random.default_rng(0), 0.0)
    assert action.tolist() == [13, 10, 13]
    assert log_prob.tolist() == [0, 0, 0]


def test_the_numbers_drawn_do_not_depend_on_epsilon() -> None:
    generators = [np.random.default_rng(3) for _ in range(3)]
    for rng, epsilon in zip(generators, (0.0, 0.5, 1.0), strict=True):
        epsilon_greedy(policy(), np.ones((7, 1), np.float32), rng, epsilon)
    assert len({rng.integers(2**60) for rng in generators}) == 1


@pytest.mark.parametrize("epsilon", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        epsilon_greedy(policy(), np.ones((1, 1), np.float32), np.random.default_rng(0), epsilon)


def test_only_valid_actions_are_explored_and_the_best_of_them_is_greedy() -> None:
    count, epsilon = 40_000, 0.3
    mask = np.zeros((count, 4), np.bool_)
    mask[:, [0, 1, 2]] = True  # the best one by its value, the last, is not valid
    obs = np.ones((count, 1), np.float32)
    action, log_prob = epsilon_greedy(policy(), obs, np.random.default_rng(0), epsilon, mask)
    probs = np.array([epsilon / 3, epsilon / 3, 1 - epsilon + epsilon / 3])
    np.testing.assert_allclose(log_prob, np.log(probs)[action - 10], rtol=1e-6)
    expected = count * probs
    chi_squared = ((np.bincount(action - 10, minlength=3) - expected) ** 2 / expected).sum()
    assert chi_squared < 13.8, "exceeded by chance once in 1000 (2 degrees of freedom)"


def test_a_single_valid_action_is_certain() -> None:
    mask = np.eye(4, dtype=np.bool_)
    action, log_prob = epsilon_greedy(
        policy(), np.ones((4, 1), np.float32), np.random.default_rng(0), 1.0, mask
    )
    assert action.tolist() == [10, 11, 12, 13]
    np.testing.assert_allclose(log_prob, 0, atol=1e-7)


def test_each_observation_may_have_its_own_epsilon() -> None:
    obs = np.ones((40_000, 1), np.float32)
    epsilon = np.tile([0.0, 1.0], 20_000)
    action, log_prob = epsilon_greedy(policy(), obs, np.random.default_rng(0), epsilon)
    assert set(action[::2]) == {13}
    assert set(log_prob[::2]) == {0.0}
    np.testing.assert_allclose(np.bincount(action[1::2] - 10) / 20_000, 0.25, atol=0.02)
    np.testing.assert_allclose(log_prob[1::2], np.log(0.25), rtol=1e-6)


def test_the_ladder_is_that_of_ape_x_whoever_holds_which_rung() -> None:
    whole = ladder(0.4, 0, 8, 8, 7.0)
    np.testing.assert_allclose(whole, [0.4 ** (1 + 7 * i / 7) for i in range(8)])
    np.testing.assert_array_equal(
        np.concatenate((ladder(0.4, 0, 3, 8, 7.0), ladder(0.4, 3, 5, 8, 7.0))), whole
    )
    assert ladder(0.4, 0, 1, 1, 7.0).tolist() == [0.4], "who plays alone is on the first rung"
    assert ladder(0.4, 7, 2, 8, 7.0).tolist() == pytest.approx([0.4**8, 0.4**8]), "none is below the last"
    assert ladder(0.4, 0, 3, 3, 0.0).tolist() == [0.4] * 3


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_boltzmann_draws_by_values_over_temperature(temperature: float) -> None:
    obs = np.ones((40_000, 1), np.float32)  # values 0 to 3
    action, log_prob = boltzmann(policy(), obs, np.random.default_rng(0), temperature)
    probs = np.exp(np.arange(4) / temperature)
    probs /= probs.sum()
    np.testing.assert_allclose(log_prob, np.log(probs)[action - 10], rtol=1e-5)
    expected = 40_000 * probs
    chi_squared = ((np.bincount(action - 10, minlength=4) - expected) ** 2 / expected).sum()
    assert chi_squared < 16.3, "exceeded by chance once in 1000 (3 degrees of freedom)"


def test_boltzmann_takes_valid_actions_alone() -> None:
    mask = np.tile([[True, False, True, False]], (500, 1))
    obs = np.ones((500, 1), np.float32)
    action, log_prob = boltzmann(policy(), obs, np.random.default_rng(0), 1.0, mask)
    assert set(action.tolist()) == {10, 12}
    odds = 1 / (1 + np.exp(2.0))
    np.testing.assert_allclose(log_prob, np.log(np.where(action == 10, odds, 1 - odds)), rtol=1e-5)


def test_a_temperature_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        boltzmann(policy(), np.ones((1, 1), np.float32), np.random.default_rng(0), 0.0)


GOAL = 1000


def values(scheduled: object, *steps: int, goal: int | None = GOAL) -> list[float]:
    return [Moment(at, goal).value(scheduled) for at in steps]  # type: ignore[arg-type]


def test_a_number_stays() -> None:
    assert values(0.3, 0, 500, 10**9, goal=None) == [0.3] * 3


def test_linear_goes_evenly_and_stays_at_its_end_to_the_bit() -> None:
    ramp = {"schedule": "linear", "from": 0.3, "to": 0.1}
    assert values(ramp, 0, 250, GOAL, 10 * GOAL) == [0.3, pytest.approx(0.25), 0.1, 0.1]
    assert values(ramp | {"over": 100}, 50, 100) == [pytest.approx(0.2), 0.1]


def test_exponential_goes_by_equal_factors() -> None:
    ramp = {"schedule": "exponential", "from": 1.0, "to": 0.01, "over": 400}
    assert values(ramp, 0, 100, 200, 400, 800) == pytest.approx([1, 10**-0.5, 0.1, 0.01, 0.01])


def test_piecewise_goes_evenly_from_point_to_point() -> None:
    points = {"schedule": "piecewise", "points": [[100, 1.0], [200, 0.5], [1000, 0.1]]}
    assert values(points, 0, 100, 150, 200, 600, 5000) == pytest.approx([1, 1, 0.75, 0.5, 0.3, 0.1])


def test_a_ramp_over_a_run_of_unknown_length_stands_at_its_start() -> None:
    assert START.value({"schedule": "linear", "from": 2.0, "to": 0.0}) == 2.0
    assert values({"schedule": "linear", "from": 2.0, "to": 0.0}, 10**6, goal=None) == [2.0]
