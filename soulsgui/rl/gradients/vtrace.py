"""The gradient of V-trace's losses over segments of older weights (IMPALA, APPO), by autograd."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from soulsgui.rl.compiled_loss import forward
from soulsgui.rl.distributions import Distribution
from soulsgui.rl.gradients.base import BatchPart, Gradient, Step
from soulsgui.rl.losses import policy as losses
from soulsgui.rl.losses.policy import policy_gradient_loss, vtrace
from soulsgui.rl.optimiser import FlatParameters

_LARGEST_RATIO = 3.0
"""Of the clipped objective: what has become more probable than this, and was bad, has no gradient either (the
dual clip of Ye et al. 2020, arXiv 1912.09729). Samples are old here, and a few may say anything."""


class VTraceRows(NamedTuple):
    """A batch on the device: `N` steps in `S` segments, some of them joined to traces.

    | field | shape, dtype | meaning |
    |---|---|---|
    | action | `[N]` int64, or `[N, D]` | the action taken, as the distribution scores it |
    | log_prob, reward | `[N]` float32 | as in `Segments` |
    | terminated, ends | `[N]` bool | `terminated_steps` and `ends` there |
    | mask | `[N, A]` bool, or `[N, 0]` | valid actions; without columns: all |
    | at | `[N]` int64 | rows of `inputs` that were acted on; what came next stands one row further |
    | inputs | `[N + S, size]` float32 | inputs of the networks |
    """

    action: Tensor
    log_prob: Tensor
    reward: Tensor
    terminated: Tensor
    ends: Tensor
    mask: Tensor
    at: Tensor
    inputs: Tensor


class VTraceWeights(NamedTuple):
    """What the losses look at, as of now: `vtrace.gamma` and so on; of schedules, their values."""

    gamma: float
    trace_lambda: float
    rho_clip: float
    c_clip: float
    clip: float | None
    entropy_coef: float
    value_coef: float
    normalize_advantage: bool


class VTraceGradient(Gradient[VTraceRows, VTraceWeights]):
    """Takes the gradient of `policy_loss + value_coef * value_loss - entropy_coef * entropy`.

    Its figures are these three terms. Of each step it tells the log-ratio to the policy that took it, what
    its value is drawn to, and its value, `[N, 3]`. The arguments are those of `AutogradPPOGradient`.
    """

    def __init__(
        self,
        policy: nn.Module,
        value: nn.Module,
        flat: FlatParameters,
        distribution: Callable[[Tensor, Tensor], Distribution],
    ) -> None:
        self._policy, self._value, self._flat, self._distribution = policy, value, flat, distribution

    def at(self, prepared: VTraceRows, settings: VTraceWeights) -> Step:
        """Write the gradient, with the targets of now."""
        rows, weights = prepared, settings
        outputs = forward(self._policy, rows.inputs[rows.at], mixed=self.mixed)
        policy = self._distribution(outputs, rows.mask)
        log_prob, entropy = policy.log_prob(rows.action), policy.entropy().mean()
        log_ratio = (log_prob - rows.log_prob).clamp(-losses.LARGEST_LOG_RATIO, losses.LARGEST_LOG_RATIO)
        all_values = forward(self._value, rows.inputs, mixed=self.mixed).squeeze(1)
        value = all_values[rows.at]
        found = vtrace(
            log_ratio.detach(), rows.reward, value.detach(), all_values[rows.at + 1].detach(),
            rows.terminated, rows.ends, weights.gamma, weights.trace_lambda,
            weights.rho_clip, weights.c_clip,
        )  # fmt: skip
        if weights.clip is None:
            policy_loss = policy_gradient_loss(log_prob, self._scaled(found.advantage, weights))
        else:
            bounded = log_ratio.clamp(max=math.log(max(_LARGEST_RATIO, 1.0 + weights.clip)))
            advantage = self._scaled(found.unweighted, weights)
            policy_loss = losses.clipped_policy_loss(bounded, advantage, weights.clip)
        value_loss = losses.value_loss(value, found.target)
        loss = policy_loss + weights.value_coef * value_loss - weights.entropy_coef * entropy
        self._flat.gradient.zero_()
        loss.backward()  # type: ignore[no-untyped-call]
        told = torch.stack((log_ratio.detach(), found.target, value.detach()), dim=1)
        return Step(torch.stack((policy_loss, value_loss, entropy)).detach(), told)

    def _scaled(self, advantage: Tensor, weights: VTraceWeights) -> Tensor:
        return losses.normalised(advantage, self.add_up) if weights.normalize_advantage else advantage

    def cut(self, prepared: VTraceRows, parts: int) -> list[BatchPart]:
        """Cut a batch between traces, into parts of about as many steps."""
        ends = torch.nonzero(prepared.ends).squeeze(1).cpu().numpy() + 1
        wanted = len(prepared.at) / parts * np.arange(1, parts + 1)
        edges = np.unique(ends[np.searchsorted(ends, wanted - 0.5)])
        at = prepared.at.cpu().numpy()
        return [
            BatchPart(slice(start, stop), slice(int(at[start]), int(at[stop - 1]) + 2))
            for start, stop in pairwise([0, *edges.tolist()])
        ]

    def part(self, prepared: VTraceRows, part: BatchPart) -> VTraceRows:
        """Take some of the traces."""
        *columns, at = (column[part.samples] for column in prepared[:7])
        return VTraceRows(*columns, at=at - part.rows.start, inputs=prepared.inputs[part.rows])  # type: ignore[misc]
