"""Targets and losses of Q-learning: values, quantiles, probabilities of atoms, and sequences (R2D2).

| symbol | shape | description |
|---|---|---|
| reward | `[B]` | discounted sum of a window's rewards |
| discount | `[B]` | gamma to the power of its steps, 0 after a final state |
| double | bool | the online network chooses the next action, else the target network |
| next_mask | `[B, A]` bool or None | next actions that are valid, at least one each; None: all are |
| target | | what is drawn to; no gradient flows there |
| weight | `[B]` or None | importance weights; None: all 1 |

Only a final state has no future: an episode that was cut off (truncated) has one, and its last observation is
valued like any other.
"""

from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.rl.returns import n_step


class SampleLoss(NamedTuple):
    """A loss that prioritised replay can work with.

    | field | shape | meaning |
    |---|---|---|
    | loss | `[]` | mean over the batch, each sample times its importance weight |
    | error | `[B]` | how wrong each sample was, never negative, without gradient: its new priority |
    """

    loss: Tensor
    error: Tensor


def weighted_mean(loss: Tensor, weight: Tensor | None) -> Tensor:
    """Mean `[]` of `weight * loss`, `[B]` each, divided by B and not by the weights (1511.05952, alg. 1)."""
    return loss.mean() if weight is None else (weight * loss).mean()


def discounted(discount: Tensor, future: Tensor) -> Tensor:
    """`discount * future`, exactly 0 where the discount is 0, whatever the future `[B, ...]` is."""
    spread = discount.reshape(-1, *[1] * (future.dim() - 1))
    return (spread * future).masked_fill(spread == 0, 0.0)


def only_valid(values: Tensor, mask: Tensor | None) -> Tensor:
    """Return values `[..., A]`, minus infinity where the mask `[..., A]` says that an action is not valid."""
    return values if mask is None else values.masked_fill(~mask, -torch.inf)


def pick_action(values: Tensor, action: Tensor) -> Tensor:
    """Take of all actions' quantiles or log-probabilities `[B, A, N]` those of one action `[B]`, `[B, N]`."""
    index = action[:, None, None].expand(-1, 1, values.shape[2])
    return values.gather(1, index).squeeze(1)


TDLossName = Literal["huber", "mse"]


def n_step_target(
    reward: Tensor,
    discount: Tensor,
    next_online_q: Tensor,
    next_target_q: Tensor,
    double: bool,
    next_mask: Tensor | None = None,
) -> Tensor:
    """What the value of the action taken is drawn to: `R + discount * Q_target(s', a*)`.

    Double: `a* = argmax_a Q_online(s', a)` (arXiv 1509.06461, eq. 4); plain: `a* = argmax_a Q_target(s', a)`
    (arXiv 1312.5602, eq. 3).

    | symbol | shape | description |
    |---|---|---|
    | next_online_q, next_target_q | `[B, A]` | values of all next actions; the first read only if `double` |
    | returns | `[B]` | the target |
    """
    chosen = only_valid(next_online_q if double else next_target_q, next_mask).argmax(1, keepdim=True)
    return reward + discounted(discount, next_target_q.gather(1, chosen).squeeze(1))


def td_sample_loss(
    q_taken: Tensor, target: Tensor, kind: TDLossName, weight: Tensor | None = None
) -> SampleLoss:
    """Mean loss of the temporal difference `d = Q(s, a) - target`, each sample times its importance weight.

    `mse` is half the squared error, `0.5 * d^2`. `huber` equals it for `|d| <= 1` and goes on as `|d| - 0.5`:
    its gradient is d clipped to plus and minus 1 (Mnih et al. 2015, Nature 518, "Methods").

    | symbol | shape | description |
    |---|---|---|
    | q_taken, target | `[B]` | value of the action taken |
    | returns | | the error is the absolute temporal difference |
    """
    size = (q_taken - target.detach()).abs()
    inner = size.clamp(max=1.0) if kind == "huber" else size
    return SampleLoss(weighted_mean(inner * (size - 0.5 * inner), weight), size.detach())


def midpoints(count: int, device: torch.device | None = None) -> Tensor:
    """Quantile levels `(2i + 1) / 2N`, `[N]`: where N equal atoms are closest to a distribution (lemma 2)."""
    return (torch.arange(count, device=device, dtype=torch.float32) + 0.5) / count


def quantile_target(
    reward: Tensor,
    discount: Tensor,
    next_target: Tensor,
    next_online: Tensor,
    double: bool,
    next_mask: Tensor | None = None,
) -> Tensor:
    """Samples of the return's distribution: `r + discount * theta_j(s', a*)` (1710.10044, algorithm 1).

    The next action has the highest mean over the quantiles: of the online network if `double`
    (arXiv 1509.06461), else of the target network as in the papers.

    | symbol | shape | description |
    |---|---|---|
    | next_target | `[B, A, M]` | quantiles by the target network |
    | next_online | `[B, A, K]` | quantiles by the online network; read only if `double` |
    | returns | `[B, M]` | |
    """
    chosen = only_valid((next_online if double else next_target).mean(2), next_mask).argmax(1)
    return reward[:, None] + discounted(discount, pick_action(next_target, chosen))


def quantile_huber_loss(
    predicted: Tensor, level: Tensor, target: Tensor, kappa: float = 1.0, weight: Tensor | None = None
) -> SampleLoss:
    """Sum over predicted quantiles i of the mean over target samples j of `rho_i(target_j - predicted_i)`.

    `rho_i(u) = |level_i - 1{u < 0}| * L(u) / kappa` with Huber's `L(u) = u^2 / 2` for `|u| <= kappa`, else
    `kappa * (|u| - kappa / 2)` (1710.10044, eq. 9 and 10; 1806.06923, eq. 3, whose division by kappa keeps
    the scale). With `kappa = 0` it is pure quantile regression, `|level_i - 1{u < 0}| * |u|`.

    **The levels belong to the predicted axis.** On the target axis the weights of each predicted quantile
    average out, and all quantiles fall onto the mean.

    | symbol | shape | description |
    |---|---|---|
    | predicted | `[B, N]` | quantiles of the action taken |
    | level | `[N]` or `[B, N]` | τ of each: `midpoints` (QR-DQN), or as drawn (IQN) |
    | target | `[B, M]` | samples of what they are drawn to |
    | returns | | the error is the absolute difference of the means |
    """
    difference = target.detach()[:, None, :] - predicted[:, :, None]  # [B, N, M]
    size = difference.abs()
    if kappa > 0:
        inner = size.clamp(max=kappa)
        huber = inner * (size - 0.5 * inner) / kappa
    else:
        huber = size
    below = (difference < 0).to(level.dtype)
    loss = ((level.unsqueeze(-1) - below).abs() * huber).mean(2).sum(1)
    error = (target.mean(1) - predicted.mean(1)).abs().detach()
    return SampleLoss(weighted_mean(loss, weight), error)


def support(lowest: float, highest: float, atoms: int) -> Tensor:
    """Place the atoms evenly: `[N]` float32 from `lowest` to `highest`.

    Raises:
        ValueError: There are fewer than 2 atoms, or the highest is not above the lowest.
    """
    if atoms < 2 or not lowest < highest:
        raise ValueError(f"no support: {atoms} atoms from {lowest} to {highest}")
    return torch.linspace(lowest, highest, atoms)


def projected(reward: Tensor, discount: Tensor, next_probs: Tensor, atoms: Tensor) -> Tensor:
    """Shift and shrink a distribution by `r + discount * z`, and share each atom's mass among its neighbours.

    The mass at `Tz`, held within the support, goes to the two atoms around it, each the more the closer
    it is (eq. 7, algorithm 1). The upper one is `lower + 1`, not the ceiling: mass that falls exactly on an
    atom stays there and is not lost. Total mass is kept, and so is the mean inside the support.

    | symbol | shape | description |
    |---|---|---|
    | next_probs | `[B, N]` | probabilities of the atoms after the next action |
    | atoms | `[N]` | values of the atoms, evenly spaced |
    | returns | `[B, N]` | probabilities |
    """
    last = len(atoms) - 1
    spacing = (atoms[-1] - atoms[0]) / last
    moved = reward[:, None] + discount[:, None] * atoms
    place = ((moved - atoms[0]) / spacing).clamp(0, last)  # [B, N] in units of atoms
    lower = place.floor().clamp(max=last - 1)
    share = place - lower
    index = lower.long()
    result = torch.zeros_like(next_probs)
    result.scatter_add_(1, index, next_probs * (1 - share))
    return result.scatter_add_(1, index + 1, next_probs * share)


def categorical_target(
    reward: Tensor,
    discount: Tensor,
    next_target_log_probs: Tensor,
    next_online_log_probs: Tensor,
    atoms: Tensor,
    double: bool,
    next_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Distribution that the action taken is drawn to, and how often the support does not reach so far.

    | symbol | shape | description |
    |---|---|---|
    | next_target_log_probs, next_online_log_probs | `[B, A, N]` | the second read only if `double` |
    | atoms | `[N]` | values of the atoms |
    | returns | `[B, N]`, `[]` | probabilities; share of samples whose mean return lies beyond the support |
    """
    chooser = next_online_log_probs if double else next_target_log_probs
    chosen = only_valid(chooser.exp() @ atoms, next_mask).argmax(1)
    next_probs = pick_action(next_target_log_probs, chosen).exp()
    mean = reward + discount * (next_probs @ atoms)
    rounding = (atoms[1] - atoms[0]) / 100
    beyond = (mean < atoms[0] - rounding) | (mean > atoms[-1] + rounding)
    return projected(reward, discount, next_probs, atoms), beyond.float().mean()


def categorical_loss(log_probs: Tensor, target: Tensor, weight: Tensor | None = None) -> SampleLoss:
    """Cross-entropy `-sum_i m_i log p_i` (algorithm 1).

    | symbol | shape | description |
    |---|---|---|
    | log_probs | `[B, N]` | log-probabilities of the atoms for the action taken |
    | target | `[B, N]` | probabilities m |
    | returns | | the error is KL(m || p), as in Rainbow (arXiv 1710.02298) |
    """
    target = target.detach()
    cross_entropy = -(target * log_probs).sum(1)
    entropy = -torch.special.xlogy(target, target).sum(1)
    error = (cross_entropy.detach() - entropy).clamp(min=0)
    return SampleLoss(weighted_mean(cross_entropy, weight), error)


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
    """Add up to n rewards `[T, B]` from each step on, fewer at the end of what is `valid` of a sequence."""
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
    | target | `[T, B]` | `r2d2_target` |
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
