"""Target and loss of deep Q-learning (Mnih et al. 2013, arXiv 1312.5602; double: 1509.06461)."""

from typing import Literal

from torch import Tensor

from soulsgui.rl.losses.weighted import SampleLoss, discounted, only_valid, weighted_mean

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
    (arXiv 1312.5602, eq. 3). Only a final state has no future: an episode that was cut off (truncated) has
    one, and its last observation is valued like any other.

    | symbol | shape | description |
    |---|---|---|
    | reward | `[B]` | discounted sum of the window's rewards |
    | discount | `[B]` | gamma to the power of its steps, 0 after a final state |
    | next_online_q | `[B, A]` | values of all next actions by the online network; read only if `double` |
    | next_target_q | `[B, A]` | values of all next actions by the target network |
    | double | bool | let the online network choose the next action |
    | next_mask | `[B, A]` bool or None | next actions that are valid, at least one each; None: all are |
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
    | q_taken | `[B]` | value of the action taken |
    | target | `[B]` | what it is drawn to; no gradient flows there |
    | kind | str | `huber` or `mse` |
    | weight | `[B]` or None | importance weights |
    | returns | | the error is the absolute temporal difference |
    """
    size = (q_taken - target.detach()).abs()
    inner = size.clamp(max=1.0) if kind == "huber" else size
    return SampleLoss(weighted_mean(inner * (size - 0.5 * inner), weight), size.detach())
