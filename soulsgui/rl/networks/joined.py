"""An image and numbers beside it: what a torso makes of the image, and the numbers, go on together."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from soulsgui.rl.networks.mlp import ACTIVATIONS


class JoinedTorso(nn.Module):
    """Turns rows of bytes `[B, image and 4 · numbers]` (`rl.inputs.laid_out`) into features.

    The numbers stand beside what the torso makes of the image, and a dense layer sees both.

    Attributes:
        features: Number of features.
        layers: The dense layer; None where there is none.

    Args:
        torso: From images `[B, *shape]` to `[B, its features]`.
        shape: Shape of an image.
        layers: What sees both.
        features: Number of features.
    """

    def __init__(
        self, torso: nn.Module, shape: Sequence[int], layers: nn.Sequential | None, features: int
    ) -> None:
        super().__init__()
        self.torso = torso
        self.layers = layers
        self.features = features
        self._shape = tuple(shape)
        self._bytes = math.prod(shape)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the features `[B, features]`."""
        image = rows[:, : self._bytes].reshape(-1, *self._shape)
        # Floats begin at a multiple of their size in memory of their own alone.
        numbers = rows[:, self._bytes :].clone(memory_format=torch.contiguous_format).view(torch.float32)
        both = torch.cat((self.torso(image), numbers), dim=1)
        return both if self.layers is None else self.layers(both)


def joined_torso(
    torso: nn.Module,
    features: int,
    shape: Sequence[int],
    numbers: int,
    hidden_sizes: Sequence[int],
    activation: str,
) -> JoinedTorso:
    """Put numbers beside a torso for images.

    Args:
        torso: The torso.
        features: What it gives.
        shape: Shape of an image.
        numbers: How many there are beside it.
        hidden_sizes: The last one is the width of the dense layer that sees both; none: there is none.
        activation: Behind that layer.
    """
    both = features + numbers
    if not hidden_sizes:
        return JoinedTorso(torso, shape, None, both)
    layers = nn.Sequential(nn.Linear(both, hidden_sizes[-1]), ACTIVATIONS[activation]())
    return JoinedTorso(torso, shape, layers, hidden_sizes[-1])
