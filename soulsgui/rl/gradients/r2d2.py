"""The gradient of R2D2's loss over stored sequences (Kapturowski et al. 2019, ICLR, section 2.3)."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.dqn import DQNStep
from soulsgui.rl.losses import r2d2 as losses
from soulsgui.rl.networks.recurrent_q import RecurrentQNetwork
from soulsgui.rl.settings import DQNSettings

Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]


class SequenceRows(NamedTuple):
    """`B` sequences that one gradient step sees, time first; what `buffers.sequences.SequenceBatch` becomes.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[T + 1, B, size]` float32, or what else the network takes | inputs of the network |
    | action | `[T, B]` int64 | index of the action taken |
    | reward | `[T, B]` float32 | |
    | terminated, valid, learned | `[T, B]` bool | as there |
    | state | `[B, S]` float32 | as stored |
    | exact | `[B]` bool | as there |
    | weight | `[B]` float32 | importance weights |
    | next_mask | `[T, B, A]` bool, or None | valid actions at `obs[1:]`; None: all are |
    """

    obs: NDArray[Any]
    action: NDArray[np.int64]
    reward: Floats
    terminated: Bools
    valid: Bools
    learned: Bools
    state: Floats
    exact: Bools
    weight: Floats
    next_mask: Bools | None


class R2D2Gradient:
    """Takes the gradient by autograd; double Q-learning over windows of n steps within the sequence.

    Both networks go through the sequence, each from the stored state and with a burn-in of its own.

    Args:
        online: Learns.
        target: Values the next actions.
        flat: Holds the parameters of `online`.
        n: Most steps of a window.
    """

    def __init__(
        self, online: RecurrentQNetwork, target: RecurrentQNetwork, flat: FlatParameters, n: int
    ) -> None:
        self._online, self._target, self._flat, self._n = online, target, flat, n

    def __call__(self, rows: SequenceRows, dqn: DQNSettings) -> DQNStep:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        windows = losses.sequence_windows(rows.reward, rows.terminated, rows.valid, self._n, dqn.gamma)
        obs, state, exact = self._here(rows.obs), self._here(rows.state), self._here(rows.exact)
        online_q = self._online(obs, state, dqn.burn_in, exact)
        with torch.no_grad():
            target_q = self._target(obs, state, dqn.burn_in, exact)
            target = losses.r2d2_target(
                self._here(windows.reward),
                self._here(windows.discount),
                self._here(windows.row),
                target_q,
                online_q.detach(),
                None if rows.next_mask is None else self._here(rows.next_mask),
            )
        q_taken = online_q[:-1].gather(2, self._here(rows.action)[:, :, None]).squeeze(2)
        learned = self._here(rows.learned)
        loss, error = losses.sequence_loss(
            q_taken, target, learned, self._here(rows.weight), dqn.priority_mix
        )
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        taken, drawn_to = q_taken.detach()[learned], target[learned]
        values = losses.unscaled(taken).mean(), losses.unscaled(drawn_to).mean()
        return DQNStep(torch.stack((loss.detach(), *values, (taken - drawn_to).abs().mean())), error)

    def _here(self, array: NDArray[np.generic]) -> Tensor:
        return torch.tensor(array, device=self._flat.parameter.device)
