"""Spaces as plain data: what an environment shows and takes, in JSON, on the wire and in a checkpoint."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from soulsgui.errors import EnvironmentCheckError

Number = int | float
Bound = tuple[Number, ...] | None


@dataclass(frozen=True)
class BoxSpec:
    """An array of numbers within bounds.

    Args:
        shape: Shape of one observation.
        dtype: Name of the numpy dtype, for instance `float32` or `uint8`.
        low: Smallest values, flat in C order; one number stands for all elements, None for "no bound".
        high: Largest values in the same form.
    """

    shape: tuple[int, ...]
    dtype: str
    low: Bound = None
    high: Bound = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        for name in ("low", "high"):
            bound: Sequence[Number] | None = getattr(self, name)
            if bound is None:
                continue
            if len(bound) not in (1, self.size):
                raise ValueError(
                    f"{name} has {len(bound)} numbers, the shape {self.shape} needs 1 or {self.size}"
                )
            object.__setattr__(self, name, tuple(bound))

    @property
    def size(self) -> int:
        """Number of elements of one observation."""
        return math.prod(self.shape)

    def contains(self, array: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which rows are observations of this space: right shape and dtype, finite, within the bounds.

        Args:
            array: `[N, *shape]`.

        Returns:
            `[N]` bool; all False when shape or dtype differ.
        """
        low, high = self.limits
        if array.ndim == 0 or array.shape[1:] != self.shape or array.dtype != low.dtype:
            return np.zeros(array.shape[:1] or 1, dtype=np.bool_)
        # A comparison with NaN is False, and infinite bounds are stored as the largest finite number.
        inside = (array >= low) & (array <= high)
        within: NDArray[np.bool_] = np.logical_and.reduce(inside.reshape(len(array), self.size), axis=1)
        return within

    @cached_property
    def limits(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Finite lower and upper limits, `[*shape]` in the dtype of the observations."""
        dtype = np.dtype(self.dtype)
        info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
        arrays = []
        for bound, default in ((self.low, info.min), (self.high, info.max)):
            finite = [min(max(number, info.min), info.max) for number in (bound or (default,))]
            arrays.append(
                np.broadcast_to(_reshaped(np.array(finite, dtype=dtype), self.shape), self.shape).copy()
            )
        return arrays[0], arrays[1]

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data; infinite bounds are the strings `inf` and `-inf`."""
        return {
            "type": "box",
            "shape": list(self.shape),
            "dtype": self.dtype,
            "low": _bound_to_json(self.low),
            "high": _bound_to_json(self.high),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "BoxSpec":
        """Read what `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: The data are no description of a Box.
        """
        if data["type"] != "box" or np.dtype(data["dtype"]).kind not in "fiu":
            raise ValueError(f"no Box of numbers: {data['type']!r} of {data['dtype']!r}")
        return cls(
            shape=tuple(int(side) for side in data["shape"]),
            dtype=str(data["dtype"]),
            low=_bound_from_json(data["low"]),
            high=_bound_from_json(data["high"]),
        )

    @classmethod
    def from_space(cls, space: Space[Any]) -> "BoxSpec":
        """Describe a Gymnasium space.

        Raises:
            EnvironmentCheckError: It is no Box of numbers, or it is empty.
        """
        if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiu" or math.prod(space.shape) == 0:
            raise EnvironmentCheckError(
                f"The observation space {space} is not supported: a Box of numbers is needed.",
                "Add a wrapper under env.wrappers that turns it into a Box, for instance FlattenObservation.",
            )
        return cls(
            space.shape, str(space.dtype), _compact(space.low, -math.inf), _compact(space.high, math.inf)
        )


@dataclass(frozen=True)
class DiscreteSpec:
    """One of `n` actions, numbered from `start`.

    Args:
        n: Number of actions.
        start: The smallest action.
        masked: Whether the environment tells which of them are valid (`environments.masks`).
    """

    n: int
    start: int = 0
    masked: bool = False

    def contains(self, array: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which of the actions `[N]` exist; all False when they are no vector of whole numbers."""
        if array.ndim != 1 or array.dtype.kind not in "iu":
            return np.zeros(array.shape[:1] or 1, dtype=np.bool_)
        return (array >= self.start) & (array < self.start + self.n)

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        # Only where there are masks: what was saved before there were any reads the same.
        masked = {"masked": True} if self.masked else {}
        return {"type": "discrete", "n": self.n, "start": self.start} | masked

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DiscreteSpec":
        """Read what `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: The data are no description of a Discrete space.
        """
        if data["type"] != "discrete" or int(data["n"]) < 1:
            raise ValueError(f"no Discrete space: {data!r}")
        return cls(int(data["n"]), int(data["start"]), bool(data.get("masked", False)))

    @classmethod
    def from_space(cls, space: Space[Any], masked: bool = False) -> "DiscreteSpec":
        """Describe a Gymnasium space.

        Args:
            space: The space.
            masked: Whether the environment tells which actions are valid.

        Raises:
            EnvironmentCheckError: It is not Discrete.
        """
        if not isinstance(space, spaces.Discrete):
            raise EnvironmentCheckError(
                f"The action space {space} is not supported: a Discrete space is needed.",
                "Choose an environment with numbered actions, or add a wrapper that offers some.",
            )
        return cls(int(space.n), int(space.start), masked)


@dataclass(frozen=True)
class SpacesSpec:
    """What an environment shows (`observation`) and takes (`action`); compared by value."""

    observation: BoxSpec
    action: DiscreteSpec

    @property
    def masked_actions(self) -> int:
        """Number of actions, where the environment tells which are valid; otherwise 0."""
        return self.action.n if self.action.masked else 0

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {"observation": self.observation.to_json(), "action": self.action.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SpacesSpec":
        """Read what `to_json` wrote.

        Raises:
            EnvironmentCheckError: The data are no description of supported spaces.
        """
        try:
            return cls(BoxSpec.from_json(data["observation"]), DiscreteSpec.from_json(data["action"]))
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentCheckError(
                f"A description of spaces can't be read: {error!r}.",
                "It was written by another version or is damaged: let the environment be probed again.",
            ) from error

    @classmethod
    def from_env(
        cls, observation_space: Space[Any], action_space: Space[Any], masked: bool = False
    ) -> "SpacesSpec":
        """Describe the spaces of one (unvectorised) Gymnasium environment.

        Args:
            observation_space: What it shows.
            action_space: What it takes.
            masked: Whether it tells which actions are valid (`environments.masks.gives_masks`).

        Raises:
            EnvironmentCheckError: A space is of a kind that is not supported; the remedy says what to do.
        """
        return cls(BoxSpec.from_space(observation_space), DiscreteSpec.from_space(action_space, masked))


def _compact(bound: NDArray[Any], unbounded: float) -> Bound:
    """Shorten a bound: None where it bounds nothing, one number where all are equal."""
    flat = bound.reshape(-1)
    if (flat == flat[0]).all():
        return None if flat[0] == unbounded else (flat[0].item(),)
    return tuple(flat.tolist())


def _reshaped(flat: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    return flat.reshape(()) if flat.size == 1 else flat.reshape(shape)


def _bound_to_json(bound: Bound) -> list[Number | str] | None:
    # JSON has no infinity; a float32 survives the way over Python's float exactly.
    return None if bound is None else [str(x) if math.isinf(x) else x for x in bound]


def _bound_from_json(bound: Sequence[Number | str] | None) -> Bound:
    return None if bound is None else tuple(float(x) if isinstance(x, str) else x for x in bound)
