"""Torsos by name: their shapes, their initial weights, and what they refuse."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from soulsgui.errors import UsageError
from soulsgui.rl.networks.mlp import fan_in_
from soulsgui.rl.networks.shapes import LayerShape, shape_report
from soulsgui.rl.networks.torsos import Torso, mlp_layer_norm, mlp_torso, nature_cnn, perceptron


def build(name: str = "nature_cnn", shape: tuple[int, ...] = (4, 84, 84), seed: int = 0) -> Torso:
    generator = torch.Generator().manual_seed(seed)
    if name == "mlp":
        return perceptron(shape, (32, 16), "relu", fan_in_, generator)
    torso = nature_cnn(shape, (512,), "relu")
    fan_in_(torso, generator)
    return torso


def test_the_nature_network_has_the_layers_of_its_source() -> None:
    report = shape_report(build(), torch.zeros(2, 4, 84, 84, dtype=torch.uint8))
    layers = [layer for layer in report if layer.parameters]
    assert layers == [
        LayerShape("layers.0", "Conv2d", (32, 20, 20), 4 * 32 * 64 + 32),
        LayerShape("layers.2", "Conv2d", (64, 9, 9), 32 * 64 * 16 + 64),
        LayerShape("layers.4", "Conv2d", (64, 7, 7), 64 * 64 * 9 + 64),
        LayerShape("layers.7", "Linear", (512,), 3136 * 512 + 512),
    ]
    assert [layer.kind for layer in report if not layer.parameters] == ["ReLU"] * 3 + ["Flatten", "ReLU"]


def test_a_perceptron_takes_observations_of_any_shape() -> None:
    torso = build("mlp", (2, 3))
    assert torso(torch.zeros(5, 2, 3)).shape == (5, 16)
    assert torso.features == 16
    report = shape_report(torso, torch.zeros(1, 2, 3))
    assert [layer.parameters for layer in report] == [0, 7 * 32, 0, 33 * 16, 0]


def test_weights_by_fan_in_fill_their_bounds_evenly() -> None:
    layers = [layer for layer in build().layers if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer, inputs in zip(layers, (256, 512, 576, 3136), strict=True):
        bound = 1 / math.sqrt(inputs)
        assert 0.99 * bound < layer.weight.abs().max() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        assert 0.5 * bound < layer.bias.abs().max() <= bound


@pytest.mark.parametrize("torso", [mlp_torso, mlp_layer_norm])
def test_a_perceptron_needs_a_hidden_layer(torso: Callable[..., Torso]) -> None:
    with pytest.raises(UsageError, match=r"mlp.* needs at least one hidden layer") as caught:
        torso((4,), (), "relu")
    assert "network.hidden_sizes" in caught.value.remedy


def test_a_report_leaves_the_network_as_it_was_and_counts_a_layer_used_twice_once() -> None:
    layer = nn.Linear(3, 3)
    network = nn.Sequential(layer, nn.ReLU(), layer)
    assert [one.parameters for one in shape_report(network, torch.zeros(1, 3))] == [12, 0, 0]
    assert not layer._forward_hooks


def test_a_layer_that_gives_several_outputs_is_reported_without_a_shape() -> None:
    (layer,) = shape_report(nn.LSTM(3, 4), torch.zeros(2, 5, 3))
    assert (layer.kind, layer.output, layer.parameters) == ("LSTM", (), 4 * 4 * (3 + 4 + 2))
