"""Linear layers with noise in their weights, for exploration (Fortunato et al. 2018, arXiv 1706.10295)."""

import math

import torch
from torch import Tensor, nn

SIGMA = 0.5


class NoisyLinear(nn.Module):
    """`y = (mu_w + sigma_w * e_w) x + mu_b + sigma_b * e_b` with factorised Gaussian noise.

    `e_w[j, i] = f(e_j) f(e_i)`, `e_b[j] = f(e_j)`, `f(x) = sign(x) √|x|` (eq. 10 and 11). The means are drawn
    evenly within `±1 / √inputs`, the sigmas begin at `sigma / √inputs` (section 3.2).

    The noise stands still until `resample_noise`; it is part of the state. In `eval` mode there is none.

    Args:
        inputs: Number of inputs.
        outputs: Number of outputs.
        generator: Where the initial means are drawn from.
        sigma: σ₀, 0.5 in the paper.
    """

    noise_in: Tensor
    noise_out: Tensor

    def __init__(self, inputs: int, outputs: int, generator: torch.Generator, sigma: float = SIGMA) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound, generator=generator))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * bound))
        self.register_buffer("noise_in", torch.zeros(inputs))
        self.register_buffer("noise_out", torch.zeros(outputs))

    def plain(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the linear layer that this one is with its present noise."""
        noise = torch.outer(self.noise_out, self.noise_in)
        return self.weight + self.weight_sigma * noise, self.bias + self.bias_sigma * self.noise_out

    def forward(self, inputs: Tensor) -> Tensor:
        """Return `[B, outputs]` for `[B, inputs]`.

        The noise is applied to inputs and outputs: `(sigma_w * f f') x = f * (sigma_w (f' * x))`, the same
        without a matrix of noise.
        """
        outputs = nn.functional.linear(inputs, self.weight, self.bias)
        if self.training:
            strayed = nn.functional.linear(inputs * self.noise_in, self.weight_sigma, self.bias_sigma)
            outputs = outputs + strayed * self.noise_out
        return outputs


def still_noise(network: nn.Module) -> None:
    """Take the noise out of all noisy layers of a network, until it is drawn again."""
    for layer in network.modules():
        if isinstance(layer, NoisyLinear):
            layer.noise_in.zero_()
            layer.noise_out.zero_()


def resample_noise(network: nn.Module, generator: torch.Generator) -> None:
    """Draw new noise for all noisy layers of a network from a generator of the CPU.

    Before each update, and between actions; at once, since there are many small ones.
    """
    layers = [layer for layer in network.modules() if isinstance(layer, NoisyLinear)]
    noises = [noise for layer in layers for noise in (layer.noise_in, layer.noise_out)]
    drawn = torch.randn(sum(noise.numel() for noise in noises), generator=generator)
    drawn = drawn.sign() * drawn.abs().sqrt()
    start = 0
    for noise in noises:
        noise.copy_(drawn[start : start + noise.numel()])
        start += noise.numel()
