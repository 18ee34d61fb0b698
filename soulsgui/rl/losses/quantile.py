"""Quantile regression for returns: QR-DQN (Dabney et al. 2018, arXiv 1710.10044), IQN (arXiv 1806.06923)."""

import torch
from torch import Tensor

from soulsgui.rl.losses.weighted import SampleLoss, discounted, only_valid, pick_action, weighted_mean


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
    | reward | `[B]` | sum of the window's rewards |
    | discount | `[B]` | gamma to the power of its steps, 0 after a final state |
    | next_target | `[B, A, M]` | quantiles by the target network |
    | next_online | `[B, A, K]` | quantiles by the online network; read only if `double` |
    | double | bool | let the online network choose the next action |
    | next_mask | `[B, A]` bool or None | next actions that are valid, at least one each; None: all are |
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
    | target | `[B, M]` | samples of what they are drawn to; no gradient flows there |
    | kappa | float | where the loss turns linear |
    | weight | `[B]` or None | importance weights |
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
