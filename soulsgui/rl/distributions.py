"""Distributions over actions in torch, and how the outputs of a network make them.

Their twins for acting are in `soulsgui.policies.distributions` and `soulsgui.policies.action_heads`, equal to
1e-5. Means and deviations are `[B, D]` or `[D]`, deviations above 0; bounds `low` and `high` are `[D]`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.sections.network import NetworkSettings
from soulsgui.environments.actions import ActionSpec, BoxActionSpec
from soulsgui.policies.action_heads import STD_NAME, HeadSpec
from soulsgui.policies.action_heads import ActionHead as NumpyActionHead
from soulsgui.policies.distributions import (
    LARGEST_LOG_STD,
    LEAST_STD,
    LOGISTIC_SHARES,
    LOGISTIC_VARIANCES,
    MASKED_LOGIT,
    StdTransform,
    log_std_offset,
    std_offset,
)


class Distribution(Protocol):
    """What every distribution over the actions of `B` observations can do."""

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B, ...]`."""

    def mode(self) -> Tensor:
        """Return the greedy actions `[B, ...]`."""

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probabilities or log-densities `[B]` of actions."""

    def entropy(self) -> Tensor:
        """Return the entropies `[B]` in nats."""


class Gaussian:
    """Numbers without bounds, independent of each other given the observation."""

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


class TanhGaussian(Gaussian):
    """Numbers within bounds: a Gaussian `u`, squashed to `low + (tanh(u) + 1) / 2 * (high - low)`.

    What is drawn, stored and scored is `u`; `to_action` gives what the environment takes. The way back from a
    squashed float32 does not exist near the bounds, where many `u` become the same number. Mean and deviation
    are those of `u`; its middle is the mode.
    """

    def __init__(self, mean: Tensor, std: Tensor, low: Tensor, high: Tensor) -> None:
        super().__init__(mean, std)
        self._low, self._high, self._half = low, high, (high - low) / 2

    def to_action(self, latent: Tensor) -> Tensor:
        """Return the actions `[B, D]` for `u`, never outside the bounds."""
        action = self._low + (latent.tanh() + 1) * self._half
        return torch.clamp(action, self._low, self._high)

    def log_prob(self, latent: Tensor) -> Tensor:
        """Return the log-densities of the *actions* for `u` `[B, D]` (arXiv 1812.05905, eq. 26)."""
        return super().log_prob(latent) - (log_tanh_slope(latent) + self._half.log()).sum(1)

    def entropy(self) -> Tensor:
        """Return the differential entropies of the actions, in closed form as in numpy."""
        shares, variances = (torch.from_numpy(x).to(self.mean) for x in (LOGISTIC_SHARES, LOGISTIC_VARIANCES))
        mean = 2 * self.mean[..., None]
        std = (4 * self.std[..., None].square() + variances).sqrt()
        scaled = mean / (math.sqrt(2) * std)
        spread = std * math.sqrt(2 / math.pi) * (-scaled.square()).exp() + mean * scaled.erf()
        slope = 2 * math.log(2) - spread @ shares + self._half.log()
        return super().entropy() + slope.sum(1)


def log_tanh_slope(latent: Tensor) -> Tensor:
    """`log(1 - tanh(u)^2)`, as `2 (log 2 - u - softplus(-2u))`: exact where tanh(u) rounds to 1."""
    return 2 * (math.log(2) - latent - nn.functional.softplus(-2 * latent))


def softplus_std(raw: Tensor, initial: float) -> Tensor:
    """Standard deviation out of a network's output: `softplus(raw + c) + 0.001`, `initial` where raw is 0.

    A softplus with an offset, as arXiv 2006.05990 recommends (section 3.2), with 0.5 to begin with.
    """
    return nn.functional.softplus(raw + std_offset(initial)) + LEAST_STD


def exponential_std(raw: Tensor, initial: float) -> Tensor:
    """Standard deviation out of a network's output: `exp(raw + c) + 0.001`, `initial` where raw is 0.

    The other one that arXiv 2006.05990 compares (section 3.2), and that of most programs; `raw + c` counts up
    to 10.
    """
    return (raw + log_std_offset(initial)).clamp(max=LARGEST_LOG_STD).exp() + LEAST_STD


STD_TRANSFORMS: Mapping[StdTransform, Callable[[Tensor, float], Tensor]] = {
    "softplus": softplus_std,
    "exponential": exponential_std,
}


class Categorical:
    """One of `A` numbered actions, of logits `[B, A]`.

    The mask `[B, A]` is True where an action may be taken, at least once in each row; None: everywhere. What
    is masked has probability 0, adds nothing to the entropy, and gets no gradient.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        if mask is not None:
            logits = logits.masked_fill(~mask, MASKED_LOGIT)
        self._log_probs = logits.log_softmax(1)

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B]` int64."""
        # The largest of log-probabilities with Gumbel noise: works with a generator of any device.
        uniform = uniform_like(self._log_probs, generator).clamp(min=1e-30)
        return (self._log_probs.detach() - uniform.log().neg().log()).argmax(1)

    def mode(self) -> Tensor:
        """Return the most probable actions `[B]`."""
        return self._log_probs.argmax(1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probabilities of actions `[B]`."""
        return self._log_probs.gather(1, action.unsqueeze(1)).squeeze(1)

    def entropy(self) -> Tensor:
        """Return the entropies in nats."""
        return -(self._log_probs.exp() * self._log_probs).sum(1)


class MultiDiscrete:
    """Several numbered choices at once, independent of each other given the observation.

    Logits and mask (as in `Categorical`) are `[B, sum(sizes)]`, choice after choice.
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int], mask: Tensor | None = None) -> None:
        parts = torch.split(logits, list(sizes), 1)
        masks = [None] * len(sizes) if mask is None else torch.split(mask, list(sizes), 1)
        self._parts = [Categorical(part, allowed) for part, allowed in zip(parts, masks, strict=True)]

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B, choices]` int64."""
        return torch.stack([part.sample(generator) for part in self._parts], 1)

    def mode(self) -> Tensor:
        """Return the most probable actions `[B, choices]`."""
        return torch.stack([part.mode() for part in self._parts], 1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probabilities of actions `[B, choices]`: sums over the choices."""
        logs = [part.log_prob(action[:, index]) for index, part in enumerate(self._parts)]
        return torch.stack(logs).sum(0)

    def entropy(self) -> Tensor:
        """Return the entropies: sums over the choices."""
        return torch.stack([part.entropy() for part in self._parts]).sum(0)


class MultiBinary:
    """Several independent yes-or-no choices."""

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    def sample(self, generator: torch.Generator) -> Tensor:
        """Draw actions `[B, D]` int64 of 0 and 1."""
        return (uniform_like(self._logits, generator) < self._logits.detach().sigmoid()).long()

    def mode(self) -> Tensor:
        """Return the more probable of 0 and 1 for each choice `[B, D]`."""
        return (self._logits > 0).long()

    def log_prob(self, action: Tensor) -> Tensor:
        """Return the log-probabilities of actions `[B, D]`: sums over the choices."""
        return nn.functional.logsigmoid(torch.where(action > 0, self._logits, -self._logits)).sum(1)

    def entropy(self) -> Tensor:
        """Return the entropies: sums over the choices."""
        return (nn.functional.softplus(self._logits) - self._logits.sigmoid() * self._logits).sum(1)


def uniform_like(values: Tensor, generator: torch.Generator) -> Tensor:
    """Draw numbers from 0 up to 1 in the shape, type and place of `values`."""
    drawn = torch.rand(values.shape, generator=generator, dtype=values.dtype, device=generator.device)
    return drawn.to(values.device)


class DistributionHead(nn.Module):
    """Makes distributions over actions of what a network says."""

    low: Tensor
    high: Tensor

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.spec = spec
        self._numpy = NumpyActionHead(spec)
        self.raw_std = nn.Parameter(torch.zeros(spec.size)) if spec.tensors else None
        if spec.kind == "box":
            for name, bound in zip(("low", "high"), spec.bounds, strict=True):
                self.register_buffer(name, torch.from_numpy(bound.astype(np.float32)))

    def named_tensors(self) -> list[tuple[str, Tensor]]:
        """Return the parameters of its own, by the names under which they are exported."""
        return [] if self.raw_std is None else [(STD_NAME, self.raw_std)]

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:
        """Return the distribution over actions, as they are drawn and scored, for outputs `[B, outputs]`.

        `mask` `[B, sum(sizes)]` says which are valid, at least one in each choice; None or `[B, 0]`: all are.
        """
        spec = self.spec
        allowed = mask if mask is not None and mask.shape[1] else None
        if spec.kind == "discrete":
            return Categorical(outputs, allowed)
        if spec.kind == "multi_discrete":
            return MultiDiscrete(outputs, spec.sizes, allowed)
        if spec.kind == "multi_binary":
            return MultiBinary(outputs)
        mean = outputs[:, : spec.size]
        raw = outputs[:, spec.size :] if self.raw_std is None else self.raw_std
        std = STD_TRANSFORMS[spec.std_transform](raw, spec.initial_std)
        if spec.is_squashed:
            return TanhGaussian(mean, std, self.low, self.high)
        return Gaussian(mean.tanh() if spec.squash == "tanh_mean" else mean, std)

    def drawn(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions `[B, ...]` as the distribution scores them."""
        return self._numpy.drawn(stored)

    def stored(self, drawn: NDArray[Any]) -> NDArray[Any]:
        """Return drawn actions `[B, ...]` as they are stored."""
        return self._numpy.stored(drawn)


def distribution_head(action: ActionSpec, network: NetworkSettings) -> DistributionHead:
    """Return the head for an action space; the settings say how numbers within bounds are chosen."""
    chosen = (network.action_std, network.initial_std, network.squash, network.std_transform)
    return DistributionHead(
        HeadSpec(action.to_json(), *(chosen if isinstance(action, BoxActionSpec) else ()))
    )
