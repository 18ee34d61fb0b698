"""A policy with a memory (LSTM, GRU) over actions of any kind, in numpy: what a client runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.action_heads import ActionHead
from soulsgui.policies.normalise import normalise
from soulsgui.policies.numpy_mlp import check_tensors
from soulsgui.policies.specs import MEMORY, RecurrentPolicySpec

Floats = NDArray[np.float32]


class Remembered:
    """Rows of numbers by name, one row for each environment, `[N, *shape]`; 0 where an episode begins.

    A recurrent policy reads them and puts others in their place at every step it acts in. Whoever steps the
    environments says how many there are, notes the rows that a piece of an episode begins with, and forgets
    where an episode ended. New weights change nothing here: what was remembered with the old ones is gone on
    from. Without `shapes` nothing is remembered.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        self.shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self.fields: dict[str, Floats] = {}
        self.begin(1)

    def begin(self, count: int) -> None:
        """Be that of `count` environments, in all of which an episode begins."""
        self.fields = {name: np.zeros((count, *shape), np.float32) for name, shape in self.shapes.items()}

    def forget(self, where: NDArray[np.bool_]) -> None:
        """Begin an episode in the environments `where` is True, `[N]`."""
        for rows in self.fields.values():
            rows[where] = 0.0


def remembered_by(policy: Any) -> Remembered:
    """Return what a policy remembers (`policies.policy.Policy`); nothing where it has no memory."""
    found = getattr(policy, "remembered", None)
    return found if isinstance(found, Remembered) else Remembered()


Mask = NDArray[np.bool_]


class NumpyRecurrentPolicy:
    """Acts like the torch network that exported the weights (to 1e-5, over long episodes too), but faster.

    Each call of `act` and of `greedy` is a step of the environments: it reads `remembered` and replaces it.
    The gates are those of PyTorch's `LSTM` and `GRU`. Other environments than are remembered are a
    ValueError; a spec (`RecurrentPolicySpec.to_json`) that can't be read is a CheckpointError.
    """

    _sizes: tuple[int, int] | None = None  # as `RecurrentPolicySpec.tensor_shapes` takes them

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = RecurrentPolicySpec.from_json(spec)
        self.head = ActionHead(self.spec.head)
        self.to_environment, self.from_environment = self.head.to_environment, self.head.from_environment
        head, numbered = self.spec.head, self.spec.head.kind == "discrete"
        self.num_actions = head.outputs if numbered else 0
        self.first_action = int(head.start) if numbered else 0
        self.remembered = Remembered({MEMORY: (self.spec.state_size,)})
        self._tensors: dict[str, Floats] = {}
        self._statistics: dict[str, Floats] = {}
        self._step = _lstm_step if self.spec.cell == "lstm" else _gru_step

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over, as `Policy.load`; the memory stays as it is."""
        shapes = self.spec.tensor_shapes(self._sizes)
        check_tensors(tensors, shapes)
        self.head.load(tensors)
        # Matrices from inputs to outputs, as the rows of observations come.
        self._tensors = {name: np.array(tensors[name].T, dtype=np.float32, order="C") for name in shapes}
        of_normaliser = [name for name in self._tensors if name.startswith("normaliser.")]
        self._statistics = {name.removeprefix("normaliser."): self._tensors[name] for name in of_normaliser}

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw one action per environment that is remembered (`Policy.act`), and remember what was seen."""
        return self.head.act(self._remembering(obs), rng, mask)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best stored action `[N, ...]` per environment, and remember what was seen."""
        return self.head.stored(self.head.distribution(self._remembering(obs), mask).mode())

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability `[N]` of each stored action at what follows what is remembered.

        Nothing is remembered of it: asked before `act`, it says what that will find.
        """
        return self.head.distribution(self.outputs_now(obs), mask).log_prob(self.head.drawn(action))

    def outputs_now(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of what follows what is remembered, and remember nothing of it."""
        return self._through(obs, self.remembered.fields[MEMORY])[0]

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of observations `[B, *shape]` that are each seen twice at first.

        The second time every weight has its say, those of the memory too; that stays as it is.
        """
        _, state = self._through(obs, np.zeros((len(obs), self.spec.state_size), np.float32))
        return self._through(obs, state)[0]

    def _remembering(self, obs: NDArray[Any]) -> Floats:
        state = self.remembered.fields[MEMORY]
        if len(state) != len(obs):
            raise ValueError(f"{len(obs)} observations, and {len(state)} environments are remembered")
        outputs, self.remembered.fields[MEMORY] = self._through(obs, state)
        return outputs

    def _through(self, obs: NDArray[Any], state: Floats) -> tuple[Floats, Floats]:
        """Run the network: `[N, *shape]`, `[N, S]` to outputs `[N, outputs]` and the next state `[N, S]`."""
        tensors, units = self._tensors, self.spec.units
        hidden = self._before_memory(obs)
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

    def _before_memory(self, obs: NDArray[Any]) -> Floats:
        """Return the inputs of the memory `[N, inputs]` for observations `[N, *shape]`."""
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
        return hidden


def _sigmoid(x: Floats) -> Floats:
    half = np.float32(0.5)
    sigmoid: Floats = half * (np.tanh(half * x) + np.float32(1))
    return sigmoid


def _lstm_step(seen: Floats, kept: Floats, state: Floats, units: int) -> Floats:
    """`c' = f c + i g`, `h' = o tanh(c')`; the gates i, f, g, o stand side by side, as in PyTorch.

    Inputs and hidden state add to them, `[N, 4 U]` each; states are hidden, then cell, `[N, 2 U]`.
    """
    gates = seen + kept
    update = np.tanh(gates[:, 2 * units : 3 * units])
    cell = _sigmoid(gates[:, units : 2 * units]) * state[:, units:] + _sigmoid(gates[:, :units]) * update
    return np.concatenate((_sigmoid(gates[:, 3 * units :]) * np.tanh(cell), cell), axis=1)


def _gru_step(seen: Floats, kept: Floats, state: Floats, units: int) -> Floats:
    """`n = tanh(seen_n + r kept_n)`, `h' = (1 - z) n + z h`; the gates r, z, n, `[N, 3 U]`, as in PyTorch."""
    reset, keep = np.split(_sigmoid(seen[:, : 2 * units] + kept[:, : 2 * units]), 2, axis=1)
    new = np.tanh(seen[:, 2 * units :] + reset * kept[:, 2 * units :])
    following: Floats = new + keep * (state - new)
    return following
