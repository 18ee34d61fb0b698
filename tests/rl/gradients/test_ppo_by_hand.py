from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from soulsgui.rl.gradients.ppo import AutogradPPOGradient, PPORows, one_choice
from soulsgui.rl.gradients.ppo_by_hand import HandPPOGradient
from soulsgui.rl.networks.mlp import build_mlp
from soulsgui.rl.networks.named import sharing
from soulsgui.rl.optimiser import FlatParameters
from tests.rl.support import ppo_settings

cases = st.builds(
    SimpleNamespace,
    activation=st.sampled_from(["tanh", "relu"]),
    hidden_sizes=st.sampled_from([(), (16,), (64, 64), (8, 8, 8)]),
    masked=st.booleans(),
    actions=st.integers(1, 5),
    count=st.integers(1, 70),
    clip=st.sampled_from([0.05, 0.2, 0.5]),
    entropy_coef=st.sampled_from([0.0, 0.01, 1.0]),
    value_coef=st.sampled_from([0.5, 2.0]),
    value_clip=st.sampled_from([None, 0.1, 1.0]),
    value_huber=st.sampled_from([None, 0.5, 2.0]),
    shared=st.booleans(),
    seed=st.integers(0, 2**16),
)


@settings(max_examples=60, deadline=None)
@given(case=cases)
def test_equals_autograd(case: Any) -> None:
    generator = torch.Generator().manual_seed(case.seed)
    policy = build_mlp(4, case.hidden_sizes, case.actions, case.activation, 1.0, generator)
    if case.shared:
        value = cast(nn.Sequential, sharing(policy, 1.0, generator))
    else:
        value = build_mlp(4, case.hidden_sizes, 1, case.activation, 1.0, generator)
    flat = FlatParameters([policy, value])
    rows = _rows(policy, case, generator)
    names = "clip", "entropy_coef", "value_coef", "value_clip", "value_huber"
    ppo = ppo_settings(**{name: vars(case)[name] for name in names}).ppo
    autograd, by_hand = AutogradPPOGradient(policy, value, flat), HandPPOGradient(policy, value)
    expected = autograd(rows, ppo)
    gradient = flat.gradient.clone()
    flat.gradient.fill_(7.0)
    figures = by_hand(rows, ppo)
    torch.testing.assert_close(flat.gradient, gradient, atol=2e-6, rtol=1e-4)
    torch.testing.assert_close(figures.samples, expected.samples, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(figures.figures, expected.figures, atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(by_hand.values(rows.obs), autograd.values(rows.obs), atol=1e-5)
    flat.parameter.data.zero_()
    assert not by_hand.values(rows.obs).any(), "they follow the weights"


def _rows(policy: torch.nn.Module, case: Any, generator: torch.Generator) -> PPORows:
    """Random rows whose ratios lie on both sides of the clip."""

    def normal() -> torch.Tensor:
        return torch.randn(case.count, generator=generator)

    obs = torch.randn(case.count, 4, generator=generator)
    action = torch.randint(case.actions, (case.count,), generator=generator)
    mask = torch.rand((case.count, case.actions if case.masked else 0), generator=generator) < 0.5
    if case.masked:
        mask[torch.arange(case.count), action] = True
    with torch.no_grad():
        now = one_choice(policy(obs), mask).log_prob(action)
    return PPORows(obs, action, now + 0.3 * normal(), normal(), 3 * normal(), normal(), mask)


@pytest.mark.parametrize("told", [-1e30, -1e4])
def test_a_log_probability_that_nobody_can_mean_moves_nothing_by_its_step(told: float) -> None:
    case = SimpleNamespace(actions=3, masked=False, count=4)
    generator = torch.Generator().manual_seed(1)
    policy = build_mlp(4, (8,), 3, "tanh", 1.0, generator)
    value = build_mlp(4, (8,), 1, "tanh", 1.0, generator)
    flat = FlatParameters([policy, value])
    rows = _rows(policy, case, generator)
    rows.advantage[0], rows.log_prob[0] = -1.0, told
    ppo = ppo_settings(clip=0.2, entropy_coef=0.0).ppo
    expected = AutogradPPOGradient(policy, value, flat)(rows, ppo)
    gradient = flat.gradient.clone()
    figures = HandPPOGradient(policy, value)(rows, ppo)
    torch.testing.assert_close(flat.gradient, gradient, atol=2e-6, rtol=1e-4)
    assert figures.samples[0] == expected.samples[0] == 20.0
    # The step counts as one without an advantage, but for its value.
    rows.advantage[0] = 0.0
    HandPPOGradient(policy, value)(rows, ppo)
    torch.testing.assert_close(flat.gradient, gradient, atol=2e-6, rtol=1e-4)
