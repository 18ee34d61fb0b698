"""Networks by name, and torsos: layers and first weights of their sources, own classes, refusals."""

import math
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from soulsgui.environments.box import BoxSpec
from soulsgui.errors import UsageError
from soulsgui.rl.networks.mlp import fan_in_
from soulsgui.rl.networks.named import (
    IMAGE_NETWORKS,
    NamedNetwork,
    build_network,
    named_tensors,
    sees_images,
)
from soulsgui.rl.networks.shapes import LayerShape, shape_lines, shape_report
from soulsgui.rl.networks.torsos import Torso, mlp_layer_norm, mlp_torso, nature_cnn, perceptron

IMAGE = BoxSpec((3, 64, 72), "uint8")
STACK = BoxSpec((4, 84, 84), "uint8")
VECTOR = BoxSpec((2, 3), "float32")


class Own(nn.Module):
    """A torso as somebody would write it."""

    def __init__(self, shape: tuple[int, ...], hidden_sizes: tuple[int, ...], activation: str) -> None:
        super().__init__()
        self.features = hidden_sizes[0]
        self.layer = nn.Linear(math.prod(shape), self.features)

    def forward(self, obs: Tensor) -> Tensor:
        return self.layer(obs.flatten(1).float()).relu()


def own(
    forward: Callable[[Any, Tensor], Tensor] = Own.forward, add: Callable[[Any], object] = lambda torso: None
) -> type[Own]:
    """Return a class like `Own`, with another `forward`, and with something added when it is made."""

    class Changed(Own):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            add(self)

        def forward(self, obs: Tensor) -> Tensor:
            return forward(self, obs)

    return Changed


def _only_acts(torso: Own, obs: Tensor) -> Tensor:
    assert not torch.is_grad_enabled()
    return Own.forward(torso, obs)


NEVER = torch.full((2, 2), -math.inf)
Lying = own(add=lambda torso: vars(torso).update(features=torso.features + 1))
Double = own(lambda torso, obs: torso.layer(obs.flatten(1).double()).float(), lambda torso: torso.double())
GivesDoubles = own(lambda torso, obs: Own.forward(torso, obs).double())
MaskNotSent = own(add=lambda torso: torso.register_buffer("mask", NEVER.clone(), persistent=False))
Masking = own(add=lambda torso: torso.register_buffer("sent", NEVER.clone()))
Locked = own(add=lambda torso: vars(torso).update(lock=threading.Lock()))
NotANumber = own(lambda torso, obs: Own.forward(torso, obs) * math.nan)
InPlace = own(lambda torso, obs: Own.forward(torso, obs.mul_(0.5)))
Restless = own(lambda torso, obs: Own.forward(torso, obs) + torch.rand(()))
OnlyActs = own(_only_acts)


class NoModule:
    """Is none."""

    def __init__(self, *args: Any) -> None:
        pass


def build(name: str, box: BoxSpec = IMAGE, sizes: tuple[int, ...] = (8,), seed: int = 0) -> NamedNetwork:
    return build_network(name, box, sizes, "relu", 5, 0.01, torch.Generator().manual_seed(seed))


def test_the_nature_network_has_the_layers_of_its_source() -> None:
    report = shape_report(build("nature_cnn", STACK, (512,)), torch.zeros(2, 4, 84, 84, dtype=torch.uint8))
    assert [(layer.kind, layer.output, layer.parameters) for layer in report if layer.parameters] == [
        ("Conv2d", (32, 20, 20), 4 * 32 * 64 + 32), ("Conv2d", (64, 9, 9), 32 * 64 * 16 + 64),
        ("Conv2d", (64, 7, 7), 64 * 64 * 9 + 64), ("Linear", (512,), 3137 * 512), ("Linear", (5,), 513 * 5),
    ]  # fmt: skip
    assert [layer.kind for layer in report if not layer.parameters] == ["ReLU"] * 3 + ["Flatten", "ReLU"]


def test_the_impala_network_has_the_layers_of_its_source() -> None:
    report = shape_report(build("impala_resnet", sizes=(256,)), torch.zeros(2, 3, 64, 72, dtype=torch.uint8))
    filters = [layer for layer in report if layer.kind == "Conv2d"]
    assert [layer.output for layer in filters] == [
        (16, 64, 72), *[(16, 32, 36)] * 4,
        (32, 32, 36), *[(32, 16, 18)] * 4,
        (32, 16, 18), *[(32, 8, 9)] * 4,
    ]  # fmt: skip
    assert [layer.output for layer in report if layer.kind == "Linear"] == [(256,), (5,)]
    counted = sum(layer.parameters for layer in report)
    convolutions = (3 * 9 + 1) * 16 + 4 * (16 * 9 + 1) * 16 + (16 * 9 + 1) * 32 + 9 * (32 * 9 + 1) * 32
    assert counted == convolutions + (32 * 8 * 9 + 1) * 256 + 257 * 5


def test_the_network_of_minatar_has_the_layers_of_its_source() -> None:
    box = BoxSpec((10, 10, 7), "uint8", (0,), (1,))
    report = shape_report(build("small_cnn", box, (128,)), torch.zeros(2, 10, 10, 7, dtype=torch.uint8))
    assert [(layer.output, layer.parameters) for layer in report if layer.parameters] == [
        ((16, 8, 8), (7 * 9 + 1) * 16), ((128,), (1024 + 1) * 128), ((5,), 129 * 5),
    ]  # fmt: skip


@pytest.mark.parametrize("largest", [255, 1])
@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_images_are_scaled_to_1_by_what_their_space_allows(name: str, largest: int) -> None:
    torso = build(name, BoxSpec((1, 40, 44), "uint8", (0,), (largest,))).torso
    image = torch.randint(0, largest + 1, (3, 1, 40, 44), dtype=torch.uint8)
    with torch.no_grad():
        torch.testing.assert_close(torso(image), torso.layers(image.float() / largest), atol=1e-5, rtol=1e-5)


def test_a_residual_block_adds_to_what_went_in() -> None:
    network = build("impala_resnet")
    block = network.torso.layers[2]
    for parameter in block.parameters():
        parameter.data.zero_()
    inputs = torch.randn(2, 16, 5, 5)
    assert torch.equal(block(inputs), inputs)


def test_first_weights_are_those_of_the_sources() -> None:
    impala = build("impala_resnet").torso.layers[0]
    std = 1 / math.sqrt(27)
    assert 1.5 * std < impala.weight.abs().max() <= 2 * std
    assert not impala.bias.any()
    nature = build("nature_cnn").torso.layers[2].weight.flatten(1)
    torch.testing.assert_close(nature @ nature.T, 2 * torch.eye(64), atol=1e-4, rtol=0.0)
    assert not build("nature_cnn").torso.layers[2].bias.any()
    for name, box in (("nature_cnn", IMAGE), ("impala_resnet", IMAGE), ("mlp_layer_norm", VECTOR)):
        head = build(name, box).head.weight
        torch.testing.assert_close(head @ head.T, 1e-4 * torch.eye(5), atol=1e-8, rtol=0.0)


def test_layers_are_normalised_before_their_activation() -> None:
    network = build("mlp_layer_norm", VECTOR, (16, 16))
    report = shape_report(network, torch.zeros(1, 2, 3))
    assert [layer.kind for layer in report] == [
        "Flatten", "Linear", "LayerNorm", "ReLU", "Linear", "LayerNorm", "ReLU", "Linear",
    ]  # fmt: skip
    before = network.torso.layers[:3](torch.randn(4, 2, 3))
    torch.testing.assert_close(before.mean(1), torch.zeros(4), atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("name", IMAGE_NETWORKS)
def test_channels_may_come_last(name: str) -> None:
    first, last = build(name), build(name, BoxSpec((64, 72, 3), "uint8"))
    image = torch.randint(0, 256, (2, 3, 64, 72), dtype=torch.uint8)
    with torch.no_grad():
        assert torch.equal(first(image), last(image.permute(0, 2, 3, 1)))


@pytest.mark.parametrize("name", ["impala_resnet", "mlp_layer_norm", f"{__name__}:Own"])
def test_the_generator_alone_decides_the_weights(name: str) -> None:
    first, again, other = (
        torch.cat([p.flatten() for p in build(name, seed=seed).parameters()]) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_own_network_is_found_by_its_import_path() -> None:
    assert isinstance(build(f"{__name__}:MaskNotSent", VECTOR).torso, MaskNotSent)
    network = build(f"{__name__}:Own", VECTOR)
    assert isinstance(network.torso, Own)
    assert network(torch.zeros(7, 2, 3)).shape == (7, 5)
    assert [name for name, _ in named_tensors(network, "policy")] == [
        "policy.torso.layer.weight", "policy.torso.layer.bias", "policy.head.weight", "policy.head.bias",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "box", "words"),
    [
        ("nature_cnn", VECTOR, r"needs images of bytes \(uint8\), not of float32"),
        ("nature_cnn", BoxSpec((2, 3), "uint8"), r"at least 36×36, not \(2, 3\)"),
        ("nature_cnn", BoxSpec((35, 90, 3), "uint8"), r"at least 36×36, not \(35, 90, 3\)"),
        ("impala_resnet", BoxSpec((3, 7, 90), "uint8"), r"at least 8×8, not \(3, 7, 90\)"),
        ("nowhere_at_all:Net", VECTOR, "There is no network “nowhere_at_all:Net”"),
        (f"{__name__}:Missing", VECTOR, "There is no network"),
        (f"{__name__}:NoModule", VECTOR, r"is not a subclass of torch\.nn\.Module"),
        (f"{__name__}:Lying", VECTOR, r"has `features` 9, and gives \(2, 8\)"),
        ("builtins:dict", VECTOR, r"is not a subclass of torch\.nn\.Module"),
        ("subprocess:getoutput", VECTOR, r"is not a subclass of torch\.nn\.Module"),
        ("torch.nn:Linear", VECTOR, "could not be made"),
        ("tests.rl.networks.raises_on_import:Net", VECTOR, "no network .*: RuntimeError: no licence"),
        (f"{__name__}:Double", VECTOR, r"has layer\.weight of torch\.float64"),
        (f"{__name__}:GivesDoubles", VECTOR, r"gives torch\.float64"),
        (f"{__name__}:Masking", VECTOR, "numbers in sent that are not finite"),
        (f"{__name__}:Locked", VECTOR, "can't be copied"),
        (f"{__name__}:NotANumber", VECTOR, "not finite, for observations of ones"),
        (f"{__name__}:InPlace", VECTOR, "changes the observations"),
        (f"{__name__}:Restless", VECTOR, "different results for the same observations"),
        (f"{__name__}:OnlyActs", VECTOR, "can't be copied and learned from"),
    ],
)
def test_what_can_not_be_built_is_refused_in_words(name: str, box: BoxSpec, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        build(name, box)


def test_a_perceptron_takes_observations_of_any_shape() -> None:
    torso = perceptron((2, 3), (32, 16), "relu", fan_in_, torch.Generator())
    assert (torso(torch.zeros(5, 2, 3)).shape, torso.features) == ((5, 16), 16)
    report = shape_report(torso, torch.zeros(1, 2, 3))
    assert [layer.parameters for layer in report] == [0, 7 * 32, 0, 33 * 16, 0]


def test_weights_by_fan_in_fill_their_bounds_evenly() -> None:
    torso = nature_cnn(STACK.shape, (512,), "relu")
    fan_in_(torso, torch.Generator().manual_seed(0))
    layers = [layer for layer in torso.layers if isinstance(layer, nn.Conv2d | nn.Linear)]
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


def test_a_report_leaves_the_network_as_it_was_counts_a_layer_once_and_takes_several_outputs() -> None:
    layer = nn.Linear(3, 3)
    network = nn.Sequential(layer, nn.ReLU(), layer)
    assert [one.parameters for one in shape_report(network, torch.zeros(1, 3))] == [12, 0, 0]
    assert not layer._forward_hooks
    (lstm,) = shape_report(nn.LSTM(3, 4), torch.zeros(2, 5, 3))
    assert (lstm.kind, lstm.output, lstm.parameters) == ("LSTM", (), 4 * 4 * (3 + 4 + 2))


def test_images_are_what_is_seen_as_bytes() -> None:
    assert sees_images("nature_cnn", IMAGE)
    assert sees_images("my.nets:Own", IMAGE)
    assert not sees_images("my.nets:Own", VECTOR)
    assert not sees_images("mlp_layer_norm", IMAGE)


def test_a_network_as_a_table() -> None:
    report = [LayerShape("0", "Conv2d", (32, 20, 20), 8224), LayerShape("10", "ReLU", (7,), 0)]
    assert shape_lines("policy", report) == [
        "policy: 8,224 parameters",
        "  0   Conv2d  32×20×20  8,224",
        "  10  ReLU           7      0",
    ]
