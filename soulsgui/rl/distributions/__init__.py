"""Distributions over actions in torch: `discrete` choices, with masks, and `continuous` numbers.

Their twins for acting are in `soulsgui.policies.distributions`, equal to 1e-5.
"""

from typing import Protocol

import torch
from torch import Tensor

from soulsgui.rl.distributions.continuous import STD_TRANSFORMS, Gaussian, TanhGaussian, softplus_std
from soulsgui.rl.distributions.discrete import Categorical, MultiBinary, MultiDiscrete

__all__ = [
    "STD_TRANSFORMS",
    "Categorical",
    "Distribution",
    "Gaussian",
    "MultiBinary",
    "MultiDiscrete",
    "TanhGaussian",
    "softplus_std",
]


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
