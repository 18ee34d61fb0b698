"""Returns as probabilities of fixed atoms: C51 (Bellemare, Dabney and Munos 2017, arXiv 1707.06887)."""

import torch
from torch import Tensor

from soulsgui.rl.losses.weighted import SampleLoss, only_valid, pick_action, weighted_mean


def support(lowest: float, highest: float, atoms: int, device: torch.device | None = None) -> Tensor:
    """Place the atoms evenly: `[N]` float32 from `lowest` to `highest`.

    Raises:
        ValueError: There are fewer than 2 atoms, or the highest is not above the lowest.
    """
    if atoms < 2 or not lowest < highest:
        raise ValueError(f"no support: {atoms} atoms from {lowest} to {highest}")
    return torch.linspace(lowest, highest, atoms, device=device)


def projected(reward: Tensor, discount: Tensor, next_probs: Tensor, atoms: Tensor) -> Tensor:
    """Shift and shrink a distribution by `r + discount * z`, and share each atom's mass among its neighbours.

    The mass at `Tz`, held within the support, goes to the two atoms around it, each the more the closer
    it is (eq. 7, algorithm 1). The upper one is `lower + 1`, not the ceiling: mass that falls exactly on an
    atom stays there and is not lost. Total mass is kept, and so is the mean inside the support.

    | symbol | shape | description |
    |---|---|---|
    | reward | `[B]` | sum of the window's rewards |
    | discount | `[B]` | gamma to the power of its steps, 0 after a final state |
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
    | reward, discount | `[B]` | as in `projected` |
    | next_target_log_probs | `[B, A, N]` | by the target network |
    | next_online_log_probs | `[B, A, N]` | by the online network; read only if `double` |
    | atoms | `[N]` | values of the atoms |
    | double | bool | let the online network choose the next action, by the highest mean |
    | next_mask | `[B, A]` bool or None | next actions that are valid, at least one each; None: all are |
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
    | target | `[B, N]` | probabilities m; no gradient flows there |
    | weight | `[B]` or None | importance weights |
    | returns | | the error is KL(m || p), as in Rainbow (arXiv 1710.02298) |
    """
    target = target.detach()
    cross_entropy = -(target * log_probs).sum(1)
    entropy = -torch.special.xlogy(target, target).sum(1)
    error = (cross_entropy.detach() - entropy).clamp(min=0)
    return SampleLoss(weighted_mean(cross_entropy, weight), error)
