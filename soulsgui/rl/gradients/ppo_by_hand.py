"""The gradient of PPO's loss for small MLPs on the CPU, written out in numpy.

A gradient step over 64 (256) transitions takes about 0.5 (0.85) ms with autograd and 0.2 (0.4) ms so, Adam
included. `AutogradPPOGradient` defines what is right; the tests hold both together.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.policies.distributions import MASKED_LOGIT
from soulsgui.rl.gradients.base import Step
from soulsgui.rl.gradients.mlp_by_hand import HandMLP
from soulsgui.rl.gradients.ppo import PPOGradient, PPORows, PPOWeights
from soulsgui.rl.losses.policy import LARGEST_LOG_RATIO

Floats = NDArray[np.float32]


class HandPPOGradient(PPOGradient):
    """Takes the gradient by hand, of networks as `HandMLP` takes them.

    Policy and value may have all layers but the last one in common.
    """

    def __init__(self, policy: nn.Sequential, value: nn.Sequential) -> None:
        # What both networks go through first; None where they have nothing in common.
        self._torso: HandMLP | None = None
        if len(policy) > 1 and policy[0] is value[0]:
            self._torso = HandMLP(nn.Sequential(*list(policy)[:-1]))
            policy, value = nn.Sequential(policy[-1]), nn.Sequential(value[-1])
        self._policy, self._value = HandMLP(policy), HandMLP(value)

    def at(self, prepared: PPORows, settings: PPOWeights) -> Step:
        """Write the gradient at rows of the CPU."""
        ppo = settings
        inputs, action, log_prob, advantage, target, old_value, mask = (column.numpy() for column in prepared)
        obs = inputs if self._torso is None else self._torso.forward(inputs)
        logits = self._policy.forward(obs)
        if mask.shape[1]:
            logits[~mask] = MASKED_LOGIT  # probability 0, so that no gradient flows back either
        policy = policy_gradient(logits, action, log_prob, advantage, ppo.clip, ppo.entropy_coef)
        further = self._torso is not None
        by_policy = self._policy.backward(obs, policy.gradient, further)
        value = self._value.forward(obs)[:, 0]
        value_loss, gradient = value_gradient(value, target, old_value, ppo.value_clip, ppo.value_huber)
        gradient *= np.float32(ppo.value_coef)
        by_value = self._value.backward(obs, gradient[:, None], further)
        if self._torso is not None and by_policy is not None and by_value is not None:
            self._torso.backward(inputs, by_policy + by_value)
        terms = torch.tensor((policy.loss, value_loss, policy.entropy), dtype=torch.float32)
        return Step(terms, torch.from_numpy(policy.log_ratio))

    def values(self, obs: Tensor) -> Floats:
        """Return the values `[B]` of network inputs `[B, size]`, without a gradient."""
        inputs = obs.numpy() if self._torso is None else self._torso.forward(obs.numpy())
        return self._value.forward(inputs)[:, 0].copy()


class PolicyGradient(NamedTuple):
    """Of `policy_gradient`: `log_ratio` `[B]`, `loss`, `entropy`, and `gradient` `[B, A]` by logits."""

    log_ratio: Floats
    loss: float
    entropy: float
    gradient: Floats


def policy_gradient(
    logits: Floats,
    action: NDArray[np.int64],
    log_prob: Floats,
    advantage: Floats,
    clip: float,
    entropy_coef: float,
) -> PolicyGradient:
    """Differentiate `clipped_policy_loss - entropy_coef * entropy` by the logits.

    With p the probabilities, a the action taken, s = ratio * A and H the entropy of one row:
    `dL/dlogit_k = (-s * [s is not cut off] * ([k = a] - p_k) + entropy_coef * p_k * (log p_k + H)) / B`.

    All else is as in `PPORows` and `PPOWeights`.
    """
    rows = np.arange(len(logits))
    shifted = logits - np.maximum.reduce(logits, axis=1, keepdims=True)
    probs = np.exp(shifted)
    total = np.add.reduce(probs, axis=1, keepdims=True)
    probs /= total
    log_probs = shifted
    log_probs -= np.log(total)
    told = log_probs[rows, action] - log_prob
    log_ratio = np.clip(told, np.float32(-LARGEST_LOG_RATIO), np.float32(LARGEST_LOG_RATIO))
    ratio = np.exp(log_ratio)
    plain = ratio * advantage
    cut = np.minimum(np.maximum(ratio, np.float32(1 - clip)), np.float32(1 + clip)) * advantage
    per_row = np.float32(1 / len(logits))
    weight = np.where((plain <= cut) & (told == log_ratio), plain, np.float32(0)) * per_row
    gradient = probs * weight[:, None]
    gradient[rows, action] -= weight
    weighted = probs * log_probs
    entropy = -np.add.reduce(weighted, axis=1)
    if entropy_coef:
        probs *= entropy[:, None]
        probs += weighted
        probs *= np.float32(entropy_coef) * per_row
        gradient += probs
    loss = -float(np.minimum(plain, cut).mean())
    return PolicyGradient(log_ratio, loss, float(entropy.mean()), gradient)


def value_gradient(
    value: Floats, target: Floats, old_value: Floats, clip: float | None, huber: float | None = None
) -> tuple[float, Floats]:
    """Differentiate `value_loss`, with a clip `clipped_value_loss`; return loss and gradient `[B]`."""
    error = value - target
    per_row = np.float32(1 / len(value))
    # The slope of the cost of an error is the error itself, as far as it is not linear.
    slope = error if huber is None else np.clip(error, np.float32(-huber), np.float32(huber))
    if clip is None:
        return float(_costs(error, slope).mean()), slope * per_row
    change = value - old_value
    clipped_error = old_value + np.clip(change, -clip, clip) - target
    clipped_slope = clipped_error if huber is None else np.clip(clipped_error, -huber, huber)
    plain, clipped = _costs(error, slope), _costs(clipped_error, clipped_slope)
    # Where the clipped error is the larger one, its gradient is 0 unless the change lies inside the clip.
    gradient = np.where((plain >= clipped) | (np.abs(change) <= clip), slope, np.float32(0)) * per_row
    return float(np.maximum(plain, clipped).mean()), gradient


def _costs(error: Floats, slope: Floats) -> Floats:
    """Return `losses.ppo.error_cost` of errors `[B]` by their slopes: `s (e - s / 2)` in both parts."""
    costs: Floats = slope * (error - np.float32(0.5) * slope)
    return costs
