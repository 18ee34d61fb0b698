"""Heads: what the environment takes for what was drawn, and back; descriptions that can't be read."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from soulsgui.environments.actions import action_from_space
from soulsgui.errors import CheckpointError
from soulsgui.policies.action_heads import ActionHead, HeadSpec
from soulsgui.policies.policy import actor_spec, make_policy
from soulsgui.policies.specs import MLPPolicySpec
from tests.environments.toys import SPACES_TAKEN


def head(space: spaces.Space[Any], **changed: Any) -> ActionHead:
    spec = HeadSpec(action_from_space(space).to_json(), **changed)
    return ActionHead(HeadSpec.from_json(json.loads(json.dumps(spec.to_json()))))


LATENT = np.float32([[0, 0, 0], [1, -1, 0.5], [50, -50, 1e9], [1e30, -1e30, 0]])


@pytest.mark.parametrize("squash", ["tanh", "clip"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_whatever_is_drawn_the_environment_gets_what_it_takes(squash: str, dtype: Any) -> None:
    # 0.1 and 0.7 have no exact float32.
    space = spaces.Box(np.array([-2, 0.1, 5], dtype), np.array([2, 0.7, 6], dtype), dtype=dtype)
    with np.errstate(over="ignore"):
        taken = head(space, squash=squash).to_environment(LATENT)
    assert taken.dtype == dtype
    assert all(space.contains(row) for row in taken)
    np.testing.assert_allclose(taken[0], [0, 0.4, 5.5], rtol=2e-3)
    part = np.tanh(LATENT[1]) if squash == "tanh" else LATENT[1]
    np.testing.assert_allclose(taken[1], np.float32([0, 0.4, 5.5]) + part * [2, 0.3, 0.5], rtol=2e-3)
    np.testing.assert_allclose(taken[2], [2, 0.1, 6], rtol=2e-3)


def test_numbers_without_both_bounds_are_taken_as_they_are_drawn() -> None:
    half = head(SPACES_TAKEN["half"])
    assert not half.spec.is_squashed
    np.testing.assert_array_equal(half.to_environment(np.float32([[7, 0.5], [-7, -3]])), [[7, 0.5], [0, -1]])
    free = head(SPACES_TAKEN["free"])
    np.testing.assert_array_equal(free.to_environment(np.float32([[1e9, -1e9]])), np.float32([[1e9, -1e9]]))
    wide = head(spaces.Box(np.float32([-3e38]), np.float32([3e38])))
    np.testing.assert_array_equal(wide.to_environment(np.float32([[2.5]])), [[2.5]])


@pytest.mark.parametrize("squash", ["tanh", "clip"])
def test_the_way_back_leads_to_the_same_action(squash: str) -> None:
    one = head(SPACES_TAKEN["box"], squash=squash)
    rng = np.random.default_rng(0)
    drawn = np.float32(rng.normal(0, 0.5, (1000, 3))).clip(-0.99, 0.99)
    np.testing.assert_allclose(one.from_environment(one.to_environment(drawn)), drawn, atol=2e-5)
    bounds = np.float32([[-2, 0, 5], [2, 1, 6]])
    back = one.from_environment(bounds)
    assert np.isfinite(back).all()
    np.testing.assert_allclose(one.to_environment(back), bounds, atol=1e-6)


@pytest.mark.parametrize("takes", ["choices", "table", "switches", "grid"])
def test_choices_are_stored_as_they_are_taken_laid_out_flat(takes: str) -> None:
    one, spec = head(SPACES_TAKEN[takes]), action_from_space(SPACES_TAKEN[takes])
    rng = np.random.default_rng(0)
    drawn = one.distribution(np.zeros((50, one.spec.outputs), np.float32)).sample(rng)
    stored = one.stored(drawn)
    assert spec.contains(stored).all()
    assert stored.dtype == spec.dtype
    np.testing.assert_array_equal(one.drawn(stored), drawn)
    assert all(SPACES_TAKEN[takes].contains(row) for row in one.to_environment(stored))
    assert one.from_environment(stored) is stored


NETWORK = MLPPolicySpec((2,), 3, 0, (4,), "tanh", normalise=False)
GOOD = actor_spec(NETWORK.to_json(), HeadSpec(action_from_space(SPACES_TAKEN["box"]).to_json()))


def _spoilt(**changed: Any) -> dict[str, Any]:
    return GOOD | {"head": GOOD["head"] | changed}


@pytest.mark.parametrize(
    "spec",
    [
        GOOD | {"network": GOOD["network"] | {"num_actions": 4}},
        _spoilt(std="both"),
        _spoilt(std="tanh"),  # a word of the squashing
        _spoilt(squash="sigmoid"),
        _spoilt(initial_std=0.0),
        _spoilt(initial_std="much"),
        _spoilt(std="state_dependent"),  # needs twice the outputs
        _spoilt(action=GOOD["head"]["action"] | {"dtype": "object"}),
        _spoilt(action=GOOD["head"]["action"] | {"low": [1, 2]}),
        _spoilt(action=GOOD["head"]["action"] | {"shape": [0]}),
    ],
)
def test_a_description_that_can_not_be_read_is_refused_with_a_remedy(spec: dict[str, Any]) -> None:
    make_policy(GOOD)
    with pytest.raises(CheckpointError, match="can't be read") as caught:
        make_policy(spec)
    assert "update the older one" in caught.value.remedy


def test_weights_without_deviations_are_refused() -> None:
    policy = make_policy(GOOD)
    tensors = {name: np.zeros(shape, np.float32) for name, shape in NETWORK.tensor_shapes().items()}
    with pytest.raises(CheckpointError, match=r"policy\.std of shape \(3,\) is missing"):
        policy.load(tensors)
    policy.load(tensors | {"policy.std": np.zeros(3, np.float32)})
    action, log_prob = policy.act(np.zeros((20_000, 2), np.float32), np.random.default_rng(0))
    np.testing.assert_allclose(action.std(axis=0), 0.5, rtol=0.03)  # initial_std
    assert log_prob.shape == (20_000,)
