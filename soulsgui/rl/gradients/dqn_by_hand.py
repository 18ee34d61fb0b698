"""The gradient of deep Q-learning's loss for MLPs on the CPU, written out in numpy.

`AutogradDQNGradient` defines what is right; the tests hold both together.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from soulsgui.rl.gradients.dqn import DQNRows, DQNStep
from soulsgui.rl.gradients.ppo_by_hand import HandMLP
from soulsgui.rl.losses.dqn import TDLossName, n_step_target
from soulsgui.rl.settings import DQNSettings

Floats = NDArray[np.float32]


class HandDQNGradient:
    """Takes the gradient by hand.

    Args:
        online: From `[B, size]` to the values of the actions `[B, A]`, as `HandMLP` takes it; learns.
        target: Likewise; values the next actions.
    """

    def __init__(self, online: nn.Sequential, target: nn.Sequential) -> None:
        self._online, self._target = HandMLP(online), HandMLP(target)

    def __call__(self, rows: DQNRows, dqn: DQNSettings) -> DQNStep:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        next_target_q = self._target.forward(rows.next_obs)
        next_online_q = self._online.forward(rows.next_obs) if dqn.double else next_target_q
        reward, discount, online, target_q = (
            torch.tensor(x) for x in (rows.reward, rows.discount, next_online_q, next_target_q)
        )
        next_mask = None if rows.next_mask is None else torch.tensor(rows.next_mask)
        target = n_step_target(reward, discount, online, target_q, dqn.double, next_mask).numpy()
        q = self._online.forward(rows.obs)  # over the values of the next actions: they are read by now
        every = np.arange(len(q))
        q_taken = q[every, rows.action]
        loss, error, by_value = td_gradient(q_taken, target, dqn.loss, rows.weight)
        gradient = np.zeros_like(q)
        gradient[every, rows.action] = by_value
        self._online.backward(rows.obs, gradient)
        size = np.abs(error)
        figures = (loss, q_taken.mean(), target.mean(), size.mean())
        return DQNStep(torch.tensor(figures, dtype=torch.float32), torch.from_numpy(size))


def td_gradient(
    q_taken: Floats, target: Floats, kind: TDLossName, weight: Floats | None = None
) -> tuple[float, Floats, Floats]:
    """Differentiate `td_sample_loss` by the values: d, or with `huber` d clipped to plus and minus 1, by `B`.

    | symbol | shape | description |
    |---|---|---|
    | q_taken | `[B]` | value of the action taken |
    | target | `[B]` | what it is drawn to |
    | kind | str | `huber` or `mse` |
    | weight | `[B]` or None | importance weights |
    | returns | | the loss, the temporal differences d `[B]`, and the gradient `[B]` |
    """
    error = q_taken - target
    slope = np.clip(error, -1, 1) if kind == "huber" else error
    # Half the square below 1 and |d| - 0.5 above are one formula: slope * (d - slope / 2).
    each = slope * (error - np.float32(0.5) * slope)
    if weight is not None:
        each, slope = each * weight, slope * weight
    return float(each.mean()), error, slope / np.float32(len(error))
