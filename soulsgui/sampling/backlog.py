"""What waits to be sent for the first time. Pure; its user keeps two threads apart."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class Credit(NamedTuple):
    """How much may be sent.

    Attributes:
        entries: Entries of the stream.
        size: Their bytes.
        steps: Their transitions.
    """

    entries: int
    size: int
    steps: int

    @property
    def left(self) -> bool:
        """Whether anything may be sent at all."""
        return min(self) > 0


class Measured(Protocol):
    """Anything with a number of bytes and of transitions."""

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    @property
    def steps(self) -> int:
        """Its transitions."""
        ...


def covered(items: Iterable[Measured], credit: Credit) -> int:
    """Return how many of the first items a credit covers; while any of it is left, one at least.

    What becomes one entry can't be cut in two: held back until it is covered whole, it might wait forever.
    """
    if not credit.left:
        return 0
    count = size = steps = 0
    for item in items:
        size, steps = size + item.size, steps + item.steps
        if count and (count >= credit.entries or size > credit.size or steps > credit.steps):
            break
        count += 1
    return count


class Parcel(NamedTuple):
    """What becomes one entry: its bytes, and the transitions in them."""

    payload: bytes
    steps: int = 0

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.payload)


class Backlog:
    """Parcels in the order they came.

    Attributes:
        size: Bytes of them all.
        steps: Transitions in them all.
    """

    def __init__(self) -> None:
        self.size = 0
        self.steps = 0
        self._parcels: deque[Parcel] = deque()

    def __len__(self) -> int:
        return len(self._parcels)

    def add(self, parcel: Parcel) -> None:
        """Put a parcel behind the others."""
        self._parcels.append(parcel)
        self.size += parcel.size
        self.steps += parcel.steps

    def take_oldest(self) -> Parcel:
        """Take the oldest parcel out; there must be one."""
        parcel = self._parcels.popleft()
        self.size -= parcel.size
        self.steps -= parcel.steps
        return parcel

    def take(self, credit: Credit) -> list[Parcel]:
        """Take out what a credit covers (`covered`), oldest first."""
        return [self.take_oldest() for _ in range(covered(self._parcels, credit))]
