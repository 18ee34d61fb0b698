"""The gradient of CrossQ's losses, by autograd."""

from typing import Any, NamedTuple

import torch

from soulsgui.rl.gradients.base import Gradient, Step
from soulsgui.rl.gradients.sac import SACRows, draw, on_device, values_of
from soulsgui.rl.losses import policy as losses
from soulsgui.rl.networks.mlp import SACNetworks
from soulsgui.rl.optimiser import FlatParameters

FIGURES = ("critic_loss", "q_mean", "target_mean", "td_error", "entropy", "temperature")
"""What a step tells, in this order."""


class CrossQStep(NamedTuple):
    """What a step is told besides the rows.

    Attributes:
        target_entropy: What the temperature aims at, as of `SACGradient`.
        moves_actor: Whether actor and temperature learn, too; if not, their gradients are 0.
    """

    target_entropy: float | None
    moves_actor: bool


class CrossQGradient(Gradient[SACRows, CrossQStep]):
    """Of the losses of critics, actor and temperature, all at the parameters of now.

    The critics see both ends of the transitions in one batch, and are normalised by the statistics of both;
    there are no target networks. Running statistics move with each batch that a network learns from. Its
    figures are `FIGURES`, as those of `SACGradient`; the entropy is that at the far ends. Of each sample it
    says the mean of both absolute differences.
    """

    def __init__(self, networks: SACNetworks, flat: FlatParameters) -> None:
        self._networks, self._flat = networks, flat

    def prepare(self, rows: SACRows, settings: CrossQStep) -> Any:
        """Copy rows to where the networks live."""
        return on_device(rows, self._flat.parameter.device)

    def at(self, prepared: Any, settings: CrossQStep) -> Step:
        """Write the gradient at what was prepared."""
        obs, taken, reward, next_obs, discount, noise = prepared
        nets, log_alpha = self._networks, self._networks.log_temperature
        alpha = log_alpha.detach().exp()
        with torch.no_grad():
            next_action, next_log_prob = draw(nets, next_obs, noise[0])
        self._flat.gradient.zero_()
        for critic in nets.critics:
            critic.train()
        values = values_of(nets.critics, torch.cat((obs, next_obs)), torch.cat((taken, next_action)))
        for critic in nets.critics:
            critic.eval()
        q, next_q = values[..., 0].chunk(2, dim=1)
        target = losses.soft_target(reward, discount, next_q, next_log_prob, alpha)
        found = losses.critic_loss(q, target)
        found.loss.backward()  # type: ignore[no-untyped-call]
        if settings.moves_actor:
            nets.actor.train()
            action, log_prob = draw(nets, obs, noise[1])
            nets.actor.eval()
            loss = losses.actor_loss(log_prob, values_of(nets.critics, obs, action)[..., 0], alpha)
            if settings.target_entropy is not None:
                # With alpha in the place of its logarithm the slope fades as alpha falls, while Adam
                # remembers the steep ones: it falls too slowly.
                loss = loss - log_alpha * (log_prob.detach() + settings.target_entropy).mean()
            # The critics only pass the gradient on.
            loss.backward(inputs=[*nets.actor.parameters(), log_alpha])  # type: ignore[no-untyped-call]
        means = (q.mean(), target.mean(), found.error.mean(), -next_log_prob.mean())
        terms = (found.loss, *means, alpha)
        return Step(torch.stack([term.detach() for term in terms]), found.error)
