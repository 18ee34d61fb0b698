"""A network that values actions and remembers: a torso, LSTM or GRU, dueling head (R2D2)."""

import torch
from torch import Tensor, nn

from soulsgui.rl.networks.heads import ActionHead
from soulsgui.rl.networks.recurrent import RecurrentTorso, unroll_with_burn_in


class RecurrentQNetwork(nn.Module):
    """A value for each action, by all that was seen of an episode.

    Args:
        torso: From observations to features, over time.
        head: With 1 atom.
    """

    def __init__(self, torso: RecurrentTorso, head: ActionHead) -> None:
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
