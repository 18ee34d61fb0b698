"""The losses of PPO (Schulman et al. 2017, arXiv 1707.06347), each a mean over the minibatch."""

from collections.abc import Callable

import torch
from torch import Tensor

LARGEST_LOG_RATIO = 20.0
"""A ratio beyond e to this is one that nobody meant; its power would leave the range of float32."""

_LARGEST_OF_KL = 5.0


def normalised(advantage: Tensor, add_up: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Return advantages with mean 0 and standard deviation 1; a single one stays as it is.

    | symbol | shape | description |
    |---|---|---|
    | advantage | `[B]` float32 | |
    | add_up | | adds a tensor up over all parts of a batch, of which this is one; None: this is all |
    | returns | `[B]` | |
    """
    if add_up is None:
        count, mean = len(advantage), advantage.mean()
        std = advantage.std(correction=0)
    else:
        total = add_up(torch.stack((advantage.sum(), advantage.new_tensor(float(len(advantage))))))
        count, mean = int(total[1]), total[0] / total[1]
        std = (add_up((advantage - mean).square().sum()[None])[0] / count).sqrt()
    return (advantage - mean) / (std + 1e-8) if count > 1 else advantage


def clipped_policy_loss(log_ratio: Tensor, advantage: Tensor, clip: float | Tensor) -> Tensor:
    """Negative clipped objective (eq. 7): `-mean(min(ratio * A, clamp(ratio, 1 - clip, 1 + clip) * A))`.

    | symbol | shape | description |
    |---|---|---|
    | log_ratio | `[B]` | log-probability now minus the one at collection |
    | advantage | `[B]` | advantage of the action |
    | clip | float, or `[]` | ε: how far the ratio may move before it stops to pay |
    | returns | `[]` | the loss |
    """
    ratio = log_ratio.exp()
    # It takes two numbers or two tensors; for either of both its types have no word.
    clipped = ratio.clamp(1.0 - clip, 1.0 + clip)  # type: ignore[arg-type]
    return -torch.minimum(ratio * advantage, clipped * advantage).mean()


def error_cost(error: Tensor, huber: float | None = None) -> Tensor:
    """Half the squared error; with `huber` linear beyond it: `d (|e| - d / 2)` (Huber 1964).

    | symbol | shape | description |
    |---|---|---|
    | error | `[B]` | |
    | huber | float or None | d: where the cost turns linear; None: nowhere |
    | returns | `[B]` | the cost of each |
    """
    half_squared = 0.5 * error.square()
    if huber is None:
        return half_squared
    size = error.abs()
    return torch.where(size <= huber, half_squared, huber * (size - 0.5 * huber))


def value_loss(value: Tensor, target: Tensor, huber: float | None = None) -> Tensor:
    """Half the mean squared error of the value: `0.5 * mean((v - target)^2)`, or its Huber loss.

    | symbol | shape | description |
    |---|---|---|
    | value | `[B]` | value now |
    | target | `[B]` | advantage plus value when the advantages were computed |
    | huber | float or None | as in `error_cost` |
    | returns | `[]` | the loss |
    """
    return error_cost(value - target, huber).mean()


def clipped_value_loss(
    value: Tensor, target: Tensor, old_value: Tensor, clip: float, huber: float | None = None
) -> Tensor:
    """Value loss that stops to pay where the value moved further than `clip` from the one at collection.

    `mean(max(cost(v - target), cost(v_clipped - target)))`: detail 9 of "The 37 implementation details of
    PPO"; arXiv 2006.05990 finds that it does not help.

    | symbol | shape | description |
    |---|---|---|
    | value | `[B]` | value now |
    | target | `[B]` | as in `value_loss` |
    | old_value | `[B]` | value before the update |
    | clip | float | largest useful change of the value |
    | huber | float or None | as in `error_cost` |
    | returns | `[]` | the loss |
    """
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(error_cost(value - target, huber), error_cost(clipped - target, huber)).mean()


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
