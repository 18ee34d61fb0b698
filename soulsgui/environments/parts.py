"""One part of an observation: where it stands, and the numbers it is stored and seen as."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from soulsgui.environments.box import BoxSpec, Number
from soulsgui.environments.choices import DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec
from soulsgui.errors import EnvironmentCheckError

PartSpace = BoxSpec | DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec
Path = tuple[str | int, ...]
"""The keys of Dicts and the places in Tuples that lead to a part; none where it is all there is."""

_KINDS: Mapping[str, type[PartSpace]] = {
    "box": BoxSpec,
    "discrete": DiscreteSpec,
    "multi_discrete": MultiDiscreteSpec,
    "multi_binary": MultiBinarySpec,
}
_CHOICES = "iub"


@dataclass(frozen=True)
class Part:
    """A part of an observation.

    Args:
        path: Where it stands.
        space: What it is.
    """

    path: Path
    space: PartSpace

    def __post_init__(self) -> None:
        if isinstance(self.space, BoxSpec) and any(side < 1 for side in self.space.shape):
            raise ValueError(f"{self.name} can't have the shape {self.space.shape}")

    @property
    def name(self) -> str:
        """What it is called, `goal.position` or `hand.0`; empty where it is all there is."""
        return ".".join(map(str, self.path))

    @property
    def is_image(self) -> bool:
        """Whether it is an image: bytes in two dimensions or more."""
        space = self.space
        return isinstance(space, BoxSpec) and space.dtype == "uint8" and len(space.shape) >= 2

    @property
    def width(self) -> int:
        """Numbers it is stored as: one for each choice."""
        return self.space.size if isinstance(self.space, BoxSpec) else max(1, int(np.prod(self.space.shape)))

    @property
    def options(self) -> tuple[tuple[int, int], ...]:
        """The least value and the number of values of each of its numbers that is seen one-hot."""
        if isinstance(self.space, DiscreteSpec):
            return ((self.space.start, self.space.n),)
        if isinstance(self.space, MultiDiscreteSpec):
            return tuple(zip(self.space.start, self.space.sizes, strict=True))
        return ()

    @property
    def features(self) -> int:
        """Numbers it is seen as."""
        return sum(n for _, n in self.options) or self.width

    @property
    def bounds(self) -> tuple[tuple[Number, ...], tuple[Number, ...]]:
        """Least and largest value of each of its numbers, infinite where there is none."""
        if isinstance(self.space, BoxSpec):
            low, high = self.space.low or (-np.inf,), self.space.high or (np.inf,)
            return tuple(low) * (self.width // len(low)), tuple(high) * (self.width // len(high))
        if isinstance(self.space, MultiBinarySpec):
            return (0,) * self.width, (1,) * self.width
        return tuple(start for start, _ in self.options), tuple(start + n - 1 for start, n in self.options)

    def rows(self, observation: Any, count: int | None) -> NDArray[Any]:
        """Return its numbers `[N, *shape]`, out of whole observations.

        Args:
            observation: What an environment shows; or a vector of `count`, which shows the parts of all.
            count: How many; None for a single one.

        Raises:
            ValueError: It is not there, or is something else.
        """
        found = observation
        try:
            for step in self.path:
                found = found[step]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(f"an observation has no part {self.name}") from error
        values = np.asarray(found) if count is not None else np.asarray(found)[None]
        shape = self.space.space_shape if isinstance(self.space, _SEVERAL) else self.space.shape
        if values.shape != (count or 1, *shape):
            raise ValueError(f"{self._who} has shape {values.shape[1:]}; its space says {shape}")
        if values.dtype.kind not in (_CHOICES if not isinstance(self.space, BoxSpec) else "fiub"):
            raise ValueError(f"{self._who} has dtype {values.dtype}; its space says otherwise")
        return values

    @property
    def _who(self) -> str:
        return f"the part {self.name} of an observation" if self.path else "an observation"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {"path": list(self.path), "space": self.space.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Part":
        """Read what `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: The data describe no part.
        """
        path = tuple(data["path"])
        if not all(isinstance(step, str | int) for step in path):
            raise ValueError(f"no path: {path!r}")
        return cls(path, _KINDS[data["space"]["type"]].from_json(data["space"]))


_SEVERAL = (MultiDiscreteSpec, MultiBinarySpec)


def parts_of(space: Space[Any], path: Path = ()) -> list[Part]:
    """Return the parts of a Gymnasium space, those of Dicts and Tuples within each other laid side by side.

    Raises:
        EnvironmentCheckError: One is of a kind that is not supported.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inside = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return [part for step, one in inside for part in parts_of(one, (*path, step))]
    try:
        return [Part(path, _part_space(space))]
    except ValueError as error:
        raise _unsupported(space, path) from error


def _part_space(space: Space[Any]) -> PartSpace:
    """Return a space that is no Dict and no Tuple."""
    if isinstance(space, spaces.Box) and space.dtype.kind in "fiu":
        return BoxSpec.of(space)
    if isinstance(space, spaces.Discrete):
        return DiscreteSpec(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        sizes, start = space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
        return MultiDiscreteSpec(tuple(sizes), tuple(start), space.nvec.shape)
    if isinstance(space, spaces.MultiBinary):
        return MultiBinarySpec(space.shape)
    raise ValueError(f"no numbers: {space}")


def _unsupported(space: Space[Any], path: Path) -> EnvironmentCheckError:
    kinds = "Box of numbers, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these are"
    if not path:
        return EnvironmentCheckError(
            f"The observation space {space} is not supported: {kinds}.",
            "Add a wrapper under env.wrappers that shows numbers instead: a gymnasium.ObservationWrapper of "
            "your own as module:Class, or one of gymnasium.wrappers.",
        )
    return EnvironmentCheckError(
        f"The part {Part(path, DiscreteSpec(1)).name} of the observation space, {space}, is not supported: "
        f"{kinds}.",
        "Leave it out by a wrapper under env.wrappers, as FilterObservation: {filter_keys: [the others]}; or "
        "add a gymnasium.ObservationWrapper of your own (module:Class) that makes numbers of it.",
    )
