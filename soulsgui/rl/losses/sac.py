"""The losses of soft actor-critic (Haarnoja et al. 2018, arXiv 1812.05905), with two critics."""

import torch
from torch import Tensor

from soulsgui.rl.losses.weighted import SampleLoss, discounted, weighted_mean


@torch.no_grad()
def soft_target(
    reward: Tensor, discount: Tensor, next_q: Tensor, next_log_prob: Tensor, temperature: Tensor
) -> Tensor:
    """`r + discount * (min_i Q_i(s', a') - alpha * log pi(a' | s'))`, a' from the policy of now (eq. 5).

    | symbol | shape | description |
    |---|---|---|
    | reward | `[B]` | sum of the window's rewards |
    | discount | `[B]` | gamma to the power of its steps, 0 after a final state |
    | next_q | `[2, B]` | by both target critics |
    | next_log_prob | `[B]` | log-probability of a' |
    | temperature | `[]` | alpha |
    | returns | `[B]` | |
    """
    return reward + discounted(discount, next_q.amin(0) - temperature * next_log_prob)


def critic_loss(q: Tensor, target: Tensor, weight: Tensor | None = None) -> SampleLoss:
    """Half the squared error of both critics, added (eq. 5).

    | symbol | shape | description |
    |---|---|---|
    | q | `[2, B]` | values of the action taken by both critics |
    | target | `[B]` | no gradient flows there |
    | weight | `[B]` or None | importance weights |
    | returns | | the error is the mean of both absolute differences |
    """
    difference = q - target.detach()
    loss = 0.5 * difference.square().sum(0)
    return SampleLoss(weighted_mean(loss, weight), difference.abs().mean(0).detach())


def actor_loss(log_prob: Tensor, q: Tensor, temperature: Tensor) -> Tensor:
    """`mean(alpha * log pi(a | s) - min_i Q_i(s, a))`, a reparametrised (eq. 7, 9).

    | symbol | shape | description |
    |---|---|---|
    | log_prob | `[B]` | log-probability of a fresh action |
    | q | `[2, B]` | its values by both critics |
    | temperature | `[]` | alpha; no gradient flows there |
    | returns | `[]` | the loss |
    """
    return (temperature.detach() * log_prob - q.amin(0)).mean()


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """`mean(-alpha * (log pi(a | s) + target))` (eq. 18): alpha rises while the entropy is below its target.

    | symbol | shape | description |
    |---|---|---|
    | log_temperature | `[]` | log alpha, what is learned: alpha stays positive |
    | log_prob | `[B]` | log-probability of fresh actions; no gradient flows there |
    | target_entropy | float | minus the number of action dimensions in the paper |
    | returns | `[]` | the loss |
    """
    return -(log_temperature.exp() * (log_prob.detach() + target_entropy)).mean()
