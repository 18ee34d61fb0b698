"""The numpy policies of C51 and IQN: values by hand, masks, and weights that don't fit.

That they say what the agents say is held in `rl/agents/test_contract.py`.
"""

from typing import Any

import numpy as np
import pytest

from soulsgui.errors import CheckpointError
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.policies.specs import MLPPolicySpec
from soulsgui.policies.value_based import categorical_spec, implicit_quantile_spec

OBS = np.zeros((3, 2), np.float32)


def network(outputs: int, hidden: tuple[int, ...] = ()) -> dict[str, Any]:
    return MLPPolicySpec((2,), outputs, 0, hidden, "relu", False).to_json()


def categorical(logits: list[float]) -> Policy:
    """Two actions, 5 and 6, with three atoms: -1, 0 and 1."""
    policy = make_policy(categorical_spec(network(6), 5, (-1.0, 1.0, 3)))
    weight = np.zeros((6, 2), np.float32)
    policy.load({"policy.0.weight": weight, "policy.0.bias": np.array(logits, np.float32)})
    return policy


def implicit(quantile_weight: float) -> Policy:
    """One feature of 2 times an embedding of 3; two actions worth 6 times weight, and 1."""
    policy = make_policy(implicit_quantile_spec(network(1), 2, 5, 0, cosines=4, levels=8))
    policy.load(
        {
            "policy.0.weight": np.zeros((1, 2), np.float32),
            "policy.0.bias": np.array([2.0], np.float32),
            "embedding.weight": np.zeros((1, 4), np.float32),
            "embedding.bias": np.array([3.0], np.float32),
            "head.0.weight": np.array([[quantile_weight], [0.0]], np.float32),
            "head.0.bias": np.array([0.0, 1.0], np.float32),
        }
    )
    return policy


def test_values_are_means_by_probabilities_or_over_levels() -> None:
    half = float(np.log(0.5))
    policy = categorical([half, -30.0, half, -30.0, 0.0, 0.0])
    np.testing.assert_allclose(policy.outputs(OBS), [[0.0, 0.5]] * 3, atol=1e-6)
    assert policy.greedy(OBS).tolist() == [6, 6, 6]
    policy = implicit(0.5)
    np.testing.assert_allclose(policy.outputs(OBS), [[3.0, 1.0]] * 3, atol=1e-6)
    assert policy.greedy(OBS).tolist() == [5, 5, 5]


def test_actions_are_drawn_by_their_values() -> None:
    policy = implicit(0.0)  # values 0 and 1
    obs = np.zeros((20_000, 2), np.float32)
    action, log_prob = policy.act(obs, np.random.default_rng(0))
    odds = 1 / (1 + np.exp(-1.0))
    assert (action == 6).mean() == pytest.approx(odds, abs=0.015)
    np.testing.assert_allclose(log_prob, np.log(np.where(action == 6, odds, 1 - odds)), rtol=1e-5)


@pytest.mark.parametrize(
    "spec",
    [
        categorical_spec(network(5), 0, (-1.0, 1.0, 3)),
        categorical_spec(network(6), 0, ("low", 1.0, 3)),  # type: ignore[arg-type]
        implicit_quantile_spec(network(1), 0, 0, 0, 4, 8),
    ],
)
def test_descriptions_that_cannot_be_read_are_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="can't be read"):
        make_policy(spec)
