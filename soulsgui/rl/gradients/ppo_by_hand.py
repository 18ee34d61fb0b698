"""The gradient of PPO's loss for small MLPs on the CPU, written out in numpy.

At 64 units a layer autograd spends most of its time on book-keeping: a gradient step over 64 (256)
transitions takes about 0.5 (0.85) ms with it and 0.2 (0.4) ms so, Adam included. `AutogradPPOGradient`
defines what is right; the tests hold both together.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.gradients.ppo import PPOFigures, PPORows
from soulsgui.rl.losses.ppo import LARGEST_LOG_RATIO, MASKED_LOGIT
from soulsgui.rl.settings import PPOSettings

Floats = NDArray[np.float32]


class _Layer(NamedTuple):
    """Views of one linear layer's parameters and of their gradients."""

    weight: Floats
    bias: Floats
    weight_gradient: Floats
    bias_gradient: Floats


class HandMLP:
    """An MLP's forward and backward pass, on the parameters and gradients of a torch network on the CPU.

    Args:
        network: Linear layers with one kind of activation between them, which may also follow the last one;
            the gradients exist (`FlatParameters`).
    """

    def __init__(self, network: nn.Sequential) -> None:
        self._layers = [_layer(module) for module in network if isinstance(module, nn.Linear)]
        self._tanh = any(isinstance(module, nn.Tanh) for module in network)
        self._plain_end = isinstance(network[-1], nn.Linear)
        self._outputs: list[Floats] = []

    def forward(self, inputs: Floats) -> Floats:
        """Run the network on `[B, size]`; the output `[B, outputs]` is overwritten by the next call."""
        if not self._outputs or len(self._outputs[0]) != len(inputs):
            self._outputs = [np.empty((len(inputs), len(layer.bias)), np.float32) for layer in self._layers]
        hidden = inputs
        for layer, output in zip(self._layers, self._outputs, strict=True):
            np.dot(hidden, layer.weight.T, out=output)
            output += layer.bias
            if output is not self._outputs[-1] or not self._plain_end:
                if self._tanh:
                    np.tanh(output, out=output)
                else:
                    np.maximum(output, 0, out=output)
            hidden = output
        return hidden

    def backward(self, inputs: Floats, gradient: Floats, further: bool = False) -> Floats | None:
        """Write the parameters' gradients.

        Args:
            inputs: What `forward` was called with last.
            gradient: Of the loss by the output, `[B, outputs]`.
            further: Whether the gradient by the inputs is wanted.

        Returns:
            The gradient by the inputs `[B, size]`, if it is wanted.
        """
        if not self._plain_end:
            gradient = self._before_activation(gradient.copy(), self._outputs[-1])
        ones = np.ones(len(inputs), np.float32)
        for index in range(len(self._layers) - 1, -1, -1):
            layer = self._layers[index]
            hidden = self._outputs[index - 1] if index else inputs
            np.dot(gradient.T, hidden, out=layer.weight_gradient)
            np.dot(ones, gradient, out=layer.bias_gradient)
            if not index and not further:
                return None
            gradient = np.dot(gradient, layer.weight)
            if index:
                gradient = self._before_activation(gradient, hidden)
        return gradient

    def input_gradient(self, gradient: Floats) -> Floats:
        """Return the gradient `[B, size]` by what `forward` was called with last; no parameter's is written.

        Args:
            gradient: Of the loss by the output, `[B, outputs]`.
        """
        if not self._plain_end:
            gradient = self._before_activation(gradient.copy(), self._outputs[-1])
        for index in range(len(self._layers) - 1, -1, -1):
            gradient = np.dot(gradient, self._layers[index].weight)
            if index:
                gradient = self._before_activation(gradient, self._outputs[index - 1])
        return gradient

    def _before_activation(self, gradient: Floats, output: Floats) -> Floats:
        """Turn the gradient by an activation's output into the one by its input, in place."""
        if self._tanh:
            # tanh' = 1 - tanh^2
            squared = np.square(output)
            squared *= gradient
            gradient -= squared
        else:
            gradient *= output > 0
        return gradient


class HandPPOGradient:
    """Takes the gradient by hand.

    Args:
        policy: From `[B, size]` to logits `[B, actions]`, as `HandMLP` takes it.
        value: From `[B, size]` to `[B, 1]`, likewise.
    """

    def __init__(self, policy: nn.Sequential, value: nn.Sequential) -> None:
        self._policy, self._value = HandMLP(policy), HandMLP(value)

    def __call__(self, rows: PPORows, ppo: PPOSettings) -> PPOFigures:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        obs, action, log_prob, advantage, target, old_value, mask = (column.numpy() for column in rows)
        logits = self._policy.forward(obs)
        if mask.shape[1]:
            logits[~mask] = MASKED_LOGIT  # probability 0, so that no gradient flows back either
        policy = policy_gradient(logits, action, log_prob, advantage, ppo.clip, ppo.entropy_coef)
        self._policy.backward(obs, policy.gradient)
        value = self._value.forward(obs)[:, 0]
        value_loss, gradient = value_gradient(value, target, old_value, ppo.value_clip)
        gradient *= np.float32(ppo.value_coef)
        self._value.backward(obs, gradient[:, None])
        terms = torch.tensor((policy.loss, value_loss, policy.entropy), dtype=torch.float32)
        return PPOFigures(torch.from_numpy(policy.log_ratio), terms)

    def values(self, obs: Tensor) -> Floats:
        """Return the values `[B]` of network inputs `[B, size]`, without a gradient."""
        return self._value.forward(obs.numpy())[:, 0].copy()


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

    | symbol | shape | description |
    |---|---|---|
    | logits | `[B, A]` | output of the policy |
    | action | `[B]` int64 | index of the action taken |
    | log_prob | `[B]` | its log-probability at collection |
    | advantage | `[B]` | |
    | clip | float | ε of the policy loss |
    | entropy_coef | float | weight of the entropy bonus |
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
    value: Floats, target: Floats, old_value: Floats, clip: float | None
) -> tuple[float, Floats]:
    """Differentiate `value_loss`, or with a clip `clipped_value_loss`, by the values.

    | symbol | shape | description |
    |---|---|---|
    | value, target, old_value | `[B]` | as in the losses |
    | clip | float or None | largest useful change of the value |
    | returns | | the loss, and its gradient `[B]` |
    """
    error = value - target
    per_row = np.float32(1 / len(value))
    if clip is None:
        return float(0.5 * np.dot(error, error) * per_row), error * per_row
    change = value - old_value
    clipped_error = old_value + np.clip(change, -clip, clip) - target
    plain, clipped = np.square(error), np.square(clipped_error)
    # Where the clipped error is the larger one, its gradient is 0 unless the change lies inside the clip.
    gradient = np.where((plain >= clipped) | (np.abs(change) <= clip), error, np.float32(0)) * per_row
    return float(0.5 * np.maximum(plain, clipped).mean()), gradient


def _layer(module: nn.Linear) -> _Layer:
    """Look at a layer's tensors as arrays; both sides see every change."""
    weight, bias = module.weight, module.bias
    if weight.grad is None or bias.grad is None:
        raise ValueError("the network's gradients must exist before: put it into FlatParameters")
    return _Layer(weight.detach().numpy(), bias.detach().numpy(), weight.grad.numpy(), bias.grad.numpy())
