"""The gradient of soft actor-critic's losses, by autograd: for any network and device."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.distributions import TanhGaussian, softplus_std
from soulsgui.rl.flat import FlatParameters
from soulsgui.rl.gradients.base import Gradient, Part, Step
from soulsgui.rl.losses import sac as losses
from soulsgui.rl.networks.sac_networks import SACNetworks
from soulsgui.rl.quickened import to_device

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

    def part(self, prepared: SACRows, part: Part) -> SACRows:
        """Take some of the transitions."""
        columns = [column[part.samples] for column in prepared[:5]]
        return SACRows(*columns, noise=prepared.noise[:, part.samples])  # type: ignore[misc]


class AutogradSACGradient(SACGradient):
    """Takes the gradient by autograd. Also the yardstick for `sac_by_hand`.

    Args:
        networks: The networks.
        flat: Holds the parameters of actor, critics and temperature.
    """

    def __init__(self, networks: SACNetworks, flat: FlatParameters) -> None:
        self._networks, self._flat = networks, flat
        self._actor_side = [*networks.actor.parameters(), networks.log_temperature]

    def prepare(self, rows: SACRows, settings: float | None) -> Any:
        """Copy rows to where the networks live."""
        return SACRows(*(to_device(column, self._flat.parameter.device) for column in rows))  # type: ignore[arg-type]

    def at(self, prepared: Any, settings: float | None) -> Step:
        """Write the gradient at what was prepared."""
        obs, taken, reward, next_obs, discount, noise = prepared
        target_entropy = settings
        nets, log_alpha = self._networks, self._networks.log_temperature
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            next_action, next_log_prob = self._draw(next_obs, noise[0])
            next_q = _values(nets.targets, next_obs, next_action)
            target = losses.soft_target(reward, discount, next_q, next_log_prob, alpha)
        self._flat.gradient.zero_()
        q = _values(nets.critics, obs, taken)
        critic = losses.critic_loss(q, target)
        critic.loss.backward()  # type: ignore[no-untyped-call]
        action, log_prob = self._draw(obs, noise[1])
        actor_loss = losses.actor_loss(log_prob, _values(nets.critics, obs, action), alpha)
        loss = actor_loss
        if target_entropy is not None:
            loss = loss + losses.temperature_loss(log_alpha, log_prob, target_entropy)
        # The critics only pass the gradient on: what they say of a fresh action does not teach them.
        loss.backward(inputs=self._actor_side)  # type: ignore[no-untyped-call]
        error, entropy = critic.error.mean(), -log_prob.mean()
        terms = (critic.loss, actor_loss, q.mean(), target.mean(), error, entropy, alpha)
        return Step(torch.stack([term.detach() for term in terms]), critic.error)

    def _draw(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions `[B, D]` and their log-probabilities `[B]`; gradients reach the actor."""
        mean, raw = self._networks.actor(obs).chunk(2, dim=1)
        std = softplus_std(raw, self._networks.initial_std)
        edge = torch.ones((), device=obs.device)
        policy = TanhGaussian(mean, std, -edge, edge)
        latent = mean + std * noise
        return policy.to_action(latent), policy.log_prob(latent)


def _values(critics: Sequence[nn.Sequential], obs: Tensor, action: Tensor) -> Tensor:
    """Return what both critics say of observations and actions, `[2, B]`."""
    inputs = torch.cat((obs, action), dim=1)
    return torch.stack([critic(inputs).squeeze(1) for critic in critics])
