"""The gradient of soft actor-critic's losses: by autograd, and for MLPs on the CPU written out in numpy.

`AutogradSACGradient` defines what is right; the tests hold both together.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.policies.distributions import LEAST_STD, log_tanh_slope, softplus, std_offset
from soulsgui.rl.compiled_loss import to_device
from soulsgui.rl.distributions import TanhGaussian, softplus_std
from soulsgui.rl.gradients.base import BatchPart, Gradient, Step
from soulsgui.rl.gradients.mlp_by_hand import HandMLP
from soulsgui.rl.losses import policy as losses
from soulsgui.rl.losses.policy import soft_target
from soulsgui.rl.losses.q_learning import SampleLoss
from soulsgui.rl.networks.mlp import SACNetworks
from soulsgui.rl.optimiser import FlatParameters

Floats = NDArray[np.float32]

FIGURES = ("critic_loss", "actor_loss", "q_mean", "target_mean", "td_error", "entropy", "temperature")
"""What a step tells, in this order."""


class SACRows(NamedTuple):
    """Transitions that one gradient step sees, and the chance it needs.

    | field | shape, dtype | meaning |
    |---|---|---|
    | obs | `[B, size]` float32 | inputs of the networks |
    | action | `[B, D]` float32 | action taken, scaled to -1 … 1 |
    | reward | `[B]` float32 | sum of the window's rewards |
    | next_obs | `[B, size]` float32 | inputs of the networks after the window |
    | discount | `[B]` float32 | of the value there: 0 after a final state |
    | noise | `[2, B, D]` float32 | standard normal: for actions at `next_obs` and at `obs` |

    Of TD3 the noise is `[B, D]`, for actions at `next_obs` alone.
    """

    obs: Floats
    action: Floats
    reward: Floats
    next_obs: Floats
    discount: Floats
    noise: Floats


class SACGradient(Gradient[SACRows, float | None]):
    """Of the losses of actor, critics and temperature, all at the parameters of now.

    What it is told besides the rows is what the temperature aims at, in nats of the scaled action; None: it
    stays. Its figures are `FIGURES`: the losses; the means of the values of the actions taken (both
    critics), of the targets and of their absolute differences; of minus the log-probability of fresh actions;
    and alpha. Of each sample it says how wrong the values were: the mean of both absolute differences.
    """

    def part(self, prepared: SACRows, part: BatchPart) -> SACRows:
        """Take some of the transitions."""
        columns = [column[part.samples] for column in prepared[:5]]
        return SACRows(*columns, noise=prepared.noise[:, part.samples])  # type: ignore[misc]


class AutogradSACGradient(SACGradient):
    """Takes the gradient by autograd. Also the yardstick for `sac_by_hand`."""

    def __init__(self, networks: SACNetworks, flat: FlatParameters) -> None:
        self._networks, self._flat = networks, flat
        self._actor_side = [*networks.actor.parameters(), networks.log_temperature]

    def prepare(self, rows: SACRows, settings: float | None) -> Any:
        """Copy rows to where the networks live."""
        return on_device(rows, self._flat.parameter.device)

    def at(self, prepared: Any, settings: float | None) -> Step:
        """Write the gradient at what was prepared."""
        obs, taken, reward, next_obs, discount, noise = prepared
        target_entropy = settings
        nets, log_alpha = self._networks, self._networks.log_temperature
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            next_action, next_log_prob = draw(nets, next_obs, noise[0])
            next_q = values_of(nets.targets, next_obs, next_action)
            target = self._target(reward, discount, next_q, next_log_prob, alpha)
        self._flat.gradient.zero_()
        q = values_of(nets.critics, obs, taken)
        critic = self._critic_loss(q, target)
        critic.loss.backward()  # type: ignore[no-untyped-call]
        action, log_prob = draw(nets, obs, noise[1])
        actor_loss = losses.actor_loss(log_prob, self._worth(values_of(nets.critics, obs, action)), alpha)
        loss = actor_loss
        if target_entropy is not None:
            loss = loss + losses.temperature_loss(log_alpha, log_prob, target_entropy)
        # The critics only pass the gradient on: what they say of a fresh action does not teach them.
        loss.backward(inputs=self._actor_side)  # type: ignore[no-untyped-call]
        error, entropy = critic.error.mean(), -log_prob.mean()
        terms = (critic.loss, actor_loss, q.mean(), target.mean(), error, entropy, alpha)
        return Step(torch.stack([term.detach() for term in terms]), critic.error)

    def _target(
        self, reward: Tensor, discount: Tensor, next_q: Tensor, next_log_prob: Tensor, alpha: Tensor
    ) -> Tensor:
        """Return what the critics are drawn to."""
        return soft_target(reward, discount, next_q[..., 0], next_log_prob, alpha)

    def _critic_loss(self, q: Tensor, target: Tensor) -> SampleLoss:
        return losses.critic_loss(q[..., 0], target)

    def _worth(self, q: Tensor) -> Tensor:
        """Return values `[N, B]`, the smallest of which the actor raises."""
        return q[..., 0]


def on_device(rows: SACRows, device: torch.device) -> SACRows:
    """Return rows with their columns as tensors where the networks live."""
    return SACRows(*(to_device(column, device) for column in rows))  # type: ignore[arg-type]


def draw(networks: SACNetworks, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions `[B, D]` and their log-probabilities `[B]`; gradients reach the actor."""
    mean, raw = networks.actor(obs).chunk(2, dim=1)
    std = softplus_std(raw, networks.initial_std)
    edge = torch.ones((), device=obs.device)
    policy = TanhGaussian(mean, std, -edge, edge)
    latent = mean + std * noise
    return policy.to_action(latent), policy.log_prob(latent)


def values_of(critics: Sequence[nn.Sequential], obs: Tensor, action: Tensor) -> Tensor:
    """Return what critics say of observations and actions, `[N, B, M]`: a value each, or M quantiles."""
    inputs = torch.cat((obs, action), dim=1)
    return torch.stack([critic(inputs) for critic in critics])


class TQCGradient(AutogradSACGradient):
    """As that of soft actor-critic, of critics that tell quantiles; `dropped` for each of them."""

    def __init__(self, networks: SACNetworks, flat: FlatParameters, dropped: int) -> None:
        super().__init__(networks, flat)
        self._dropped = dropped

    def _target(
        self, reward: Tensor, discount: Tensor, next_q: Tensor, next_log_prob: Tensor, alpha: Tensor
    ) -> Tensor:
        return losses.truncated_target(reward, discount, next_q, next_log_prob, alpha, self._dropped)

    def _critic_loss(self, q: Tensor, target: Tensor) -> SampleLoss:
        return losses.quantile_critic_loss(q, target)

    def _worth(self, q: Tensor) -> Tensor:
        return q.mean(dim=(0, 2))[None]


class ActorSample(NamedTuple):
    """Fresh actions, reparametrised: `action = tanh(mean + std * noise)`.

    | field | shape | meaning |
    |---|---|---|
    | action | `[B, D]` | within -1 … 1 |
    | log_prob | `[B]` | log-densities of the actions |
    | std | `[B, D]` | deviation of `u` |
    | noise | `[B, D]` | |
    """

    action: Floats
    log_prob: Floats
    std: Floats
    noise: Floats


class HandSACGradient(SACGradient):
    """Takes the gradient by hand, of MLPs on the CPU; the gradient of the temperature exists too."""

    def __init__(self, networks: SACNetworks) -> None:
        self._actor = HandMLP(networks.actor)
        self._critics = [HandMLP(critic) for critic in networks.critics]
        self._targets = [HandMLP(target) for target in networks.targets]
        self._log_temperature = networks.log_temperature
        self._offset = np.float32(std_offset(networks.initial_std))

    def at(self, prepared: SACRows, settings: float | None) -> Step:
        """Write the gradient at rows as they came."""
        rows, target_entropy = prepared, settings
        alpha = self._log_temperature.detach().exp()
        target = self._target(rows, alpha)
        critic_loss, q_mean, wrong = self._learn_values(rows, target)
        draw, actor_loss = self._learn_policy(rows, alpha.item())
        entropy = -float(draw.log_prob.mean())
        gradient = self._log_temperature.grad
        assert gradient is not None
        # d/dlog(alpha) of -alpha * (mean log pi + target)
        gradient.fill_(0.0 if target_entropy is None else alpha.item() * (entropy - target_entropy))
        means = q_mean, float(target.mean()), float(wrong.mean())
        figures = torch.tensor((critic_loss, actor_loss, *means, entropy, alpha.item()), dtype=torch.float32)
        return Step(figures, torch.from_numpy(wrong))

    def _target(self, rows: SACRows, alpha: Tensor) -> Floats:
        """Return what the values of the actions taken are drawn to, `[B]`."""
        draw = self._draw(rows.next_obs, rows.noise[0])
        inputs = np.concatenate((rows.next_obs, draw.action), axis=1)
        next_q = np.stack([target.forward(inputs)[:, 0] for target in self._targets])
        reward, discount, values, log_prob = (
            torch.tensor(x) for x in (rows.reward, rows.discount, next_q, draw.log_prob)
        )
        target: Floats = soft_target(reward, discount, values, log_prob, alpha).numpy()
        return target

    def _learn_values(self, rows: SACRows, target: Floats) -> tuple[float, float, Floats]:
        """Write the critics' gradients; return loss, mean value and mean absolute differences `[B]`."""
        inputs = np.concatenate((rows.obs, rows.action), axis=1)
        loss = q_mean = 0.0
        distance = np.zeros_like(target)
        for critic in self._critics:
            q = critic.forward(inputs)[:, 0]
            error = q - target
            critic.backward(inputs, error[:, None] / np.float32(len(error)))
            loss += 0.5 * float(np.square(error).mean())
            q_mean += float(q.mean()) / len(self._critics)
            distance += np.abs(error) / np.float32(len(self._critics))
        return loss, q_mean, distance

    def _learn_policy(self, rows: SACRows, alpha: float) -> tuple[ActorSample, float]:
        """Write the gradient of `mean(alpha * log pi - min_i Q_i)` by the actor; return draw and loss."""
        draw = self._draw(rows.obs, rows.noise[1])
        inputs = np.concatenate((rows.obs, draw.action), axis=1)
        q = np.stack([critic.forward(inputs)[:, 0] for critic in self._critics])
        smaller = q.argmin(axis=0)
        slope = np.zeros_like(draw.action)  # of min_i Q_i by the actions
        for index, critic in enumerate(self._critics):
            counts = (smaller == index).astype(np.float32)[:, None]
            slope += critic.input_gradient(counts)[:, rows.obs.shape[1] :]
        self._actor.backward(rows.obs, self._by_outputs(draw, slope, alpha))
        return draw, float((alpha * draw.log_prob - q.min(axis=0)).mean())

    def _draw(self, obs: Floats, noise: Floats) -> ActorSample:
        """Run the actor; its raw deviations stay in its outputs until the next call."""
        mean, raw = np.split(self._actor.forward(obs), 2, axis=1)
        std = softplus(raw + self._offset) + np.float32(LEAST_STD)
        latent = mean + std * noise
        density = -0.5 * np.square(noise) - np.log(std) - np.float32(0.5 * math.log(2 * math.pi))
        log_prob = (density - log_tanh_slope(latent)).sum(axis=1, dtype=np.float32)
        return ActorSample(np.tanh(latent), log_prob, std, noise)

    def _by_outputs(self, draw: ActorSample, slope: Floats, alpha: float) -> Floats:
        """Differentiate the actor's loss by its outputs, `[B, 2 * D]`.

        With `a = tanh(u)`: `dL/du = (2 alpha a - dQ/da (1 - a^2)) / B`, which is that by the mean;
        `dL/dstd = dL/du * noise - alpha / (std B)`; and the softplus' slope is `1 - exp(-softplus)`.
        """
        per_row, alpha32 = np.float32(1 / len(slope)), np.float32(alpha)
        by_mean = (2 * alpha32 * draw.action - slope * (1 - np.square(draw.action))) * per_row
        by_std = by_mean * draw.noise - alpha32 / draw.std * per_row
        by_raw = by_std * -np.expm1(np.float32(LEAST_STD) - draw.std)
        return np.concatenate((by_mean, by_raw), axis=1)
