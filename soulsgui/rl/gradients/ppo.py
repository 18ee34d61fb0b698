"""The gradient of PPO's loss by autograd, for any network and device, also through a memory."""

from abc import abstractmethod
from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.compiled_loss import CompiledLoss, forward
from soulsgui.rl.distributions import Categorical, Distribution
from soulsgui.rl.gradients.base import BatchPart, Gradient, Step
from soulsgui.rl.losses import policy as losses
from soulsgui.rl.networks.recurrent import RecurrentTorso
from soulsgui.rl.optimiser import FlatParameters

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


class PPOWeights(NamedTuple):
    """What the loss looks at, as of now: `ppo.clip` and so on, where they follow schedules their values."""

    clip: float
    entropy_coef: float
    value_coef: float
    value_clip: float | None
    value_huber: float | None


class PPOGradient(Gradient[Any, PPOWeights]):
    """Of `policy_loss + value_coef * value_loss - entropy_coef * entropy`, at `PPORows`.

    Its figures are these three terms; of each sample it tells the log-ratio.
    """

    @abstractmethod
    def values(self, obs: Tensor) -> NDArray[np.float32]:
        """Return the values `[B]` of network inputs `[B, size]`, without a gradient."""


def one_choice(logits: Tensor, mask: Tensor) -> Distribution:
    """Return the distribution over numbered actions, by logits and mask as in `PPORows`."""
    return Categorical(logits, mask if mask.shape[1] else None)


class _Weights(NamedTuple):
    """`PPOWeights`, with what may follow a schedule as tensors `[]`.

    What is compiled has numbers built in, and would be compiled anew for each new one.
    """

    clip: Tensor
    entropy_coef: Tensor
    value_coef: float
    value_clip: float | None
    value_huber: float | None


class AutogradPPOGradient(PPOGradient):
    """Takes the gradient by autograd. Also the yardstick for `ppo_by_hand`.

    Args:
        flat: Holds the parameters of policy, value and distribution.
        distribution: Makes a distribution over actions of the policy's outputs and a mask; of one choice if
            not given.
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
        self._told: PPOWeights | None = None  # what `_weights` was made of
        self.compiled_loss: CompiledLoss[tuple[Tensor, Step]] = CompiledLoss(_loss, itemgetter(0))

    def at(self, prepared: PPORows, settings: PPOWeights) -> Step:
        """Write the gradient at rows on the device."""
        loss, step = self.compiled_loss(
            self._policy, self._value, self._distribution, prepared, self._on_device(settings), self.mixed
        )
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        return step

    def _on_device(self, ppo: PPOWeights) -> _Weights:
        if ppo != self._told:
            clip, coef = torch.tensor((ppo.clip, ppo.entropy_coef), device=self._flat.parameter.device)
            self._told = ppo
            self._weights = _Weights(clip, coef, ppo.value_coef, ppo.value_clip, ppo.value_huber)
        return self._weights

    def values(self, obs: Tensor) -> NDArray[np.float32]:
        """Return the values `[B]` of network inputs `[B, size]`, without a gradient."""
        with torch.no_grad():
            # A round of images goes through in parts: what filters make of it whole may be gigabytes.
            starts = range(0, len(obs), _AT_ONCE)
            parts = [self._value(obs[start : start + _AT_ONCE]).squeeze(1) for start in starts]
            values: NDArray[np.float32] = torch.cat(parts).cpu().numpy()
        return values


def _loss(
    policy: nn.Module,
    value_network: nn.Module,
    distribution_of: Callable[[Tensor, Tensor], Distribution],
    rows: PPORows,
    ppo: _Weights,
    mixed: bool,
) -> tuple[Tensor, Step]:
    """Return the loss at `rows`, and what it tells."""
    distribution = distribution_of(forward(policy, rows.obs, mixed=mixed), rows.mask)
    value = forward(value_network, rows.obs, mixed=mixed).squeeze(1)
    log_ratio = distribution.log_prob(rows.action) - rows.log_prob
    log_ratio = log_ratio.clamp(-losses.LARGEST_LOG_RATIO, losses.LARGEST_LOG_RATIO)
    policy_loss = losses.clipped_policy_loss(log_ratio, rows.advantage, ppo.clip)
    huber = ppo.value_huber
    if ppo.value_clip is None:
        value_loss = losses.value_loss(value, rows.target, huber)
    else:
        value_loss = losses.clipped_value_loss(value, rows.target, rows.old_value, ppo.value_clip, huber)
    entropy = distribution.entropy().mean()
    loss = policy_loss + ppo.value_coef * value_loss - ppo.entropy_coef * entropy
    terms = torch.stack((policy_loss, value_loss, entropy)).detach()
    return loss, Step(terms, log_ratio.detach())


class ChunkRows(NamedTuple):
    """`B` chunks of at most `T` steps, `N` steps in all, one chunk after the other.

    | field | shape, dtype | meaning |
    |---|---|---|
    | inputs | `[T, B, *shape]` float32 | inputs of the memory; behind the end of a chunk anything |
    | state | `[B, S]` float32 | before the first step |
    | length | `[B]` int64 | steps of each chunk |
    | action, log_prob, advantage, target, old_value, mask | `[N, ...]` | as in `PPORows` |
    """

    inputs: Tensor
    state: Tensor
    length: Tensor
    action: Tensor
    log_prob: Tensor
    advantage: Tensor
    target: Tensor
    old_value: Tensor
    mask: Tensor


class RecurrentPPOGradient(AutogradPPOGradient):
    """Takes the gradient by autograd, through the memory to the beginning of each chunk."""

    def __init__(
        self,
        memory: RecurrentTorso,
        policy: nn.Module,
        value: nn.Module,
        flat: FlatParameters,
        distribution: Callable[[Tensor, Tensor], Distribution],
    ) -> None:
        super().__init__(policy, value, flat, distribution)
        self._memory = memory

    def at(self, prepared: ChunkRows, settings: PPOWeights) -> Step:  # type: ignore[override]
        """Write the gradient at chunks on the device."""
        return super().at(self.unrolled(prepared), settings)

    def unrolled(self, rows: ChunkRows) -> PPORows:
        """Go through chunks with the memory; what it makes of them are the observations of the steps."""
        inputs, state, length = rows[:3]
        starts = torch.zeros(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        features, _ = self._memory(inputs, state, starts)
        valid = torch.arange(len(inputs), device=inputs.device) < length[:, None]
        return PPORows(features.transpose(0, 1)[valid], *rows[3:])

    def count(self, prepared: ChunkRows) -> int:
        """Return the number of steps, `N`."""
        return len(prepared.action)

    def cut(self, prepared: ChunkRows, parts: int) -> list[BatchPart]:
        """Cut between chunks, into parts of about as many steps."""
        ends = prepared.length.cumsum(0).cpu().numpy()
        wanted = ends[-1] / parts * np.arange(1, parts + 1)
        last = np.unique(np.searchsorted(ends, wanted - 0.5)).tolist()
        return [
            BatchPart(slice(int(ends[first - 1]) if first else 0, int(ends[stop - 1])), slice(first, stop))
            for first, stop in pairwise([0, *(index + 1 for index in last)])
        ]

    def part(self, prepared: ChunkRows, part: BatchPart) -> ChunkRows:
        """Take some of the chunks."""
        return ChunkRows(
            prepared.inputs[:, part.rows],
            prepared.state[part.rows],
            prepared.length[part.rows],
            *(column[part.samples] for column in prepared[3:]),
        )
