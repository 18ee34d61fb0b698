"""V-trace: targets from the data of an older policy (IMPALA, Espeholt et al. 2018, arXiv 1802.01561)."""

from typing import NamedTuple

import torch
from torch import Tensor


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
    | log_ratio | `[N]` | log-probability of the action now minus the one when it was taken |
    | reward | `[N]` | |
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
    """`-mean(advantage * log pi(a))` (section 4.2), whose gradient is the policy gradient.

    | symbol | shape | description |
    |---|---|---|
    | log_prob | `[N]` | log-probability of the action now |
    | advantage | `[N]` | no gradient flows there |
    | returns | `[]` | the loss |
    """
    return -(advantage.detach() * log_prob).mean()
