"""What is learned of the return: how a network's numbers for each action are aimed and judged."""

from typing import NamedTuple, Protocol

from torch import Tensor

from soulsgui.rl.losses.categorical import categorical_loss, categorical_target
from soulsgui.rl.losses.dqn import n_step_target, td_sample_loss
from soulsgui.rl.losses.quantile import quantile_huber_loss, quantile_target
from soulsgui.rl.losses.weighted import pick_action
from soulsgui.rl.settings import DQNSettings


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
            rows: The transitions.
            following: What the target network says of the next observations.
            chooser: What the network says that chooses the next action: the online one, if `double`.
            dqn: The settings.
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
    """Quantiles of the return at fixed levels: outputs are `[B, A, N]`.

    Args:
        level: `[N]`, from 0 to 1.
    """

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
    """Probabilities of fixed atoms: outputs are their logarithms, or what becomes them, `[B, A, N]`.

    Args:
        atoms: `[N]`, their values.
    """

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
