"""Append-only numbers in few bytes: what a curve of a million rows is kept in."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_FIRST_CAPACITY = 256
Doubles = NDArray[np.float64]


class Column:
    """Numbers kept as offsets from the first one, given back as float64.

    Whole numbers take 4 bytes until an offset outgrows them, then 8. Times take 4: to 0.06 s after six days.

    Args:
        whole: Whether the numbers are whole.
    """

    def __init__(self, whole: bool) -> None:
        self._data: NDArray[Any] = np.empty(_FIRST_CAPACITY, np.int32 if whole else np.float32)
        self._size = 0
        self._origin = 0.0

    def __len__(self) -> int:
        return self._size

    def append(self, values: ArrayLike) -> None:
        """Add numbers at the end.

        Args:
            values: `[N]`.
        """
        new = np.asarray(values, np.float64)
        if new.size == 0:
            return
        if self._size == 0:
            self._origin = float(new[0])
        offsets = new - self._origin
        if self._data.dtype == np.int32 and np.abs(offsets).max() >= 2**31:
            self._data = self._data.astype(np.int64)
        self._data = with_room(self._data, self._size + new.size)
        self._data[self._size : self._size + new.size] = offsets
        self._size += new.size

    def slice(self, start: int, stop: int, step: int = 1) -> Doubles:
        """Return the numbers from `start` to before `stop`, `[N]` float64."""
        return self._data[start : min(stop, self._size) : step].astype(np.float64) + self._origin

    def at(self, index: int) -> float:
        """Return one number; negative indices count from the end.

        Raises:
            IndexError: There are not so many.
        """
        return float(self._data[: self._size][index]) + self._origin

    def search(self, value: float, after_equals: bool = False) -> int:
        """Return where a value belongs, the numbers being in rising order.

        Args:
            value: The value.
            after_equals: Whether the place is behind equal numbers instead of before them.
        """
        offset = value - self._origin
        kind = self._data.dtype
        if kind != np.float32:
            # A key of another type would make numpy convert the whole column.
            # Rounded before the origin is taken off, which could round it the other way.
            offset = (np.floor(value) if after_equals else np.ceil(value)) - self._origin
            limits = np.iinfo(kind)
            if not limits.min <= offset <= limits.max:
                return 0 if offset < 0 else self._size
        side = "right" if after_equals else "left"
        return int(np.searchsorted(self._data[: self._size], kind.type(offset), side))  # type: ignore[call-overload]

    def is_rising(self) -> bool:
        """Whether no number is smaller than the one before it."""
        data = self._data[: self._size]
        return bool(np.all(data[1:] >= data[:-1]))

    def reorder(self, order: NDArray[np.intp]) -> None:
        """Put the numbers into another order.

        Args:
            order: `[N]` index of each new place's number.
        """
        self._data[: self._size] = self._data[: self._size][order]


def with_room(data: NDArray[Any], size: int) -> NDArray[Any]:
    """Return an array with the same beginning and room for at least `size` numbers.

    Room that is not used yet costs address space, not memory.
    """
    if size <= data.size:
        return data
    larger = np.empty(max(size, 2 * data.size), data.dtype)
    larger[: data.size] = data
    return larger


class Floats:
    """Append-only float32 numbers."""

    def __init__(self) -> None:
        self._data: NDArray[np.float32] = np.empty(_FIRST_CAPACITY, np.float32)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, values: ArrayLike) -> None:
        """Add numbers at the end.

        Args:
            values: `[N]`.
        """
        new = np.asarray(values, np.float32)
        self._data = with_room(self._data, self._size + new.size)
        self._data[self._size : self._size + new.size] = new
        self._size += new.size

    @property
    def view(self) -> NDArray[np.float32]:
        """All numbers, `[N]` float32, valid until the next `append`."""
        return self._data[: self._size]
