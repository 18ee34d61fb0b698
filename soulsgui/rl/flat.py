"""Many parameters in one tensor: one optimiser step and one norm instead of a dozen small ones."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FlatParameters:
    """Moves the parameters of networks, and their gradients, into one tensor each.

    The networks go on using their parameters as before: these become views. A backward pass adds into the
    flat gradient: zero it before, and never set a parameter's gradient to None.

    Args:
        networks: Their parameters are laid out in this order; a network moved to another device afterwards is
            lost.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        # Each once, also what networks have in common.
        parameters = list(dict.fromkeys(one for network in networks for one in network.parameters()))
        self.parameter = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        self.gradient = torch.zeros_like(self.parameter.data)
        self.parameter.grad = self.gradient
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.data = self.parameter.data[start:stop].view(parameter.shape)
            parameter.grad = self.gradient[start:stop].view(parameter.shape)
            start = stop


def clip_norm_(gradient: Tensor, max_norm: float | None) -> Tensor:
    """Scale a gradient in place to a norm of at most `max_norm`, if given; return its norm `[]` before."""
    norm: Tensor = torch.linalg.vector_norm(gradient)
    if max_norm is not None:
        gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
    return norm
