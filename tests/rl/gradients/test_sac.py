"""The gradient of soft actor-critic: by hand as by autograd, and autograd as by torch's own distributions."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from soulsgui.rl.distributions import softplus_std
from soulsgui.rl.gradients.sac import FIGURES, AutogradSACGradient, HandSACGradient, SACGradient, SACRows
from soulsgui.rl.networks.mlp import SACNetworks, build_sac_networks
from soulsgui.rl.optimiser import FlatParameters
from tests.rl.support import sac_settings

SIZE = 3


CASE = SimpleNamespace(
    activation="relu", hidden_sizes=(16, 8), numbers=2, count=20, initial_std=1.0, target_entropy=-2.0, seed=0
)
cases = st.builds(
    SimpleNamespace,
    activation=st.sampled_from(["tanh", "relu"]),
    hidden_sizes=st.sampled_from([(), (16,), (64, 64), (8, 8, 8)]),
    numbers=st.integers(1, 4),
    count=st.integers(1, 70),
    initial_std=st.sampled_from([0.2, 1.0]),
    target_entropy=st.sampled_from([None, -2.0, 0.5]),
    seed=st.integers(0, 2**16),
)


def networks(case: Any) -> SACNetworks:
    settings = sac_settings(
        hidden_sizes=case.hidden_sizes,
        value_hidden_sizes=case.hidden_sizes,
        activation=case.activation,
        policy_init_scale=1.0,
        initial_std=case.initial_std,
        initial_temperature=0.3,
    )
    generator = torch.Generator().manual_seed(case.seed)
    nets = build_sac_networks(
        SIZE, case.numbers, settings.network, settings.sac, generator, torch.device("cpu")
    )
    with torch.no_grad():
        for target in nets.targets:
            for parameter in target.parameters():
                parameter.mul_(1.5)  # as after a while: the targets are not the critics
    return nets


def rows(case: Any) -> SACRows:
    rng = np.random.default_rng(case.seed)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape, dtype=np.float32)

    return SACRows(
        obs=normal(case.count, SIZE),
        action=np.tanh(normal(case.count, case.numbers)),
        reward=normal(case.count),
        next_obs=normal(case.count, SIZE),
        discount=np.where(rng.random(case.count) < 0.2, 0, 0.9).astype(np.float32),
        noise=normal(2, case.count, case.numbers),
    )


def gradient_of(kind: Any, case: Any) -> tuple[dict[str, Tensor], Tensor]:
    """Return the gradients of actor, critics and temperature, and the figures."""
    nets = networks(case)
    flat, fixed = FlatParameters(nets.learning), FlatParameters(nets.targets)
    flat.gradient.fill_(7.0)  # what stood there is written over
    gradient: SACGradient = kind(nets, flat) if kind is AutogradSACGradient else kind(nets)
    figures = gradient(rows(case), case.target_entropy)
    assert not fixed.gradient.any(), "the target networks do not learn"
    size = sum(parameter.numel() for parameter in nets.actor.parameters())
    parts = {"actor": flat.gradient[:size], "critics": flat.gradient[size:-1]}
    return parts | {"temperature": flat.gradient[-1]}, figures


@settings(max_examples=25, deadline=None)
@given(case=cases)
def test_by_hand_equals_autograd(case: Any) -> None:
    found, figures = gradient_of(HandSACGradient, case)
    expected, expected_figures = gradient_of(AutogradSACGradient, case)
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=2e-5, rtol=1e-4, msg=name)
    torch.testing.assert_close(figures, expected_figures, atol=1e-5, rtol=1e-5)


def squashed(nets: SACNetworks, obs: Tensor) -> Independent:
    """Return the policy as torch's own distributions say it."""
    mean, raw = nets.actor(obs).chunk(2, dim=1)
    normal = Normal(mean, softplus_std(raw, nets.initial_std))
    return Independent(TransformedDistribution(normal, [TanhTransform()]), 1)


def test_autograd_is_the_gradient_of_the_papers_losses() -> None:
    """Eq. 5, 9 and 18 of arXiv 1812.05905, with densities by torch and every sum written out."""
    nets, given_rows, alpha = networks(CASE), rows(CASE), 0.3
    obs, action, reward, next_obs, discount, noise = (torch.from_numpy(x) for x in given_rows)

    def drawn(at: Tensor, chance: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = nets.actor(at).chunk(2, dim=1)
        fresh = torch.tanh(mean + softplus_std(raw, nets.initial_std) * chance)
        return fresh, squashed(nets, at).log_prob(fresh)

    def values(of: Any, at: Tensor, taken: Tensor) -> list[Tensor]:
        return [critic(torch.cat((at, taken), 1))[:, 0] for critic in of]

    with torch.no_grad():
        next_action, next_log_prob = drawn(next_obs, noise[0])
        next_value = torch.minimum(*values(nets.targets, next_obs, next_action)) - alpha * next_log_prob
        target = reward + discount * next_value
    first, second = values(nets.critics, obs, action)
    critic_loss = (0.5 * (first - target) ** 2 + 0.5 * (second - target) ** 2).mean()
    fresh, log_prob = drawn(obs, noise[1])
    actor_loss = (alpha * log_prob - torch.minimum(*values(nets.critics, obs, fresh))).mean()
    temperature_loss = (-nets.log_temperature.exp() * (log_prob.detach() - 2.0)).mean()
    critics = [parameter for critic in nets.critics for parameter in critic.parameters()]
    expected = {
        "actor": torch.autograd.grad(actor_loss, list(nets.actor.parameters())),
        "critics": torch.autograd.grad(critic_loss, critics),
        "temperature": torch.autograd.grad(temperature_loss, nets.log_temperature),
    }
    found, figures = gradient_of(AutogradSACGradient, CASE)
    for name, parts in expected.items():
        flat = torch.cat([part.reshape(-1) for part in parts])
        torch.testing.assert_close(found[name].reshape(-1), flat, atol=1e-5, rtol=1e-4, msg=name)
        assert flat.abs().max() > 1e-3
    q = torch.stack((first, second))
    told = (critic_loss, actor_loss, q.mean(), target.mean(), (q - target).abs().mean(), -log_prob.mean())
    torch.testing.assert_close(
        figures.figures, torch.stack([*told, torch.tensor(alpha)]), atol=1e-5, rtol=1e-4
    )
    assert len(figures.figures) == len(FIGURES)
