import math

import pytest
import torch
from torch import nn

from soulsgui.rl.losses.q_learning import support
from soulsgui.rl.networks.mlp import fan_in_
from soulsgui.rl.networks.q_networks import (
    CategoricalNetwork,
    ImplicitQuantileNetwork,
    NoisyLinear,
    QHead,
    QuantileNetwork,
    ValueNetwork,
    resample_noise,
)
from soulsgui.rl.networks.shapes import shape_report
from soulsgui.rl.networks.torsos import Torso, perceptron

GENERATOR = torch.Generator()
OBS = torch.randn(7, 4, generator=torch.Generator().manual_seed(9))


def torso() -> Torso:
    return perceptron((4,), (32,), "relu", fan_in_, GENERATOR.manual_seed(0))


def head(atoms: int, dueling: bool = True, noisy: bool = False, hidden: int = 16) -> QHead:
    return QHead(32, 3, atoms, hidden, dueling, noisy, GENERATOR.manual_seed(1))


@pytest.mark.parametrize("atoms", [1, 5])
@pytest.mark.parametrize("hidden", [0, 16])
def test_dueling_advantages_have_mean_0_so_that_the_mean_over_actions_is_the_value(
    atoms: int, hidden: int
) -> None:
    features = torch.randn(6, 32)
    dueling = head(atoms, hidden=hidden)
    outputs = dueling(features)
    assert outputs.shape == (6, 3, atoms)
    assert dueling.value is not None
    torch.testing.assert_close(outputs.mean(1), dueling.value(features), atol=1e-6, rtol=1e-5)
    advantage = dueling.advantage(features).view(6, 3, atoms)
    between = outputs[:, 0] - outputs[:, 2]
    torch.testing.assert_close(between, advantage[:, 0] - advantage[:, 2], atol=1e-6, rtol=1e-5)


def test_a_noisy_head_has_noise_in_all_its_layers() -> None:
    layers = [one for one in head(5, noisy=True).modules() if next(one.parameters(False), None) is not None]
    assert [type(one) for one in layers] == [NoisyLinear] * 4


def test_values_are_those_of_the_head_or_the_means_of_what_it_says() -> None:
    plain, quantiles = ValueNetwork(torso(), head(1)), QuantileNetwork(torso(), head(5))
    assert (plain(OBS).shape, quantiles(OBS).shape) == ((7, 3), (7, 3, 5))
    assert torch.equal(plain(OBS), plain.values(OBS))
    torch.testing.assert_close(quantiles.values(OBS), quantiles(OBS).mean(2))
    atoms = CategoricalNetwork(torso(), head(5), support(-2.0, 2.0, 5))
    probs = atoms(OBS).exp()
    torch.testing.assert_close(probs.sum(2), torch.ones(7, 3))
    expected = -2 * probs[..., 0] - probs[..., 1] + probs[..., 3] + 2 * probs[..., 4]
    torch.testing.assert_close(atoms.values(OBS), expected, atol=1e-6, rtol=1e-5)


def test_an_implicit_network_gives_each_level_its_own_quantile() -> None:
    network = ImplicitQuantileNetwork(torso(), head(1), GENERATOR.manual_seed(2), cosines=8)
    level = torch.rand(7, 6)
    quantiles = network(OBS, level)
    assert quantiles.shape == (7, 3, 6)
    alone = network(OBS[2:3], level[2:3, 4:5])
    torch.testing.assert_close(quantiles[2, :, 4], alone[0, :, 0], atol=1e-6, rtol=1e-5)
    # The embedding written out for one sample and level (eq. 4).
    cosines = torch.tensor([math.cos(math.pi * i * level[2, 4].item()) for i in range(8)])
    mixed = torso()(OBS[2:3]) * network.embedding(cosines).relu()
    torch.testing.assert_close(alone[0, :, 0], network.head(mixed)[0, :, 0], atol=1e-6, rtol=1e-5)


def test_an_implicit_network_values_alike_what_it_sees_twice() -> None:
    network = ImplicitQuantileNetwork(torso(), head(1), GENERATOR.manual_seed(2))
    even = ((torch.arange(32) + 0.5) / 32).expand(7, -1)
    assert torch.equal(network.values(OBS), network.values(OBS))
    torch.testing.assert_close(network.values(OBS), network(OBS, even).mean(2))


def test_a_report_counts_every_parameter_of_a_network() -> None:
    network = ImplicitQuantileNetwork(torso(), head(1, noisy=True), GENERATOR.manual_seed(2))
    report = shape_report(network, OBS, torch.rand(7, 6))
    assert sum(layer.parameters for layer in report) == sum(p.numel() for p in network.parameters())
    assert {"torso.layers.1", "embedding", "head.advantage.0", "head.value.2"} <= {
        layer.name for layer in report
    }


def layer(inputs: int = 16, outputs: int = 8, seed: int = 0) -> NoisyLinear:
    return NoisyLinear(inputs, outputs, torch.Generator().manual_seed(seed))


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
    bias = noisy(torch.zeros(1, 16))[0]
    weight = (noisy(torch.eye(16)) - bias).T  # as if it were an ordinary layer
    torch.testing.assert_close(weight, noisy.weight + 0.125 * torch.outer(f_out, f_in), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(bias, noisy.bias + 0.125 * f_out, atol=1e-6, rtol=1e-5)


def test_all_noisy_layers_of_a_network_are_drawn_anew_by_the_generator_alone() -> None:
    network = nn.Sequential(layer(), nn.ReLU(), nn.Sequential(layer(8, 4)))
    outputs = []
    for seed in (1, 1, 2):
        resample_noise(network, torch.Generator().manual_seed(seed))
        outputs.append(network(torch.ones(1, 16)).tolist())
    assert outputs[0] == outputs[1] != outputs[2]
