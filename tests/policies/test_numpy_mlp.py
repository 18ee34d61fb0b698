"""The numpy policy by itself; tests/rl compares it with torch."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.specs import MLPPolicySpec

SPEC = MLPPolicySpec((2, 2), 4, 10, (16, 8), "tanh", True)


def tensors(spec: MLPPolicySpec = SPEC, seed: int = 0) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in spec.tensor_shapes().items()}
    if spec.normalise:
        arrays["normaliser.var"] = np.array([4.0, 1.0, 0.0, 2.0], np.float32)
        arrays |= {"normaliser.eps": np.array(1e-8, np.float32), "normaliser.clip": np.array(5, np.float32)}
    return arrays


def policy(spec: MLPPolicySpec = SPEC, seed: int = 0) -> NumpyMLPPolicy:
    made = NumpyMLPPolicy(json.loads(json.dumps(spec.to_json())))
    made.load(tensors(spec, seed))
    return made


def observations(count: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(count, 2, 2)).astype(np.float32)


def reference_log_probs(obs: NDArray[Any]) -> NDArray[np.float64]:
    """Compute the log-probabilities `[B, actions]` the plain way, in float64."""
    arrays = {name: array.astype(np.float64) for name, array in tensors().items()}
    hidden = obs.reshape(len(obs), -1).astype(np.float64) - arrays["normaliser.mean"]
    hidden = np.clip(hidden / np.sqrt(arrays["normaliser.var"] + 1e-8), -5, 5)
    for index in range(3):
        hidden = hidden @ arrays[f"policy.{index}.weight"].T + arrays[f"policy.{index}.bias"]
        hidden = np.tanh(hidden) if index < 2 else hidden
    log_probs: NDArray[np.float64] = hidden - np.log(np.exp(hidden).sum(1, keepdims=True))
    return log_probs


@pytest.mark.parametrize("count", [1, 4, 100])
def test_log_probs_are_those_of_the_plain_computation(count: int) -> None:
    obs = observations(count)
    action, log_prob = policy().act(obs, np.random.default_rng(0))
    assert (action.dtype, log_prob.dtype) == (np.int64, np.float32)
    assert action.shape == log_prob.shape == (count,)
    expected = reference_log_probs(obs)
    np.testing.assert_allclose(log_prob, expected[np.arange(count), action - 10], atol=1e-5)
    np.testing.assert_array_equal(policy().greedy(obs), expected.argmax(1) + 10)


def test_impossible_actions_are_never_drawn_and_large_logits_stay_finite() -> None:
    made = NumpyMLPPolicy(MLPPolicySpec((1,), 3, 0, (), "relu", False).to_json())
    weight = np.array([[-1000.0], [1000.0], [1000.0]], np.float32)
    made.load({"policy.0.weight": weight, "policy.0.bias": np.zeros(3, np.float32)})
    action, log_prob = made.act(np.ones((5000, 1), np.float32), np.random.default_rng(0))
    assert set(action.tolist()) == {1, 2}
    np.testing.assert_allclose(log_prob, -np.log(2), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("normalise", [True, False])
def test_observations_of_any_number_type_are_taken(dtype: Any, normalise: bool) -> None:
    spec = MLPPolicySpec((2, 2), 4, 0, (16, 8), "tanh", normalise)
    obs = np.arange(12).reshape(3, 2, 2)
    action = np.array([0, 1, 2])
    expected = policy(spec).log_prob(obs.astype(np.float32), action)
    np.testing.assert_allclose(policy(spec).log_prob(obs.astype(dtype), action), expected, atol=1e-6)


def test_many_batch_sizes_do_not_grow_the_memory() -> None:
    made = policy()
    for count in range(1, 60):
        assert made.greedy(observations(count)).shape == (count,)
    assert len(made._buffers) <= 16


def test_clients_need_no_torch() -> None:
    code = (
        "import soulsgui.policies.exploration, soulsgui.environments.check, soulsgui.environments.step, sys;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
