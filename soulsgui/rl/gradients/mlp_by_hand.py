"""The forward and backward pass of small MLPs on the CPU, written out in numpy.

At 64 units a layer autograd spends most of its time on book-keeping. `ppo_by_hand`, `dqn_by_hand` and
`sac_by_hand` are built of this.
"""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from soulsgui.rl.networks.q_networks import NoisyLinear

Floats = NDArray[np.float32]


class _Layer:
    """Views of one linear layer's parameters and of their gradients."""

    def __init__(self, module: nn.Linear | NoisyLinear) -> None:
        self.weight, self.weight_gradient = _views(module.weight)
        self.bias, self.bias_gradient = _views(module.bias)

    def begin(self) -> None:
        """Look at what the parameters are now."""

    def end(self) -> None:
        """Hand the gradients on, which are written by now."""


class _NoisyLayer(_Layer):
    """The plain layer that a noisy one is with its present noise."""

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

    That has linear layers, with noise or without, and one kind of activation between them, which may also
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
        """Write the parameters' gradients, from the one by the output `[B, outputs]` of `forward`'s last
        inputs.

        Returns:
            The gradient by the inputs `[B, size]`, if it is to go further.
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
        """Return the gradient `[B, size]` by what `forward` saw last; no parameter's is written."""
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


def _layer(module: nn.Linear | NoisyLinear) -> _Layer:
    return _NoisyLayer(module) if isinstance(module, NoisyLinear) else _Layer(module)


def _views(parameter: Tensor) -> tuple[Floats, Floats]:
    """Look at a tensor and its gradient as arrays; both sides see every change."""
    if parameter.grad is None:
        raise ValueError("the network's gradients must exist before: put it into FlatParameters")
    return parameter.detach().numpy(), parameter.grad.numpy()
