"""The gradients of the DQN family's losses by autograd: for any network and device."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.config.sections.algorithms import DQNSettings
from soulsgui.rl.compiled_loss import CompiledLoss, forward, to_device
from soulsgui.rl.gradients.base import Gradient, Step
from soulsgui.rl.losses.q_learning import (
    categorical_loss,
    categorical_target,
    n_step_target,
    pick_action,
    quantile_huber_loss,
    quantile_target,
    td_sample_loss,
)
from soulsgui.rl.networks.q_networks import ImplicitQuantileNetwork
from soulsgui.rl.optimiser import FlatParameters

Kind = Literal["value", "quantile", "categorical", "implicit", "recurrent"]
_KINDS: dict[str, Kind] = {
    "dqn": "value",
    "qr_dqn": "quantile",
    "c51": "categorical",
    "iqn": "implicit",
    "rainbow": "categorical",
    "r2d2": "recurrent",
}


@dataclass(frozen=True)
class DQNParts:
    """The parts of an agent, as its settings say, or as its name does.

    Rainbow (arXiv 1710.02298) is C51 with all of them; to leave one out, take C51 and name the others. R2D2
    (Kapturowski et al. 2019) is always double, dueling and prioritised, never noisy.

    Attributes:
        kind: What is learned of the return: its mean (`value`), quantiles at fixed levels (`quantile`,
            QR-DQN), probabilities of fixed atoms (`categorical`, C51), the quantile at any level (`implicit`,
            IQN), or its rescaled mean by all that was seen (`recurrent`, R2D2).
        double: The online network chooses the next action, the target network values it.
        dueling: Value and advantages have streams of their own.
        noisy: Noise in the weights explores, and nothing else.
        prioritised: What surprised most is drawn most.
        n_step: Steps of a window.
    """

    kind: Kind
    double: bool
    dueling: bool
    noisy: bool
    prioritised: bool
    n_step: int

    @classmethod
    def of(cls, dqn: DQNSettings) -> "DQNParts":
        """Return the parts that settings ask for."""
        rainbow, recurrent = dqn.agent == "rainbow", dqn.agent == "r2d2"
        everything = rainbow or recurrent
        return cls(
            kind=_KINDS[dqn.agent],
            double=everything or dqn.double,
            dueling=everything or dqn.dueling,
            noisy=rainbow or (dqn.exploration == "noisy" and not recurrent),
            prioritised=everything or dqn.replay == "prioritised",
            n_step=dqn.n_step,
        )


class TensorRows(NamedTuple):
    """`gradients.dqn.DQNRows` as tensors."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    discount: Tensor
    next_mask: Tensor | None
    weight: Tensor | None


class Aim(NamedTuple):
    """What the network is to say of the action taken.

    Attributes:
        numbers: The target of its numbers.
        beyond: Share `[]` of samples whose return is out of the network's range; None where it has no range.
    """

    numbers: Tensor
    beyond: Tensor | None = None


class Judged(NamedTuple):
    """What a loss says of a batch: `loss` `[]`; without gradient `error` `[B]`, means `value`, `aim` `[]`,
    and `Aim.beyond`."""

    loss: Tensor
    error: Tensor
    value: Tensor
    aim: Tensor
    beyond: Tensor | None = None


class Rule(Protocol):
    """How returns are learned."""

    def aim(self, rows: TensorRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Aim:
        """Return what the numbers of the action taken are drawn to.

        Args:
            following: What the target network says of the next observations.
            chooser: What the network says that chooses the next action: the online one, if `double`.
        """

    def judge(self, outputs: Tensor, aim: Aim, rows: TensorRows, dqn: DQNSettings) -> Judged:
        """Return the loss of what the online network says of the observations."""


def limited(following: Tensor, dqn: DQNSettings) -> Tensor:
    """Keep values of what follows within plus and minus `q_clip`, where that is set."""
    return following if dqn.q_clip is None else following.clamp(-dqn.q_clip, dqn.q_clip)


class ValueRule:
    """The mean of the return: outputs are values `[B, A]`."""

    def aim(self, rows: TensorRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Aim:
        """Return values `[B]`."""
        following = limited(following, dqn)
        return Aim(n_step_target(rows.reward, rows.discount, chooser, following, True, rows.next_mask))

    def judge(self, outputs: Tensor, aim: Aim, rows: TensorRows, dqn: DQNSettings) -> Judged:
        """Judge by the temporal difference."""
        taken = outputs.gather(1, rows.action[:, None]).squeeze(1)
        loss, error = td_sample_loss(taken, aim.numbers, dqn.loss, rows.weight)
        return Judged(loss, error, taken.detach().mean(), aim.numbers.mean())


class QuantileRule:
    """Quantiles of the return at fixed levels `[N]`: outputs are `[B, A, N]`."""

    def __init__(self, level: Tensor) -> None:
        self._level = level

    def aim(self, rows: TensorRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Aim:
        """Return samples of the return `[B, N]`."""
        following = limited(following, dqn)
        numbers = quantile_target(rows.reward, rows.discount, following, chooser, True, rows.next_mask)
        return Aim(numbers)

    def judge(self, outputs: Tensor, aim: Aim, rows: TensorRows, dqn: DQNSettings) -> Judged:
        """Judge by the quantile regression loss."""
        taken = pick_action(outputs, rows.action)
        loss, error = quantile_huber_loss(taken, self._level, aim.numbers, dqn.kappa, rows.weight)
        return Judged(loss, error, taken.detach().mean(), aim.numbers.mean())


class CategoricalRule:
    """Probabilities of fixed atoms: outputs are their logarithms, or what becomes them, `[B, A, N]`."""

    def __init__(self, atoms: Tensor) -> None:
        self._atoms = atoms

    def aim(self, rows: TensorRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Aim:
        """Return probabilities `[B, N]`."""
        numbers, beyond = categorical_target(
            rows.reward,
            rows.discount,
            following.log_softmax(2),
            chooser.log_softmax(2),
            self._atoms,
            True,
            rows.next_mask,
        )
        return Aim(numbers, beyond)

    def judge(self, outputs: Tensor, aim: Aim, rows: TensorRows, dqn: DQNSettings) -> Judged:
        """Judge by the cross-entropy."""
        taken = pick_action(outputs, rows.action).log_softmax(1)
        loss, error = categorical_loss(taken, aim.numbers, rows.weight)
        value = (taken.detach().exp() @ self._atoms).mean()
        return Judged(loss, error, value, (aim.numbers @ self._atoms).mean(), aim.beyond)


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
        compiled_loss: The loss, which may be compiled.
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
        self.compiled_loss: CompiledLoss[Judged] = CompiledLoss(_judged, attrgetter("loss"))

    def prepare(self, rows: DQNRows, settings: DQNSettings) -> TensorRows:
        """Copy rows to where the networks live."""
        return to_tensors(rows, self._flat.parameter.device)

    def at(self, prepared: TensorRows, settings: DQNSettings) -> Step:
        """Write the gradient at what was prepared."""
        double = DQNParts.of(settings).double
        judged = self.compiled_loss(
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


class LevelledRows(NamedTuple):
    """Transitions on the device, and the levels at which its next action is chosen and valued, and its
    own one judged, `[B, N]` float32."""

    obs: Tensor
    action: Tensor
    reward: Tensor
    next_obs: Tensor
    discount: Tensor
    next_mask: Tensor | None
    weight: Tensor | None
    chosen: Tensor
    aimed: Tensor
    level: Tensor


class ImplicitGradient(Gradient[DQNRows, DQNSettings]):
    """Takes the gradient of implicit quantile networks (arXiv 1806.06923, eq. 3).

    The levels of what is predicted, of what that is drawn to, and those that choose the next action are drawn
    anew for each sample (algorithm 1): an action chosen by the samples that then value it is valued too high.

    Args:
        levels: How many to draw for each sample (N, N' and K in the paper).
        rng: Where they are drawn from.
    """

    def __init__(
        self,
        online: ImplicitQuantileNetwork,
        target: ImplicitQuantileNetwork,
        flat: FlatParameters,
        levels: int,
        rng: np.random.Generator,
    ) -> None:
        self._online, self._target, self._flat = online, target, flat
        self._levels, self._rng = levels, rng
        self.mixed = False
        self.compiled_loss: CompiledLoss[Judged] = CompiledLoss(_judged_at_levels, attrgetter("loss"))

    def prepare(self, rows: DQNRows, settings: DQNSettings) -> LevelledRows:
        """Copy rows to where the networks live, and draw their levels."""
        levels = [self._draw(len(rows.obs)) for _ in range(3)]
        return LevelledRows(*to_tensors(rows, self._flat.parameter.device), *levels)

    def at(self, prepared: LevelledRows, settings: DQNSettings) -> Step:
        """Write the gradient at what was prepared."""
        rows, levels, double = TensorRows(*prepared[:7]), prepared[7:], DQNParts.of(settings).double
        judged = self.compiled_loss(self._online, self._target, rows, *levels, settings, double, self.mixed)
        self._flat.gradient.zero_()
        judged.loss.backward()  # type: ignore[no-untyped-call]
        return told(judged)

    def _draw(self, count: int) -> Tensor:
        level = self._rng.random((count, self._levels), np.float32)
        return torch.from_numpy(level).to(self._flat.parameter.device)


def _judged_at_levels(
    online: ImplicitQuantileNetwork,
    target: ImplicitQuantileNetwork,
    rows: TensorRows,
    chosen: Tensor,
    aimed: Tensor,
    level: Tensor,
    dqn: DQNSettings,
    double: bool,
    mixed: bool,
) -> Judged:
    """Choose the next action at the levels `chosen`, aim at samples of its return at the levels `aimed`, and
    judge those at `level`, `[B, N]` each."""
    with torch.no_grad():
        chooser = forward(online if double else target, rows.next_obs, chosen, mixed=mixed)
        following = limited(forward(target, rows.next_obs, aimed, mixed=mixed), dqn)
        aim = quantile_target(rows.reward, rows.discount, following, chooser, True, rows.next_mask)
    taken = pick_action(forward(online, rows.obs, level, mixed=mixed), rows.action)
    loss, error = quantile_huber_loss(taken, level, aim, dqn.kappa, rows.weight)
    return Judged(loss, error, taken.detach().mean(), aim.mean())
