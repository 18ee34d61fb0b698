"""The losses of PPO (Schulman et al. 2017, arXiv 1707.06347), each a mean over the minibatch."""

import torch
from torch import Tensor

MASKED_LOGIT = -1e9
"""Logit of an action that is not valid: finite, so that 0 · log 0 in the entropy is 0 and no NaN."""

LARGEST_LOG_RATIO = 20.0
"""A ratio beyond e to this is one that nobody meant; its power would leave the range of float32."""

_LARGEST_OF_KL = 5.0


def clipped_policy_loss(log_ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Negative clipped objective (eq. 7): `-mean(min(ratio * A, clamp(ratio, 1 - clip, 1 + clip) * A))`.

    | symbol | shape | description |
    |---|---|---|
    | log_ratio | `[B]` | log-probability now minus the one at collection |
    | advantage | `[B]` | advantage of the action |
    | clip | float | ε: how far the ratio may move before it stops to pay |
    | returns | `[]` | the loss |
    """
    ratio = log_ratio.exp()
    return -torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage).mean()


def value_loss(value: Tensor, target: Tensor) -> Tensor:
    """Half the mean squared error of the value: `0.5 * mean((v - target)^2)`.

    | symbol | shape | description |
    |---|---|---|
    | value | `[B]` | value now |
    | target | `[B]` | advantage plus value when the advantages were computed |
    | returns | `[]` | the loss |
    """
    return 0.5 * (value - target).square().mean()


def clipped_value_loss(value: Tensor, target: Tensor, old_value: Tensor, clip: float) -> Tensor:
    """Value loss that stops to pay where the value moved further than `clip` from the one at collection.

    `0.5 * mean(max((v - target)^2, (v_clipped - target)^2))`: detail 9 of "The 37 implementation details of
    PPO"; arXiv 2006.05990 finds that it does not help.

    | symbol | shape | description |
    |---|---|---|
    | value | `[B]` | value now |
    | target | `[B]` | as in `value_loss` |
    | old_value | `[B]` | value before the update |
    | clip | float | largest useful change of the value |
    | returns | `[]` | the loss |
    """
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return 0.5 * torch.maximum((value - target).square(), (clipped - target).square()).mean()


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Estimate KL(old || new) from samples of the old policy: `mean(ratio - 1 - log ratio)`.

    Never negative and of low variance (J. Schulman, "Approximating KL divergence", 2020: estimator k3).

    | symbol | shape | description |
    |---|---|---|
    | log_ratio | `[B]` | log-probability now minus the one at collection |
    | returns | `[]` | the estimate |

    A sample counts as at most e^5 times as probable: one that nobody can mean says nothing of the rest.
    """
    bounded = log_ratio.clamp(max=_LARGEST_OF_KL)
    return (torch.expm1(bounded) - bounded).mean()
