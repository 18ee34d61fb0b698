"""What the losses of replayed samples have in common: importance weights, and a measure of surprise."""

from typing import NamedTuple

import torch
from torch import Tensor


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
    """Mean of `weight * loss`.

    | symbol | shape | description |
    |---|---|---|
    | loss | `[B]` | loss of each sample |
    | weight | `[B]` or None | importance weights; None: all 1 |
    | returns | `[]` | the mean; divided by B, not by the sum of the weights (arXiv 1511.05952, algorithm 1) |
    """
    return loss.mean() if weight is None else (weight * loss).mean()


def discounted(discount: Tensor, future: Tensor) -> Tensor:
    """`discount * future`, and exactly 0 where the discount is 0, whatever the future is.

    | symbol | shape | description |
    |---|---|---|
    | discount | `[B]` | gamma to the power of the steps taken, 0 after a final state |
    | future | `[B, ...]` | value of what followed, or its quantiles or atoms |
    | returns | as future | |
    """
    spread = discount.reshape(-1, *[1] * (future.dim() - 1))
    return (spread * future).masked_fill(spread == 0, 0.0)


def only_valid(values: Tensor, mask: Tensor | None) -> Tensor:
    """Keep actions that are not valid from being the best ones: their values become minus infinity.

    | symbol | shape | description |
    |---|---|---|
    | values | `[..., A]` | by which an action is chosen |
    | mask | `[..., A]` bool or None | actions that are valid, at least one each; None: all are |
    | returns | `[..., A]` | |
    """
    return values if mask is None else values.masked_fill(~mask, -torch.inf)


def pick_action(values: Tensor, action: Tensor) -> Tensor:
    """Take one action's row of each sample.

    | symbol | shape | description |
    |---|---|---|
    | values | `[B, A, N]` | quantiles or log-probabilities of all actions |
    | action | `[B]` int64 | |
    | returns | `[B, N]` | |
    """
    index = action[:, None, None].expand(-1, 1, values.shape[2])
    return values.gather(1, index).squeeze(1)
