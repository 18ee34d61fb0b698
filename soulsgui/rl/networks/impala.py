"""The residual network of IMPALA (Espeholt et al. 2018, arXiv 1802.01561, figure 3, right)."""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from soulsgui.config.sections.network import Channels
from soulsgui.environments.images import image_layout
from soulsgui.rl.networks.mlp import ACTIVATIONS
from soulsgui.rl.networks.torso import Torso

_CHANNELS = (16, 32, 32)


class ResidualBlock(nn.Module):
    """Two convolutions of 3×3, each behind a relu, added to what went in.

    Args:
        channels: Of the input and of the output.
    """

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
    the source has relu; `activation` follows the sections and each dense layer (relu in the source).

    Args:
        shape: `(channels, height, width)` or `(height, width, channels)` of uint8, at least 8×8.
        hidden_sizes: Width of each dense layer; none: the outputs of the sections are the features.
        activation: As in `ACTIVATIONS`.
        channels: Which side they are (`environments.images.image_layout`).

    Raises:
        UsageError: The observation is no such image, or it can't be told which side its channels are.
    """
    layout = image_layout(shape, "impala_resnet", channels)
    modules: list[nn.Module] = []
    inputs, sides = layout.channels, [layout.height, layout.width]
    for outputs in _CHANNELS:
        modules += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.MaxPool2d(3, 2, padding=1)]
        modules += [ResidualBlock(outputs), ResidualBlock(outputs)]
        inputs, sides = outputs, [(side + 1) // 2 for side in sides]
    modules += [ACTIVATIONS[activation](), nn.Flatten()]
    sizes = [inputs * math.prod(sides), *hidden_sizes]
    for fan_in, fan_out in pairwise(sizes):
        modules += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
    return Torso(nn.Sequential(*modules), sizes[-1], channels_last=layout.channels_last)


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
