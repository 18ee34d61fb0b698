"""The gradients of the DQN family's losses by autograd: for any network and device."""

from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
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


class DQNRows(NamedTuple):
    """Transitions that one gradient step sees: arrays, and tensors where the networks live.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[B, size]` float32, or what else the network takes | inputs of the network |
    | action | `[B]` int64 | index of the action taken |
    | reward | `[B]` float32 | |
    | next_obs | as `obs` | inputs of the networks after the step |
    | discount | `[B]` float32 | of what follows: gamma to the power of the steps, 0 after a final state |
    | next_mask | `[B, A]` bool, or None | which actions are valid after the step; None: all are |
    | weight | `[B]` float32, or None | importance weights; None: all 1 |
    | chosen, valued | `[B, N]` float32, or None | levels at which IQN chooses and values the next action |
    | level | `[B, N]` float32, or None | and those of the action taken |
    """

    obs: Any
    action: Any
    reward: Any
    next_obs: Any
    discount: Any
    next_mask: Any = None
    weight: Any = None
    chosen: Any = None
    valued: Any = None
    level: Any = None


class Target(NamedTuple):
    """What the numbers of the action taken are drawn to.

    `beyond` is the share `[]` of samples whose return is out of the network's range; None: it has no range.
    """

    numbers: Tensor
    beyond: Tensor | None = None


class LossResult(NamedTuple):
    """A batch's loss `[]`; without gradient its errors `[B]`, means `[]` of values and targets, `beyond`."""

    loss: Tensor
    error: Tensor
    value: Tensor
    target: Tensor
    beyond: Tensor | None = None

    @property
    def step(self) -> Step:
        """The figures of a gradient step, and the errors."""
        figures = [self.loss.detach(), self.value, self.target, self.error.mean()]
        if self.beyond is not None:
            figures.append(self.beyond)
        return Step(torch.stack(figures), self.error)


class Rule(Protocol):
    """How returns are learned."""

    def target(self, rows: DQNRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Target:
        """Return what the numbers of the action taken are drawn to.

        Args:
            following: Outputs of the target network at the next observations.
            chooser: Outputs of the network that chooses the next action: the online one, if `double`.
        """

    def loss(self, outputs: Tensor, target: Target, rows: DQNRows, dqn: DQNSettings) -> LossResult:
        """Return the loss of the outputs of the online network at the observations."""


def limited(following: Tensor, dqn: DQNSettings) -> Tensor:
    """Keep values of what follows within plus and minus `q_clip`, where that is set."""
    return following if dqn.q_clip is None else following.clamp(-dqn.q_clip, dqn.q_clip)


class ValueRule:
    """The mean of the return: outputs are values `[B, A]`, targets `[B]`; the loss is of their difference."""

    def target(self, rows: DQNRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Target:
        """Return values `[B]`."""
        following = limited(following, dqn)
        return Target(n_step_target(rows.reward, rows.discount, chooser, following, True, rows.next_mask))

    def loss(self, outputs: Tensor, target: Target, rows: DQNRows, dqn: DQNSettings) -> LossResult:
        """Return the loss of the temporal difference."""
        taken = outputs.gather(1, rows.action[:, None]).squeeze(1)
        loss, error = td_sample_loss(taken, target.numbers, dqn.loss, rows.weight)
        return LossResult(loss, error, taken.detach().mean(), target.numbers.mean())


class QuantileRule:
    """Quantiles of the return at levels, fixed ones `[N]` or those of the rows: outputs are `[B, A, N]`."""

    def __init__(self, level: Tensor | None) -> None:
        self._level = level

    def target(self, rows: DQNRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Target:
        """Return samples of the return `[B, N]`."""
        following = limited(following, dqn)
        return Target(quantile_target(rows.reward, rows.discount, following, chooser, True, rows.next_mask))

    def loss(self, outputs: Tensor, target: Target, rows: DQNRows, dqn: DQNSettings) -> LossResult:
        """Return the quantile regression loss."""
        taken = pick_action(outputs, rows.action)
        level = rows.level if self._level is None else self._level
        loss, error = quantile_huber_loss(taken, level, target.numbers, dqn.kappa, rows.weight)
        return LossResult(loss, error, taken.detach().mean(), target.numbers.mean())


class CategoricalRule:
    """Probabilities of fixed atoms: outputs are their logarithms, or what becomes them, `[B, A, N]`."""

    def __init__(self, atoms: Tensor) -> None:
        self._atoms = atoms

    def target(self, rows: DQNRows, following: Tensor, chooser: Tensor, dqn: DQNSettings) -> Target:
        """Return probabilities `[B, N]`."""
        logs = following.log_softmax(2), chooser.log_softmax(2)
        return Target(
            *categorical_target(rows.reward, rows.discount, *logs, self._atoms, True, rows.next_mask)
        )

    def loss(self, outputs: Tensor, target: Target, rows: DQNRows, dqn: DQNSettings) -> LossResult:
        """Return the cross-entropy."""
        taken = pick_action(outputs, rows.action).log_softmax(1)
        loss, error = categorical_loss(taken, target.numbers, rows.weight)
        value = (taken.detach().exp() @ self._atoms).mean()
        return LossResult(loss, error, value, (target.numbers @ self._atoms).mean(), target.beyond)


DQNGradient = Gradient[Any, DQNSettings]
"""Of the mean loss of the temporal differences, at `DQNRows` or `gradients.r2d2.SequenceRows`.

Its figures are the loss, and the means of values, of what they are drawn to and of the differences, and
`LossResult.beyond` where there is one; of each sample it says how wrong it was, never negative: its new
priority. Of `Step.samples` in columns the first is the priority, the last the largest error.
"""


class AutogradDQNGradient(Gradient[DQNRows, DQNSettings]):
    """Takes the gradient by autograd. Also the yardstick for `dqn_by_hand`.

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
        self.compiled_loss: CompiledLoss[LossResult] = CompiledLoss(_loss, attrgetter("loss"))

    def prepare(self, rows: DQNRows, settings: DQNSettings) -> DQNRows:
        """Copy rows to where the networks live."""
        return to_tensors(rows, self._flat.parameter.device)

    def at(self, prepared: DQNRows, settings: DQNSettings) -> Step:
        """Write the gradient at what was prepared."""
        double = DQNParts.of(settings).double
        networks = self._online, self._target
        result = self.compiled_loss(*networks, self._rule, prepared, settings, double, self.mixed)
        self._flat.gradient.zero_()
        result.loss.backward()  # type: ignore[no-untyped-call]
        return result.step


def _loss(
    online: nn.Module,
    target: nn.Module,
    rule: Rule,
    rows: DQNRows,
    dqn: DQNSettings,
    double: bool,
    mixed: bool,
) -> LossResult:
    with torch.no_grad():
        chooser = following = _outputs(target, rows.next_obs, rows.valued, mixed)
        if double or rows.chosen is not None:
            chooser = _outputs(online if double else target, rows.next_obs, rows.chosen, mixed)
        drawn_to = rule.target(rows, following, chooser, dqn)
    return rule.loss(_outputs(online, rows.obs, rows.level, mixed), drawn_to, rows, dqn)


def _outputs(network: nn.Module, obs: Tensor, level: Tensor | None, mixed: bool) -> Tensor:
    """Return what a network says, at levels where it is asked for some."""
    return forward(network, obs, mixed=mixed) if level is None else forward(network, obs, level, mixed=mixed)


def to_tensors(rows: DQNRows, device: torch.device) -> DQNRows:
    """Copy rows to where the networks live."""
    return DQNRows(*(None if column is None else to_device(column, device) for column in rows))


class ImplicitGradient(AutogradDQNGradient):
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
        super().__init__(online, target, flat, QuantileRule(None))
        self._levels, self._rng = levels, rng

    def prepare(self, rows: DQNRows, settings: DQNSettings) -> DQNRows:
        """Copy rows to where the networks live, and draw their levels."""
        size, device = (len(rows.obs), self._levels), self._flat.parameter.device
        levels = [torch.from_numpy(self._rng.random(size, np.float32)).to(device) for _ in range(3)]
        return to_tensors(rows, device)._replace(chosen=levels[0], valued=levels[1], level=levels[2])
