"""From what a network says to actions: one head for each kind of action space, in numpy.

The network gives numbers, the head makes a distribution of them, and turns what was drawn, as it is stored
and learned from, into what the environment takes. The twins in torch are in `soulsgui.rl.distributions`.

| takes | the network says | drawn and stored | the environment gets |
|---|---|---|---|
| Discrete, MultiDiscrete | a logit for each action of each choice | numbers of actions | the same |
| MultiBinary | the log-odds of each yes | 0 and 1 | the same |
| Box, bounded, `tanh` | means of `u`, perhaps deviations | `u` | `low + (tanh(u) + 1) / 2 * (high - low)` |
| Box otherwise | means of `x`, perhaps deviations | `x` | `middle + x * half`, cut off at the bounds |
| Box, `tanh_mean` | `u`, whose tanh is the mean of `x` | `x` | the same |

Where a number of a Box has both bounds, `half` is half of its range and `middle` lies between them; else they
are 1 and 0. A deviation of 0.5 is thus a quarter of the range, whatever the range is.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.policies.distributions import (
    STD_TRANSFORMS,
    NumpyCategorical,
    NumpyGaussian,
    NumpyMultiBinary,
    NumpyMultiDiscrete,
    NumpyTanhGaussian,
    StdTransform,
)

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]
Kind = Literal["discrete", "multi_discrete", "multi_binary", "box"]
Std = Literal["state_independent", "state_dependent"]
Squash = Literal["tanh", "clip", "tanh_mean"]

STD_NAME = "policy.std"  # name of the tensor that holds deviations which don't depend on the observation
_OF_NUMBERS = ("std", "initial_std", "squash", "std_transform")  # what only the head of a Box must know
_NEAREST = 1 - 2.0**-24  # the largest part of a range, from its middle, that a squashed float32 can stand for


ActionDistribution = NumpyCategorical | NumpyMultiDiscrete | NumpyMultiBinary | NumpyGaussian


@dataclass(frozen=True)
class HeadSpec:
    """What a head must know; travels as JSON.

    Args:
        action: The action space (`environments.actions`), as JSON.
        std: Whether the deviations of a Box are parameters of their own, or outputs of the network.
        initial_std: The deviations at the start.
        squash: How a Box is kept within its bounds; with `tanh_mean` (TD3) its means are, and what is drawn
            around them is cut off.
        std_transform: What makes deviations of numbers that may be negative.
    """

    action: Mapping[str, Any] = field(hash=False)
    std: Std = "state_independent"
    initial_std: float = 0.5
    squash: Squash = "tanh"
    std_transform: StdTransform = "softplus"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        told = {name: getattr(self, name) for name in _OF_NUMBERS}
        return {"action": dict(self.action)} | (told if self.kind == "box" else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "HeadSpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no head.
        """
        try:
            rest = {name: data[name] for name in _OF_NUMBERS if name in data}
            spec = cls(data["action"], **rest)
            chosen = ((spec.kind, Kind), (spec.std, Std), (spec.squash, Squash))
            unknown = [value for value, known in chosen if value not in get_args(known)]
            if unknown or not spec.initial_std > 0 or spec.size < 1:
                raise ValueError(f"{unknown}, {spec.initial_std!r}, {spec.size} numbers")
            spec.std_of(np.zeros(1, np.float32))
            if spec.sizes and spec.start.size != len(spec.sizes):
                raise ValueError(f"choices from {spec.start}")
            if spec.kind == "box" and (np.dtype(spec.action["dtype"]).kind != "f" or not spec.scale):
                raise ValueError(f"no numbers: {spec.action!r}")
            return spec
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise CheckpointError(
                f"The description of the policy's actions can't be read: {error!r}.",
                "Client and server have different versions: update the older one.",
            ) from error

    def std_of(self, raw: Floats) -> Floats:
        """Return the deviations that numbers of any shape stand for."""
        return STD_TRANSFORMS[self.std_transform](raw, self.initial_std)

    @property
    def kind(self) -> Kind:
        """What the environment takes."""
        kind: Kind = self.action["type"]
        return kind

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of actions of each numbered choice."""
        if self.kind == "discrete":
            return (int(self.action["n"]),)
        return tuple(int(size) for size in self.action.get("sizes", ()))

    @cached_property
    def start(self) -> NDArray[np.int64]:
        """The smallest action of each numbered choice, `[D]`; of a Discrete space `[]`."""
        return np.array(self.action["start"], np.int64)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of an action as the environment takes it."""
        return tuple(int(side) for side in self.action.get("shape", ()))

    @property
    def size(self) -> int:
        """Numbers of a stored action, `D`."""
        return math.prod(self.shape)

    @property
    def outputs(self) -> int:
        """How many numbers the network says for each observation."""
        if self.kind == "box":
            return self.size * (2 if self.std == "state_dependent" else 1)
        return sum(self.sizes) if self.sizes else self.size

    @cached_property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest numbers of a Box, `[D]` each, infinite where there is no bound."""
        low, high = (
            np.array([free] if self.action[name] is None else [float(x) for x in self.action[name]])
            for name, free in (("low", -math.inf), ("high", math.inf))
        )
        return np.broadcast_to(low, self.size), np.broadcast_to(high, self.size)

    @cached_property
    def _bounded(self) -> NDArray[np.bool_]:
        """Which numbers of a Box have both bounds, `[D]`; further apart than a float32 reaches counts not."""
        low, high = self.bounds
        bounded: NDArray[np.bool_] = high - low <= np.finfo(np.float32).max
        return bounded

    @cached_property
    def is_squashed(self) -> bool:
        """Whether a Box is kept within its bounds by a tanh; that needs both bounds everywhere."""
        return self.squash == "tanh" and bool(self._bounded.all())

    @cached_property
    def scale(self) -> tuple[Floats, Floats]:
        """`middle` and `half` of each number of a Box, `[D]` each."""
        low, high = (
            np.where(self._bounded, bound, free) for bound, free in zip(self.bounds, (-1, 1), strict=True)
        )
        return ((high + low) / 2).astype(np.float32), ((high - low) / 2).astype(np.float32)

    @property
    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors of the head itself, beside the network's."""
        own = self.kind == "box" and self.std == "state_independent"
        return {STD_NAME: (self.size,)} if own else {}


class ActionHead:
    """Makes actions of what a network says."""

    def __init__(self, spec: HeadSpec) -> None:
        self.spec = spec
        self._std: Floats = np.zeros(spec.size, np.float32)
        if spec.kind == "box":
            low, high = spec.bounds
            self._dtype = np.dtype(str(spec.action["dtype"]))
            self._low, self._high = low.astype(self._dtype), high.astype(self._dtype)
            self._low32, self._high32 = low.astype(np.float32), high.astype(np.float32)

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `HeadSpec.tensors` names; whoever calls has looked at their shapes."""
        if self.spec.tensors:
            self._std = self.spec.std_of(tensors[STD_NAME].astype(np.float32))

    def distribution(self, outputs: Floats, mask: Mask | None = None) -> ActionDistribution:
        """Return the distribution over actions that outputs `[B, outputs]` stand for.

        `mask` `[B, sum(sizes)]` says which are valid, at least one in each choice; None: all are.
        """
        spec = self.spec
        if spec.kind == "discrete":
            return NumpyCategorical(outputs, mask)
        if spec.kind == "multi_discrete":
            return NumpyMultiDiscrete(outputs, spec.sizes, mask)
        if spec.kind == "multi_binary":
            return NumpyMultiBinary(outputs)
        mean, std = outputs[:, : spec.size], self._std
        if spec.std == "state_dependent":
            std = spec.std_of(outputs[:, spec.size :])
        if spec.is_squashed:
            return NumpyTanhGaussian(mean, std, self._low32, self._high32)
        return NumpyGaussian(np.tanh(mean) if spec.squash == "tanh_mean" else mean, std)

    def act(
        self, outputs: Floats, rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw stored actions `[B, ...]` at outputs; return them and their log-probabilities `[B]`."""
        distribution = self.distribution(outputs, mask)
        drawn: NDArray[Any] = distribution.sample(rng)
        return self.stored(drawn), distribution.log_prob(drawn)

    def stored(self, drawn: NDArray[Any]) -> NDArray[Any]:
        """Return what a distribution drew, `[B, ...]`, as it is stored."""
        if self.spec.kind == "multi_binary":
            return drawn.astype(np.int8)
        return drawn + self.spec.start if self.spec.sizes else drawn

    def drawn(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions `[B, ...]` as a distribution draws and scores them."""
        return stored - self.spec.start if self.spec.sizes else stored

    def to_environment(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return what the environment takes, `[B, *shape]`, for stored actions `[B, ...]`."""
        spec = self.spec
        if spec.kind != "box":
            return stored.reshape(-1, *spec.shape)
        middle, half = spec.scale
        action = middle + half * (np.tanh(stored) if spec.is_squashed else stored)
        within: NDArray[Any] = np.clip(action.astype(self._dtype), self._low, self._high)
        return within.reshape(-1, *spec.shape)

    def from_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions that become these: flat rows `[B, ...]` of what the environment takes.

        At a bound of a Box many would; the one nearest to its middle is returned.
        """
        if self.spec.kind != "box":
            return action
        middle, half = self.spec.scale
        part = (action.astype(np.float64) - middle) / half
        if self.spec.is_squashed:
            part = np.arctanh(np.clip(part, -_NEAREST, _NEAREST))
        return part.astype(np.float32)
