import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.rl.gradients.dqn import AutogradDQNGradient, DQNRows
from soulsgui.rl.gradients.dqn_by_hand import HandDQNGradient
from soulsgui.rl.gradients.mlp_by_hand import HandMLP
from soulsgui.rl.networks.mlp import build_mlp
from soulsgui.rl.optimiser import FlatParameters
from tests.rl.support import dqn_settings, transitions

cases = st.builds(
    SimpleNamespace,
    activation=st.sampled_from(["tanh", "relu"]),
    hidden_sizes=st.sampled_from([(), (16,), (64, 64), (8, 8, 8)]),
    actions=st.integers(1, 5),
    masked=st.booleans(),
    count=st.integers(1, 70),
    double=st.booleans(),
    loss=st.sampled_from(["huber", "mse"]),
    gamma=st.sampled_from([0.0, 0.9, 1.0]),
    weighted=st.booleans(),
    seed=st.integers(0, 2**16),
)


@settings(max_examples=60, deadline=None)
@given(case=cases)
def test_equals_autograd(case: Any) -> None:
    generator = torch.Generator().manual_seed(case.seed)
    online = build_mlp(4, case.hidden_sizes, case.actions, case.activation, 1.0, generator)
    target = build_mlp(4, case.hidden_sizes, case.actions, case.activation, 1.0, generator)
    flat = FlatParameters([online])
    fixed = FlatParameters([target])
    rows = random_rows(case.count, case.actions, case.seed, case.gamma)
    # At the bend of a ReLU rounding decides which way it goes, and both are right.
    values = torch.as_tensor(rows.obs)
    for layer in online if case.activation == "relu" else ():
        values = layer(values)
        assume(not isinstance(layer, torch.nn.Linear) or values.abs().min() > 1e-6)
    if case.weighted:
        weight = np.random.default_rng(case.seed).random(case.count, np.float32)
        rows = rows._replace(weight=weight)
    if case.masked:
        mask = np.random.default_rng(case.seed).random((case.count, case.actions)) < 0.5
        mask[:, 0] |= ~mask.any(axis=1)
        rows = rows._replace(next_mask=mask)
    dqn = dqn_settings(double=case.double, loss=case.loss).dqn
    expected = AutogradDQNGradient(online, target, flat)(rows, dqn)
    gradient = flat.gradient.clone()
    flat.gradient.fill_(7.0)
    step = HandDQNGradient(HandMLP(online), HandMLP(target))(rows, dqn)
    torch.testing.assert_close(flat.gradient, gradient, atol=2e-5, rtol=1e-4)
    for found, wanted in zip(step, expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
    assert not fixed.gradient.any(), "the target network does not learn"


def random_rows(count: int, actions: int, seed: int = 0, gamma: float = 0.9) -> DQNRows:
    spaces = SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(actions))
    batch = transitions(count, seed, spaces)
    # Half a unit wide: the errors lie on both sides of Huber's bend.
    discount = np.where(batch.discount == 0, np.float32(0), np.float32(gamma))
    return DQNRows(batch.obs / 4, batch.action, 0.5 * batch.reward, batch.next_obs / 4, discount)


def test_figures_are_those_of_a_linear_network() -> None:
    online = build_mlp(4, (), 2, "tanh", 1.0, torch.Generator().manual_seed(0))
    target = copy.deepcopy(online)
    flat, _ = FlatParameters([online]), FlatParameters([target])
    with torch.no_grad():
        for network, biases in ((online, (2.0, 5.0)), (target, (10.0, 30.0))):
            network[0].weight.zero_()
            network[0].bias.copy_(torch.tensor(biases))
    rows = random_rows(2, 2)._replace(
        action=np.array([0, 1]), reward=np.float32([1, 4]), discount=np.float32([0.5, 0])
    )
    figures, error = HandDQNGradient(HandMLP(online), HandMLP(target))(rows, dqn_settings().dqn)
    # Values 2 and 5; targets 1 + 0.5 * 30 (the online network's choice, 1) and 4; errors -14 and 1.
    assert figures.tolist() == pytest.approx([(13.5 + 0.5) / 2, 3.5, 10.0, 7.5])
    assert error.tolist() == pytest.approx([14.0, 1.0])
    assert flat.gradient[-2:].tolist() == pytest.approx([-0.5, 0.5])
