"""The numpy policy by itself; `rl/agents/test_contract.py` compares its numbers with those of torch."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.specs import MLPPolicySpec
from tests.faults.waiting import LIMIT_S


def policy(normalise: bool = True) -> NumpyMLPPolicy:
    spec, rng = MLPPolicySpec((2, 2), 4, 0, (16, 8), "tanh", normalise), np.random.default_rng(0)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in spec.tensor_shapes().items()}
    if normalise:
        arrays["normaliser.var"] = np.array([4.0, 1.0, 0.0, 2.0], np.float32)
        arrays |= {"normaliser.eps": np.array(1e-8, np.float32), "normaliser.clip": np.array(5, np.float32)}
    made = NumpyMLPPolicy(json.loads(json.dumps(spec.to_json())))
    made.load(arrays)
    return made


def test_impossible_actions_are_never_drawn_and_large_logits_stay_finite() -> None:
    made = NumpyMLPPolicy(MLPPolicySpec((1,), 3, 0, (), "relu", False).to_json())
    weight = np.array([[-1000.0], [1000.0], [1000.0]], np.float32)
    made.load({"policy.0.weight": weight, "policy.0.bias": np.zeros(3, np.float32)})
    action, log_prob = made.act(np.ones((5000, 1), np.float32), np.random.default_rng(0))
    assert set(action.tolist()) == {1, 2}
    np.testing.assert_allclose(log_prob, -np.log(2), atol=1e-6)


def test_features_are_normalised_and_limited() -> None:
    made, plain, obs = policy(), policy(normalise=False), np.random.default_rng(1).normal(size=(60, 2, 2))
    rows = (obs.reshape(60, 4) - made._mean[:, 0]) / np.sqrt(np.array([4.0, 1.0, 0.0, 2.0]) + 1e-8)
    assert (np.abs(rows) > 5).any()
    expected = plain.outputs(rows.clip(-5, 5).astype(np.float32).reshape(60, 2, 2))
    np.testing.assert_allclose(made.outputs(obs), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("normalise", [True, False])
def test_observations_of_any_number_type_are_taken(dtype: Any, normalise: bool) -> None:
    made = policy(normalise)
    obs = np.arange(12).reshape(3, 2, 2)
    action = np.array([0, 1, 2])
    expected = made.log_prob(obs.astype(np.float32), action)
    np.testing.assert_allclose(made.log_prob(obs.astype(dtype), action), expected, atol=1e-6)


def test_many_batch_sizes_do_not_grow_the_memory() -> None:
    made, obs = policy(), np.random.default_rng(1).normal(size=(60, 2, 2)).astype(np.float32)
    whole = made.outputs(obs)
    for count in range(1, 60):
        np.testing.assert_allclose(made.outputs(obs[:count]), whole[:count], rtol=1e-4, atol=1e-5)
    assert len(made._buffers) <= 16


def test_clients_need_no_torch() -> None:
    code = (
        "import soulsgui.policies.exploration, soulsgui.environments.check, soulsgui.environments.step, sys;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=LIMIT_S).returncode == 0
