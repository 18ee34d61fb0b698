"""The gradient of PPO's loss, by autograd: for any network and device."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.distributions import Categorical, Distribution
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.losses import ppo as losses
from soulsgui.rl.settings import PPOSettings

_AT_ONCE = 1024
"""Most observations whose values are computed at once."""


class PPORows(NamedTuple):
    """Transitions that one gradient step sees.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[B, size]` float32 | inputs of the networks |
    | action | `[B]` int64, or `[B, D]` | the action taken, as the distribution scores it: an index, numbers |
    | log_prob | `[B]` float32 | its log-probability at collection |
    | advantage | `[B]` float32 | |
    | target | `[B]` float32 | what the value is drawn to |
    | old_value | `[B]` float32 | value before the update |
    | mask | `[B, A]` bool, or `[B, 0]` | valid actions, one at least of each choice; without columns: all |
    """

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    old_value: Tensor
    mask: Tensor


class PPOFigures(NamedTuple):
    """What a step tells: `log_ratio` `[B]`, and `policy_loss`, `value_loss`, `entropy` as `terms` `[3]`."""

    log_ratio: Tensor
    terms: Tensor


class PPOGradient(Protocol):
    """Writes the gradient of `policy_loss + value_coef * value_loss - entropy_coef * entropy`."""

    def __call__(self, rows: PPORows, ppo: PPOSettings) -> PPOFigures:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""

    def values(self, obs: Tensor) -> NDArray[np.float32]:
        """Return the values `[B]` of network inputs `[B, size]`, without a gradient."""


def one_choice(logits: Tensor, mask: Tensor) -> Distribution:
    """Return the distribution over numbered actions, by logits and mask as in `PPORows`."""
    return Categorical(logits, mask if mask.shape[1] else None)


class AutogradPPOGradient:
    """Takes the gradient by autograd. Also the yardstick for `ppo_by_hand`.

    Args:
        policy: From `[B, size]` to what `distribution` takes.
        value: From `[B, size]` to `[B, 1]`.
        flat: Holds the parameters of both, and those of the distribution.
        distribution: Makes a distribution over actions of outputs and mask; of one choice if not given.
    """

    def __init__(
        self,
        policy: nn.Module,
        value: nn.Module,
        flat: FlatParameters,
        distribution: Callable[[Tensor, Tensor], Distribution] | None = None,
    ) -> None:
        self._policy, self._value, self._flat = policy, value, flat
        self._distribution = distribution or one_choice

    def __call__(self, rows: PPORows, ppo: PPOSettings) -> PPOFigures:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        distribution = self._distribution(self._policy(rows.obs), rows.mask)
        value = self._value(rows.obs).squeeze(1)
        log_ratio = distribution.log_prob(rows.action) - rows.log_prob
        log_ratio = log_ratio.clamp(-losses.LARGEST_LOG_RATIO, losses.LARGEST_LOG_RATIO)
        policy_loss = losses.clipped_policy_loss(log_ratio, rows.advantage, ppo.clip)
        if ppo.value_clip is None:
            value_loss = losses.value_loss(value, rows.target)
        else:
            value_loss = losses.clipped_value_loss(value, rows.target, rows.old_value, ppo.value_clip)
        entropy = distribution.entropy().mean()
        loss = policy_loss + ppo.value_coef * value_loss - ppo.entropy_coef * entropy
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return PPOFigures(log_ratio.detach(), torch.stack((policy_loss, value_loss, entropy)).detach())

    def values(self, obs: Tensor) -> NDArray[np.float32]:
        """Return the values `[B]` of network inputs `[B, size]`, without a gradient."""
        with torch.no_grad():
            # A round of images goes through in parts: what filters make of it whole may be gigabytes.
            starts = range(0, len(obs), _AT_ONCE)
            parts = [self._value(obs[start : start + _AT_ONCE]).squeeze(1) for start in starts]
            values: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
        return values
