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

    Attributes:
        parameter: All parameters, one after the other, `[P]`.
        gradient: Their gradients, likewise.
        changes: How often they were changed by anything but an optimiser; who changes them counts.
    """

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        # Each once, also what networks have in common.
        parameters = list(dict.fromkeys(one for network in networks for one in network.parameters()))
        self.parameter = nn.Parameter(torch.cat([p.detach().reshape(-1) for p in parameters]))
        self.gradient = torch.zeros_like(self.parameter.data)
        self.parameter.grad = self.gradient
        self.changes = 0
        start = 0
        for parameter in parameters:
            stop = start + parameter.numel()
            parameter.data = self.parameter.data[start:stop].view(parameter.shape)
            parameter.grad = self.gradient[start:stop].view(parameter.shape)
            start = stop

    def follow(self, parameters: Tensor, tau: float) -> None:
        """Move a part `tau` of the way to others of the same networks; 1 is a copy, to the bit."""
        self.parameter.data.lerp_(parameters, tau)
        self.changes += 1


def clip_norm_(gradient: Tensor, max_norm: float | None) -> Tensor:
    """Scale a gradient in place to a norm of at most `max_norm`, if given; return its norm `[]` before."""
    norm: Tensor = torch.linalg.vector_norm(gradient)
    if max_norm is not None:
        gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
    return norm
