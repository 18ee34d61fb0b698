"""A torso that remembers: any cut of time gives the same, and episodes don't leak into each other."""

import pytest
import torch

from soulsgui.config.sections.network import NetworkSettings
from soulsgui.environments.spaces import BoxSpec
from soulsgui.errors import UsageError
from soulsgui.rl.networks import recurrent
from soulsgui.rl.networks.mlp import fan_in_
from soulsgui.rl.networks.recurrent import CellName, RecurrentTorso, unroll_with_burn_in
from soulsgui.rl.networks.torsos import perceptron

OBS = torch.randn(12, 3, 4, generator=torch.Generator().manual_seed(9))
NEVER = torch.zeros(12, 3, dtype=torch.bool)


def build(cell: CellName) -> RecurrentTorso:
    generator = torch.Generator().manual_seed(0)
    return RecurrentTorso(perceptron((4,), (8,), "tanh", fan_in_, generator), 16, cell, generator)


@pytest.fixture(params=["lstm", "gru"])
def network(request: pytest.FixtureRequest) -> RecurrentTorso:
    return build(request.param)


def test_settings_without_a_cell_are_refused_with_what_to_set() -> None:
    with pytest.raises(UsageError, match="needs a memory"):
        recurrent.recurrent_torso(NetworkSettings(), BoxSpec((4,), "float32"), torch.Generator())


def test_segments_with_their_states_handed_on_equal_one_long_unroll(network: RecurrentTorso) -> None:
    begin = torch.randn(3, network.state_size)
    starts = NEVER.clone()
    starts[5, 1] = starts[8, 0] = starts[0, 2] = True
    whole, last = network(OBS, begin, starts)
    parts, state = [], begin
    for first, stop in ((0, 1), (1, 5), (5, 6), (6, 12)):
        part, state = network(OBS[first:stop], state, starts[first:stop])
        parts.append(part)
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(state, last, atol=1e-6, rtol=1e-5)


def test_an_episode_begins_without_memory_and_only_in_its_own_environment(network: RecurrentTorso) -> None:
    begin = torch.randn(3, network.state_size)
    starts = NEVER.clone()
    starts[5, 1] = True
    found, _ = network(OBS, begin, starts)
    plain, _ = network(OBS, begin, NEVER)
    fresh, _ = network(OBS[5:], torch.zeros(3, network.state_size), NEVER[5:])
    torch.testing.assert_close(found[5:, 1], fresh[:, 1], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found[:, [0, 2]], plain[:, [0, 2]], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found[:5, 1], plain[:5, 1], atol=1e-6, rtol=1e-5)
    assert not torch.allclose(found[5:, 1], plain[5:, 1], atol=1e-3)


def test_no_gradient_crosses_the_start_of_an_episode(network: RecurrentTorso) -> None:
    obs = OBS.clone().requires_grad_()
    starts = NEVER.clone()
    starts[5, 1] = True
    features, _ = network(obs, torch.zeros(3, network.state_size), starts)
    features[-1].sum().backward()
    assert obs.grad is not None
    assert not obs.grad[:5, 1].any()
    assert obs.grad[5:, 1].any()
    assert obs.grad[0, 0].any()


def test_burn_in_makes_the_state_present_but_learns_nothing(network: RecurrentTorso) -> None:
    obs = OBS.clone().requires_grad_()
    state = torch.randn(3, network.state_size)
    exact = torch.tensor([False, True, False])
    features = unroll_with_burn_in(network, obs, state, 4, exact)
    whole, _ = network(OBS, state, NEVER)
    torch.testing.assert_close(features, whole, atol=1e-6, rtol=1e-5)
    assert torch.equal(unroll_with_burn_in(network, OBS, state, 0, exact), whole)
    features[-1].sum().backward()
    assert obs.grad is not None
    assert not obs.grad[:4, [0, 2]].any()
    assert obs.grad[:4, 1].any(), "at the start of an episode every step is learned from"
    assert obs.grad[4:].any(2).all()


def test_a_burn_in_that_nobody_learns_from_keeps_nothing_for_a_gradient(network: RecurrentTorso) -> None:
    kept: list[bool] = []
    network.torso.register_forward_hook(lambda _, __, features: kept.append(features.requires_grad))
    state = torch.randn(3, network.state_size)
    found = [
        unroll_with_burn_in(network, OBS, state, 4, torch.tensor([some, False, False]))
        for some in (False, True)
    ]
    assert kept == [False, True, True, True]
    torch.testing.assert_close(*found)
    with torch.no_grad():
        assert not unroll_with_burn_in(network, OBS, state, 4, torch.ones(3, dtype=torch.bool)).requires_grad


def test_where_no_gradient_is_wanted_the_torso_sees_a_part_at_a_time(
    network: RecurrentTorso, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = torch.randn(3, network.state_size)
    whole = network(OBS, state, NEVER)[0].detach()
    monkeypatch.setattr(recurrent, "_AT_ONCE", 5)
    counts: list[int] = []
    network.torso.register_forward_hook(lambda _, inputs, __: counts.append(len(inputs[0])))
    with torch.no_grad():
        found = network(OBS, state, NEVER)[0]
    assert counts == [5] * 7 + [1]
    torch.testing.assert_close(found, whole, atol=1e-6, rtol=1e-5)
