"""From what a network says to actions, in torch: the twins of `soulsgui.policies.action_heads`."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.environments.actions import ActionSpec
from soulsgui.policies.action_heads import STD_NAME, HeadSpec
from soulsgui.policies.action_heads import ActionHead as NumpyActionHead
from soulsgui.rl.distributions import (
    STD_TRANSFORMS,
    Categorical,
    Distribution,
    Gaussian,
    MultiBinary,
    MultiDiscrete,
    TanhGaussian,
)
from soulsgui.rl.settings import NetworkSettings


class ActionHead(nn.Module):
    """Makes distributions over actions of what a network says.

    Args:
        spec: What it must know.
    """

    low: Tensor
    high: Tensor

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.spec = spec
        self._numpy = NumpyActionHead(spec)
        self.raw_std = nn.Parameter(torch.zeros(spec.size)) if spec.tensors else None
        if spec.kind == "box":
            for name, bound in zip(("low", "high"), spec.bounds, strict=True):
                self.register_buffer(name, torch.from_numpy(bound.astype(np.float32)))

    def named_tensors(self) -> list[tuple[str, Tensor]]:
        """Return the parameters of its own, by the names under which they are exported."""
        return [] if self.raw_std is None else [(STD_NAME, self.raw_std)]

    def distribution(self, outputs: Tensor, mask: Tensor | None = None) -> Distribution:
        """Return the distribution over actions, as they are drawn and scored.

        Args:
            outputs: `[B, outputs]`.
            mask: `[B, sum(sizes)]`, which actions are valid, at least one in each choice; None or `[B, 0]`:
                all are.
        """
        spec = self.spec
        allowed = mask if mask is not None and mask.shape[1] else None
        if spec.kind == "discrete":
            return Categorical(outputs, allowed)
        if spec.kind == "multi_discrete":
            return MultiDiscrete(outputs, spec.sizes, allowed)
        if spec.kind == "multi_binary":
            return MultiBinary(outputs)
        mean = outputs[:, : spec.size]
        raw = outputs[:, spec.size :] if self.raw_std is None else self.raw_std
        std = STD_TRANSFORMS[spec.std_transform](raw, spec.initial_std)
        if spec.is_squashed:
            return TanhGaussian(mean, std, self.low, self.high)
        return Gaussian(mean, std)

    def drawn(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions `[B, ...]` as the distribution scores them."""
        return self._numpy.drawn(stored)

    def stored(self, drawn: NDArray[Any]) -> NDArray[Any]:
        """Return drawn actions `[B, ...]` as they are stored."""
        return self._numpy.stored(drawn)


def action_head(action: ActionSpec, network: NetworkSettings) -> ActionHead:
    """Return the head for an action space.

    Args:
        action: What the environment takes.
        network: How numbers within bounds are chosen; not looked at for other spaces.
    """
    told = action.to_json()
    if told["type"] != "box":
        return ActionHead(HeadSpec(told))
    chosen = (network.action_std, network.initial_std, network.squash, network.std_transform)
    return ActionHead(HeadSpec(told, *chosen))
