"""An MLP policy over numbered actions in numpy: what a client runs instead of torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.policies.normalise import inverse_std
from soulsgui.policies.specs import MLPPolicySpec

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


def check_tensors(tensors: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Make sure that there are tensors of these shapes.

    Raises:
        CheckpointError: One is missing, misshapen or not finite.
    """
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
            found = "missing" if tensor is None else f"of shape {tensor.shape}, or not finite"
            raise CheckpointError(
                f"The weights don't fit the policy: {name} of shape {shape} is {found}.",
                "Check that client and server run the same environment and the same run.",
            )


def unchanged(action: Ints) -> Ints:
    """Return actions: environments take numbered ones as they are stored."""
    return action


class NumpyMLPPolicy:
    """Acts like the torch policy that exported the weights (log-probabilities to 1e-5), but faster.

    Features come first inside (`[features, B]`): each layer's bias is then one more column of its weights
    against a row of ones, and every product lands in a contiguous buffer. A spec (`MLPPolicySpec.to_json`)
    that can't be read is a CheckpointError.
    """

    to_environment = from_environment = staticmethod(unchanged)

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = MLPPolicySpec.from_json(spec)
        self.num_actions, self.first_action = self.spec.num_actions, self.spec.first_action
        self._weights: list[Floats] = []
        self._mean = self._inverse_std = np.zeros((0, 1), dtype=np.float32)
        self._clip = np.float32(np.inf)
        self._buffers: dict[int, list[Floats]] = {}

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over, as `Policy.load`."""
        check_tensors(tensors, self.spec.tensor_shapes())
        names = [f"policy.{index}" for index in range(len(self.spec.sizes) - 1)]
        layers = [(tensors[f"{name}.weight"], tensors[f"{name}.bias"][:, None]) for name in names]
        self._weights = [np.concatenate(layer, axis=1, dtype=np.float32) for layer in layers]
        if self.spec.normalise:
            self._mean = np.array(tensors["normaliser.mean"], dtype=np.float32)[:, None]
            self._inverse_std = inverse_std(tensors["normaliser.var"], tensors["normaliser.eps"])[:, None]
            self._clip = np.float32(tensors["normaliser.clip"])

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[Ints, Floats]:
        """Draw an action for each observation, as `Policy.act`; one uniform number is taken for each."""
        shifted, cumulated = self._distribution(self._logits(obs, mask))
        total = cumulated[-1]
        # Inverse CDF: the first action whose cumulated probability exceeds the draw; one of
        # probability 0 never does.
        draw = rng.random(len(obs), dtype=np.float32)
        draw *= total
        index = np.add.reduce(cumulated[:-1] <= draw, axis=0, dtype=np.int64)
        return self._to_action(index), _pick(shifted, index) - np.log(total)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> Ints:
        """Return the most probable valid action `[B]` int64 of each observation `[B, *shape]`."""
        index: Ints = self._logits(obs, mask).argmax(axis=0)
        return self._to_action(index)

    def log_prob(self, obs: NDArray[Any], action: Ints, mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` of each action `[B]`; minus infinity if it is not valid."""
        shifted, cumulated = self._distribution(self._logits(obs, mask))
        picked = _pick(shifted, action - self.spec.first_action)
        picked -= np.log(cumulated[-1])
        return picked

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of observations `[B, *shape]`: logits or values `[B, actions]`."""
        return self._logits(obs, None).T.copy()

    def _to_action(self, index: Ints) -> Ints:
        return index + self.spec.first_action if self.spec.first_action else index

    def _logits(self, obs: NDArray[Any], mask: Mask | None) -> Floats:
        """Run the network: `[B, *shape]` to logits `[actions, B]`, overwritten by the next call."""
        count = len(obs)
        buffers = self._buffers.get(count) or self._new_buffers(count)
        inputs = buffers[0]
        hidden = inputs[:-1]
        flat = obs.reshape(count, len(hidden)).T
        if self.spec.normalise:
            if flat.dtype != np.float32:
                flat = flat.astype(np.float32)
            np.subtract(flat, self._mean, out=hidden)
            np.multiply(hidden, self._inverse_std, out=hidden)
            np.maximum(hidden, -self._clip, out=hidden)
            np.minimum(hidden, self._clip, out=hidden)
        else:
            np.copyto(hidden, flat, casting="same_kind")
        last = len(self._weights) - 1
        for index, weight in enumerate(self._weights):
            outputs = buffers[index + 1]
            hidden = outputs if index == last else outputs[:-1]
            np.dot(weight, inputs, out=hidden)
            if index != last:
                if self.spec.activation == "tanh":
                    np.tanh(hidden, out=hidden)
                else:
                    np.maximum(hidden, 0, out=hidden)
            inputs = outputs
        if mask is not None:
            hidden[~mask.T] = -np.inf
        return hidden

    @staticmethod
    def _distribution(logits: Floats) -> tuple[Floats, Floats]:
        """Return logits shifted to a maximum of 0 (in place) and cumulated exponentials, `[actions, B]`."""
        logits -= np.maximum.reduce(logits, axis=0)
        return logits, np.add.accumulate(np.exp(logits), axis=0)

    def _new_buffers(self, count: int) -> list[Floats]:
        """Allocate what `_logits` writes to: each layer's input, with a row of ones, and the logits."""
        if len(self._buffers) >= 16:
            self._buffers.clear()
        *inputs, outputs = self.spec.sizes
        buffers = [np.ones((size + 1, count), dtype=np.float32) for size in inputs]
        buffers.append(np.empty((outputs, count), dtype=np.float32))
        self._buffers[count] = buffers
        return buffers


def _pick(logits: Floats, index: Ints) -> Floats:
    """Take one row per column: `[actions, B]` at `[B]` gives `[B]`."""
    count = logits.shape[1]
    picked: Floats = logits.reshape(-1).take(index * count + np.arange(count))
    return picked
