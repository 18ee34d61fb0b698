"""What a client must know to build a policy, as plain data; made without torch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import TypeAdapter

from soulsgui.config.sections.network import Channels
from soulsgui.errors import CheckpointError
from soulsgui.policies.action_heads import HeadSpec

Activation = Literal["tanh", "relu"]
Spec = TypeVar("Spec")

GATES = {"lstm": 4, "gru": 3}  # how many rows of weights each unit of a cell has
MLP_KIND = "mlp"  # a perceptron, in numpy
RECURRENT = "recurrent"  # all of it in numpy
TORCH_RECURRENT = "torch_recurrent"  # what is before the memory needs torch
TORCH = "torch"  # all of it needs torch
MEMORY = "memory"  # the one field of a recurrent state: the hidden state, then for `lstm` the cell state


@contextmanager
def reading_description() -> Iterator[None]:
    """Raise `CheckpointError` where a description says something else than it should."""
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The description of the policy can't be read: {error!r}.",
            "Client and server have different versions: update the older one.",
        ) from error


def _plain(spec: Any) -> dict[str, Any]:
    values = {one.name: getattr(spec, one.name) for one in fields(spec)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _read(cls: type[Spec], data: Mapping[str, Any], kind: str | None = None) -> Spec:
    """Read fields, each by its declared type; raise a ValueError where one is missing or something else."""
    if kind is not None and data["kind"] != kind:
        raise ValueError(f"kind {data['kind']!r}")
    return TypeAdapter(cls).validate_python(dict(data))


def _normaliser_shapes(size: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the statistics that come with the weights."""
    shapes: dict[str, tuple[int, ...]] = {"normaliser.mean": (size,), "normaliser.var": (size,)}
    return shapes | {"normaliser.eps": (), "normaliser.clip": ()}


def layer_shapes(name: str, sizes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of linear layers from size to size."""
    shapes: dict[str, tuple[int, ...]] = {}
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        shapes |= {f"{name}.{index}.weight": (outputs, inputs), f"{name}.{index}.bias": (outputs,)}
    return shapes


@dataclass(frozen=True)
class MLPPolicySpec:
    """What a client must know to build the policy; travels as JSON.

    Args:
        observation_shape: Shape of one observation; it is flattened.
        num_actions: Number of actions.
        first_action: The smallest action (`start` of the Discrete space).
        hidden_sizes: Width of each hidden layer, each followed by the activation.
        normalise: Whether observations are normalised with the statistics that come with the weights.
    """

    observation_shape: tuple[int, ...]
    num_actions: int
    first_action: int
    hidden_sizes: tuple[int, ...]
    activation: Activation
    normalise: bool

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {"kind": MLP_KIND} | _plain(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MLPPolicySpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no MLP policy.
        """
        with reading_description():
            return _read(cls, data, MLP_KIND)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Inputs, widths of the hidden layers, outputs."""
        return int(np.prod(self.observation_shape)), *self.hidden_sizes, self.num_actions

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors that `NumpyMLPPolicy.load` takes, all float32."""
        statistics = _normaliser_shapes(self.sizes[0]) if self.normalise else {}
        return layer_shapes("policy", self.sizes) | statistics


@dataclass(frozen=True)
class TorsoSpec:
    """What is before the memory where that is no perceptron: a network by name, without its last layer.

    Its fields are those of `TorchPolicySpec`.
    """

    network: str
    observation_dtype: str
    largest: float | None = None
    channels: Channels = "auto"


@dataclass(frozen=True)
class RecurrentPolicySpec:
    """What a client must know to build a policy with a memory; travels as JSON.

    Args:
        observation_shape: Shape of one observation; a perceptron flattens it.
        hidden_sizes: Width of each dense layer before the memory, with its activation; a perceptron has one.
        units: Width of the memory.
        head_sizes: Width of each hidden layer behind the memory, each followed by `relu`.
        normalise: Whether observations are normalised with the statistics that come with the weights.
        head: What makes actions of what the last layer says.
        torso: What is before the memory; None: a perceptron.
    """

    observation_shape: tuple[int, ...]
    hidden_sizes: tuple[int, ...]
    activation: Activation
    cell: str
    units: int
    head_sizes: tuple[int, ...]
    normalise: bool
    head: HeadSpec
    torso: TorsoSpec | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data, with `state` (`server_config.state_of`) in it."""
        told = _plain(self)
        del told["torso"]
        return ({} if self.torso is None else asdict(self.torso)) | {
            "kind": RECURRENT if self.torso is None else TORCH_RECURRENT,
            **told,
            "head": self.head.to_json(),
            "state": {MEMORY: [self.state_size]},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RecurrentPolicySpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no such policy.
        """
        with reading_description():
            if data["cell"] not in GATES:
                raise ValueError(f"cell {data['cell']!r}")
            torso = _read(TorsoSpec, data) if data["kind"] == TORCH_RECURRENT else None
            spec = _read(cls, {**data, "head": HeadSpec.from_json(data["head"]), "torso": torso})
            if not (spec.hidden_sizes or torso) or data["state"] != {MEMORY: [spec.state_size]}:
                raise ValueError(f"hidden_sizes {spec.hidden_sizes}, state {data['state']!r}")
        return spec

    @property
    def state_size(self) -> int:
        """Numbers that are remembered of an environment."""
        return 2 * self.units if self.cell == "lstm" else self.units

    def tensor_shapes(self, sizes: tuple[int, int] | None = None) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors that numpy works with, all float32.

        Args:
            sizes: Numbers that statistics normalise, and inputs of the memory; None: those of a perceptron.
        """
        below: tuple[int, ...] = ()
        if sizes is None:
            below = (int(np.prod(self.observation_shape)), *self.hidden_sizes)
            sizes = below[0], below[-1]
        numbers, width = sizes
        shapes = layer_shapes("torso", below)
        shapes |= layer_shapes("policy", (self.units, *self.head_sizes, self.head.outputs))
        rows = GATES[self.cell] * self.units
        shapes |= {"memory.input.weight": (rows, width), "memory.input.bias": (rows,)}
        shapes |= {"memory.hidden.weight": (rows, self.units), "memory.hidden.bias": (rows,)}
        return shapes | (_normaliser_shapes(numbers) if self.normalise else {}) | self.head.tensors


@dataclass(frozen=True)
class TorchPolicySpec:
    """A network by name and size; travels as JSON.

    Args:
        network: Its name, as `network.name` of the configuration.
        observation_shape: Shape of one observation.
        num_actions: Number of actions.
        first_action: The smallest action (`start` of the Discrete space).
        hidden_sizes: Width of each dense layer.
        normalise: Whether observations are normalised with the statistics that come with the weights.
        values: What is learned of the return (settings of `dqn` by name) where the outputs are values of the
            actions; None where they are logits of a policy.
        largest: Largest value of an image, where it is less than bytes have (`observations.largest_of`).
        channels: Which side of an image they are: `first`, `last`, or `auto` for what its shape says.
    """

    network: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    num_actions: int
    first_action: int
    hidden_sizes: tuple[int, ...]
    activation: Activation
    normalise: bool
    values: dict[str, Any] | None = None
    largest: float | None = None
    channels: Channels = "auto"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        told = _plain(self)
        if self.largest is None:  # what was saved before there was one reads the same
            del told["largest"]
        if self.channels == "auto":
            del told["channels"]
        return {"kind": TORCH} | told

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TorchPolicySpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no such policy.
        """
        with reading_description():
            found = _read(cls, data, TORCH)
        shape = found.observation_shape
        if found.channels == "auto" and len(shape) == 3 and shape[0] == shape[2]:
            return replace(found, channels="first")  # older servers did not tell what the shape does not say
        return found
