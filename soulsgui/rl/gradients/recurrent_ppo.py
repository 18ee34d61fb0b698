"""The gradient of PPO's loss for a policy that remembers, back through stretches of episodes."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from soulsgui.rl.distributions import Distribution
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.base import Part, Step
from soulsgui.rl.gradients.ppo import AutogradPPOGradient, PPORows, PPOWeights
from soulsgui.rl.networks.recurrent import RecurrentTorso


class StretchRows(NamedTuple):
    """`B` stretches of at most `T` steps, `N` steps in all, one stretch after the other.

    | field | shape, dtype | meaning |
    |---|---|---|
    | inputs | `[T, B, *shape]` float32 | inputs of the memory; behind the end of a stretch anything |
    | state | `[B, S]` float32 | before the first step |
    | length | `[B]` int64 | steps of each stretch |
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
    """Takes the gradient by autograd, through the memory to the beginning of each stretch.

    Args:
        memory: What policy and value look through.
        policy: As of `AutogradPPOGradient`; likewise the others. Its inputs are features.
        value: As there.
        flat: As there; holds the parameters of the memory, too.
        distribution: As there.
    """

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

    def at(self, prepared: StretchRows, settings: PPOWeights) -> Step:  # type: ignore[override]
        """Write the gradient at stretches on the device."""
        return super().at(self.unrolled(prepared), settings)

    def unrolled(self, rows: StretchRows) -> PPORows:
        """Go through stretches with the memory; what it makes of them are the observations of the steps."""
        inputs, state, length = rows[:3]
        starts = torch.zeros(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
        features, _ = self._memory(inputs, state, starts)
        valid = torch.arange(len(inputs), device=inputs.device) < length[:, None]
        return PPORows(features.transpose(0, 1)[valid], *rows[3:])

    def count(self, prepared: StretchRows) -> int:
        """Return the number of steps, `N`."""
        return len(prepared.action)

    def cut(self, prepared: StretchRows, parts: int) -> list[Part]:
        """Cut between stretches, into parts of about as many steps."""
        ends = prepared.length.cumsum(0).cpu().numpy()
        wanted = ends[-1] / parts * np.arange(1, parts + 1)
        last = np.unique(np.searchsorted(ends, wanted - 0.5)).tolist()
        return [
            Part(slice(int(ends[first - 1]) if first else 0, int(ends[stop - 1])), slice(first, stop))
            for first, stop in pairwise([0, *(index + 1 for index in last)])
        ]

    def part(self, prepared: StretchRows, part: Part) -> StretchRows:
        """Take some of the stretches."""
        return StretchRows(
            prepared.inputs[:, part.rows],
            prepared.state[part.rows],
            prepared.length[part.rows],
            *(column[part.samples] for column in prepared[3:]),
        )
