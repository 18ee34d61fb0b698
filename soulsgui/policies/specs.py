"""What a client must know to build a policy that needs torch or has a memory; made without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from soulsgui.config.sections.network import Channels
from soulsgui.errors import CheckpointError
from soulsgui.policies.action_heads import HeadSpec


def unreadable(error: Exception) -> CheckpointError:
    """Return what is to be raised for a description that can't be read."""
    return CheckpointError(
        f"The description of the policy can't be read: {error!r}.",
        "Client and server are of different versions: update the older one.",
    )


ACTIVATIONS = ("tanh", "relu")
GATES = {"lstm": 4, "gru": 3}
"""How many rows of weights each unit of a cell has."""

RECURRENT = "recurrent"
"""All of it in numpy."""
TORCH_RECURRENT = "torch_recurrent"
"""What is before the memory needs torch."""
MEMORY = "memory"
"""The one field of its state: the hidden state, then for `lstm` the cell state."""


@dataclass(frozen=True)
class TorsoSpec:
    """What is before the memory where that is no perceptron: a network by name, without its last layer.

    Args:
        network: As of `TorchPolicySpec`, like all its fields.
        observation_dtype: Dtype of what it sees.
    """

    network: str
    observation_dtype: str
    largest: float | None = None
    channels: Channels = "auto"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TorsoSpec":
        """Read what `RecurrentPolicySpec.to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: The data describe no such network.
        """
        largest, channels = data["largest"], data["channels"]
        if channels not in get_args(Channels):
            raise ValueError(f"channels {channels!r}")
        return cls(
            network=str(data["network"]),
            observation_dtype=str(data["observation_dtype"]),
            largest=None if largest is None else float(largest),
            channels=channels,
        )


@dataclass(frozen=True)
class RecurrentPolicySpec:
    """What a client must know to build the policy; travels as JSON.

    Args:
        observation_shape: Shape of one observation; a perceptron flattens it.
        hidden_sizes: Width of each dense layer before the memory, each followed by the activation; at least
            one of a perceptron.
        activation: `tanh` or `relu`.
        cell: `lstm` or `gru`.
        units: Width of the memory.
        head_sizes: Width of each hidden layer behind the memory, each followed by `relu`.
        normalise: Whether observations are normalised with the statistics that come with the weights.
        head: What makes actions of what the last layer says.
        torso: What is before the memory; None: a perceptron.
    """

    observation_shape: tuple[int, ...]
    hidden_sizes: tuple[int, ...]
    activation: str
    cell: str
    units: int
    head_sizes: tuple[int, ...]
    normalise: bool
    head: HeadSpec
    torso: TorsoSpec | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data, with `state` (`server_config.state_of`) in it."""
        torso = {} if self.torso is None else asdict(self.torso)
        return torso | {
            "kind": RECURRENT if self.torso is None else TORCH_RECURRENT,
            "observation_shape": list(self.observation_shape),
            "hidden_sizes": list(self.hidden_sizes),
            "activation": self.activation,
            "cell": self.cell,
            "units": self.units,
            "head_sizes": list(self.head_sizes),
            "normalise": self.normalise,
            "head": self.head.to_json(),
            "state": {MEMORY: [self.state_size]},
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
                torso=TorsoSpec.from_json(data) if data["kind"] == TORCH_RECURRENT else None,
            )
            if not (spec.hidden_sizes or spec.torso) or data["state"] != {MEMORY: [spec.state_size]}:
                raise ValueError(f"hidden_sizes {spec.hidden_sizes}, state {data['state']!r}")
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error
        return spec

    @property
    def state_size(self) -> int:
        """Numbers that are remembered of an environment."""
        return 2 * self.units if self.cell == "lstm" else self.units

    def tensor_shapes(self, sizes: tuple[int, int] | None = None) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors that numpy works with, all float32.

        Args:
            sizes: Numbers that statistics normalise, and inputs of the memory, where these are not those of a
                perceptron.
        """
        shapes: dict[str, tuple[int, ...]] = {}
        below: tuple[int, ...] = ()
        if sizes is None:
            below = (int(np.prod(self.observation_shape)), *self.hidden_sizes)
            sizes = below[0], below[-1]
        numbers, width = sizes
        for name, layers in (
            ("torso", below),
            ("policy", (self.units, *self.head_sizes, self.head.outputs)),
        ):
            for index, (inputs, outputs) in enumerate(pairwise(layers)):
                shapes[f"{name}.{index}.weight"] = (outputs, inputs)
                shapes[f"{name}.{index}.bias"] = (outputs,)
        rows = GATES[self.cell] * self.units
        shapes |= {"memory.input.weight": (rows, width), "memory.input.bias": (rows,)}
        shapes |= {"memory.hidden.weight": (rows, self.units), "memory.hidden.bias": (rows,)}
        if self.normalise:
            shapes |= {"normaliser.mean": (numbers,), "normaliser.var": (numbers,)}
            shapes |= {"normaliser.eps": (), "normaliser.clip": ()}
        return shapes | self.head.tensors


TORCH = "torch"


@dataclass(frozen=True)
class TorchPolicySpec:
    """A network by name and size; travels as JSON.

    Args:
        network: Its name, as `network.name` of the configuration.
        observation_shape: Shape of one observation.
        observation_dtype: Its dtype.
        num_actions: Number of actions.
        first_action: The smallest action (`start` of the Discrete space).
        hidden_sizes: Width of each dense layer.
        activation: `tanh` or `relu`.
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
    activation: str
    normalise: bool
    values: dict[str, Any] | None = None
    largest: float | None = None
    channels: Channels = "auto"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        told = asdict(self)
        lists = {name: list(told[name]) for name in ("observation_shape", "hidden_sizes")}
        if self.largest is None:  # what was saved before there was one reads the same
            del told["largest"]
        if self.channels == "auto":
            del told["channels"]
        return {"kind": TORCH} | told | lists

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TorchPolicySpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no such policy.
        """
        try:
            if data["kind"] != TORCH:
                raise ValueError(f"kind {data['kind']!r}")
            return cls(
                network=str(data["network"]),
                observation_shape=tuple(int(side) for side in data["observation_shape"]),
                observation_dtype=str(data["observation_dtype"]),
                num_actions=int(data["num_actions"]),
                first_action=int(data["first_action"]),
                hidden_sizes=tuple(int(size) for size in data["hidden_sizes"]),
                activation=str(data["activation"]),
                normalise=bool(data["normalise"]),
                values=None if data.get("values") is None else dict(data["values"]),
                largest=None if data.get("largest") is None else float(data["largest"]),
                channels=_channels(data),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error


def _channels(data: Mapping[str, Any]) -> Channels:
    """Return where channels are; first, where that was not asked yet and the shape does not say it."""
    shape, channels = data["observation_shape"], data.get("channels", "auto")
    if channels not in get_args(Channels):
        raise ValueError(f"channels {channels!r}")
    if channels == "auto" and len(shape) == 3 and shape[0] == shape[2]:
        return "first"
    found: Channels = channels
    return found
