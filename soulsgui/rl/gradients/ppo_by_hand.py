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

from soulsgui.policies.distributions import MASKED_LOGIT
from soulsgui.rl.gradients.ppo import PPOFigures, PPORows, PPOWeights
from soulsgui.rl.losses.ppo import LARGEST_LOG_RATIO
from soulsgui.rl.networks.noisy import NoisyLinear

Floats = NDArray[np.float32]


class _Layer:
    """Views of one linear layer's parameters and of their gradients.

    Args:
        module: The layer.
    """

    def __init__(self, module: nn.Linear | NoisyLinear) -> None:
        self.weight, self.weight_gradient = _views(module.weight)
        self.bias, self.bias_gradient = _views(module.bias)

    def begin(self) -> None:
        """Look at what the parameters are now."""

    def end(self) -> None:
        """Hand the gradients on, which are written by now."""


class _NoisyLayer(_Layer):
    """The plain layer that a noisy one is with its present noise.

    Args:
        module: The noisy layer.
    """

    def __init__(self, module: NoisyLinear) -> None:
        super().__init__(module)
        self._means = self.weight, self.bias
        self._of_means = self.weight_gradient, self.bias_gradient
        self._sigmas, self._of_sigmas = zip(
            _views(module.weight_sigma), _views(module.bias_sigma), strict=True
        )
        self._noise_in, self._noise_out = module.noise_in.numpy(), module.noise_out.numpy()
        self.weight, self.bias = (np.empty_like(mean) for mean in self._means)
        self.weight_gradient, self.bias_gradient = (np.empty_like(mean) for mean in self._means)
        self._noise = np.empty_like(self.weight)

    def begin(self) -> None:
        """Mix the noise in."""
        np.multiply(self._noise_out[:, None], self._noise_in, out=self._noise)
        noises = self._noise, self._noise_out
        for plain, mean, sigma, noise in zip(
            (self.weight, self.bias), self._means, self._sigmas, noises, strict=True
        ):
            np.multiply(sigma, noise, out=plain)
            plain += mean

    def end(self) -> None:
        """Hand the gradients on to means and deviations."""
        for found, of_mean, of_sigma, noise in zip(
            (self.weight_gradient, self.bias_gradient),
            self._of_means,
            self._of_sigmas,
            (self._noise, self._noise_out),
            strict=True,
        ):
            of_mean[:] = found
            np.multiply(found, noise, out=of_sigma)


class HandMLP:
    """An MLP's forward and backward pass, on the parameters and gradients of a torch network on the CPU.

    Args:
        network: Linear layers, with noise or without, and one kind of activation between them, which may also
            follow the last one; the gradients exist (`FlatParameters`).
    """

    def __init__(self, network: nn.Sequential) -> None:
        self._layers = [_layer(module) for module in network if isinstance(module, nn.Linear | NoisyLinear)]
        self._tanh = any(isinstance(module, nn.Tanh) for module in network)
        self._plain_end = isinstance(network[-1], nn.Linear | NoisyLinear)
        self._outputs: list[Floats] = []

    def forward(self, inputs: Floats) -> Floats:
        """Run the network on `[B, size]`; the output `[B, outputs]` is overwritten by the next call."""
        if not self._outputs or len(self._outputs[0]) != len(inputs):
            self._outputs = [np.empty((len(inputs), len(layer.bias)), np.float32) for layer in self._layers]
        hidden = inputs
        for layer, output in zip(self._layers, self._outputs, strict=True):
            layer.begin()
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
            layer.end()
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
        value: From `[B, size]` to `[B, 1]`, likewise; it may have all layers but the last one in common with
            the policy.
    """

    def __init__(self, policy: nn.Sequential, value: nn.Sequential) -> None:
        # What both networks go through first; None where they have nothing in common.
        self._torso: HandMLP | None = None
        if len(policy) > 1 and policy[0] is value[0]:
            self._torso = HandMLP(nn.Sequential(*list(policy)[:-1]))
            policy, value = nn.Sequential(policy[-1]), nn.Sequential(value[-1])
        self._policy, self._value = HandMLP(policy), HandMLP(value)

    def __call__(self, rows: PPORows, ppo: PPOWeights) -> PPOFigures:
        """Write the gradient at `rows` into the parameters' flat gradient, over what stood there."""
        inputs, action, log_prob, advantage, target, old_value, mask = (column.numpy() for column in rows)
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
        return PPOFigures(torch.from_numpy(policy.log_ratio), terms)

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
    value: Floats, target: Floats, old_value: Floats, clip: float | None, huber: float | None = None
) -> tuple[float, Floats]:
    """Differentiate `value_loss`, or with a clip `clipped_value_loss`, by the values.

    | symbol | shape | description |
    |---|---|---|
    | value, target, old_value | `[B]` | as in the losses |
    | clip | float or None | largest useful change of the value |
    | huber | float or None | error beyond which the loss is linear |
    | returns | | the loss, and its gradient `[B]` |
    """
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


def _layer(module: nn.Linear | NoisyLinear) -> _Layer:
    return _NoisyLayer(module) if isinstance(module, NoisyLinear) else _Layer(module)


def _views(parameter: Tensor) -> tuple[Floats, Floats]:
    """Look at a tensor and its gradient as arrays; both sides see every change."""
    if parameter.grad is None:
        raise ValueError("the network's gradients must exist before: put it into FlatParameters")
    return parameter.detach().numpy(), parameter.grad.numpy()
