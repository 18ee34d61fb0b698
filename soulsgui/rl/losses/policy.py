"""The losses of actors and critics: PPO, V-trace, soft actor-critic, TD3 and TQC.

| symbol | shape | description |
|---|---|---|
| log_ratio | `[B]` | log-probability now minus the one at collection |
| log_prob | `[B]` | log-probability of the action now |
| value | `[B]` | value now |
| target | `[B]` | what a value is drawn to: advantage plus value when the advantages were computed |
| huber | float or None | d: error beyond which the cost of a value is linear; None: nowhere |
| temperature | `[]` | alpha of soft actor-critic |
| returns | `[]` | the loss, where nothing else is said |
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from soulsgui.rl.losses.q_learning import SampleLoss, discounted, midpoints

LARGEST_LOG_RATIO = 20.0
"""A ratio beyond e to this is one that nobody meant; its power would leave the range of float32."""

_LARGEST_OF_KL = 5.0


def normalised(advantage: Tensor, add_up: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """Return advantages `[B]` with mean 0 and standard deviation 1; a single one stays as it is.

    `add_up` adds a tensor up over all parts of a batch, of which this is one; None: this is all.
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

    `clip` is ε, a number or `[]`: how far the ratio may move before it stops to pay.
    """
    ratio = log_ratio.exp()
    # It takes two numbers or two tensors; for either of both its types have no word.
    clipped = ratio.clamp(1.0 - clip, 1.0 + clip)  # type: ignore[arg-type]
    return -torch.minimum(ratio * advantage, clipped * advantage).mean()


def error_cost(error: Tensor, huber: float | None = None) -> Tensor:
    """Half the squared error `[B]`; with `huber` linear beyond it: `d (|e| - d / 2)` (Huber 1964)."""
    half_squared = 0.5 * error.square()
    if huber is None:
        return half_squared
    size = error.abs()
    return torch.where(size <= huber, half_squared, huber * (size - 0.5 * huber))


def value_loss(value: Tensor, target: Tensor, huber: float | None = None) -> Tensor:
    """Half the mean squared error of the value: `0.5 * mean((v - target)^2)`, or its Huber loss."""
    return error_cost(value - target, huber).mean()


def clipped_value_loss(
    value: Tensor, target: Tensor, old_value: Tensor, clip: float, huber: float | None = None
) -> Tensor:
    """Value loss that stops to pay where the value moved further than `clip` from the one before the update.

    `mean(max(cost(v - target), cost(v_clipped - target)))`: detail 9 of "The 37 implementation details of
    PPO"; arXiv 2006.05990 finds that it does not help.
    """
    clipped = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(error_cost(value - target, huber), error_cost(clipped - target, huber)).mean()


def approximate_kl(log_ratio: Tensor) -> Tensor:
    """Estimate KL(old || new) from samples of the old policy: `mean(ratio - 1 - log ratio)`.

    Never negative and of low variance (J. Schulman, "Approximating KL divergence", 2020: estimator k3).
    A sample counts as at most e^5 times as probable: one that nobody can mean says nothing of the rest.
    """
    bounded = log_ratio.clamp(max=_LARGEST_OF_KL)
    return (torch.expm1(bounded) - bounded).mean()


class VTrace(NamedTuple):
    """What value and policy learn from, without gradient.

    | field | shape | meaning |
    |---|---|---|
    | target | `[N]` | v_t: what the value of each observation is drawn to |
    | advantage | `[N]` | `rho_t * (r_t + gamma * v_{t+1} - V(x_t))`: what multiplies grad log pi |
    | unweighted | `[N]` | the same without `rho_t`, for a loss that weighs by the ratio itself |
    """

    target: Tensor
    advantage: Tensor
    unweighted: Tensor


@torch.no_grad()
def vtrace(
    log_ratio: Tensor,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    terminated: Tensor,
    ends: Tensor,
    gamma: float,
    lam: float = 1.0,
    rho_clip: float = 1.0,
    c_clip: float = 1.0,
) -> VTrace:
    """Compute V-trace targets over many stretches of episodes laid end to end.

    `v_t = V(x_t) + delta_t + gamma * c_t * (v_{t+1} - V(x_{t+1}))` (remark 1) with
    `delta_t = rho_t * (r_t + gamma * V(x_{t+1}) - V(x_t))`, `rho_t = min(rho_clip, ratio_t)` and
    `c_t = lam * min(c_clip, ratio_t)` (eq. 1, remark 2). A stretch that is cut off, or whose episode is
    truncated, bootstraps from the value of its final observation; after termination there is nothing.

    On-policy (ratio 1) with `lam = 1` the targets are the n-step returns up to the end of each stretch, and
    `target - value` equals `returns.gae` for every `lam`. Like there the recursion is solved by doubling.

    | symbol | shape | description |
    |---|---|---|
    | log_ratio, reward | `[N]` | |
    | value, next_value | `[N]` | of the observation acted on, and of the one that truly came next |
    | terminated | `[N]` bool | the episode ended in a final state with this step |
    | ends | `[N]` bool | last step of its stretch; the very last step must be one |
    | gamma, lam | float | discount; 1 as in the paper, less trusts the values more |
    | rho_clip, c_clip | float | what the value converges to; how far corrections reach |

    Raises:
        ValueError: The last step ends no stretch.
    """
    where = torch.nonzero(ends).squeeze(1)
    if len(ends) and not (len(where) and int(where[-1]) == len(ends) - 1):
        raise ValueError("the last step must be the end of its stretch")
    ratio, value64 = log_ratio.double().exp(), value.double()
    rho = ratio.clamp(max=rho_clip)
    future = next_value.double().masked_fill(terminated, 0.0)
    correction = rho * (reward + gamma * future - value64)
    decay = (gamma * lam * ratio.clamp(max=c_clip)).masked_fill(ends, 0.0)
    longest = int(torch.diff(where, prepend=where.new_tensor([-1])).max()) if len(where) else 0
    reach = 1
    while reach < longest:
        correction[:-reach] += decay[:-reach] * correction[reach:]
        decay[:-reach] *= decay[reach:].clone()
        reach *= 2
    target = value64 + correction
    following = torch.where(ends, future, target.roll(-1))
    unweighted = reward + gamma * following - value64
    return VTrace(*(x.to(value.dtype) for x in (target, rho * unweighted, unweighted)))


def policy_gradient_loss(log_prob: Tensor, advantage: Tensor) -> Tensor:
    """`-mean(advantage * log pi(a))` (section 4.2), whose gradient is the policy gradient."""
    return -(advantage.detach() * log_prob).mean()


@torch.no_grad()
def soft_target(
    reward: Tensor, discount: Tensor, next_q: Tensor, next_log_prob: Tensor, temperature: Tensor
) -> Tensor:
    """`r + discount * (min_i Q_i(s', a') - alpha * log pi(a' | s'))`, a' from the policy of now (eq. 5).

    | symbol | shape | description |
    |---|---|---|
    | reward, discount | `[B]` | sum of the window's rewards; gamma to its length, 0 after a final state |
    | next_q | `[2, B]` | by both target critics |
    | returns | `[B]` | |
    """
    return reward + discounted(discount, next_q.amin(0) - temperature * next_log_prob)


def critic_loss(q: Tensor, target: Tensor) -> SampleLoss:
    """Half the squared error of both critics' values `q` `[2, B]` of the action taken, added (eq. 5).

    The error is the mean of both absolute differences.
    """
    difference = q - target.detach()
    loss = 0.5 * difference.square().sum(0)
    return SampleLoss(loss.mean(), difference.abs().mean(0).detach())


def actor_loss(log_prob: Tensor, q: Tensor, temperature: Tensor) -> Tensor:
    """`mean(alpha * log pi(a | s) - min_i Q_i(s, a))` of a fresh action, reparametrised (eq. 7, 9).

    Its values `q` are `[2, B]`; no gradient reaches alpha.
    """
    return (temperature.detach() * log_prob - q.amin(0)).mean()


def temperature_loss(log_temperature: Tensor, log_prob: Tensor, target_entropy: float) -> Tensor:
    """`mean(-alpha * (log pi(a | s) + target))` (eq. 18): alpha rises while the entropy is below its target.

    What is learned is log alpha, `[]`: alpha stays positive. `target_entropy` is minus the number of action
    dimensions in the paper; no gradient reaches `log_prob`.
    """
    return -(log_temperature.exp() * (log_prob.detach() + target_entropy)).mean()


@torch.no_grad()
def smoothed_action(action: Tensor, noise: Tensor, std: float, limit: float) -> Tensor:
    """`clip(a + clip(std * noise, -limit, limit), -1, 1)`: TD3's target policy smoothing.

    In its algorithm 1 (arXiv 1802.09477) the sum is not limited; in its authors' program it is.
    Scaled actions and standard normal noise are `[B, D]`, as is what is returned.
    """
    return (action + (std * noise).clamp(-limit, limit)).clamp(-1, 1)


@torch.no_grad()
def double_q_target(reward: Tensor, discount: Tensor, next_q: Tensor) -> Tensor:
    """`r + discount * min_i Q_i(s', a')`, `[B]`: clipped double Q-learning (1802.09477, algorithm 1).

    Rewards and discounts are those of `soft_target`; `next_q` is `[2, B]`.
    """
    return reward + discounted(discount, next_q.amin(0))


@torch.no_grad()
def truncated_target(
    reward: Tensor,
    discount: Tensor,
    next_quantiles: Tensor,
    next_log_prob: Tensor,
    temperature: Tensor,
    dropped: int,
) -> Tensor:
    """`r + discount * (z_k - alpha * log pi(a' | s'))` of the lowest quantiles z of all critics.

    The truncated mixture of TQC (arXiv 2005.04269, algorithm 1).

    | symbol | shape | description |
    |---|---|---|
    | reward, discount | `[B]` | as in `soft_target` |
    | next_quantiles | `[N, B, M]` | by all target critics |
    | dropped | int | d: of the `N * M` pooled quantiles the `N * d` highest are left out |
    | returns | `[B, N * (M - d)]` | in ascending order |
    """
    critics, _, quantiles = next_quantiles.shape
    pooled = next_quantiles.transpose(0, 1).flatten(1).sort(1).values[:, : critics * (quantiles - dropped)]
    return reward[:, None] + discounted(discount, pooled - (temperature * next_log_prob)[:, None])


def quantile_critic_loss(quantiles: Tensor, target: Tensor) -> SampleLoss:
    """Quantile Huber loss of critics `[N, B, M]`, the mean over their quantiles, added (2005.04269).

    Each draws near all of the target `[B, K]`, which ascends. It is `q_learning.quantile_huber_loss` without
    its `N * B * M * K` pairs: where a quantile lies among the sorted targets, sums of these up to there
    say all. The error is the mean over critics of the absolute difference of the means.
    """
    levels, count = midpoints(quantiles.shape[2], quantiles.device), target.shape[1]
    middle = target.detach().double().mean(1, keepdim=True)  # squares need the digits
    place, y = quantiles.double().transpose(0, 1).flatten(1) - middle, target.detach().double() - middle
    powers = torch.stack((torch.ones_like(y), y, y.square()))
    sums = nn.functional.pad(powers.cumsum(2), (1, 0))  # [3, B, K + 1]
    edges = [torch.searchsorted(y, place.detach() + shift) for shift in (-1.0, 0.0, 1.0)]
    upto = [sums.gather(2, edge.expand(3, -1, -1)) for edge in edges]
    (far_n, far_y, _), (under_n, under_y, under_y2), (over_n, over_y, over_y2), (away_n, away_y, _) = (
        upto[0], upto[1] - upto[0], upto[2] - upto[1], sums[..., -1:] - upto[2],
    )  # fmt: skip
    below = far_n * (place - 0.5) - far_y + 0.5 * (under_n * place.square() - 2 * place * under_y + under_y2)
    above = away_y - away_n * (place + 0.5) + 0.5 * (over_n * place.square() - 2 * place * over_y + over_y2)
    weight = levels.repeat(len(quantiles))
    loss = ((1 - weight) * below + weight * above).sum(1) / (count * len(levels))
    error = (target.mean(1) - quantiles.mean(2)).abs().mean(0).detach()
    return SampleLoss(loss.mean().to(quantiles.dtype), error)
