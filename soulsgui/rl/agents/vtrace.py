"""V-trace: the update of an actor and critic over samples that older weights made (IMPALA, APPO)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START, Moment
from soulsgui.rl.agents.actor_critic import ActorCritic
from soulsgui.rl.agents.base import FigureSums
from soulsgui.rl.compiled_loss import to_device
from soulsgui.rl.gradients.base import Gradient, Step
from soulsgui.rl.gradients.vtrace import VTraceGradient, VTraceRows, VTraceWeights
from soulsgui.rl.optimiser import clip_norm_

FIGURES = (
    "policy_loss",
    "value_loss",
    "entropy",
    "behaviour_kl",
    "rho_mean",
    "rho_clip_fraction",
    "explained_variance",
    "grad_norm",
)


class VTraceAgent(ActorCritic):
    """Learns a policy over actions of any kind from its experience of a while ago, too.

    The targets of V-trace (Espeholt et al. 2018, arXiv 1802.01561) correct for what the policy has changed
    since. Without `vtrace.clip` the policy follows their policy gradient (section 4.2); with it the clipped
    objective of PPO, relative to the policy that played, is used instead, as in APPO (Petrenko et al. 2020,
    arXiv 2006.11751). There the ratio is in the objective already: the advantage is taken without its weight.

    A trace goes on over the segments of an episode that are joined in a batch, whichever weights played each:
    every step is weighed by the policy that took it. Where the last one of them ends, the value of its last
    observation stands for the rest, unless the episode ended in a final state.

    What a step was worth to the policy that took it, the client says with the statistics of the normaliser
    that were published with its weights; what it is worth now is computed with the statistics of now, which
    go out with the weights of now. They change after each update alone, so that samples of the present
    weights have ratio 1. The arguments are those of `ActorCritic`; the algorithm's group is `vtrace`.
    """

    def __init__(self, spaces: SpacesSpec, settings: Settings, seed: int, device: str = "cpu") -> None:
        super().__init__(spaces, settings, seed, device)
        self._moment = START
        self._gradient: Gradient[VTraceRows, VTraceWeights] = VTraceGradient(
            self.policy, self.value, self._flat, self.head.distribution
        )
        self._figures = FigureSums(FIGURES, self.device, "vtrace.learning_rate")

    def update(self, batch: Segments, moment: Moment) -> None:
        """Learn from segments of present or past weights, `vtrace.epochs` gradient steps, as of a moment."""
        settings = self.settings.vtrace
        self._moment = moment
        self._optimiser.lr = moment.value(settings.learning_rate)
        rows, weights = self._rows(self._learned_from(batch, settings.gamma)), self._weights()
        for _ in range(settings.epochs):
            step = self._gradient(rows, weights)
            norm = clip_norm_(self._flat.gradient, settings.max_grad_norm)
            self._optimiser.step()
            self._note(step, norm)
        self._to_see.observe(np.asarray(batch.obs)[batch.step_rows])
        self.updates += 1

    def figures(self) -> dict[str, float]:
        """Return means over the gradient steps since the last call (`FigureSums.means`).

        Those are `policy_loss`, `value_loss`, `entropy`; `behaviour_kl` of the policies that played to the
        present one; `rho_mean`, the mean importance weight, `rho_clip_fraction`, the part of the steps where
        it was clipped; `explained_variance` of the targets by the values; `grad_norm` before clipping.
        """
        told = {"learning_rate": self._optimiser.lr, **self.rewards.figures()}
        for name in ("clip", "entropy_coef"):
            setting = getattr(self.settings.vtrace, name)
            if isinstance(setting, dict):
                told[name] = self._moment.value(setting)
        return self._figures.means(self.updates, told)

    def _counters(self) -> dict[str, int]:
        return super()._counters() | {"summed": self._figures.count}

    def _load_counters(self, counters: Mapping[str, int]) -> None:
        super()._load_counters(counters)
        self._figures.count = counters["summed"]

    def _named_tensors(self) -> list[tuple[str, Tensor]]:
        return [*super()._named_tensors(), ("figures.sums", self._figures.sums)]

    def _rows(self, batch: Segments) -> VTraceRows:
        def here(array: NDArray[Any]) -> Tensor:
            return to_device(array, self.device)

        mask = batch.action_mask
        return VTraceRows(
            action=here(self.head.drawn(batch.action)),
            log_prob=here(batch.log_prob),
            reward=here(batch.reward),
            terminated=here(batch.terminated_steps),
            ends=here(batch.ends),
            mask=here(np.zeros((batch.steps, 0), np.bool_) if mask is None else mask[batch.step_rows]),
            at=here(batch.step_rows),
            inputs=self._inputs(np.asarray(batch.obs)),
        )

    def _weights(self) -> VTraceWeights:
        """Return what the losses look at, as of now."""
        settings, moment = self.settings.vtrace, self._moment
        return VTraceWeights(
            settings.gamma,
            settings.trace_lambda,
            settings.rho_clip,
            settings.c_clip,
            None if settings.clip is None else moment.value(settings.clip),
            moment.value(settings.entropy_coef),
            settings.value_coef,
            settings.normalize_advantage,
        )

    def _note(self, step: Step, norm: Tensor) -> None:
        """Add what a gradient step tells to the sums."""
        log_ratio, target, value = step.samples.unbind(1)
        ratio, rho_clip = log_ratio.exp(), self.settings.vtrace.rho_clip
        spread = target.var(correction=0)
        explained = 1.0 - (target - value).var(correction=0) / spread.clamp(min=1e-12)
        told = (
            -log_ratio.mean(),  # no power of it: one sample that says anything must not rule the mean
            ratio.clamp(max=rho_clip).mean(),
            (ratio > rho_clip).float().mean(),
            torch.where(spread > 0, explained, torch.zeros_like(explained)),
            norm,
        )
        self._figures.add(torch.cat((step.figures, torch.stack(told))))
