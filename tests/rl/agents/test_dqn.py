"""The DQN agent: one gradient step, the target network, and the same curve after a resume."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.policies.normalise import normalise
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.rl.agents.dqn import DQNAgent
from tests.rl.support import SPACES, dqn_settings, transitions


def trained_agent(seed: int = 0, updates: int = 3, spaces: SpacesSpec = SPACES, **changes: Any) -> DQNAgent:
    agent = DQNAgent(spaces, dqn_settings(**changes), seed)
    for index in range(updates):
        batch = transitions(16, index, spaces)
        agent.observe(batch.obs)
        agent.update(batch)
    return agent


def numpy_policy(agent: DQNAgent) -> NumpyMLPPolicy:
    policy = NumpyMLPPolicy(json.loads(json.dumps(agent.policy_spec())))
    policy.load(agent.export_weights())
    return policy


def weights(agent: DQNAgent, network: str) -> NDArray[np.float32]:
    """Return all parameters of `online` or `target`, end to end."""
    tensors, _ = agent.state()
    return np.concatenate([tensors[name].ravel() for name in sorted(tensors) if name.startswith(network)])


@pytest.mark.parametrize("observations", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_numpy_and_torch_take_the_same_greedy_action_on_10000_inputs(
    activation: str, observations: bool
) -> None:
    agent = trained_agent(activation=activation, observations=observations)
    policy = numpy_policy(agent)
    obs = np.random.default_rng(1).normal(3, 2, (10_000, 4)).astype(np.float32)
    inputs = normalise(obs, agent.normaliser.frozen()) if observations else obs
    with torch.no_grad():
        best_two = agent.online(torch.from_numpy(inputs)).topk(2, dim=1)
    expected = best_two.indices[:, 0].numpy() + 1
    assert len(set(expected.tolist())) > 1, "the values depend on the observation"
    decided = (best_two.values[:, 0] - best_two.values[:, 1] > 1e-5).numpy()
    assert decided.mean() > 0.99
    np.testing.assert_array_equal(policy.greedy(obs)[decided], expected[decided])


def test_a_hard_target_is_a_copy_at_each_interval_and_stands_still_between() -> None:
    agent = trained_agent(updates=0, target_interval=3, target_tau=1.0)
    first = weights(agent, "online")
    assert np.array_equal(weights(agent, "target"), first), "equal at the beginning"
    for update in range(1, 7):
        agent.update(transitions(16, update))
        if update % 3 == 0:
            first = weights(agent, "online")
        assert np.array_equal(weights(agent, "target"), first)
        assert np.array_equal(weights(agent, "online"), first) == (update % 3 == 0)


def test_a_soft_target_goes_its_part_of_the_way() -> None:
    agent = trained_agent(updates=0, target_interval=1, target_tau=0.25)
    for update in range(3):
        before = weights(agent, "target")
        agent.update(transitions(16, update))
        expected = before + 0.25 * (weights(agent, "online") - before)
        np.testing.assert_allclose(weights(agent, "target"), expected, rtol=1e-6, atol=1e-7)
        assert not np.array_equal(weights(agent, "target"), before)


def test_a_final_state_is_not_looked_beyond_and_a_cut_off_one_is() -> None:
    """Steps that all end finally learn their rewards; the same steps cut off learn more."""
    batch = transitions(64)
    batch = batch._replace(reward=np.ones(64, np.float32))
    learned = {}
    for terminated in (True, False):
        agent = DQNAgent(SPACES, dqn_settings(target_interval=10), seed=0)
        agent.observe(batch.obs)
        looped = batch._replace(
            next_obs=batch.obs, discount=np.full(64, 0.0 if terminated else 0.5, np.float32)
        )
        for _ in range(600):
            agent.update(looped)
        agent.figures()
        agent.update(looped)
        learned[terminated] = agent.figures()["q_mean"]
    assert learned[True] == pytest.approx(1.0, abs=0.05)
    assert learned[False] > 1.5


def test_the_gradient_norm_is_told_as_it_was_before_clipping() -> None:
    free, clipped = (trained_agent(updates=1, max_grad_norm=limit) for limit in (1e9, 1e-3))
    assert free.figures()["grad_norm"] == clipped.figures()["grad_norm"] > 0.01
    assert torch.linalg.vector_norm(clipped._flat.gradient).item() == pytest.approx(1e-3, rel=1e-2)


def test_image_like_and_integer_observations_are_flattened() -> None:
    spaces = SpacesSpec(BoxSpec((3, 2), "uint8", (0,), (255,)), DiscreteSpec(2))
    agent = trained_agent(spaces=spaces)
    obs = np.random.default_rng(0).integers(0, 7, (200, 3, 2)).astype(np.uint8)
    np.testing.assert_array_equal(numpy_policy(agent).greedy(obs), agent.outputs(obs).argmax(1))
    assert np.isfinite(list(agent.figures().values())).all()


def test_the_greedy_action_is_a_valid_one() -> None:
    agent, rng = trained_agent(updates=5), np.random.default_rng(0)
    obs = rng.normal(3, 2, (200, 4)).astype(np.float32)
    mask = rng.random((200, 3)) < 0.5
    mask[:, 1] |= ~mask.any(axis=1)
    policy = numpy_policy(agent)
    greedy = policy.greedy(obs, mask)
    assert mask[np.arange(200), greedy - 1].all()
    everything = np.ones((200, 3), np.bool_)
    np.testing.assert_array_equal(policy.greedy(obs, everything), policy.greedy(obs))


def test_only_valid_next_actions_enter_the_target() -> None:
    batch = transitions(16)
    targets = []
    for valid in ([0, 1, 2], [0], [1], [2]):
        agent = trained_agent(updates=3)
        agent.figures()
        mask = np.isin(np.arange(3), valid)
        agent.update(batch._replace(next_mask=np.tile(mask, (16, 1))))
        targets.append(agent.figures()["target_mean"])
    agent = trained_agent(updates=3)
    agent.figures()
    agent.update(batch)
    assert agent.figures()["target_mean"] == targets[0]
    assert len(set(targets[1:])) == 3
