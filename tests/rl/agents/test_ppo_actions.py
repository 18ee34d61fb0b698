"""PPO over actions of every kind: the same numbers as the numpy policy, right gradients, and it learns."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.rl.agents.ppo import PPOAgent
from tests.environments.toys import SPACES_TAKEN
from tests.experience.segments import segments_of
from tests.rl.agents.cases import STATE
from tests.rl.agents.cases import taking as spaces_of
from tests.rl.support import client_of, ppo_settings, random_batch


def trained(takes: str, updates: int = 1, **changes: Any) -> PPOAgent:
    agent = PPOAgent(spaces_of(takes), ppo_settings(minibatch_size=32, **changes), 0)
    for index in range(updates):
        agent.update(random_batch(agent, seed=index), START)
    return agent


def in_torch(agent: PPOAgent, obs: NDArray[Any], mask: NDArray[np.bool_] | None = None) -> Any:
    """Return the torch distribution at raw observations."""
    with torch.no_grad():
        allowed = None if mask is None else torch.from_numpy(mask)
        return agent.head.distribution(agent.policy(agent._inputs(obs)), allowed)


def observations(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(3, 2, (count, 4)).astype(np.float32)


@pytest.mark.parametrize("changes", [{}, STATE, {"squash": "clip"}])
def test_the_same_noise_gives_the_same_action(changes: dict[str, Any]) -> None:
    agent = trained("box", policy_init_scale=1.0, **changes)
    obs = observations(10_000)
    drawn, _ = client_of(agent).act(obs, np.random.default_rng(7))
    noise = np.random.default_rng(7).standard_normal(drawn.shape, dtype=np.float32)
    gaussian = in_torch(agent, obs)
    gaussian = getattr(gaussian, "_gaussian", gaussian)
    mean, std = gaussian.mean.numpy(), gaussian.std.numpy()
    np.testing.assert_allclose(drawn, mean + std * noise, rtol=1e-5, atol=1e-5)
    assert (np.ptp(std, axis=0) > 0.01).all() == (changes is STATE), "deviations follow the observation"


@pytest.mark.parametrize("takes", ["choices", "table"])
def test_masks_reach_every_choice(takes: str) -> None:
    agent = PPOAgent(spaces_of(takes, masked=True), ppo_settings(policy_init_scale=1.0), 0)
    spec: Any = agent.spaces.action
    rng, obs = np.random.default_rng(3), observations(10_000)
    mask = rng.random((len(obs), sum(spec.sizes))) < 0.4
    mask[:, np.cumsum(spec.sizes) - 1] = True
    action, log_prob = client_of(agent).act(obs, rng, mask)
    rows = np.arange(len(obs))
    assert spec.allowed(action, mask, rows).all()
    assert spec.allowed(client_of(agent).greedy(obs, mask), mask, rows).all()
    drawn = torch.from_numpy(agent.head.drawn(action))
    expected = in_torch(agent, obs, mask).log_prob(drawn).numpy()
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5, atol=1e-5)
    assert (log_prob > in_torch(agent, obs).log_prob(drawn).numpy() + 1e-3).mean() > 0.9


def _softplus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.logaddexp(x, 0)


def _gauss(x: Any, mean: Any, std: Any) -> Any:
    return -0.5 * ((x - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)


def _numbers(
    out: NDArray[Any], raw: Any, action: NDArray[Any], initial: float, exponential: bool
) -> tuple[Any, Any]:
    """Log-density and entropy of squashed actions, written out; the Jacobian does not move with weights."""
    size = action.shape[1]
    raw = out[:, size:] if raw is None else raw
    std = _softplus(raw + np.log(np.expm1(initial - 1e-3))) + 1e-3
    if exponential:
        std = (initial - 1e-3) * np.exp(raw) + 1e-3
    log_prob = _gauss(action, out[:, :size], std).sum(1)
    low, high = SPACES_TAKEN["box"].low, SPACES_TAKEN["box"].high  # type: ignore[attr-defined]
    log_prob = log_prob - (np.log1p(-(np.tanh(action) ** 2)) + np.log((high - low) / 2)).sum(1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    u = out[:, :size, None] + (std * np.ones((len(out), size)))[..., None] * nodes
    slope = (2 * (np.log(2) - u - _softplus(-2 * u))) @ weights / np.sqrt(2 * np.pi)
    entropy = np.log(std) + 0.5 * np.log(2 * np.pi * np.e) + slope + np.log((high - low) / 2)
    return log_prob, entropy.sum(1)


def _choices(out: NDArray[Any], action: NDArray[Any], mask: NDArray[np.bool_]) -> tuple[Any, Any]:
    log_prob, entropy, first = 0.0, 0.0, 0
    for choice, size in enumerate(SPACES_TAKEN["choices"].nvec.tolist()):  # type: ignore[attr-defined]
        allowed = mask[:, first : first + size]
        logits = np.where(allowed, out[:, first : first + size], -np.inf)
        logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
        log_prob = log_prob + logs[np.arange(len(out)), action[:, choice]]
        entropy = entropy - np.where(allowed, np.exp(logs) * np.where(allowed, logs, 0), 0).sum(1)
        first += size
    return log_prob, entropy


def _switches(out: NDArray[Any], action: NDArray[Any]) -> tuple[Any, Any]:
    yes = 1 / (1 + np.exp(-out))
    log_prob = np.where(action > 0, np.log(yes), np.log(1 - yes)).sum(1)
    return log_prob, -(yes * np.log(yes) + (1 - yes) * np.log(1 - yes)).sum(1)


@pytest.mark.parametrize(
    ("takes", "changes"),
    [
        ("box", {}),
        ("box", STATE),
        ("box", {"std_transform": "exponential"}),
        ("choices", {}),
        ("switches", {}),
    ],
)
def test_the_gradient_is_that_of_the_loss_written_out(takes: str, changes: dict[str, Any]) -> None:
    """By central differences in float64 over every parameter of a linear policy."""
    sizes: dict[str, Any] = {"hidden_sizes": (), "value_hidden_sizes": (), "policy_init_scale": 0.3}
    settings = ppo_settings(entropy_coef=0.1, value_coef=0.7, **sizes, **changes)
    agent = PPOAgent(spaces_of(takes, masked=takes == "choices"), settings, 0)
    batch, rng = random_batch(agent), np.random.default_rng(0)
    mask = np.ones((len(batch.obs), 9 if takes == "choices" else 0), np.bool_)
    if takes == "choices":
        mask[::2, [1, 4, 6]] = False
        action, log_prob = client_of(agent).act(batch.obs[batch.step_rows], rng, mask[batch.step_rows])
        batch = replace(batch, action=action, log_prob=log_prob, action_mask=mask)
    batch = replace(batch, log_prob=batch.log_prob + rng.normal(0, 0.3, batch.steps).astype(np.float32))
    rows, _ = agent._first_targets(batch, agent._inputs(batch.obs))
    agent._gradient(rows, settings.ppo)
    obs, action, old, advantage, target, _, allowed = (column.numpy().astype(np.float64) for column in rows)

    def loss(flat: NDArray[np.float64]) -> float:
        outputs = agent.head.spec.outputs
        weight, bias = flat[: 4 * outputs].reshape(outputs, 4), flat[4 * outputs : 5 * outputs]
        value = obs @ flat[5 * outputs : 5 * outputs + 4] + flat[5 * outputs + 4]
        out = obs @ weight.T + bias
        if takes == "box":
            raw = None if changes is STATE else flat[5 * outputs + 5 :]
            log_prob, entropy = _numbers(out, raw, action, 0.5, "std_transform" in changes)
        elif takes == "choices":
            log_prob, entropy = _choices(out, action.astype(int), allowed > 0)
        else:
            log_prob, entropy = _switches(out, action)
        ratio = np.exp(log_prob - old)
        policy = -np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage).mean()
        return float(policy + 0.7 * 0.5 * np.square(value - target).mean() - 0.1 * entropy.mean())

    at = agent._flat.parameter.detach().numpy().astype(np.float64)
    steps = np.eye(len(at)) * 1e-6
    expected = np.array([(loss(at + step) - loss(at - step)) / 2e-6 for step in steps])
    np.testing.assert_allclose(agent._flat.gradient.numpy(), expected, rtol=2e-3, atol=2e-4)
    assert np.abs(expected).min() < np.abs(expected).max()


def round_of(agent: PPOAgent, rng: Any, reward: Callable[[NDArray[Any]], NDArray[Any]]) -> Segments:
    """Return 512 episodes of one step; the reward depends on what the environment takes."""
    obs = rng.normal(size=(1024, 4)).astype(np.float32)
    policy = client_of(agent)
    action, log_prob = policy.act(obs[::2], rng)
    return segments_of(
        obs=obs,
        length=np.ones(512, np.int64),
        action=action,
        log_prob=log_prob,
        reward=reward(policy.to_environment(action)).astype(np.float32),
        terminated=np.ones(512, np.bool_),
    )


def _to_the_point(action: NDArray[Any]) -> NDArray[Any]:
    return -np.abs(action - np.float32([1.5, 0.9, 5.1])).sum(1) * np.array(10.0)


def _to_the_numbers(action: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = (action == [2, 5, 1]).sum(1)
    return found


def _to_the_switches(action: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = (action == [1, 0, 1, 1, 0]).sum(1)
    return found


@pytest.mark.parametrize(
    ("takes", "reward", "changes", "best", "near"),
    [
        ("box", _to_the_point, {}, [1.5, 0.9, 5.1], 0.12),
        ("choices", _to_the_numbers, {}, [2, 5, 1], 0),
        ("switches", _to_the_switches, {}, [1, 0, 1, 1, 0], 0),
    ],
)
def test_it_finds_the_best_action(
    takes: str, reward: Any, changes: dict[str, Any], best: list[float], near: float
) -> None:
    settings = ppo_settings(learning_rate=0.003, gamma=0.0, hidden_sizes=(16,), **changes)
    agent, rng = PPOAgent(spaces_of(takes), settings, 0), np.random.default_rng(0)
    for _ in range(12):
        agent.update(round_of(agent, rng, reward), START)
    policy, obs = client_of(agent), observations(200)
    np.testing.assert_allclose(
        policy.to_environment(policy.greedy(obs / 10)).mean(axis=0), best, atol=near or 1e-6
    )
