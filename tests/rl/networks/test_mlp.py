import math

import torch
from torch import nn

from soulsgui.rl.networks.mlp import build_mlp, named_layers
from soulsgui.rl.optimiser import FlatParameters, clip_norm_


def build() -> nn.Sequential:
    return build_mlp(4, (64, 32), 2, "tanh", 0.01, torch.Generator().manual_seed(0))


def test_weights_are_orthogonal_and_scaled_and_biases_zero() -> None:
    for index, (_, tensor) in enumerate(named_layers(build(), "p")):
        if tensor.dim() == 1:
            assert not tensor.any()
            continue
        narrow = tensor if tensor.shape[0] <= tensor.shape[1] else tensor.T
        scale = 0.01 if index == 4 else math.sqrt(2)
        identity = torch.eye(len(narrow)) * scale**2
        torch.testing.assert_close(narrow @ narrow.T, identity, atol=1e-5, rtol=1e-5)


def test_networks_and_flat_parameter_see_each_other() -> None:
    network = build()
    before = [p.detach().clone() for p in network.parameters()]
    flat = FlatParameters([network])
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True))
    network(torch.randn(5, 4)).sum().backward()
    assert flat.gradient.any()
    torch.testing.assert_close(
        flat.gradient, torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
    )
    flat.parameter.data.zero_()
    assert not any(p.any() for p in network.parameters())


def test_a_long_gradient_is_shortened_and_a_short_one_kept() -> None:
    long, short = torch.tensor([3.0, 4.0]), torch.tensor([0.3, 0.4])
    assert clip_norm_(long, 0.5).item() == 5.0
    torch.testing.assert_close(long, torch.tensor([0.3, 0.4]), atol=1e-6, rtol=1e-5)
    clip_norm_(short, 1.0)
    assert torch.equal(short, torch.tensor([0.3, 0.4]))
