"""What environments show, as plain data: one Box, or parts: choices, and whatever Dicts and Tuples hold.

Of parts there are three forms. The environment shows them as its space says. *Stored* is what travels and is
kept in memories: a row of numbers, one for each choice, and beside it the image, if there is one. *Seen* is
what networks take: choices one-hot, all else as it is. Of a Box all three are the same.

`from_json` raises ValueError, KeyError or TypeError where the data describe no such thing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from soulsgui.config.sections.network import Channels
from soulsgui.environments.box import BoxSpec, Number
from soulsgui.environments.choices import (
    DiscreteSpec,
    MultiBinarySpec,
    MultiDiscreteSpec,
    choice_from_space,
    nowhere,
)
from soulsgui.errors import EnvironmentCheckError
from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, field_of

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
    """A part of an observation: where it stands, and what it is."""

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
        """Return its numbers `[N, *shape]` out of what an environment shows, or a vector of `count`.

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
        """Read what `to_json` wrote."""
        path = tuple(data["path"])
        if not all(isinstance(step, str | int) for step in path):
            raise ValueError(f"no path: {path!r}")
        return cls(path, _KINDS[data["space"]["type"]].from_json(data["space"]))


_SEVERAL = (MultiDiscreteSpec, MultiBinarySpec)


def parts_of(space: Space[Any], path: Path = ()) -> list[Part]:
    """Return the parts of a space, Dicts and Tuples side by side.

    Raises:
        EnvironmentCheckError: A part is of another kind.
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
    choice = choice_from_space(space)
    if choice is None:
        raise ValueError(f"no numbers: {space}")
    return choice


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
        "Remove it with a wrapper under env.wrappers, as FilterObservation: {filter_keys: [the others]}; "
        "or add a gymnasium.ObservationWrapper of your own (module:Class) that turns it into numbers.",
    )


Bools = NDArray[np.bool_]
Field = tuple[str | None, BoxSpec]

# Of what a stranger claims nothing larger is laid out; whole numbers up to the last are exact in float32.
_MOST_NUMBERS = 2**20
_MOST_PIXELS = 2**24
_MOST_FEATURES = 2**16
_LARGEST = 2**24


@dataclass(frozen=True)
class PartsSpec:
    """Parts side by side, of which at most one is an image (bytes in two dimensions or more).

    Without an image an observation is stored as `[K]`, float32, or int32 where there are choices alone. With
    one it has two fields, the image and these numbers; an image alone is stored as it is. What can't be
    stored so is a ValueError.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        if not self.parts or len([part for part in self.parts if part.is_image]) > 1:
            raise ValueError("more than one image" if self.parts else "no parts")
        if sum(part.width for part in self.parts if not part.is_image) > _MOST_NUMBERS:
            raise ValueError(f"more than {_MOST_NUMBERS} numbers")
        if self.image is not None and self.image.size > _MOST_PIXELS:
            raise ValueError(f"an image of more than {_MOST_PIXELS} bytes")
        options = [option for part in self.parts for option in part.options]
        if sum(n for _, n in options) > _MOST_FEATURES:
            raise ValueError(f"choices of more than {_MOST_FEATURES} values")
        if any(max(abs(start), abs(start + n)) > _LARGEST for start, n in options):
            raise ValueError(f"choices of values beyond {_LARGEST}")

    @cached_property
    def image(self) -> BoxSpec | None:
        """The image among the parts."""
        found = [part.space for part in self.parts if part.is_image]
        return found[0] if found and isinstance(found[0], BoxSpec) else None

    @cached_property
    def numbers(self) -> BoxSpec | None:
        """The row of all other parts."""
        if not self._others:
            return None
        low, high = (
            tuple(chain(*bounds)) for bounds in zip(*(one.bounds for one in self._others), strict=True)
        )
        floats = any(isinstance(part.space, BoxSpec) for part in self._others)
        return BoxSpec((len(low),), "float32" if floats else "int32", low, high)

    @cached_property
    def _others(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if not part.is_image)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """What a stored observation consists of: a Box each; no name where there is one alone."""
        image, numbers = self.image, self.numbers
        if image is not None and numbers is not None:
            return (IMAGE, image), (NUMBERS, numbers)
        alone = image or numbers
        assert alone is not None
        return ((None, alone),)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one stored observation."""
        return () if len(self.fields) > 1 else self.fields[0][1].shape

    @property
    def dtype(self) -> str:
        """Its dtype: of image and numbers that of a record of both."""
        if len(self.fields) == 1:
            return self.fields[0][1].dtype
        boxes = [box for _, box in self.fields]
        return ",".join(f"({','.join(map(str, box.shape))},){np.dtype(box.dtype).str[1:]}" for box in boxes)

    @property
    def size(self) -> int:
        """Bytes of an image and number of the others, of one observation."""
        return sum(box.size for _, box in self.fields)

    def read(self, value: Any, count: int | None = None) -> NDArray[Any]:
        """Return an observation as stored, `[*shape]`, or all of a vector.

        Raises:
            ValueError: The observation has another shape or type.
        """
        stored = np.zeros((count or 1, *self.shape), self.dtype)
        at = 0
        for part in self.parts:
            rows = part.rows(value, count)
            if part.is_image:
                field_of(stored, IMAGE)[:] = rows
            else:
                field_of(stored, NUMBERS)[:, at : at + part.width] = rows.reshape(len(rows), part.width)
                at += part.width
        # A single one as an array, too: a record by itself would be none.
        return stored.reshape(self.shape) if count is None else stored

    def contains(self, array: NDArray[Any]) -> Bools:
        """Say which of the stored observations `[N, *shape]` there can be, as `BoxSpec.contains`."""
        if array.ndim == 0 or array.shape[1:] != self.shape or array.dtype != np.dtype(self.dtype):
            return nowhere(array)
        found = np.ones(len(array), np.bool_)
        for name, box in self.fields:
            found &= box.contains(field_of(array, name))
        if len(self._whole):
            found &= _are_whole(field_of(array, NUMBERS)[:, self._whole]).all(axis=1)
        return found

    def all_whole(self, array: Any) -> bool:
        """Say of stored observations whether every choice is a whole number."""
        return not len(self._whole) or bool(_are_whole(field_of(array, NUMBERS)[:, self._whole]).all())

    def rounded(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return observations `[N, *shape]` with whole numbers for their choices."""
        if len(self._whole):
            numbers = field_of(array, NUMBERS)
            numbers[:, self._whole] = np.rint(numbers[:, self._whole])
        return array

    @cached_property
    def _whole(self) -> NDArray[np.int64]:
        """Columns of the numbers that are whole, where the dtype does not say so already."""
        numbers = self.numbers
        if numbers is None or numbers.dtype != "float32":
            return np.zeros(0, np.int64)
        choices = [np.full(part.width, not isinstance(part.space, BoxSpec)) for part in self._others]
        return np.flatnonzero(np.concatenate(choices))

    def seen(self, images: bool) -> "BoxSpec | PartsSpec":
        """Return the space of what networks take: an image as such, or as numbers before the others."""
        size = sum(part.features for part in self._others)
        if self.image is None or not images:
            return BoxSpec((size + (0 if self.image is None else self.image.size),), "float32")
        if self.numbers is None:
            return self.image
        return _beside(self.image, size)

    def encode(self, obs: Any, images: bool) -> NDArray[Any]:
        """Return what networks take, `[N, ...]`, of stored observations `[N, *shape]` within their bounds."""
        stored = np.asarray(obs)
        image: NDArray[Any] | None = None if self.image is None else field_of(stored, IMAGE)
        features = None if self.numbers is None else self._encoded(field_of(stored, NUMBERS))
        if image is None:
            assert features is not None
            return features
        if not images:
            flat = image.reshape(len(image), -1).astype(np.float32)
            return flat if features is None else np.concatenate((flat, features), axis=1)
        if features is None:
            return image
        both = np.empty(len(stored), self.seen(True).dtype)
        both[IMAGE], both[NUMBERS] = image, features
        return both

    def fixed(self, images: bool) -> Bools:
        """Say which of the numbers that networks take are never normalised: those of choices."""
        parts = [np.full(part.features, not isinstance(part.space, BoxSpec)) for part in self._others]
        before = 0 if images or self.image is None else self.image.size
        return np.concatenate((np.zeros(before, np.bool_), *parts))

    def _encoded(self, numbers: NDArray[Any]) -> NDArray[np.float32]:
        """Return numbers `[N, K]` with the choices one-hot, `[N, F]`."""
        plain_from, plain_to, columns, offsets, size = self._places
        found = np.zeros((len(numbers), size), np.float32)
        found[:, plain_to] = numbers[:, plain_from]
        if len(columns):
            places = numbers[:, columns].astype(np.int64) + offsets
            found[np.arange(len(numbers))[:, None], places] = 1.0
        return found

    @cached_property
    def _places(self) -> tuple[Any, Any, Any, Any, int]:
        """Return where each number goes: those that stay as they are, and the choices less their start."""
        plain: list[tuple[int, int]] = []
        hot: list[tuple[int, int]] = []
        column = feature = 0
        for part in self._others:
            if part.options:
                for start, n in part.options:
                    hot.append((column, feature - start))
                    column, feature = column + 1, feature + n
            else:
                plain += [(column + index, feature + index) for index in range(part.width)]
                column, feature = column + part.width, feature + part.width
        ways = [np.array(pairs, np.int64).reshape(-1, 2).T for pairs in (plain, hot)]
        return *ways[0], *ways[1], feature

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {"type": "parts", "parts": [part.to_json() for part in self.parts]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PartsSpec":
        """Read what `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: The data describe no parts.
        """
        if data["type"] != "parts":
            raise ValueError(f"no parts: {data['type']!r}")
        return cls(tuple(Part.from_json(part) for part in data["parts"]))


ObservationSpec = BoxSpec | PartsSpec


def seen_of(
    shape: tuple[int, ...], dtype: str, largest: float | None = None, channels: Channels = "auto"
) -> ObservationSpec:
    """Return the space of what networks see (`PartsSpec.seen`); a ValueError or TypeError where it is none.

    `largest` is the largest value of an image; None: any that its dtype has.
    """
    record, high = np.dtype(dtype), None if largest is None else (largest,)
    if record.fields is None:
        return BoxSpec(shape, dtype, None, high, channels)
    image, numbers = (record.fields[name][0] for name in (IMAGE, NUMBERS))
    return _beside(BoxSpec(image.shape, "uint8", None, high, channels), math.prod(numbers.shape))


def largest_of(seen: ObservationSpec) -> float | None:
    """Return the largest value of an image that networks see; None: any that bytes have, or there is none."""
    image = seen.fields[0][1]
    if image.dtype != "uint8" or image.high is None or max(image.high) == 255:
        return None
    return float(max(image.high))


def with_channels(seen: ObservationSpec, channels: Channels) -> ObservationSpec:
    """Return the space of what networks see, where they see an image, with what is known of its channels."""
    if isinstance(seen, BoxSpec):
        return replace(seen, channels=channels)
    assert seen.image is not None
    assert seen.numbers is not None
    return _beside(replace(seen.image, channels=channels), seen.numbers.size)


def channels_of(seen: ObservationSpec) -> Channels:
    """Return where the channels of an image that networks see are; `auto` where nothing was said of it."""
    return seen.fields[0][1].channels


def _beside(image: BoxSpec, numbers: int) -> PartsSpec:
    row = BoxSpec((numbers,), "float32")
    return PartsSpec((Part(("image",), image), Part(("numbers",), row)))


def observation_from_json(data: Mapping[str, Any]) -> ObservationSpec:
    """Read what `to_json` of either wrote."""
    return PartsSpec.from_json(data) if data["type"] == "parts" else BoxSpec.from_json(data)


def observation_from_space(space: Space[Any]) -> ObservationSpec:
    """Describe a Gymnasium space.

    Raises:
        EnvironmentCheckError: It is of no supported kind, or empty.
    """
    if isinstance(space, spaces.Box):
        return BoxSpec.from_space(space)
    found = parts_of(space)
    try:
        return PartsSpec(tuple(found))
    except ValueError as error:
        raise EnvironmentCheckError(
            f"The observation space {space} is not supported: {error}.",
            "Add a wrapper under env.wrappers that shows less of it, as FilterObservation: {filter_keys: "
            "[some of its parts]}, or one of your own (module:Class).",
        ) from error


def _are_whole(numbers: NDArray[Any]) -> Bools:
    found: Bools = np.rint(numbers) == numbers
    return found
