from typing import Any

import numpy as np
import pytest

from soulsgui.policies.exploration import START, Moment, boltzmann, epsilon_greedy, ladder
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.specs import MLPPolicySpec


def policy(actions: int = 4, first_action: int = 10) -> NumpyMLPPolicy:
    """Values grow with the action for positive observations and fall for negative ones."""
    made = NumpyMLPPolicy(MLPPolicySpec((1,), actions, first_action, (), "tanh", False).to_json())
    weight = np.arange(actions, dtype=np.float32)[:, None]
    made.load({"policy.0.weight": weight, "policy.0.bias": np.zeros(actions, np.float32)})
    return made


def _soft(temperature: float, valid: list[int]) -> list[float]:
    weight = np.where(np.isin(np.arange(4), valid), np.exp(np.arange(4) / temperature), 0)
    return (weight / weight.sum()).tolist()


@pytest.mark.parametrize(
    ("rule", "how", "valid", "probs"),
    [
        (epsilon_greedy, 0.3, [0, 1, 2, 3], [0.075, 0.075, 0.075, 0.775]),
        (epsilon_greedy, 0.3, [0, 1, 2], [0.1, 0.1, 0.8, 0]),  # the best one by its value is not valid
        (epsilon_greedy, 1.0, [2], [0, 0, 1, 0]),
        (boltzmann, 0.5, [0, 1, 2, 3], _soft(0.5, [0, 1, 2, 3])),
        (boltzmann, 2.0, [0, 1, 2, 3], _soft(2.0, [0, 1, 2, 3])),
        (boltzmann, 1.0, [0, 2], _soft(1.0, [0, 2])),
    ],
)
def test_frequencies_follow_the_rule(rule: Any, how: float, valid: list[int], probs: list[float]) -> None:
    count, expected = 40_000, np.array(probs)
    mask = None if len(valid) == 4 else np.tile(np.isin(np.arange(4), valid), (count, 1))
    action, log_prob = rule(policy(), np.ones((count, 1), np.float32), np.random.default_rng(0), how, mask)
    assert (action.dtype, log_prob.dtype) == (np.int64, np.float32)
    np.testing.assert_allclose(log_prob, np.log(expected[action - 10]), rtol=1e-5, atol=1e-7)
    found = np.bincount(action - 10, minlength=4)
    assert not found[expected == 0].any()
    chi_squared = ((found - count * expected)[valid] ** 2 / (count * expected[valid])).sum()
    assert chi_squared < {1: 0.001, 2: 10.8, 3: 13.8, 4: 16.3}[len(valid)], "by chance once in 1000"


@pytest.mark.parametrize(
    ("rule", "how"),
    [(epsilon_greedy, -0.1), (epsilon_greedy, 1.1), (epsilon_greedy, np.nan), (boltzmann, 0.0)],
)
def test_what_is_no_probability_and_no_temperature_is_refused(rule: Any, how: float) -> None:
    with pytest.raises(ValueError, match="must"):
        rule(policy(), np.ones((1, 1), np.float32), np.random.default_rng(0), how)


def test_each_observation_has_its_own_greedy_action_and_may_have_its_own_epsilon() -> None:
    obs = np.array([[1.0], [-1.0], [2.0]], np.float32)
    action, log_prob = epsilon_greedy(policy(), obs, np.random.default_rng(0), 0.0)
    assert action.tolist() == [13, 10, 13]
    assert log_prob.tolist() == [0, 0, 0]
    obs = np.ones((40_000, 1), np.float32)
    epsilon = np.tile([0.0, 1.0], 20_000)
    action, log_prob = epsilon_greedy(policy(), obs, np.random.default_rng(0), epsilon)
    assert set(action[::2]) == {13}
    assert set(log_prob[::2]) == {0.0}
    np.testing.assert_allclose(np.bincount(action[1::2] - 10) / 20_000, 0.25, atol=0.02)
    np.testing.assert_allclose(log_prob[1::2], np.log(0.25), rtol=1e-6)


def test_the_numbers_drawn_do_not_depend_on_epsilon() -> None:
    generators = [np.random.default_rng(3) for _ in range(3)]
    for rng, epsilon in zip(generators, (0.0, 0.5, 1.0), strict=True):
        epsilon_greedy(policy(), np.ones((7, 1), np.float32), rng, epsilon)
    assert len({rng.integers(2**60) for rng in generators}) == 1


def test_the_ladder_is_that_of_ape_x_whoever_holds_which_rung() -> None:
    whole = ladder(0.4, 0, 8, 8, 7.0)
    np.testing.assert_allclose(whole, [0.4 ** (1 + 7 * i / 7) for i in range(8)])
    np.testing.assert_array_equal(
        np.concatenate((ladder(0.4, 0, 3, 8, 7.0), ladder(0.4, 3, 5, 8, 7.0))), whole
    )
    assert ladder(0.4, 0, 1, 1, 7.0).tolist() == [0.4], "who plays alone is on the first rung"
    assert ladder(0.4, 7, 2, 8, 7.0).tolist() == pytest.approx([0.4**8, 0.4**8]), "none is below the last"
    assert ladder(0.4, 0, 3, 3, 0.0).tolist() == [0.4] * 3


LINEAR = {"schedule": "linear", "from": 0.3, "to": 0.1}
EXPONENTIAL = {"schedule": "exponential", "from": 1.0, "to": 0.01, "over": 400}
PIECEWISE = {"schedule": "piecewise", "points": [[100, 1.0], [200, 0.5], [1000, 0.1]]}


@pytest.mark.parametrize(
    ("scheduled", "goal", "values"),
    [
        (0.3, None, {0: 0.3, 500: 0.3, 10**9: 0.3}),
        (LINEAR, 1000, {0: 0.3, 250: pytest.approx(0.25), 1000: 0.1, 10_000: 0.1}),  # at its end to the bit
        (LINEAR | {"over": 100}, 1000, {50: pytest.approx(0.2), 100: 0.1}),
        (LINEAR, None, {0: 0.3, 10**6: 0.3}),  # nobody knows how long the run is
        (EXPONENTIAL, None, pytest.approx({0: 1, 100: 10**-0.5, 200: 0.1, 400: 0.01, 800: 0.01})),
        (PIECEWISE, None, pytest.approx({0: 1, 100: 1, 150: 0.75, 200: 0.5, 600: 0.3, 5000: 0.1})),
    ],
)
def test_a_schedule_has_its_value_at_each_moment(scheduled: Any, goal: int | None, values: Any) -> None:
    steps = (0, 50, 100, 150, 200, 250, 400, 500, 600, 800, 1000, 5000, 10_000, 10**6, 10**9)
    expected = getattr(values, "expected", values)
    assert {at: Moment(at, goal).value(scheduled) for at in steps if at in expected} == values
    assert START.value(scheduled) == Moment(0, None).value(scheduled)
