"""The gradient of IQN's loss, by autograd: its network is asked for other quantiles at each step."""

import numpy as np
import torch
from torch import Tensor

from soulsgui.rl.dqn_parts import Parts
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.dqn import DQNRows, DQNStep, to_tensors, told
from soulsgui.rl.gradients.rules import Judged, limited
from soulsgui.rl.losses.quantile import quantile_huber_loss, quantile_target
from soulsgui.rl.losses.weighted import pick_action
from soulsgui.rl.networks.q_networks import ImplicitQuantileNetwork
from soulsgui.rl.settings import DQNSettings


class ImplicitGradient:
    """Takes the gradient of implicit quantile networks (arXiv 1806.06923, eq. 3).

    The levels of what is predicted, and of what that is drawn to, are drawn anew for each sample.

    Args:
        online: Learns.
        target: Values the next actions.
        flat: Holds the parameters of `online`.
        levels: How many to draw for each sample (N and N' in the paper).
        rng: Where they are drawn from.
    """

    def __init__(
        self,
        online: ImplicitQuantileNetwork,
        target: ImplicitQuantileNetwork,
        flat: FlatParameters,
        levels: int,
        rng: np.random.Generator,
    ) -> None:
        self._online, self._target, self._flat = online, target, flat
        self._levels, self._rng = levels, rng

    def __call__(self, rows: DQNRows, dqn: DQNSettings) -> DQNStep:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        tensors = to_tensors(rows, self._flat.parameter.device)
        with torch.no_grad():
            level = self._draw(len(rows.obs))
            following = self._target(tensors.next_obs, level)
            chooser = self._online(tensors.next_obs, level) if Parts.of(dqn).double else following
            aim = quantile_target(
                tensors.reward, tensors.discount, limited(following, dqn), chooser, True, tensors.next_mask
            )
        level = self._draw(len(rows.obs))
        taken = pick_action(self._online(tensors.obs, level), tensors.action)
        loss, error = quantile_huber_loss(taken, level, aim, dqn.kappa, tensors.weight)
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return told(Judged(loss, error, taken.detach().mean(), aim.mean()))

    def _draw(self, count: int) -> Tensor:
        level = self._rng.random((count, self._levels), np.float32)
        return torch.from_numpy(level).to(self._flat.parameter.device)
