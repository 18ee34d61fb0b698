"""A policy with a memory (LSTM, GRU) over numbered actions in numpy: what a client runs instead of torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.policies.distributions import Categorical
from soulsgui.policies.normalise import normalise
from soulsgui.policies.remembered import Remembered

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
ACTIVATIONS = ("tanh", "relu")
GATES = {"lstm": 4, "gru": 3}
"""How many rows of weights each unit of a cell has."""

KIND = "recurrent"
FIELD = "memory"
"""The one field of its state: the hidden state, then for `lstm` the cell state."""


@dataclass(frozen=True)
class RecurrentPolicySpec:
    """What a client must know to build the policy; travels as JSON.

    Args:
        observation_shape: Shape of one observation; it is flattened.
        num_actions: Number of actions.
        first_action: The smallest action (`start` of the Discrete space).
        hidden_sizes: Width of each layer before the memory, each followed by the activation; at least one.
        activation: `tanh` or `relu`.
        cell: `lstm` or `gru`.
        units: Width of the memory.
        head_sizes: Width of each hidden layer behind the memory, each followed by `relu`.
        normalise: Whether observations are normalised with the statistics that come with the weights.
    """

    observation_shape: tuple[int, ...]
    num_actions: int
    first_action: int
    hidden_sizes: tuple[int, ...]
    activation: str
    cell: str
    units: int
    head_sizes: tuple[int, ...]
    normalise: bool

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data, with `state` (`server_config.state_of`) in it."""
        fields = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}
        return {"kind": KIND, **fields, "state": {FIELD: [self.state_size]}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RecurrentPolicySpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no such policy.
        """
        try:
            if data["activation"] not in ACTIVATIONS or data["cell"] not in GATES:
                raise ValueError(f"activation {data['activation']!r}, cell {data['cell']!r}")
            spec = cls(
                observation_shape=tuple(int(side) for side in data["observation_shape"]),
                num_actions=int(data["num_actions"]),
                first_action=int(data["first_action"]),
                hidden_sizes=tuple(int(size) for size in data["hidden_sizes"]),
                activation=str(data["activation"]),
                cell=str(data["cell"]),
                units=int(data["units"]),
                head_sizes=tuple(int(size) for size in data["head_sizes"]),
                normalise=bool(data["normalise"]),
            )
            if not spec.hidden_sizes or data["state"] != {FIELD: [spec.state_size]}:
                raise ValueError(f"hidden_sizes {spec.hidden_sizes}, state {data['state']!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The description of the policy can't be read: {error!r}.",
                "Client and server are of different versions: update the older one.",
            ) from error
        return spec

    @property
    def state_size(self) -> int:
        """Numbers that are remembered of an environment."""
        return 2 * self.units if self.cell == "lstm" else self.units

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors that `NumpyRecurrentPolicy.load` takes, all float32."""
        shapes: dict[str, tuple[int, ...]] = {}
        size = int(np.prod(self.observation_shape))
        for name, sizes in (
            ("torso", (size, *self.hidden_sizes)),
            ("policy", (self.units, *self.head_sizes, self.num_actions)),
        ):
            for index, (inputs, outputs) in enumerate(pairwise(sizes)):
                shapes[f"{name}.{index}.weight"] = (outputs, inputs)
                shapes[f"{name}.{index}.bias"] = (outputs,)
        rows = GATES[self.cell] * self.units
        shapes |= {"memory.input.weight": (rows, self.hidden_sizes[-1]), "memory.input.bias": (rows,)}
        shapes |= {"memory.hidden.weight": (rows, self.units), "memory.hidden.bias": (rows,)}
        if self.normalise:
            shapes |= {"normaliser.mean": (size,), "normaliser.var": (size,)}
            shapes |= {"normaliser.eps": (), "normaliser.clip": ()}
        return shapes


class NumpyRecurrentPolicy:
    """Acts like the torch network that exported the weights (to 1e-5, over long episodes too), but faster.

    Each call of `act` and of `greedy` is a step of the environments: it reads `remembered` and replaces it.
    The gates are those of PyTorch's `LSTM` and `GRU`. Not for use by several threads at once.

    Args:
        spec: The policy spec as JSON (`RecurrentPolicySpec.to_json`).

    Attributes:
        remembered: What it knows of the environments it acts in.

    Raises:
        CheckpointError: The spec can't be read.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = RecurrentPolicySpec.from_json(spec)
        self.num_actions, self.first_action = self.spec.num_actions, self.spec.first_action
        self.remembered = Remembered({FIELD: (self.spec.state_size,)})
        self._tensors: dict[str, Floats] = {}
        self._statistics: dict[str, Floats] = {}
        self._step = _lstm_step if self.spec.cell == "lstm" else _gru_step

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over; nothing is kept of the arrays given, and the memory stays as it is.

        Args:
            tensors: At least what `RecurrentPolicySpec.tensor_shapes` names.

        Raises:
            CheckpointError: A tensor is missing, misshapen or not finite.
        """
        for name, shape in self.spec.tensor_shapes().items():
            tensor = tensors.get(name)
            if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
                found = "missing" if tensor is None else f"of shape {tensor.shape}, or not finite"
                raise CheckpointError(
                    f"The weights don't fit the policy: {name} of shape {shape} is {found}.",
                    "Check that client and server run the same environment and the same run.",
                )
        # Matrices from inputs to outputs, as the rows of observations come.
        self._tensors = {
            name: np.array(tensors[name].T, dtype=np.float32, order="C") for name in self.spec.tensor_shapes()
        }
        of_normaliser = [name for name in self._tensors if name.startswith("normaliser.")]
        self._statistics = {name.removeprefix("normaliser."): self._tensors[name] for name in of_normaliser}

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[Ints, Floats]:
        """Draw one action per environment, and remember what was seen.

        Args:
            obs: `[N, *shape]`, raw, one of each environment that is remembered.
            rng: Gives one uniform number per observation.
            mask: `[N, actions]` bool, which actions are valid, at least one each; the others have probability
                0. None: all are.

        Returns:
            Actions `[N]` int64 and their log-probabilities `[N]` float32.

        Raises:
            ValueError: Another number of environments is remembered.
        """
        distribution = Categorical(self._remembering(obs), mask)
        index = distribution.sample(rng)
        return index + self.first_action, distribution.log_prob(index)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> Ints:
        """Return the best action `[N]` int64 per environment, and remember what was seen.

        Only valid ones count (`mask` as in `act`).

        Raises:
            ValueError: Another number of environments is remembered.
        """
        outputs = self._remembering(obs)
        if mask is not None:
            outputs = np.where(mask, outputs, -np.inf)
        index: Ints = outputs.argmax(axis=1)
        return index + self.first_action

    def to_environment(self, action: Ints) -> Ints:
        """Return the actions: the environment takes them as they are stored."""
        return action

    def from_environment(self, action: Ints) -> Ints:
        """Return the actions: they are stored as the environment takes them."""
        return action

    def log_prob(self, obs: NDArray[Any], action: Ints, mask: Mask | None = None) -> Floats:
        """Return the log-probability `[N]` of each action at what follows what is remembered.

        Nothing is remembered of it: asked before `act`, it says what that will find.
        """
        outputs, _ = self._through(obs, self.remembered.fields[FIELD])
        return Categorical(outputs, mask).log_prob(action - self.first_action)

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of observations `[B, *shape]` that are each seen twice at first.

        The second time every weight has its say, those of the memory too.

        Returns:
            `[B, actions]`, logits or values; the memory stays as it is.
        """
        _, state = self._through(obs, np.zeros((len(obs), self.spec.state_size), np.float32))
        return self._through(obs, state)[0]

    def _remembering(self, obs: NDArray[Any]) -> Floats:
        state = self.remembered.fields[FIELD]
        if len(state) != len(obs):
            raise ValueError(f"{len(obs)} observations, and {len(state)} environments are remembered")
        outputs, self.remembered.fields[FIELD] = self._through(obs, state)
        return outputs

    def _through(self, obs: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        """Run the network: `[N, *shape]`, `[N, S]` to outputs `[N, actions]` and the next state `[N, S]`."""
        tensors = self._tensors
        if self.spec.normalise:
            hidden = normalise(obs, self._statistics)
        else:
            hidden = obs.reshape(len(obs), -1).astype(np.float32)
        for index in range(len(self.spec.hidden_sizes)):
            hidden = hidden @ tensors[f"torso.{index}.weight"]
            hidden += tensors[f"torso.{index}.bias"]
            if self.spec.activation == "tanh":
                np.tanh(hidden, out=hidden)
            else:
                np.maximum(hidden, 0, out=hidden)
        units = self.spec.units
        seen = hidden @ tensors["memory.input.weight"] + tensors["memory.input.bias"]
        kept = state[:, :units] @ tensors["memory.hidden.weight"] + tensors["memory.hidden.bias"]
        state = self._step(seen, kept, state, units)
        hidden = state[:, :units]
        last = len(self.spec.head_sizes)
        for index in range(last + 1):
            hidden = hidden @ tensors[f"policy.{index}.weight"]
            hidden += tensors[f"policy.{index}.bias"]
            if index != last:
                np.maximum(hidden, 0, out=hidden)
        return hidden, state


def _sigmoid(x: Floats) -> Floats:
    half = np.float32(0.5)
    sigmoid: Floats = half * (np.tanh(half * x) + np.float32(1))
    return sigmoid


def _lstm_step(seen: Floats, kept: Floats, state: Floats, units: int) -> Floats:
    """`c' = f c + i g`, `h' = o tanh(c')`; the gates i, f, g, o stand side by side, as in PyTorch.

    Args:
        seen: `[N, 4 U]`, what the inputs add to the gates.
        kept: `[N, 4 U]`, what the hidden state adds.
        state: `[N, 2 U]`, hidden state, then cell.
        units: U.

    Returns:
        The next state.
    """
    gates = seen + kept
    update = np.tanh(gates[:, 2 * units : 3 * units])
    cell = _sigmoid(gates[:, units : 2 * units]) * state[:, units:] + _sigmoid(gates[:, :units]) * update
    return np.concatenate((_sigmoid(gates[:, 3 * units :]) * np.tanh(cell), cell), axis=1)


def _gru_step(seen: Floats, kept: Floats, state: Floats, units: int) -> Floats:
    """`n = tanh(seen_n + r kept_n)`, `h' = (1 - z) n + z h`; the gates r, z, n, as in PyTorch.

    Args:
        seen: `[N, 3 U]`, what the inputs add to the gates.
        kept: `[N, 3 U]`, what the hidden state adds.
        state: `[N, U]`.
        units: U.

    Returns:
        The next state.
    """
    reset, keep = np.split(_sigmoid(seen[:, : 2 * units] + kept[:, : 2 * units]), 2, axis=1)
    new = np.tanh(seen[:, 2 * units :] + reset * kept[:, 2 * units :])
    following: Floats = new + keep * (state - new)
    return following
