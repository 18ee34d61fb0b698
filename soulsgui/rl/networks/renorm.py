"""Batch renormalisation, and the plain layers that clients get of networks with it."""

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn

_MOST_SCALE, _MOST_SHIFT = 3.0, 5.0


class BatchRenorm(nn.BatchNorm1d):
    """Batch normalisation whose batches are brought to what the running statistics say of them.

    Ioffe 2017, *Batch Renormalization* (arXiv 1702.03275): `y = weight * (x_hat * r + d) + bias` while it
    trains, where x_hat has the mean and deviation of the batch, `r = s / s_running` between 1/3 and 3 and
    `d = (m - m_running) / s_running` between -5 and 5 pass no gradient on. For the first batches r is 1
    and d is 0: the running statistics say little yet. In evaluation mode it is affine. What is given is
    `[B, features]`, of at least two rows while it trains.

    Args:
        features: Number of columns.
        warm_up: Number of batches that are normalised by their own statistics alone.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, features: int, warm_up: int = 100_000) -> None:
        super().__init__(features, eps=1e-3, momentum=0.01)
        self._warm_up = warm_up

    def forward(self, inputs: Tensor) -> Tensor:
        """Return what is given, normalised; the running statistics learn of it while this trains."""
        assert self.num_batches_tracked is not None
        if not self.training or self.num_batches_tracked < self._warm_up:
            return super().forward(inputs)
        self.num_batches_tracked += 1
        with torch.no_grad():
            var, mean = torch.var_mean(inputs, 0, correction=0)
            running = (self.running_var + self.eps).sqrt()
            scale = ((var + self.eps).sqrt() / running).clamp(1 / _MOST_SCALE, _MOST_SCALE)
            shift = ((mean - self.running_mean) / running).clamp(-_MOST_SHIFT, _MOST_SHIFT)
        weight, bias = self.weight * scale, self.weight * shift + self.bias
        learned = self.running_mean, self.running_var
        return nn.functional.batch_norm(inputs, *learned, weight, bias, True, self.momentum or 0.0, self.eps)


def renormalised(mlp: nn.Sequential) -> nn.Sequential:
    """Return an MLP with a normalisation before each linear layer, in evaluation mode."""
    layers: list[nn.Module] = []
    for layer in mlp:
        layers += [BatchRenorm(layer.in_features), layer] if isinstance(layer, nn.Linear) else [layer]
    return nn.Sequential(*layers).eval()


@torch.no_grad()
def folded_layers(network: nn.Sequential, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Name the tensors of the MLP that a renormalised one is in evaluation mode, as `named_layers`."""
    pairs = (pair for pair in pairwise(network) if isinstance(pair[0], BatchRenorm))
    for index, (norm, linear) in enumerate(pairs):
        assert isinstance(norm, BatchRenorm)
        assert isinstance(linear, nn.Linear)
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        shift = norm.bias - norm.running_mean * scale
        yield f"{prefix}.{index}.weight", linear.weight * scale
        yield f"{prefix}.{index}.bias", linear.bias + linear.weight @ shift
