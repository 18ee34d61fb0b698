"""Initial weights of whole networks: drawn from one generator, in the order of the layers."""

import math

import torch
from torch import nn


def fan_in_(network: nn.Module, generator: torch.Generator) -> None:
    """Draw weights and biases of linear and convolution layers evenly within `±1 / √inputs`.

    What Torch and PyTorch do by default, and so what DQN, QR-DQN and IQN were published with (Mnih et al.
    2015; arXiv 1710.10044; 1806.06923).
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)


def orthogonal_(network: nn.Module, scale: float, generator: torch.Generator) -> None:
    """Give linear and convolution layers orthogonal weights times `scale`, and zero biases.

    For on-policy learning (Saxe et al. 2014, arXiv 1312.6120; √2 before a rectifier or tanh).
    """
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight, gain=scale, generator=generator)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def orthogonal_hidden_(network: nn.Module, generator: torch.Generator) -> None:
    """Draw as `orthogonal_` what stands before a rectifier or tanh."""
    orthogonal_(network, math.sqrt(2), generator)
