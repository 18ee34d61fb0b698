"""What a client must know to build a policy with a memory; read and written without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from soulsgui.config.sections.network import Channels
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.described import unreadable

ACTIVATIONS = ("tanh", "relu")
GATES = {"lstm": 4, "gru": 3}
"""How many rows of weights each unit of a cell has."""

KIND = "recurrent"
"""All of it in numpy."""
TORCH_KIND = "torch_recurrent"
"""What is before the memory needs torch."""
FIELD = "memory"
"""The one field of its state: the hidden state, then for `lstm` the cell state."""


@dataclass(frozen=True)
class TorsoSpec:
    """What is before the memory where that is no perceptron: a network by name, without its last layer.

    Args:
        network: Its name, as `network.name` of the configuration.
        observation_dtype: Dtype of what it sees.
        largest: As of `TorchPolicySpec`.
        channels: As there.
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
            "kind": KIND if self.torso is None else TORCH_KIND,
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
                torso=TorsoSpec.from_json(data) if data["kind"] == TORCH_KIND else None,
            )
            if not (spec.hidden_sizes or spec.torso) or data["state"] != {FIELD: [spec.state_size]}:
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
