"""The gradient of IQN's loss, by autograd: its network is asked for other quantiles at each step."""

from operator import attrgetter

import numpy as np
import torch
from torch import Tensor

from soulsgui.rl.dqn_parts import Parts
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.dqn import DQNRows, DQNStep, to_tensors, told
from soulsgui.rl.gradients.rules import Judged, TensorRows, limited
from soulsgui.rl.losses.quantile import quantile_huber_loss, quantile_target
from soulsgui.rl.losses.weighted import pick_action
from soulsgui.rl.networks.q_networks import ImplicitQuantileNetwork
from soulsgui.rl.quickened import Quickened, forward
from soulsgui.rl.settings import DQNSettings


class ImplicitGradient:
    """Takes the gradient of implicit quantile networks (arXiv 1806.06923, eq. 3).

    The levels of what is predicted, and of what that is drawn to, are drawn anew for each sample.

    Attributes:
        quickened: The loss, which may be compiled.
        mixed: Whether networks compute in bfloat16 where that is enough.

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
        self.mixed = False
        self.quickened: Quickened[Judged] = Quickened(_judged, attrgetter("loss"))

    def __call__(self, rows: DQNRows, dqn: DQNSettings) -> DQNStep:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        tensors, double = to_tensors(rows, self._flat.parameter.device), Parts.of(dqn).double
        levels = self._draw(len(rows.obs)), self._draw(len(rows.obs))
        judged = self.quickened(self._online, self._target, tensors, *levels, dqn, double, self.mixed)
        self._flat.gradient.zero_()
        judged.loss.backward()  # type: ignore[no-untyped-call]
        return told(judged)

    def _draw(self, count: int) -> Tensor:
        level = self._rng.random((count, self._levels), np.float32)
        return torch.from_numpy(level).to(self._flat.parameter.device)


def _judged(
    online: ImplicitQuantileNetwork,
    target: ImplicitQuantileNetwork,
    rows: TensorRows,
    aimed: Tensor,
    level: Tensor,
    dqn: DQNSettings,
    double: bool,
    mixed: bool,
) -> Judged:
    """Aim at samples of the return at the levels `aimed`, and judge those at `level`, `[B, N]` each."""
    with torch.no_grad():
        following = forward(target, rows.next_obs, aimed, mixed=mixed)
        chooser = forward(online, rows.next_obs, aimed, mixed=mixed) if double else following
        following = limited(following, dqn)
        aim = quantile_target(rows.reward, rows.discount, following, chooser, True, rows.next_mask)
    taken = pick_action(forward(online, rows.obs, level, mixed=mixed), rows.action)
    loss, error = quantile_huber_loss(taken, level, aim, dqn.kappa, rows.weight)
    return Judged(loss, error, taken.detach().mean(), aim.mean())
