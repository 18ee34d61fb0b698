"""The gradient of IQN's loss, by autograd: its network is asked for other quantiles at each step."""

from operator import attrgetter
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from soulsgui.rl.dqn_parts import Parts
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.base import Gradient, Step
from soulsgui.rl.gradients.dqn import DQNRows, to_tensors, told
from soulsgui.rl.gradients.rules import Judged, TensorRows, limited
from soulsgui.rl.losses.quantile import quantile_huber_loss, quantile_target
from soulsgui.rl.losses.weighted import pick_action
from soulsgui.rl.networks.q_networks import ImplicitQuantileNetwork
from soulsgui.rl.quickened import Quickened, forward
from soulsgui.rl.settings import DQNSettings


class LevelledRows(NamedTuple):
    """Transitions on the device, and the levels at which its next action is chosen and valued, and its
    own one judged, `[B, N]` float32."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    discount: Tensor
    next_mask: Tensor | None
    weight: Tensor | None
    chosen: Tensor
    aimed: Tensor
    level: Tensor


class ImplicitGradient(Gradient[DQNRows, DQNSettings]):
    """Takes the gradient of implicit quantile networks (arXiv 1806.06923, eq. 3).

    The levels of what is predicted, of what that is drawn to, and those that choose the next action are drawn
    anew for each sample (algorithm 1): an action chosen by the samples that then value it is valued too high.

    Attributes:
        quickened: The loss, which may be compiled.
        mixed: Whether networks compute in bfloat16 where that is enough.

    Args:
        online: Learns.
        target: Values the next actions.
        flat: Holds the parameters of `online`.
        levels: How many to draw for each sample (N, N' and K in the paper).
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

    def prepare(self, rows: DQNRows, settings: DQNSettings) -> LevelledRows:
        """Copy rows to where the networks live, and draw their levels."""
        levels = [self._draw(len(rows.obs)) for _ in range(3)]
        return LevelledRows(*to_tensors(rows, self._flat.parameter.device), *levels)

    def at(self, prepared: LevelledRows, settings: DQNSettings) -> Step:
        """Write the gradient at what was prepared."""
        rows, levels, double = TensorRows(*prepared[:7]), prepared[7:], Parts.of(settings).double
        judged = self.quickened(self._online, self._target, rows, *levels, settings, double, self.mixed)
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
    chosen: Tensor,
    aimed: Tensor,
    level: Tensor,
    dqn: DQNSettings,
    double: bool,
    mixed: bool,
) -> Judged:
    """Choose the next action at the levels `chosen`, aim at samples of its return at the levels `aimed`, and
    judge those at `level`, `[B, N]` each."""
    with torch.no_grad():
        chooser = forward(online if double else target, rows.next_obs, chosen, mixed=mixed)
        following = limited(forward(target, rows.next_obs, aimed, mixed=mixed), dqn)
        aim = quantile_target(rows.reward, rows.discount, following, chooser, True, rows.next_mask)
    taken = pick_action(forward(online, rows.obs, level, mixed=mixed), rows.action)
    loss, error = quantile_huber_loss(taken, level, aim, dqn.kappa, rows.weight)
    return Judged(loss, error, taken.detach().mean(), aim.mean())
