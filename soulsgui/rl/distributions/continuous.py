"""Gaussian actions, with or without bounds."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from soulsgui.policies.distributions import (
    LARGEST_LOG_STD,
    LEAST_STD,
    LOGISTIC_SHARES,
    LOGISTIC_VARIANCES,
    StdTransform,
    log_std_offset,
    std_offset,
)


class Gaussian:
    """Numbers without bounds, independent of each other given the observation.

    Args:
        mean: `[B, D]`.
        std: `[B, D]` or `[D]`, above 0.
    """

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        self.mean, self.std = mean, std.expand_as(mean)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B, D]`; gradients reach mean and std (reparametrised)."""
        noise = torch.randn(
            self.mean.shape, generator=generator, dtype=self.mean.dtype, device=generator.device
        )
        return self.mean + self.std * noise.to(self.mean.device)

    def mode(self) -> Tensor:
        """Return the means `[B, D]`."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-densities of actions `[B, D]`."""
        scaled = (action - self.mean) / self.std
        return (-0.5 * scaled.square() - self.std.log() - 0.5 * math.log(2 * math.pi)).sum(1)

    def entropy(self) -> Tensor:
        """Return the differential entropies in nats."""
        return (self.std.log() + 0.5 * math.log(2 * math.pi * math.e)).sum(1)


class TanhGaussian:
    """Numbers within bounds: a Gaussian `u`, squashed to `low + (tanh(u) + 1) / 2 * (high - low)`.

    What is drawn, stored and scored is `u`; `to_action` gives what the environment takes. The way back from a
    squashed float32 does not exist near the bounds, where many `u` become the same number.

    Args:
        mean: `[B, D]`, of `u`.
        std: `[B, D]` or `[D]`, of `u`, above 0.
        low: `[D]`, smallest action.
        high: `[D]`, largest action.
    """

    def __init__(self, mean: Tensor, std: Tensor, low: Tensor, high: Tensor) -> None:
        self._gaussian = Gaussian(mean, std)
        self._low, self._high, self._half = low, high, (high - low) / 2

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw `u` `[B, D]`; gradients reach mean and std (reparametrised)."""
        return self._gaussian.sample(generator)

    def mode(self) -> Tensor:
        """Return the middle of `u` `[B, D]`: half of the actions lie below its action."""
        return self._gaussian.mode()

    def to_action(self, latent: Tensor) -> Tensor:
        """Return the actions `[B, D]` for `u`, never outside the bounds."""
        action = self._low + (latent.tanh() + 1) * self._half
        return torch.clamp(action, self._low, self._high)

    def log_prob(self, latent: Tensor) -> Tensor:
        """Return the log-densities of the *actions* for `u` `[B, D]` (arXiv 1812.05905, eq. 26)."""
        return self._gaussian.log_prob(latent) - (log_tanh_slope(latent) + self._half.log()).sum(1)

    def entropy(self) -> Tensor:
        """Return the differential entropies of the actions, in closed form as in numpy."""
        shares, variances = (
            torch.from_numpy(x).to(self._gaussian.mean) for x in (LOGISTIC_SHARES, LOGISTIC_VARIANCES)
        )
        mean = 2 * self._gaussian.mean[..., None]
        std = (4 * self._gaussian.std[..., None].square() + variances).sqrt()
        scaled = mean / (math.sqrt(2) * std)
        spread = std * math.sqrt(2 / math.pi) * (-scaled.square()).exp() + mean * scaled.erf()
        slope = 2 * math.log(2) - spread @ shares + self._half.log()
        return self._gaussian.entropy() + slope.sum(1)


def log_tanh_slope(latent: Tensor) -> Tensor:
    """`log(1 - tanh(u)^2)`, as `2 (log 2 - u - softplus(-2u))`: exact where tanh(u) rounds to 1."""
    return 2 * (math.log(2) - latent - nn.functional.softplus(-2 * latent))


def softplus_std(raw: Tensor, initial: float) -> Tensor:
    """Standard deviation out of a network's output: `softplus(raw + c) + 0.001`, `initial` where raw is 0.

    A softplus with an offset, as arXiv 2006.05990 recommends (section 3.2), with 0.5 to begin with.

    Raises:
        ValueError: The initial deviation is not above 0.001.
    """
    return nn.functional.softplus(raw + std_offset(initial)) + LEAST_STD


def exponential_std(raw: Tensor, initial: float) -> Tensor:
    """Standard deviation out of a network's output: `exp(raw + c) + 0.001`, `initial` where raw is 0.

    The other one that arXiv 2006.05990 compares (section 3.2), and that of most programs; `raw + c` counts up
    to 10.

    Raises:
        ValueError: The initial deviation is not above 0.001.
    """
    return (raw + log_std_offset(initial)).clamp(max=LARGEST_LOG_STD).exp() + LEAST_STD


STD_TRANSFORMS: Mapping[StdTransform, Callable[[Tensor, float], Tensor]] = {
    "softplus": softplus_std,
    "exponential": exponential_std,
}
