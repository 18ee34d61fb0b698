"""Arrays of numbers within bounds, as plain data: what an environment shows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from soulsgui.config.sections.network import Channels
from soulsgui.errors import EnvironmentCheckError

Number = int | float
Bound = tuple[Number, ...] | None


@dataclass(frozen=True)
class BoxSpec:
    """An array of numbers of a numpy dtype within bounds.

    Args:
        low: Smallest values, flat in C order; one number stands for all elements, None for "no bound".
        high: Largest values in the same form.
        channels: Where those of an image are, for networks that see it as such. No part of what an
            environment shows, and not in JSON: that tells no more than `auto`.
    """

    shape: tuple[int, ...]
    dtype: str
    low: Bound = None
    high: Bound = None
    channels: Channels = "auto"

    def __post_init__(self) -> None:
        if self.channels not in get_args(Channels):
            raise ValueError(f"channels {self.channels!r}")
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

    @property
    def fields(self) -> tuple[tuple[str | None, "BoxSpec"], ...]:
        """What an observation consists of, as `observations.PartsSpec.fields`: of itself."""
        return ((None, self),)

    def read(self, value: Any, count: int | None = None) -> NDArray[Any]:
        """Return an observation, or those of a vector, as an array: whatever it is like."""
        return np.asarray(value)

    def all_whole(self, array: Any) -> bool:
        """Say of observations whether every choice among them is a whole number: there is none."""
        return True

    def rounded(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return observations with whole numbers for their choices: there are none."""
        return array

    def seen(self, images: bool) -> "BoxSpec":
        """Return the space of what networks take: this one."""
        return self

    def encode(self, obs: Any, images: bool) -> NDArray[Any]:
        """Return observations as networks take them: as they are."""
        return np.asarray(obs)

    def fixed(self, images: bool) -> NDArray[np.bool_]:
        """Say which of the numbers are never normalised: none of them, `[size]`."""
        return np.zeros(self.size, np.bool_)

    def contains(self, array: NDArray[Any]) -> NDArray[np.bool_]:
        """Say which rows `[N, *shape]` are finite and within the bounds; none if shape or dtype differ."""
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

        def limit(bound: Bound, default: Number) -> NDArray[Any]:
            finite = [min(max(number, info.min), info.max) for number in (bound or (default,))]
            flat = np.array(finite, dtype=dtype)
            return np.broadcast_to(flat.reshape(self.shape if flat.size > 1 else ()), self.shape).copy()

        return limit(self.low, info.min), limit(self.high, info.max)

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
            ValueError, KeyError, TypeError: The data describe no Box of numbers.
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
            EnvironmentCheckError: It is no Box of numbers, or empty.
        """
        if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiu" or math.prod(space.shape) == 0:
            raise EnvironmentCheckError(
                f"The observation space {space} is not supported: it has no numbers.",
                "Add a wrapper under env.wrappers that shows numbers, perhaps one of gymnasium.wrappers.",
            )
        return cls.of(space)

    @classmethod
    def of(cls, box: spaces.Box) -> "BoxSpec":
        """Describe a Box of numbers, whatever it is for."""
        return cls(box.shape, str(box.dtype), _compact(box.low, -math.inf), _compact(box.high, math.inf))


def _compact(bound: NDArray[Any], unbounded: float) -> Bound:
    """Shorten a bound: None where it bounds nothing, one number where all are equal."""
    flat = bound.reshape(-1)
    if (flat == flat[0]).all():
        return None if flat[0] == unbounded else (flat[0].item(),)
    return tuple(flat.tolist())


def _bound_to_json(bound: Bound) -> list[Number | str] | None:
    # JSON has no infinity; a float32 survives the way over Python's float exactly.
    return None if bound is None else [str(x) if math.isinf(x) else x for x in bound]


def _bound_from_json(bound: Sequence[Number | str] | None) -> Bound:
    return None if bound is None else tuple(float(x) if isinstance(x, str) else x for x in bound)
