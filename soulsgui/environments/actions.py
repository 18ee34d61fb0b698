"""What environments take, as plain data: one choice, several, yes or no, or numbers within bounds.

Of each kind there are two forms of an action. The environment takes one as its space says. *Stored* is what
travels, is kept in memories and is learned from: a whole number for Discrete, and a flat row otherwise. For
choices both hold the same numbers. Of a Box what the policy drew is stored, before it was squashed into the
bounds (`policies.action_heads`): the way back does not exist near the bounds. Stored numbers of a Box are
therefore finite, and within no bounds.

Each kind has the `shape` and `dtype` of one stored action, and the `sizes` of its numbered choices, which
masks tell of. `contains` says which rows of any array are stored actions, `all_within` the same, faster, of
all at once where shape and dtype are known. `random` draws an action as the environment takes it, a valid one
where there is a mask `[A]`; `read` stores one that an environment takes, and raises ValueError or TypeError
where it is none. `from_json` raises ValueError, KeyError or TypeError where the data describe no such space.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import (
    Bools,
    DiscreteSpec,
    MultiBinarySpec,
    MultiDiscreteSpec,
    Rng,
    check_shape,
    choice_from_space,
    nowhere,
)
from soulsgui.errors import EnvironmentCheckError


@dataclass(frozen=True)
class BoxActionSpec:
    """Numbers, perhaps within bounds with room between them; stored as drawn, `[N, D]` float32."""

    box: BoxSpec

    dtype: ClassVar[str] = "float32"
    masked: ClassVar[bool] = False
    sizes: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        # By what is written, not by the shape: a stranger may claim any.
        low, high = np.array(self.box.low or (-math.inf,)), np.array(self.box.high or (math.inf,))
        if np.dtype(self.box.dtype).kind != "f" or not (low < high).all():
            raise ValueError(f"no numbers to choose: {self.box}")
        check_shape(self.box.shape, self.box.size)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one stored action."""
        return (self.box.size,)

    @property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest values, `[D]` each, infinite where there is no bound."""
        low, high = (
            np.full(self.box.size, free) if bound is None else np.broadcast_to(bound, self.box.size)
            for bound, free in ((self.box.low, -math.inf), (self.box.high, math.inf))
        )
        return low.astype(np.float64), high.astype(np.float64)

    @property
    def is_bounded(self) -> bool:
        """Whether all have both bounds; those further apart than a float32 reaches count as none."""
        low, high = self.bounds
        return bool((high - low <= np.finfo(np.float32).max).all())

    def contains(self, array: NDArray[Any]) -> Bools:
        """Say which of the stored actions `[N, D]` are finite; none when they are something else."""
        if array.shape[1:] != self.shape or array.dtype != np.float32:
            return nowhere(array)
        finite: Bools = np.isfinite(array).all(axis=1)
        return finite

    def all_within(self, array: NDArray[Any]) -> bool:
        """Say of stored actions, at least one, whether all are finite."""
        # The smallest and largest of numbers with a NaN among them are NaN.
        return bool(array.min() > -np.inf and array.max() < np.inf)

    def random(self, rng: Rng, mask: Bools | None = None) -> NDArray[Any]:
        """Draw an action, as the environment takes it: evenly within the bounds; there are no masks."""
        drawn = rng.standard_normal(self.box.size)
        low, high = self.bounds
        bounded = np.isfinite(high - low)
        drawn[bounded] = rng.uniform(low[bounded], high[bounded])
        return np.clip(drawn, low, high).astype(self.box.dtype).reshape(self.box.shape)

    def read(self, value: Any) -> NDArray[Any]:
        """Return an action that an environment takes as a flat row `[D]` float32.

        Raises:
            ValueError: It has another shape, or lies outside the bounds.
        """
        numbers = np.asarray(value, np.dtype(self.box.dtype))
        if numbers.shape != self.box.shape or not self.box.contains(numbers[None])[0]:
            raise ValueError(f"action {value!r}: that can't be")
        return numbers.reshape(-1).astype(np.float32)

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return self.box.to_json()

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "BoxActionSpec":
        """Read what `to_json` wrote."""
        return cls(BoxSpec.from_json(data))


ActionSpec = DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec | BoxActionSpec

_KINDS: Mapping[str, type[ActionSpec]] = {
    "discrete": DiscreteSpec,
    "multi_discrete": MultiDiscreteSpec,
    "multi_binary": MultiBinarySpec,
    "box": BoxActionSpec,
}


def action_from_json(data: Mapping[str, Any]) -> ActionSpec:
    """Read what `to_json` of any kind wrote."""
    return _KINDS[data["type"]].from_json(data)


def action_from_space(space: Space[Any], masked: bool = False) -> ActionSpec:
    """Describe a Gymnasium space; `masked`: the environment tells which numbered choices are valid.

    Raises:
        EnvironmentCheckError: It is of a kind that is not supported.
    """
    try:
        choice = choice_from_space(space)
        if isinstance(choice, MultiBinarySpec):
            return choice
        if choice is not None:
            return replace(choice, masked=masked)
        if isinstance(space, spaces.Box) and 0 not in space.shape:
            return BoxActionSpec(BoxSpec.of(space))
    except ValueError:
        pass
    raise EnvironmentCheckError(
        f"The action space {space} is not supported: it must be Discrete, MultiDiscrete, MultiBinary or a "
        "Box of floats, each with something to choose.",
        "Choose another environment, or add a wrapper under env.wrappers that offers such actions.",
    )
