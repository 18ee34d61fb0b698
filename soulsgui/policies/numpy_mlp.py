"""An MLP policy over numbered actions in numpy: what a client runs instead of torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.policies.normalise import inverse_std
from soulsgui.policies.specs import ACTIVATIONS, unreadable

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class MLPPolicySpec:
    """What a client must know to build the policy; travels as JSON.

    Args:
        observation_shape: Shape of one observation; it is flattened.
        num_actions: Number of actions.
        first_action: The smallest action (`start` of the Discrete space).
        hidden_sizes: Width of each hidden layer.
        activation: `tanh` or `relu`, after each hidden layer.
        normalise: Whether observations are normalised with the statistics that come with the weights.
    """

    observation_shape: tuple[int, ...]
    num_actions: int
    first_action: int
    hidden_sizes: tuple[int, ...]
    activation: str
    normalise: bool

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {
            "kind": "mlp",
            "observation_shape": list(self.observation_shape),
            "num_actions": self.num_actions,
            "first_action": self.first_action,
            "hidden_sizes": list(self.hidden_sizes),
            "activation": self.activation,
            "normalise": self.normalise,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MLPPolicySpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no MLP policy.
        """
        try:
            if data["kind"] != "mlp" or data["activation"] not in ACTIVATIONS:
                raise ValueError(f"kind {data['kind']!r} with activation {data['activation']!r}")
            return cls(
                observation_shape=tuple(int(side) for side in data["observation_shape"]),
                num_actions=int(data["num_actions"]),
                first_action=int(data["first_action"]),
                hidden_sizes=tuple(int(size) for size in data["hidden_sizes"]),
                activation=str(data["activation"]),
                normalise=bool(data["normalise"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error

    @property
    def layer_shapes(self) -> list[tuple[int, int]]:
        """Shapes `(outputs, inputs)` of the weight matrices."""
        sizes = [int(np.prod(self.observation_shape)), *self.hidden_sizes, self.num_actions]
        return [(outputs, inputs) for inputs, outputs in pairwise(sizes)]

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors that `NumpyMLPPolicy.load` takes, all float32."""
        shapes: dict[str, tuple[int, ...]] = {}
        for index, (outputs, inputs) in enumerate(self.layer_shapes):
            shapes[f"policy.{index}.weight"] = (outputs, inputs)
            shapes[f"policy.{index}.bias"] = (outputs,)
        if self.normalise:
            size = self.layer_shapes[0][1]
            shapes |= {"normaliser.mean": (size,), "normaliser.var": (size,)}
            shapes |= {"normaliser.eps": (), "normaliser.clip": ()}
        return shapes


def check_tensors(tensors: Mapping[str, NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Make sure that weights fit a policy.

    Raises:
        CheckpointError: A tensor is missing, misshapen or not finite.
    """
    for name, shape in shapes.items():
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
            found = "missing" if tensor is None else f"of shape {tensor.shape}, or not finite"
            raise CheckpointError(
                f"The weights don't fit the policy: {name} of shape {shape} is {found}.",
                "Check that client and server run the same environment and the same run.",
            )


class NumpyMLPPolicy:
    """Acts like the torch policy that exported the weights (log-probabilities to 1e-5), but faster.

    Features come first inside (`[features, B]`): each layer's bias is then one more column of its weights
    against a row of ones, and every product lands in a contiguous buffer. Not for use by several threads at
    once.

    Args:
        spec: The policy spec as JSON (`MLPPolicySpec.to_json`).

    Raises:
        CheckpointError: The spec can't be read.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = MLPPolicySpec.from_json(spec)
        self.num_actions, self.first_action = self.spec.num_actions, self.spec.first_action
        self._weights: list[Floats] = []
        self._mean = self._inverse_std = np.zeros((0, 1), dtype=np.float32)
        self._clip = np.float32(np.inf)
        self._buffers: dict[int, list[Floats]] = {}

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over; nothing is kept of the arrays given.

        Raises:
            CheckpointError: A tensor is missing, misshapen or not finite.
        """
        check_tensors(tensors, self.spec.tensor_shapes())
        self._weights = [
            np.concatenate(
                (tensors[f"policy.{index}.weight"], tensors[f"policy.{index}.bias"][:, None]),
                axis=1,
                dtype=np.float32,
            )
            for index in range(len(self.spec.layer_shapes))
        ]
        if self.spec.normalise:
            self._mean = np.array(tensors["normaliser.mean"], dtype=np.float32)[:, None]
            self._inverse_std = inverse_std(tensors["normaliser.var"], tensors["normaliser.eps"])[:, None]
            self._clip = np.float32(tensors["normaliser.clip"])

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[Ints, Floats]:
        """Draw one action per observation.

        Args:
            obs: `[B, *shape]`, raw.
            rng: Gives one uniform number per observation.
            mask: `[B, actions]` bool, which actions are valid, at least one each; the others have probability
                0. None: all are.

        Returns:
            Actions `[B]` int64 and their log-probabilities `[B]` float32.
        """
        shifted, cumulated = self._distribution(self._logits(obs, mask))
        total = cumulated[-1]
        # Inverse CDF: the first action whose cumulated probability exceeds the draw; one of
        # probability 0 never does.
        draw = rng.random(len(obs), dtype=np.float32)
        draw *= total
        index = np.add.reduce(cumulated[:-1] <= draw, axis=0, dtype=np.int64)
        return self._to_action(index), _pick(shifted, index) - np.log(total)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> Ints:
        """Return the most probable action `[B]` int64 per observation `[B, *shape]`.

        Only valid ones count (`mask` as in `act`).
        """
        index: Ints = self._logits(obs, mask).argmax(axis=0)
        return self._to_action(index)

    def to_environment(self, action: Ints) -> Ints:
        """Return the actions: the environment takes them as they are stored."""
        return action

    def from_environment(self, action: Ints) -> Ints:
        """Return the actions: they are stored as the environment takes them."""
        return action

    def log_prob(self, obs: NDArray[Any], action: Ints, mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` float32 of each action `[B]` at its observation `[B, *shape]`.

        That of an action which is not valid (`mask` as in `act`) is minus infinity.
        """
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
        shapes = self.spec.layer_shapes
        buffers = [np.ones((inputs + 1, count), dtype=np.float32) for _, inputs in shapes]
        buffers.append(np.empty((self.spec.num_actions, count), dtype=np.float32))
        self._buffers[count] = buffers
        return buffers


def _pick(logits: Floats, index: Ints) -> Floats:
    """Take one row per column: `[actions, B]` at `[B]` gives `[B]`."""
    count = logits.shape[1]
    picked: Floats = logits.reshape(-1).take(index * count + np.arange(count))
    return picked
