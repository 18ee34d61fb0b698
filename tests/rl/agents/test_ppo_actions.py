"""PPO over actions of every kind: the same numbers as the numpy policy, right gradients, and it learns."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Normal

from soulsgui.policies.exploration import START
from soulsgui.rl.agents.ppo import PPOAgent
from tests.environments.toys import SPACES_TAKEN
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


def slope_of(u: Tensor) -> Tensor:
    """Return the logarithm of what an action within the bounds of the box moves with `u`."""
    box: Any = SPACES_TAKEN["box"]
    return -2 * u.cosh().log() + torch.from_numpy((box.high - box.low) / 2).double().log()


def by_torch(takes: str, out: Tensor, std: Tensor, action: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-probabilities and entropies `[B]` by torch's own distributions."""
    if takes == "switches":
        switches = Bernoulli(logits=out)
        return switches.log_prob(action).sum(1), switches.entropy().sum(1)
    if takes == "choices":
        sizes = SPACES_TAKEN["choices"].nvec.tolist()  # type: ignore[attr-defined]
        logits = out.masked_fill(mask == 0, -torch.inf).split(sizes, 1)
        parts = [
            (Categorical(logits=one), taken) for one, taken in zip(logits, action.unbind(1), strict=True)
        ]
        return sum(one.log_prob(taken) for one, taken in parts), sum(one.entropy() for one, _ in parts)
    normal = Normal(out[:, : action.shape[1]], std)
    nodes, weights = (torch.from_numpy(x) for x in np.polynomial.hermite_e.hermegauss(32))
    u = (normal.mean + normal.stddev * nodes[:, None, None]).permute(1, 2, 0)
    spread = slope_of(u.transpose(1, 2)).transpose(1, 2) @ weights / math.sqrt(2 * math.pi)
    log_prob = normal.log_prob(action) - slope_of(action)
    return log_prob.sum(1), (normal.entropy() + spread).sum(1)


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
    """In float64, of a linear policy."""
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
    obs, action, old, advantage, target, *_ = (column.double() for column in rows)
    flat, outputs = agent._flat.parameter.detach().double().requires_grad_(), agent.head.spec.outputs
    weight, bias, value_weight, value_bias, own = flat.split(
        [4 * outputs, outputs, 4, 1, len(flat) - 5 * outputs - 5]
    )
    out = obs @ weight.view(outputs, 4).T + bias
    raw = out[:, action.shape[1] :] if changes is STATE else own
    std = nn.functional.softplus(raw + math.log(math.expm1(0.499))) + 1e-3
    if "std_transform" in changes:
        std = 0.499 * raw.exp() + 1e-3
    log_prob, entropy = by_torch(takes, out, std, action, torch.from_numpy(mask[batch.step_rows]))
    ratio = (log_prob - old).exp()
    policy_loss = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    value_loss = 0.5 * (obs @ value_weight + value_bias - target).square().mean()
    (expected,) = torch.autograd.grad(policy_loss + 0.7 * value_loss - 0.1 * entropy.mean(), flat)
    torch.testing.assert_close(agent._flat.gradient.double(), expected, rtol=1e-4, atol=1e-5)
    assert expected.min() < expected.max()
