"""Recurrent Q-learning over sequences (R2D2, Kapturowski et al. 2019, ICLR, section 2.3)."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.rl.losses.weighted import SampleLoss, only_valid
from soulsgui.rl.returns.n_step import n_step

EPSILON = 1e-3


def rescaled(x: Tensor, epsilon: float = EPSILON) -> Tensor:
    """`h(x) = sign(x) (√(|x| + 1) - 1) + epsilon x`: large values grow like a root (arXiv 1805.11593).

    Of any shape; likewise the result. Written without the difference of two nearly equal numbers.
    """
    return x / ((x.abs() + 1).sqrt() + 1) + epsilon * x


def unscaled(x: Tensor, epsilon: float = EPSILON) -> Tensor:
    """Undo `rescaled`: `sign(x) (((√(1 + 4 eps (|x| + 1 + eps)) - 1) / (2 eps))^2 - 1)` (prop. A.2 there).

    In float32 that formula is wrong by 10⁻⁴ near 0. Its root r solves `eps r² + r = |x| + 1 + eps`, so that
    `r² - 1 = |x| (r + 1) / (1 + eps (r + 1))` is exact at any size.
    """
    inner = x.abs() + 1 + epsilon
    root = 2 * inner / ((1 + 4 * epsilon * inner).sqrt() + 1)
    return x * (root + 1) / (1 + epsilon * (root + 1))


class SequenceWindows(NamedTuple):
    """Windows of n steps within sequences.

    | field | shape, dtype | meaning |
    |---|---|---|
    | reward | `[T, B]` float32 | discounted sum over the window |
    | discount | `[T, B]` float32 | of the bootstrap; 0 after a final state |
    | row | `[T, B]` int64 | observation to bootstrap from, 1 to T |
    """

    reward: NDArray[np.float32]
    discount: NDArray[np.float32]
    row: NDArray[np.int64]


def sequence_windows(
    reward: NDArray[np.float32],
    terminated: NDArray[np.bool_],
    valid: NDArray[np.bool_],
    n: int,
    gamma: float,
) -> SequenceWindows:
    """Add up to n rewards from each step on; at the end of a sequence the windows are shorter.

    | symbol | shape | description |
    |---|---|---|
    | reward | `[T, B]` | |
    | terminated | `[T, B]` bool | |
    | valid | `[T, B]` bool | the sequence has this step |
    | n, gamma | int, float | longest window, discount of a step |
    """
    steps, batch = reward.shape
    slots = np.arange(steps * batch).reshape(steps, batch)
    following = np.full((steps, batch), -1, np.int64)
    following[:-1] = np.where(valid[1:], slots[1:], -1)
    window = n_step(slots, following.reshape(-1), reward.reshape(-1), terminated.reshape(-1), n, gamma)
    return SequenceWindows(window.reward, window.discount, window.last // batch + 1)


@torch.no_grad()
def r2d2_target(
    reward: Tensor,
    discount: Tensor,
    row: Tensor,
    target_q: Tensor,
    online_q: Tensor,
    next_mask: Tensor | None = None,
) -> Tensor:
    """`h(R + discount * h⁻¹(Q_target(row, argmax_a Q_online(row, a))))` (section 2.3).

    | symbol | shape | description |
    |---|---|---|
    | reward, discount, row | `[T, B]` | `SequenceWindows` |
    | target_q, online_q | `[T + 1, B, A]` | rescaled values of all actions by both networks |
    | next_mask | `[T, B, A]` bool or None | actions that are valid in rows 1 to T; None: all are |
    | returns | `[T, B]` | rescaled |
    """
    best = only_valid(online_q[1:], next_mask).argmax(2, keepdim=True)
    future = target_q[1:].gather(2, best).squeeze(2).gather(0, row - 1)
    value = (discount * unscaled(future)).masked_fill(discount == 0, 0.0)
    return rescaled(reward + value)


def sequence_loss(
    q_taken: Tensor, target: Tensor, learned: Tensor, weight: Tensor | None = None, eta: float = 0.9
) -> SampleLoss:
    """Half the squared error over all steps that are learned from, each step alike.

    | symbol | shape | description |
    |---|---|---|
    | q_taken | `[T, B]` | rescaled values of the actions taken |
    | target | `[T, B]` | `r2d2_target`; no gradient flows there |
    | learned | `[T, B]` bool | steps to learn from, at least one |
    | weight | `[B]` or None | importance weights of the sequences |
    | eta | float | weight of the largest error in a sequence's priority |
    | returns | | the error `[B]` is `eta * max |d| + (1 - eta) * mean |d|` over a sequence's learned steps |
    """
    difference = (q_taken - target.detach()).masked_fill(~learned, 0.0)
    squares = difference.square().sum(0)
    loss = 0.5 * (squares if weight is None else weight * squares).sum() / learned.sum()
    size = difference.detach().abs()
    error = eta * size.amax(0) + (1 - eta) * size.sum(0) / learned.sum(0).clamp(min=1)
    return SampleLoss(loss, error)
