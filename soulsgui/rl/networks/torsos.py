"""Torsos: from observations to features, by name and size."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from soulsgui.config.sections.network import Channels
from soulsgui.environments.images import ImageLayout, image_layout
from soulsgui.errors import UsageError
from soulsgui.rl.networks.mlp import ACTIVATIONS, Initialise


class Torso(nn.Module):
    """Turns observations `[B, *shape]`, multiplied by `scale`, into features `[B, features]`.

    `channels_last`: images are `[B, height, width, channels]`; the layers take the channels first.
    """

    def __init__(self, layers: nn.Sequential, features: int, channels_last: bool = False) -> None:
        super().__init__()
        self.layers = layers
        self.features = features
        self.scale = 1.0
        self._channels_last = channels_last

    def forward(self, obs: Tensor) -> Tensor:
        """Return the features; whole numbers (images) become float32 first."""
        inputs = obs if obs.is_floating_point() else obs.float()
        if self._channels_last:
            inputs = inputs.permute(0, 3, 1, 2)
        features: Tensor = self.layers(inputs if self.scale == 1.0 else inputs * self.scale)
        return features


def mlp_torso(shape: Sequence[int], hidden_sizes: Sequence[int], activation: str) -> Torso:
    """Build a perceptron whose every layer is followed by its activation; observations are flattened.

    Raises:
        UsageError: There is no hidden layer.
    """
    return _dense("An mlp", shape, hidden_sizes, activation)


def mlp_layer_norm(shape: Sequence[int], hidden_sizes: Sequence[int], activation: str) -> Torso:
    """Build an `mlp_torso` with layer normalisation (Ba et al. 2016, arXiv 1607.06450) before activations."""
    return _dense("mlp_layer_norm", shape, hidden_sizes, activation, normalised=True)


def _dense(
    name: str, shape: Sequence[int], hidden_sizes: Sequence[int], activation: str, normalised: bool = False
) -> Torso:
    if not hidden_sizes:
        raise UsageError(f"{name} needs at least one hidden layer.", "Set network.hidden_sizes, as [64, 64].")
    modules: list[nn.Module] = [nn.Flatten()]
    for fan_in, fan_out in pairwise([math.prod(shape), *hidden_sizes]):
        normaliser = [nn.LayerNorm(fan_out)] if normalised else []
        modules += [nn.Linear(fan_in, fan_out), *normaliser, ACTIVATIONS[activation]()]
    return Torso(nn.Sequential(*modules), hidden_sizes[-1])


def nature_cnn(
    shape: Sequence[int], hidden_sizes: Sequence[int], activation: str, channels: Channels = "auto"
) -> Torso:
    """Build the network of Mnih et al. 2015 (Nature 518, "Methods: Model architecture").

    32 filters of 8×8 at stride 4, 64 of 4×4 at stride 2, 64 of 3×3 at stride 1, then dense layers (512 units
    in the source), each followed by the activation (relu in the source). Without hidden sizes the filters'
    outputs are the features.

    Raises:
        UsageError: The observation is no image of at least 36×36 (`environments.images.image_layout`).
    """
    layout = image_layout(shape, "nature_cnn", channels)
    return _filtered(layout, ((32, 8, 4), (64, 4, 2), (64, 3, 1)), hidden_sizes, activation)


def small_cnn(
    shape: Sequence[int], hidden_sizes: Sequence[int], activation: str, channels: Channels = "auto"
) -> Torso:
    """Build the network of MinAtar (Young & Tian 2019, arXiv 1903.03176, section 3).

    For images of few pixels, at least 3×3: 16 filters of 3×3 at stride 1, then dense layers (128 units in the
    source), each followed by the activation (relu in the source). All else is as in `nature_cnn`.
    """
    return _filtered(image_layout(shape, "small_cnn", channels), ((16, 3, 1),), hidden_sizes, activation)


def _filtered(
    layout: ImageLayout,
    convolutions: Sequence[tuple[int, int, int]],
    hidden_sizes: Sequence[int],
    activation: str,
) -> Torso:
    """Build convolutions, each (filters, side of the kernel, stride), and dense layers behind them."""
    modules: list[nn.Module] = []
    sides, channels = [layout.height, layout.width], layout.channels
    for filters, kernel, stride in convolutions:
        modules += [nn.Conv2d(channels, filters, kernel, stride), ACTIVATIONS[activation]()]
        sides, channels = [(side - kernel) // stride + 1 for side in sides], filters
    return _with_dense(modules, channels * math.prod(sides), hidden_sizes, activation, layout)


def _with_dense(
    filters: list[nn.Module], size: int, hidden_sizes: Sequence[int], activation: str, layout: ImageLayout
) -> Torso:
    """Put dense layers behind filters that give so many numbers."""
    modules, sizes = [*filters, nn.Flatten()], [size, *hidden_sizes]
    for fan_in, fan_out in pairwise(sizes):
        modules += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
    return Torso(nn.Sequential(*modules), sizes[-1], channels_last=layout.channels_last)


def perceptron(
    shape: Sequence[int],
    hidden_sizes: Sequence[int],
    activation: str,
    initialise: Initialise,
    generator: torch.Generator,
) -> Torso:
    """Build an `mlp_torso` with first weights that `initialise` draws, for instance `fan_in_`."""
    torso = mlp_torso(shape, hidden_sizes, activation)
    initialise(torso, generator)
    return torso


_CHANNELS = (16, 32, 32)


class ResidualBlock(nn.Module):
    """Two convolutions of 3×3, each behind a relu, added to what went in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """Return `[B, channels, H, W]` for as many."""
        outputs: Tensor = inputs + self.layers(inputs)
        return outputs


def impala_resnet(
    shape: Sequence[int], hidden_sizes: Sequence[int], activation: str, channels: Channels = "auto"
) -> Torso:
    """Build the network: three sections of 16, 32 and 32 channels, then dense layers (256 units there).

    A section is a convolution of 3×3, the largest of 3×3 at stride 2, and two `ResidualBlock`s. Inside them
    the source has relu; `activation` follows the sections and each dense layer (relu in the source). Images
    have at least 8×8; all else is as in `nature_cnn`.
    """
    layout = image_layout(shape, "impala_resnet", channels)
    modules: list[nn.Module] = []
    inputs, sides = layout.channels, [layout.height, layout.width]
    for outputs in _CHANNELS:
        modules += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
        modules += [ResidualBlock(outputs), ResidualBlock(outputs)]
        inputs, sides = outputs, [(side + 1) // 2 for side in sides]
    modules.append(ACTIVATIONS[activation]())
    return _with_dense(modules, inputs * math.prod(sides), hidden_sizes, activation, layout)


def truncated_normal_(network: nn.Module, generator: torch.Generator) -> None:
    """Draw weights from a normal of deviation `1 / √inputs`, cut off at two of them; biases are zero.

    What the source's library (Sonnet 1) does where nothing else is said.
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            std = 1.0 / math.sqrt(layer.weight[0].numel())
            nn.init.trunc_normal_(layer.weight, 0.0, std, -2 * std, 2 * std, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class JoinedTorso(nn.Module):
    """Turns rows of bytes `[B, image and 4 · numbers]` (`rl.inputs.laid_out`) into features.

    The numbers stand beside what the torso makes of the image, and a dense layer as wide as the last of the
    hidden sizes sees both; where there are none, there is no such layer.

    Args:
        torso: From images `[B, *shape]` to `[B, inputs]`.
        numbers: How many there are beside that.
    """

    def __init__(
        self,
        torso: nn.Module,
        inputs: int,
        shape: Sequence[int],
        numbers: int,
        hidden_sizes: Sequence[int],
        activation: str,
    ) -> None:
        super().__init__()
        self.torso = torso
        both = inputs + numbers
        self.features = hidden_sizes[-1] if hidden_sizes else both
        self.layers: nn.Sequential | None = None
        if hidden_sizes:
            self.layers = nn.Sequential(nn.Linear(both, self.features), ACTIVATIONS[activation]())
        self._shape, self._bytes = tuple(shape), math.prod(shape)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the features `[B, features]`."""
        image = rows[:, : self._bytes].reshape(-1, *self._shape)
        # Floats begin at a multiple of their size in memory of their own alone.
        numbers = rows[:, self._bytes :].clone(memory_format=torch.contiguous_format).view(torch.float32)
        both = torch.cat((self.torso(image), numbers), dim=1)
        return both if self.layers is None else self.layers(both)
