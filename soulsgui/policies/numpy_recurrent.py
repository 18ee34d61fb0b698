"""A policy with a memory (LSTM, GRU) over actions of any kind, in numpy: what a client runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.action_heads import ActionHead, HeadSpec
from soulsgui.policies.described import unreadable
from soulsgui.policies.normalise import normalise
from soulsgui.policies.numpy_mlp import check_tensors
from soulsgui.policies.remembered import Remembered

Floats = NDArray[np.float32]
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
        hidden_sizes: Width of each layer before the memory, each followed by the activation; at least one.
        activation: `tanh` or `relu`.
        cell: `lstm` or `gru`.
        units: Width of the memory.
        head_sizes: Width of each hidden layer behind the memory, each followed by `relu`.
        normalise: Whether observations are normalised with the statistics that come with the weights.
        head: What makes actions of what the last layer says.
    """

    observation_shape: tuple[int, ...]
    hidden_sizes: tuple[int, ...]
    activation: str
    cell: str
    units: int
    head_sizes: tuple[int, ...]
    normalise: bool
    head: HeadSpec

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data, with `state` (`server_config.state_of`) in it."""
        return {
            "kind": KIND,
            "observation_shape": list(self.observation_shape),
            "hidden_sizes": list(self.hidden_sizes),
            "activation": self.activation,
            "cell": self.cell,
            "units": self.units,
            "head_sizes": list(self.head_sizes),
            "normalise": self.normalise,
            "head": self.head.to_json(),
            "state": {FIELD: [self.state_size]},
        }

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
                hidden_sizes=tuple(int(size) for size in data["hidden_sizes"]),
                activation=str(data["activation"]),
                cell=str(data["cell"]),
                units=int(data["units"]),
                head_sizes=tuple(int(size) for size in data["head_sizes"]),
                normalise=bool(data["normalise"]),
                head=HeadSpec.from_json(data["head"]),
            )
            if not spec.hidden_sizes or data["state"] != {FIELD: [spec.state_size]}:
                raise ValueError(f"hidden_sizes {spec.hidden_sizes}, state {data['state']!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error
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
            ("policy", (self.units, *self.head_sizes, self.head.outputs)),
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
        return shapes | self.head.tensors


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
        self.head = ActionHead(self.spec.head)
        numbered = self.spec.head.kind == "discrete"
        self.num_actions = self.spec.head.outputs if numbered else 0
        self.first_action = int(self.spec.head.start) if numbered else 0
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
        check_tensors(tensors, self.spec.tensor_shapes())
        self.head.load(tensors)
        # Matrices from inputs to outputs, as the rows of observations come.
        self._tensors = {
            name: np.array(tensors[name].T, dtype=np.float32, order="C") for name in self.spec.tensor_shapes()
        }
        of_normaliser = [name for name in self._tensors if name.startswith("normaliser.")]
        self._statistics = {name.removeprefix("normaliser."): self._tensors[name] for name in of_normaliser}

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw one action per environment, and remember what was seen.

        Args:
            obs: `[N, *shape]`, raw, one of each environment that is remembered.
            rng: What chance comes from.
            mask: `[N, A]` bool, which actions are valid, at least one in each choice; None: all are.

        Returns:
            Stored actions `[N, ...]` and their log-probabilities `[N]` float32.

        Raises:
            ValueError: Another number of environments is remembered.
        """
        distribution = self.head.distribution(self._remembering(obs), mask)
        drawn = distribution.sample(rng)
        return self.head.stored(drawn), distribution.log_prob(drawn)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best stored action `[N, ...]` per environment, and remember what was seen.

        Only valid ones count (`mask` as in `act`).

        Raises:
            ValueError: Another number of environments is remembered.
        """
        return self.head.stored(self.head.distribution(self._remembering(obs), mask).mode())

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return what the environment takes, `[B, *space shape]`, for stored actions `[B, ...]`."""
        return self.head.to_environment(action)

    def from_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions `[B, ...]` that become these: flat rows of what an environment takes."""
        return self.head.from_environment(action)

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability `[N]` of each stored action at what follows what is remembered.

        Nothing is remembered of it: asked before `act`, it says what that will find.
        """
        outputs, _ = self._through(obs, self.remembered.fields[FIELD])
        return self.head.distribution(outputs, mask).log_prob(self.head.drawn(action))

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of observations `[B, *shape]` that are each seen twice at first.

        The second time every weight has its say, those of the memory too.

        Returns:
            `[B, outputs]`, such as logits or values; the memory stays as it is.
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
        """Run the network: `[N, *shape]`, `[N, S]` to outputs `[N, outputs]` and the next state `[N, S]`."""
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
