"""Networks that value actions: a torso, a head, and what the head's numbers mean."""

import math

import torch
from torch import Tensor, nn

from soulsgui.rl.losses.quantile import midpoints
from soulsgui.rl.networks.heads import ActionHead
from soulsgui.rl.networks.initial import fan_in_
from soulsgui.rl.networks.torso import Torso


class ValueNetwork(nn.Module):
    """A value for each action (DQN and its dueling and noisy kin).

    Args:
        torso: From observations to features.
        head: With 1 atom.
    """

    def __init__(self, torso: Torso, head: ActionHead) -> None:
        super().__init__()
        self.torso, self.head = torso, head

    def forward(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]` for observations `[B, *shape]`."""
        values: Tensor = self.head(self.torso(obs)).squeeze(2)
        return values

    def values(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]`."""
        return self.forward(obs)


class QuantileNetwork(nn.Module):
    """N quantiles of the return of each action, at the levels `midpoints(N)` (QR-DQN, arXiv 1710.10044).

    Args:
        torso: From observations to features.
        head: With N atoms.
    """

    def __init__(self, torso: Torso, head: ActionHead) -> None:
        super().__init__()
        self.torso, self.head = torso, head

    def forward(self, obs: Tensor) -> Tensor:
        """Return quantiles `[B, A, N]` for observations `[B, *shape]`."""
        quantiles: Tensor = self.head(self.torso(obs))
        return quantiles

    def values(self, obs: Tensor) -> Tensor:
        """Return the means `[B, A]`."""
        return self.forward(obs).mean(2)


class CategoricalNetwork(nn.Module):
    """Probabilities of N fixed atoms for each action (C51, arXiv 1707.06887).

    Args:
        torso: From observations to features.
        head: With N atoms.
        atoms: `[N]`, their values (`losses.categorical.support`).
    """

    atoms: Tensor

    def __init__(self, torso: Torso, head: ActionHead, atoms: Tensor) -> None:
        super().__init__()
        self.torso, self.head = torso, head
        self.register_buffer("atoms", atoms)

    def forward(self, obs: Tensor) -> Tensor:
        """Return log-probabilities `[B, A, N]` for observations `[B, *shape]`."""
        logits: Tensor = self.head(self.torso(obs))
        return logits.log_softmax(2)

    def values(self, obs: Tensor) -> Tensor:
        """Return the means `[B, A]`."""
        return self.forward(obs).exp() @ self.atoms


class ImplicitQuantileNetwork(nn.Module):
    """The quantile of each action's return at any level (IQN, arXiv 1806.06923).

    The features are multiplied by an embedding of the level τ: `relu(sum_i cos(pi i tau) w_ij + b_j)` with
    i from 0 to 63 (eq. 4, section 3.1).

    Args:
        torso: From observations to features.
        head: With 1 atom.
        generator: Where the embedding's weights are drawn from.
        cosines: How many (64 in the paper).
    """

    _frequency: Tensor

    def __init__(self, torso: Torso, head: ActionHead, generator: torch.Generator, cosines: int = 64) -> None:
        super().__init__()
        self.torso, self.head = torso, head
        self.embedding = nn.Linear(cosines, torso.features)
        fan_in_(self.embedding, generator)
        self.register_buffer("_frequency", math.pi * torch.arange(cosines), persistent=False)

    def forward(self, obs: Tensor, level: Tensor) -> Tensor:
        """Return the quantiles `[B, A, K]` at the levels `[B, K]` for observations `[B, *shape]`."""
        batch, count = level.shape
        features: Tensor = self.torso(obs)
        embedded = self.embedding(torch.cos(level[:, :, None] * self._frequency)).relu()  # [B, K, features]
        mixed = (features[:, None, :] * embedded).flatten(0, 1)
        quantiles: Tensor = self.head(mixed).view(batch, count, -1)
        return quantiles.transpose(1, 2)

    def values(self, obs: Tensor, levels: int = 32) -> Tensor:
        """Return the means `[B, A]` over evenly spread levels.

        The paper draws them (K = 32); even ones have the same mean without its scatter, and the same
        observation always gets the same action.
        """
        level = midpoints(levels, obs.device).expand(len(obs), -1)
        return self.forward(obs, level).mean(2)
