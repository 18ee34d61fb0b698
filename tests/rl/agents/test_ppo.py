"""The PPO agent: the same numbers as the numpy policy, the same curve after a resume."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.schedules import START, Moment
from soulsgui.rl.agents.ppo import PPOAgent
from tests.rl.support import SPACES, ppo_settings, random_batch


def trained_agent(seed: int = 0, updates: int = 2, spaces: SpacesSpec = SPACES, **changes: Any) -> PPOAgent:
    agent = PPOAgent(spaces, ppo_settings(minibatch_size=32, **changes), seed)
    for index in range(updates):
        agent.update(random_batch(agent, seed=index), START)
    return agent


def numpy_policy(agent: PPOAgent) -> NumpyMLPPolicy:
    policy = NumpyMLPPolicy(json.loads(json.dumps(agent.policy_spec())))
    policy.load(agent.export_weights())
    return policy


def torch_log_probs(agent: PPOAgent, obs: NDArray[Any]) -> torch.Tensor:
    inputs = obs.reshape(len(obs), -1).astype(np.float32)
    if agent.settings.normalize.observations:
        inputs = agent.normaliser.normalise(obs)
    with torch.no_grad():
        return agent.policy(torch.from_numpy(inputs)).log_softmax(1)


@pytest.mark.parametrize("observations", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_numpy_and_torch_policies_agree_on_10000_inputs(activation: str, observations: bool) -> None:
    agent = trained_agent(activation=activation, observations=observations, policy_init_scale=1.0)
    policy = numpy_policy(agent)
    obs = np.random.default_rng(1).normal(3, 2, (10_000, 4)).astype(np.float32)
    expected = torch_log_probs(agent, obs)
    assert expected.exp().std(0).min() > 0.01, "the policy depends on the observation"
    rng = np.random.default_rng(2)
    for batch in (1, 3, 8, 2_000):
        for start in range(0, min(len(obs), 200 * batch), batch):
            part = obs[start : start + batch]
            action, log_prob = policy.act(part, rng)
            chosen = expected[start : start + batch].gather(1, torch.from_numpy(action - 1)[:, None])
            np.testing.assert_allclose(log_prob, chosen.squeeze(1).numpy(), atol=1e-5, rtol=1e-5)
            np.testing.assert_array_equal(policy.log_prob(part, action), log_prob)
    best_two = expected.topk(2, dim=1).values
    decided = (best_two[:, 0] - best_two[:, 1] > 1e-5).numpy()
    assert decided.mean() > 0.99
    np.testing.assert_array_equal(policy.greedy(obs)[decided], expected.argmax(1).numpy()[decided] + 1)


def test_the_ratio_is_1_on_the_first_minibatch_of_the_first_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = trained_agent(updates=2, learning_rate=0.01)
    assert agent.normaliser.count, "statistics have moved away from their start"
    ratios: list[torch.Tensor] = []
    gradient = agent._gradient

    class Recorder:
        values = staticmethod(gradient.values)

        def __call__(self, rows: Any, ppo: Any) -> Any:
            figures = gradient(rows, ppo)
            ratios.append(figures.samples.exp())
            return figures

    monkeypatch.setattr(agent, "_gradient", Recorder())
    agent.update(random_batch(agent, seed=5), START)
    torch.testing.assert_close(ratios[0], torch.ones_like(ratios[0]), atol=1e-5, rtol=0)
    assert (ratios[-1] - 1).abs().max() > 1e-3, "later ones have moved"


def test_statistics_change_only_with_the_update_that_used_the_old_ones() -> None:
    agent = trained_agent(updates=0)
    before = agent.export_weights()
    batch = random_batch(agent)
    agent.update(batch, START)
    after = agent.export_weights()
    assert not before["normaliser.mean"].any()
    np.testing.assert_allclose(after["normaliser.mean"], batch.obs[batch.step_rows].mean(0), rtol=1e-5)
    np.testing.assert_allclose(after["normaliser.var"], batch.obs[batch.step_rows].var(0), rtol=1e-5)


def test_schedules_follow_the_run_and_are_told() -> None:
    agent = trained_agent(
        updates=0,
        learning_rate={"schedule": "linear", "from": 1e-3, "to": 0.0},
        clip={"schedule": "exponential", "from": 0.4, "to": 0.1, "over": 2000},
        entropy_coef={"schedule": "piecewise", "points": [[0, 0.02], [500, 0.01], [1000, 0.0]]},
    )
    told = [agent.update(random_batch(agent), Moment(steps, 1000)) for steps in (0, 250, 1000)]
    assert [one["learning_rate"] for one in told] == pytest.approx([1e-3, 0.75e-3, 0])
    assert [one["clip"] for one in told] == pytest.approx([0.4, 0.4 * 0.25**0.125, 0.2])
    assert [one["entropy_coef"] for one in told] == pytest.approx([0.02, 0.015, 0])


def test_a_target_kl_ends_the_update_early() -> None:
    agent = trained_agent(updates=0, learning_rate=0.05, target_kl=1e-4)
    metrics = agent.update(random_batch(agent), START)
    assert metrics["epochs_done"] < 10
    assert metrics["approx_kl"] > 1e-4


def test_metrics_say_what_happened() -> None:
    agent = trained_agent(updates=0)
    metrics = agent.update(random_batch(agent), START)
    assert set(metrics) == {
        "policy_loss",
        "value_loss",
        "entropy",
        "grad_norm",
        "approx_kl",
        "clip_fraction",
        "explained_variance",
        "learning_rate",
        "epochs_done",
    }
    assert metrics["entropy"] == pytest.approx(np.log(3), abs=0.05)
    assert metrics["epochs_done"] == 10
    assert 0 <= metrics["clip_fraction"] <= 1
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics


def test_every_transition_is_used_once_a_pass_in_minibatches_of_nearly_equal_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    agent = trained_agent(updates=0, epochs=1)
    batch = random_batch(agent)
    seen: list[NDArray[np.float32]] = []
    gradient = agent._gradient

    class Recorder:
        values = staticmethod(gradient.values)

        def __call__(self, rows: Any, ppo: Any) -> Any:
            seen.append(rows.obs.numpy().copy())
            return gradient(rows, ppo)

    monkeypatch.setattr(agent, "_gradient", Recorder())
    agent.update(batch, START)
    assert [len(rows) for rows in seen] == [32, 32, 32, 32]
    used = np.concatenate(seen)
    acted = batch.obs[batch.step_rows]
    assert not np.array_equal(used, acted), "shuffled"
    np.testing.assert_array_equal(used[np.lexsort(used.T)], acted[np.lexsort(acted.T)])


def test_every_gradient_step_of_a_long_update_is_a_sign_of_life() -> None:
    agent = trained_agent(updates=0, epochs=3)
    batch = random_batch(agent, seed=0)
    seen: list[int] = []
    agent.after_step = lambda: seen.append(agent.updates)
    agent.update(batch, START)
    assert seen == [0] * 3 * round(batch.steps / 32)


def test_image_like_and_integer_observations_are_flattened() -> None:
    spaces = SpacesSpec(BoxSpec((3, 2), "uint8", (0,), (255,)), DiscreteSpec(2))
    agent = PPOAgent(spaces, ppo_settings(), seed=0)
    obs = np.random.default_rng(0).integers(0, 255, (9, 3, 2)).astype(np.uint8)
    expected = torch_log_probs(agent, obs).numpy()
    action = np.zeros(9, np.int64)
    np.testing.assert_allclose(numpy_policy(agent).log_prob(obs, action), expected[:, 0], atol=1e-5)


def test_masked_actions_change_neither_ratio_nor_choice() -> None:
    agent = trained_agent(policy_init_scale=1.0, learning_rate=0.0, epochs=1)
    rng, policy = np.random.default_rng(3), numpy_policy(agent)
    batch = random_batch(agent)
    mask = rng.random((len(batch.obs), 3)) < 0.5
    mask[:, 1] |= ~mask.any(axis=1)
    action, log_prob = policy.act(batch.obs[batch.step_rows], rng, mask[batch.step_rows])
    masked = replace(batch, action=action, log_prob=log_prob, action_mask=mask)
    assert mask[batch.step_rows, action - 1].all()
    figures = agent.update(masked, START)
    assert figures["approx_kl"] == pytest.approx(0, abs=1e-6)
    assert figures["clip_fraction"] == 0
    assert 0 < figures["entropy"] < np.log(3)
    assert agent.update(replace(masked, action_mask=None), START)["approx_kl"] > 0.01
    greedy = numpy_policy(agent).greedy(batch.obs, mask)
    assert mask[np.arange(len(mask)), greedy - 1].all()
    expected = np.where(mask, agent.outputs(batch.obs), -np.inf).argmax(1) + 1
    assert (greedy == expected).mean() > 0.99
