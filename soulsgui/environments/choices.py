"""Numbered choices that environments take, as plain data: one, several, or yes and no; and which are valid.

For choices an action is stored as the environment takes it, laid out flat (`environments.actions`, where what
all kinds can do is described).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import NDArray

from soulsgui.errors import EnvironmentCheckError

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Rng = np.random.Generator

_LARGEST = 2**62


@dataclass(frozen=True)
class DiscreteSpec:
    """One of `n` actions, numbered from `start`; stored as `[N]` int64.

    `masked`: the environment tells which of them are valid.
    """

    n: int
    start: int = 0
    masked: bool = False

    shape: ClassVar[tuple[int, ...]] = ()
    dtype: ClassVar[str] = "int64"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of actions of each choice that masks tell of."""
        return (self.n,)

    def contains(self, array: NDArray[Any]) -> Bools:
        """Say which of the actions `[N]` exist; all False when they are no vector of whole numbers."""
        if not _could_be(array, self.shape):
            return nowhere(array)
        return (array >= self.start) & (array < self.start + self.n)

    def all_within(self, array: NDArray[Any]) -> bool:
        """Say of stored actions, at least one, whether all exist; faster than `contains`."""
        return bool(array.min() >= self.start and array.max() < self.start + self.n)

    def allowed(self, action: NDArray[Any], mask: Bools, rows: Ints) -> Bools:
        """Say which stored actions `[N]` the masks `[M, A]` in `rows` `[N]` allow; whatever those are."""
        # An action that does not exist is out of bounds already.
        found: Bools = mask[rows, np.clip(action - self.start, 0, self.n - 1)]
        return found

    def random(self, rng: Rng, mask: Bools | None = None) -> int:
        """Draw an action, as the environment takes it; only valid ones where there is a mask `[A]`."""
        if mask is None:
            return int(rng.integers(self.n)) + self.start
        return int(rng.choice(np.flatnonzero(mask))) + self.start

    def read(self, value: Any) -> NDArray[Any]:
        """Return an action that an environment takes as it is stored."""
        return _one_of(self, np.asarray(int(np.asarray(value).item())), value)

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        # Only where there are masks: what was saved before there were any reads the same.
        return {"type": "discrete", "n": self.n, "start": self.start} | _masked(self.masked)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "DiscreteSpec":
        """Read what `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: The data describe no Discrete space.
        """
        if data["type"] != "discrete" or int(data["n"]) < 1:
            raise ValueError(f"no Discrete space: {data!r}")
        return cls(int(data["n"]), int(data["start"]), bool(data.get("masked", False)))


@dataclass(frozen=True)
class MultiDiscreteSpec:
    """Several numbered choices at once; stored as `[N, D]` int64.

    Each of the `D` choices has a number of actions (`sizes`) and a smallest one (`start`); `space_shape` is
    that of an action as the environment takes it. `masked`: it tells which are valid, choice after choice.
    """

    sizes: tuple[int, ...]
    start: tuple[int, ...]
    space_shape: tuple[int, ...]
    masked: bool = False

    dtype: ClassVar[str] = "int64"

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1 or len(self.start) != len(self.sizes):
            raise ValueError(f"no choices: {self.sizes} from {self.start}")
        if max(map(abs, (*self.start, *self.sizes))) > _LARGEST:
            raise ValueError(f"larger than the numbers that are sent: {self.sizes} from {self.start}")
        check_shape(self.space_shape, len(self.sizes))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one stored action."""
        return (len(self.sizes),)

    @cached_property
    def _low(self) -> Ints:
        return np.array(self.start, np.int64)

    @cached_property
    def _count(self) -> Ints:
        return np.array(self.sizes, np.int64)

    def contains(self, array: NDArray[Any]) -> Bools:
        """Say which of the stored actions `[N, D]` exist; all False when they are something else."""
        if not _could_be(array, self.shape):
            return nowhere(array)
        exists = (array >= self._low) & (array < self._low + self._count)
        within: Bools = np.logical_and.reduce(exists, axis=1)
        return within

    def all_within(self, array: NDArray[Any]) -> bool:
        """Say of stored actions, at least one, whether all exist."""
        return bool((array >= self._low).all() and (array < self._low + self._count).all())

    def allowed(self, action: NDArray[Any], mask: Bools, rows: Ints) -> Bools:
        """Say which stored actions `[N, D]` the masks `[M, A]` in `rows` `[N]` allow in each choice."""
        index = np.clip(action - self._low, 0, self._count - 1)
        found: Bools = mask[rows[:, None], index + np.cumsum(self._count) - self._count].all(axis=1)
        return found

    def random(self, rng: Rng, mask: Bools | None = None) -> Ints:
        """Draw an action, as the environment takes it; only valid ones where there is a mask `[A]`."""
        if mask is None:
            drawn = rng.integers(self._count)
        else:
            parts = np.split(mask, np.cumsum(self.sizes)[:-1])
            drawn = np.array([rng.choice(np.flatnonzero(part)) for part in parts])
        action: Ints = (drawn + self._low).reshape(self.space_shape)
        return action

    def read(self, value: Any) -> NDArray[Any]:
        """Return an action that an environment takes as it is stored."""
        return _one_of(self, _whole(value, self.space_shape).reshape(-1).astype(np.int64), value)

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {
            "type": "multi_discrete",
            "sizes": list(self.sizes),
            "start": list(self.start),
            "shape": list(self.space_shape),
        } | _masked(self.masked)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MultiDiscreteSpec":
        """Read what `to_json` wrote."""
        sizes, start, shape = (tuple(int(n) for n in data[name]) for name in ("sizes", "start", "shape"))
        return cls(sizes, start, shape, bool(data.get("masked", False)))


@dataclass(frozen=True)
class MultiBinarySpec:
    """Several yes-or-no choices; stored as `[N, D]` int8 of 0 and 1, taken in `space_shape`."""

    space_shape: tuple[int, ...]

    dtype: ClassVar[str] = "int8"
    masked: ClassVar[bool] = False
    sizes: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        check_shape(self.space_shape, math.prod(self.space_shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one stored action."""
        return (math.prod(self.space_shape),)

    def contains(self, array: NDArray[Any]) -> Bools:
        """Say which of the stored actions `[N, D]` are of 0 and 1; none when they are something else."""
        if not _could_be(array, self.shape):
            return nowhere(array)
        within: Bools = ((array == 0) | (array == 1)).all(axis=1)
        return within

    def all_within(self, array: NDArray[Any]) -> bool:
        """Say of stored actions, at least one, whether all are of 0 and 1."""
        return bool(array.min() >= 0 and array.max() <= 1)

    def random(self, rng: Rng, mask: Bools | None = None) -> NDArray[np.int8]:
        """Draw an action, as the environment takes it; there are no masks."""
        return rng.integers(2, size=self.space_shape, dtype=np.int8)

    def read(self, value: Any) -> NDArray[Any]:
        """Return an action that an environment takes as it is stored."""
        numbers = _whole(value, self.space_shape).reshape(-1).astype(np.int64)
        return _one_of(self, numbers, value).astype(np.int8)

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {"type": "multi_binary", "shape": list(self.space_shape)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MultiBinarySpec":
        """Read what `to_json` wrote."""
        return cls(tuple(int(side) for side in data["shape"]))


def choice_from_space(space: Space[Any]) -> DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec | None:
    """Describe a Gymnasium space of choices, None if it is something else; a ValueError if it is empty."""
    if isinstance(space, spaces.Discrete):
        return DiscreteSpec(int(space.n), int(space.start))
    if isinstance(space, spaces.MultiDiscrete):
        sizes, start = space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
        return MultiDiscreteSpec(tuple(sizes), tuple(start), space.nvec.shape)
    return MultiBinarySpec(space.shape) if isinstance(space, spaces.MultiBinary) else None


def _masked(masked: bool) -> dict[str, Any]:
    return {"masked": True} if masked else {}


def check_shape(shape: tuple[int, ...], size: int) -> None:
    """Make sure that so many numbers can have a shape.

    Raises:
        ValueError: They can't.
    """
    if any(side < 1 for side in shape) or math.prod(shape) != size:
        raise ValueError(f"{size} numbers can't have the shape {shape}")


def nowhere(array: NDArray[Any]) -> Bools:
    """Return what `contains` says of an array that is something else: False for each row."""
    return np.zeros(array.shape[:1] or 1, dtype=np.bool_)


def _could_be(array: NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Whether an array has rows `[N, *shape]` of whole numbers."""
    return array.ndim > 0 and array.shape[1:] == shape and array.dtype.kind in "iu"


def _whole(value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    numbers = np.asarray(value)
    if numbers.shape != shape or numbers.dtype.kind not in "biu":
        raise ValueError(f"action {value!r}: that can't be")
    return numbers


def _one_of(spec: DiscreteSpec | MultiDiscreteSpec | MultiBinarySpec, row: Ints, value: Any) -> Ints:
    if not spec.contains(row[None])[0]:
        raise ValueError(f"action {value!r}: that can't be")
    return row


Mask = NDArray[np.bool_]
MASK_KEY = "action_mask"  # where an info tells which actions are valid, as Gymnasium's environments do


def gives_masks(info: Mapping[str, Any]) -> bool:
    """Return whether an environment tells which actions are valid, by the info of its reset."""
    return MASK_KEY in info


def action_left(masks: Mask, sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Say which masks `[N, A]`, choice after choice, leave an action in each, `[N]`."""
    if len(sizes) == 1:
        left: NDArray[np.bool_] = np.logical_or.reduce(masks, axis=1)
        return left
    starts = np.cumsum([0, *sizes[:-1]])
    each: NDArray[np.bool_] = np.logical_and.reduce(np.logical_or.reduceat(masks, starts, axis=1), axis=1)
    return each


def read_mask(value: Any, actions: int) -> Mask:
    """Return one mask, `[A]`, where there are `A` actions of all choices.

    In an info stands a number or truth value for each, 0 where it is not valid; of several choices one after
    the other, or a sequence with an array for each.

    Raises:
        EnvironmentCheckError: It has not one entry for each action.
    """
    if isinstance(value, Sequence) and len(value) > 1 and all(np.ndim(part) == 1 for part in value):
        value = np.concatenate([np.asarray(part) for part in value])
    mask = np.asarray(value)
    if mask.shape != (actions,) or mask.dtype.kind not in "biuf":
        raise EnvironmentCheckError(
            f"An action mask has shape {mask.shape} and dtype {mask.dtype}; there are {actions} actions.",
            "The environment must put one 0 or 1 for each action into info['action_mask'].",
        )
    return mask.astype(np.bool_)


def read_masks(info: Mapping[str, Any], num_envs: int, actions: int) -> Mask:
    """Return the masks `[N, A]` in the info of a vector (`read_mask`); all True where nothing is told."""
    masks = np.ones((num_envs, actions), np.bool_)
    told = info.get(MASK_KEY)
    if told is None:
        return masks
    said = info.get(f"_{MASK_KEY}", masks[:, 0])
    for env in np.flatnonzero(said):
        masks[env] = read_mask(told[env], actions)
    return masks
