"""The gradient of deep Q-learning's loss, by autograd: for any network and device."""

from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from soulsgui.rl.dqn_parts import Parts
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.base import Gradient, Step
from soulsgui.rl.gradients.rules import Judged, Rule, TensorRows, ValueRule
from soulsgui.rl.quickened import Quickened, forward, to_device
from soulsgui.rl.settings import DQNSettings


class DQNRows(NamedTuple):
    """Transitions that one gradient step sees.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[B, size]` float32, or what else the network takes | inputs of the network |
    | action | `[B]` int64 | index of the action taken |
    | reward | `[B]` float32 | |
    | next_obs | as `obs` | inputs of the networks after the step |
    | discount | `[B]` float32 | of what follows: gamma to the power of the steps, 0 after a final state |
    | next_mask | `[B, A]` bool, or None | which actions are valid after the step; None: all are |
    | weight | `[B]` float32, or None | importance weights; None: all 1 |
    """

    obs: NDArray[Any]
    action: NDArray[np.int64]
    reward: NDArray[np.float32]
    next_obs: NDArray[Any]
    discount: NDArray[np.float32]
    next_mask: NDArray[np.bool_] | None = None
    weight: NDArray[np.float32] | None = None


DQNGradient = Gradient[Any, DQNSettings]
"""Of the mean loss of the temporal differences, at `DQNRows` or `gradients.r2d2.SequenceRows`.

Its figures are the loss, and the means of values, of what they are drawn to and of the differences, and
`Judged.beyond` where there is one; of each sample it says how wrong it was, never negative: its new priority.
"""


class AutogradDQNGradient(Gradient[DQNRows, DQNSettings]):
    """Takes the gradient by autograd. Also the yardstick for `dqn_by_hand`.

    Attributes:
        quickened: The loss, which may be compiled.
        mixed: Whether networks compute in bfloat16 where that is enough.

    Args:
        online: From `[B, size]` to what the rule reads; learns.
        target: Likewise; values the next actions.
        flat: Holds the parameters of `online`.
        rule: How returns are learned; None: their mean.
    """

    def __init__(
        self, online: nn.Module, target: nn.Module, flat: FlatParameters, rule: Rule | None = None
    ) -> None:
        self._online, self._target, self._flat = online, target, flat
        self._rule = rule or ValueRule()
        self.mixed = False
        self.quickened: Quickened[Judged] = Quickened(_judged, attrgetter("loss"))

    def prepare(self, rows: DQNRows, settings: DQNSettings) -> TensorRows:
        """Copy rows to where the networks live."""
        return to_tensors(rows, self._flat.parameter.device)

    def at(self, prepared: TensorRows, settings: DQNSettings) -> Step:
        """Write the gradient at what was prepared."""
        double = Parts.of(settings).double
        judged = self.quickened(
            self._online, self._target, self._rule, prepared, settings, double, self.mixed
        )
        self._flat.gradient.zero_()
        judged.loss.backward()  # type: ignore[no-untyped-call]
        return told(judged)


def _judged(
    online: nn.Module,
    target: nn.Module,
    rule: Rule,
    rows: TensorRows,
    dqn: DQNSettings,
    double: bool,
    mixed: bool,
) -> Judged:
    """Aim and judge, as `AutogradDQNGradient` says."""
    with torch.no_grad():
        following = forward(target, rows.next_obs, mixed=mixed)
        chooser = forward(online, rows.next_obs, mixed=mixed) if double else following
        aim = rule.aim(rows, following, chooser, dqn)
    return rule.judge(forward(online, rows.obs, mixed=mixed), aim, rows, dqn)


def to_tensors(rows: DQNRows, device: torch.device) -> TensorRows:
    """Copy rows to where the networks live."""
    obs, action, reward, next_obs, discount = (to_device(column, device) for column in rows[:5])
    next_mask, weight = (None if column is None else to_device(column, device) for column in rows[5:])
    return TensorRows(obs, action, reward, next_obs, discount, next_mask, weight)


def told(judged: Judged) -> Step:
    """Return what a step tells of itself."""
    figures = [judged.loss.detach(), judged.value, judged.aim, judged.error.mean()]
    if judged.beyond is not None:
        figures.append(judged.beyond)
    return Step(torch.stack(figures), judged.error)
