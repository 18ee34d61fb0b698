"""Noisy layers: factorised noise with the moments of its source."""

import math

import pytest
import torch
from torch import nn

from soulsgui.rl.networks.noisy import NoisyLinear, resample_noise


def layer(inputs: int = 16, outputs: int = 8, seed: int = 0) -> NoisyLinear:
    return NoisyLinear(inputs, outputs, torch.Generator().manual_seed(seed))


def noisy_weights(noisy: NoisyLinear) -> tuple[torch.Tensor, torch.Tensor]:
    """Read weight and bias off the layer's outputs, as if it were an ordinary one."""
    inputs = noisy.weight.shape[1]
    bias = noisy(torch.zeros(1, inputs))[0]
    return (noisy(torch.eye(inputs)) - bias).T, bias


def test_means_and_sigmas_begin_as_in_the_source() -> None:
    noisy = layer(100, 400)
    assert 0.099 < noisy.weight.abs().max().item() <= 0.1
    assert noisy.weight.std().item() == pytest.approx(0.1 / math.sqrt(3), rel=0.02)
    assert noisy.bias.abs().max().item() <= 0.1
    assert (noisy.weight_sigma == 0.05).all()
    assert (noisy.bias_sigma == 0.05).all()


def test_without_noise_it_is_a_linear_layer() -> None:
    noisy, inputs = layer(), torch.randn(5, 16)
    plain = nn.functional.linear(inputs, noisy.weight, noisy.bias)
    torch.testing.assert_close(noisy(inputs), plain)
    resample_noise(noisy, torch.Generator().manual_seed(1))
    assert not torch.allclose(noisy(inputs), plain)
    torch.testing.assert_close(noisy.eval()(inputs), plain)


def test_noise_is_the_outer_product_of_one_number_per_input_and_output() -> None:
    noisy = layer()
    resample_noise(noisy, torch.Generator().manual_seed(1))
    generator = torch.Generator().manual_seed(1)
    raw_in, raw_out = torch.randn(24, generator=generator).split((16, 8))
    f_in, f_out = (raw.sign() * raw.abs().sqrt() for raw in (raw_in, raw_out))
    weight, bias = noisy_weights(noisy)
    torch.testing.assert_close(weight, noisy.weight + 0.125 * torch.outer(f_out, f_in), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(bias, noisy.bias + 0.125 * f_out, atol=1e-6, rtol=1e-5)


def test_noise_has_the_variance_of_factorised_noise() -> None:
    # E f(e)² = E|e| = √(2/π), so that a weight's noise has variance σ² · 2/π, and a bias's σ² · √(2/π).
    noisy, generator = layer(), torch.Generator().manual_seed(0)
    weights, biases = [], []
    for _ in range(3_000):
        resample_noise(noisy, generator)
        weight, bias = noisy_weights(noisy)
        weights.append(weight.detach() - noisy.weight.detach())
        biases.append(bias.detach() - noisy.bias.detach())
    assert torch.stack(weights).mean().item() == pytest.approx(0, abs=2e-3)
    assert torch.stack(weights).var().item() == pytest.approx(0.125**2 * 2 / math.pi, rel=0.05)
    assert torch.stack(biases).var().item() == pytest.approx(0.125**2 * math.sqrt(2 / math.pi), rel=0.05)


def test_sigmas_learn() -> None:
    noisy = layer()
    resample_noise(noisy, torch.Generator().manual_seed(1))
    noisy(torch.ones(1, 16)).sum().backward()
    assert noisy.weight_sigma.grad is not None
    torch.testing.assert_close(noisy.weight_sigma.grad, torch.outer(noisy.noise_out, noisy.noise_in))


def test_all_noisy_layers_of_a_network_are_drawn_anew_by_the_generator_alone() -> None:
    network = nn.Sequential(layer(), nn.ReLU(), nn.Sequential(layer(8, 4)))
    outputs = []
    for seed in (1, 1, 2):
        resample_noise(network, torch.Generator().manual_seed(seed))
        outputs.append(network(torch.ones(1, 16)).tolist())
    assert outputs[0] == outputs[1] != outputs[2]


def test_the_noise_is_part_of_the_state() -> None:
    noisy, again = layer(), layer(seed=3)
    resample_noise(noisy, torch.Generator().manual_seed(1))
    again.load_state_dict(noisy.state_dict())
    assert torch.equal(noisy(torch.ones(1, 16)), again(torch.ones(1, 16)))
