"""The gradient of TD3's losses, by autograd."""

from typing import Any, NamedTuple

import torch

from soulsgui.rl.gradients.base import Gradient, Step
from soulsgui.rl.gradients.sac import SACRows, on_device, values_of
from soulsgui.rl.losses import policy as losses
from soulsgui.rl.networks.mlp import SACNetworks
from soulsgui.rl.optimiser import FlatParameters

FIGURES = ("critic_loss", "q_mean", "target_mean", "td_error")
"""What a step tells, in this order."""


class TD3Step(NamedTuple):
    """What a step is told besides the rows.

    Attributes:
        noise: Deviation of the noise on the actions that the target actor chooses.
        limit: The most that this noise may be.
        moves_actor: Whether the actor learns, too; if not, its gradient is 0.
    """

    noise: float
    limit: float
    moves_actor: bool


class TD3Gradient(Gradient[SACRows, TD3Step]):
    """Of the losses of critics and actor, both at the parameters of now.

    Its figures are `FIGURES`: the critics' loss; the means of the values of the actions taken (both critics),
    of the targets and of their absolute differences. Of each sample it says the mean of both differences.
    """

    def __init__(self, networks: SACNetworks, flat: FlatParameters) -> None:
        self._networks, self._flat = networks, flat

    def prepare(self, rows: SACRows, settings: TD3Step) -> Any:
        """Copy rows to where the networks live."""
        return on_device(rows, self._flat.parameter.device)

    def at(self, prepared: Any, settings: TD3Step) -> Step:
        """Write the gradient at what was prepared."""
        obs, taken, reward, next_obs, discount, noise = prepared
        nets = self._networks
        assert nets.target_actor is not None
        with torch.no_grad():
            planned = nets.target_actor(next_obs).tanh()
            next_action = losses.smoothed_action(planned, noise, settings.noise, settings.limit)
            next_q = values_of(nets.targets, next_obs, next_action)[..., 0]
            target = losses.double_q_target(reward, discount, next_q)
        self._flat.gradient.zero_()
        q = values_of(nets.critics, obs, taken)[..., 0]
        critic = losses.critic_loss(q, target)
        critic.loss.backward()  # type: ignore[no-untyped-call]
        if settings.moves_actor:
            worth = values_of(nets.critics[:1], obs, nets.actor(obs).tanh())
            # The first critic alone, which only passes the gradient on.
            (-worth.mean()).backward(inputs=list(nets.actor.parameters()))  # type: ignore[no-untyped-call]
        terms = (critic.loss, q.mean(), target.mean(), critic.error.mean())
        return Step(torch.stack([term.detach() for term in terms]), critic.error)
