"""Networks that value actions: a torso, a head, and what the head's numbers mean."""

import math

import torch
from torch import Tensor, nn

from soulsgui.rl.losses.q_learning import midpoints
from soulsgui.rl.networks.heads import HeadedNetwork, QHead
from soulsgui.rl.networks.mlp import fan_in_
from soulsgui.rl.networks.recurrent import RecurrentTorso, unroll_with_burn_in
from soulsgui.rl.networks.torsos import Torso


class ValueNetwork(HeadedNetwork):
    """A value for each action (DQN and its dueling and noisy kin); the head has 1 atom."""

    def forward(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]` for observations `[B, *shape]`."""
        values: Tensor = self.head(self.torso(obs)).squeeze(2)
        return values

    def values(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]`."""
        return self.forward(obs)


class QuantileNetwork(HeadedNetwork):
    """N quantiles of each action's return, at the levels `midpoints(N)` (QR-DQN, arXiv 1710.10044)."""

    def forward(self, obs: Tensor) -> Tensor:
        """Return quantiles `[B, A, N]` for observations `[B, *shape]`."""
        quantiles: Tensor = self.head(self.torso(obs))
        return quantiles

    def values(self, obs: Tensor) -> Tensor:
        """Return the means `[B, A]`."""
        return self.forward(obs).mean(2)


class CategoricalNetwork(HeadedNetwork):
    """Probabilities of N fixed atoms for each action (C51, arXiv 1707.06887).

    Args:
        torso: From observations to features.
        head: With N atoms.
        atoms: `[N]`, their values (`losses.categorical.support`).
    """

    atoms: Tensor

    def __init__(self, torso: Torso, head: QHead, atoms: Tensor) -> None:
        super().__init__(torso, head)
        self.register_buffer("atoms", atoms)

    def forward(self, obs: Tensor) -> Tensor:
        """Return log-probabilities `[B, A, N]` for observations `[B, *shape]`."""
        logits: Tensor = self.head(self.torso(obs))
        return logits.log_softmax(2)

    def values(self, obs: Tensor) -> Tensor:
        """Return the means `[B, A]`."""
        return self.forward(obs).exp() @ self.atoms


class ImplicitQuantileNetwork(HeadedNetwork):
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

    def __init__(self, torso: Torso, head: QHead, generator: torch.Generator, cosines: int = 64) -> None:
        super().__init__(torso, head)
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


class RecurrentQNetwork(nn.Module):
    """A value for each action, by all that was seen of an episode.

    Args:
        torso: From observations to features, over time.
        head: With 1 atom.
    """

    def __init__(self, torso: RecurrentTorso, head: QHead) -> None:
        super().__init__()
        self.torso, self.head = torso, head

    def forward(self, obs: Tensor, state: Tensor, burn_in: int, exact: Tensor) -> Tensor:
        """Go through sequences as `unroll_with_burn_in`; return values `[T, B, A]`."""
        return self._valued(unroll_with_burn_in(self.torso, obs, state, burn_in, exact))

    @torch.no_grad()
    def values(self, obs: Tensor) -> Tensor:
        """Return values `[B, A]` of observations `[B, *shape]` that are each seen twice at first.

        The second time every weight has its say, those of the memory too.
        """
        starts = torch.zeros((2, len(obs)), dtype=torch.bool, device=obs.device)
        state = torch.zeros((len(obs), self.torso.state_size), device=obs.device)
        return self._valued(self.torso(torch.stack((obs, obs)), state, starts)[0])[1]

    def _valued(self, features: Tensor) -> Tensor:
        values: Tensor = self.head(features.flatten(0, 1)).squeeze(2).view(*features.shape[:2], -1)
        return values
