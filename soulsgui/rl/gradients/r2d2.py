"""The gradient of R2D2's loss over stored sequences (Kapturowski et al. 2019, ICLR, section 2.3)."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.config.sections.algorithms import DQNSettings
from soulsgui.rl.compiled_loss import to_device
from soulsgui.rl.gradients.base import BatchPart, Gradient, Step
from soulsgui.rl.losses import q_learning as losses
from soulsgui.rl.networks.q_networks import RecurrentQNetwork
from soulsgui.rl.optimiser import FlatParameters

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


class PreparedSequences(NamedTuple):
    """`SequenceRows` on the device, their rewards added up over windows; samples lie along the second axis.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs, action, learned, state, exact, weight, next_mask | | as there |
    | reward, discount, row | `[T, B]` | `losses.r2d2.SequenceWindows` |
    """

    obs: Tensor
    action: Tensor
    learned: Tensor
    reward: Tensor
    discount: Tensor
    row: Tensor
    next_mask: Tensor | None
    state: Tensor
    exact: Tensor
    weight: Tensor


class R2D2Gradient(Gradient[SequenceRows, DQNSettings]):
    """Takes the gradient by autograd; double Q-learning over windows of n steps within the sequence.

    Both networks go through the sequence, each from the stored state and with a burn-in of its own. Of each
    sequence it says the priority, and the largest error of a step: samples `[B, 2]`.
    """

    def __init__(
        self, online: RecurrentQNetwork, target: RecurrentQNetwork, flat: FlatParameters, n: int
    ) -> None:
        self._online, self._target, self._flat, self._n = online, target, flat, n

    def prepare(self, rows: SequenceRows, settings: DQNSettings) -> PreparedSequences:
        """Add rewards up, and copy everything to where the networks live."""
        windows = losses.sequence_windows(rows.reward, rows.terminated, rows.valid, self._n, settings.gamma)
        columns = (
            *(rows.obs, rows.action, rows.learned, *windows, rows.next_mask),
            *(rows.state, rows.exact, rows.weight),
        )
        device = self._flat.parameter.device
        here = (None if column is None else to_device(column, device) for column in columns)
        return PreparedSequences(*here)  # type: ignore[arg-type]

    def at(self, prepared: PreparedSequences, settings: DQNSettings) -> Step:
        """Write the gradient at what was prepared."""
        obs, state, exact = prepared.obs, prepared.state, prepared.exact
        online_q = self._online(obs, state, settings.burn_in, exact)
        with torch.no_grad():
            target_q = self._target(obs, state, settings.burn_in, exact)
            window = prepared.reward, prepared.discount, prepared.row
            target = losses.r2d2_target(*window, target_q, online_q.detach(), prepared.next_mask)
        q_taken = online_q[:-1].gather(2, prepared.action[:, :, None]).squeeze(2)
        learned = prepared.learned
        loss, error = losses.sequence_loss(q_taken, target, learned, prepared.weight, settings.priority_mix)
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        taken, drawn_to = q_taken.detach()[learned], target[learned]
        values = losses.unscaled(taken).mean(), losses.unscaled(drawn_to).mean()
        figures = torch.stack((loss.detach(), *values, (taken - drawn_to).abs().mean()))
        largest = (q_taken.detach() - target).abs().masked_fill(~learned, 0.0).amax(0)
        return Step(figures, torch.stack((error, largest), 1))

    def count(self, prepared: PreparedSequences) -> int:
        """Return the number of sequences."""
        return len(prepared.state)

    def weight(self, prepared: PreparedSequences) -> Tensor:
        """Return the number of steps that are learned from, `[]`."""
        return prepared.learned.sum()

    def part(self, prepared: PreparedSequences, part: BatchPart) -> PreparedSequences:
        """Take some of the sequences."""
        here = part.samples
        over_time = (None if column is None else column[:, here] for column in prepared[:7])
        return PreparedSequences(*over_time, *(column[here] for column in prepared[7:]))  # type: ignore[arg-type]
