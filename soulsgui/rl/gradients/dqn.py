"""The gradient of deep Q-learning's loss, by autograd: for any network and device."""

from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.losses import dqn as losses
from soulsgui.rl.settings import DQNSettings


class DQNRows(NamedTuple):
    """Transitions that one gradient step sees.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[B, size]` float32 | inputs of the network |
    | action | `[B]` int64 | index of the action taken |
    | reward | `[B]` float32 | |
    | next_obs | `[B, size]` float32 | inputs of the networks after the step |
    | terminated | `[B]` bool | the step ended its episode in a final state |
    | next_mask | `[B, A]` bool, or None | which actions are valid after the step; None: all are |
    """

    obs: NDArray[np.float32]
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    next_obs: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    next_mask: NDArray[np.bool_] | None = None


class DQNGradient(Protocol):
    """Writes the gradient of the mean loss of the temporal differences."""

    def __call__(self, rows: DQNRows, dqn: DQNSettings) -> Tensor:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there.

        Returns:
            `[4]`: the loss, and the means of the values of the actions taken, of the targets, and of the
            absolute temporal differences.
        """


class AutogradDQNGradient:
    """Takes the gradient by autograd. Also the yardstick for `dqn_by_hand`.

    Args:
        online: From `[B, size]` to the values of the actions `[B, A]`; learns.
        target: Likewise; values the next actions.
        flat: Holds the parameters of `online`.
    """

    def __init__(self, online: nn.Module, target: nn.Module, flat: FlatParameters) -> None:
        self._online, self._target, self._flat = online, target, flat

    def __call__(self, rows: DQNRows, dqn: DQNSettings) -> Tensor:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        device = self._flat.parameter.device
        obs, action, reward, next_obs, terminated = (
            torch.tensor(column, device=device)
            for column in (rows.obs, rows.action, rows.reward, rows.next_obs, rows.terminated)
        )
        next_mask = None if rows.next_mask is None else torch.tensor(rows.next_mask, device=device)
        with torch.no_grad():
            next_target_q = self._target(next_obs)
            next_online_q = self._online(next_obs) if dqn.double else next_target_q
            target = losses.double_dqn_target(
                reward, terminated, next_online_q, next_target_q, dqn.gamma, dqn.double, next_mask
            )
        q_taken = self._online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = losses.td_loss(q_taken, target, dqn.loss)
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        q_taken = q_taken.detach()
        error = (q_taken - target).abs()
        return torch.stack((loss.detach(), q_taken.mean(), target.mean(), error.mean()))
