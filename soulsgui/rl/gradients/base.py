"""What every gradient offers to the agent that follows it, and to those who take a part of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

from torch import Tensor

from soulsgui.rl.compiled_loss import CompiledLoss

Rows = TypeVar("Rows", contravariant=True)
Settings = TypeVar("Settings", contravariant=True)


class Step(NamedTuple):
    """What a gradient step tells of itself.

    | field | shape | meaning |
    |---|---|---|
    | figures | `[F]` | means over what was learned from |
    | samples | `[B]` or `[B, K]` | what it says of each sample; see the gradient |
    """

    figures: Tensor
    samples: Tensor


class BatchPart(NamedTuple):
    """A part of a batch: which of `Step.samples` are of it, and where it lies in columns of other rows."""

    samples: slice
    rows: slice = slice(0)


class Gradient(ABC, Generic[Rows, Settings]):
    """Writes the gradient of a loss into the parameters' flat gradient, over what stood there.

    What is prepared can be cut into parts: their gradients, each weighed by its part of what is learned from,
    add up to that of the whole, and so do the figures.

    Attributes:
        compiled_loss: The loss, where it may be compiled.
        mixed: Whether networks compute in bfloat16 where that is enough.
        add_up: Adds a tensor up over all who have a part, where what is learned from a sample depends on the
            others; None: nobody else has one.
    """

    compiled_loss: CompiledLoss[Any] | None = None
    mixed = False
    add_up: Callable[[Tensor], Tensor] | None = None

    def __call__(self, rows: Rows, settings: Settings) -> Step:
        """Write the gradient at `rows`."""
        return self.at(self.prepare(rows, settings), settings)

    def prepare(self, rows: Rows, settings: Settings) -> Any:
        """Draw what chance is needed; return a tuple of arrays, or of tensors where the networks live."""
        return rows

    @abstractmethod
    def at(self, prepared: Any, settings: Settings) -> Step:
        """Write the gradient at what was prepared."""

    def count(self, prepared: Any) -> int:
        """Return the number of samples, `B`."""
        return len(prepared[0])

    def weight(self, prepared: Any) -> int | Tensor:
        """Return how many the loss is a mean of."""
        return self.count(prepared)

    def cut(self, prepared: Any, parts: int) -> list[BatchPart]:
        """Cut samples into at most so many parts, about equal and none empty."""
        return evenly(self.count(prepared), parts)

    def part(self, prepared: Any, part: BatchPart) -> Any:
        """Take a part of what was prepared."""
        return type(prepared)(*(None if column is None else column[part.samples] for column in prepared))


def evenly(count: int, parts: int) -> list[BatchPart]:
    """Cut so many samples into at most so many parts, about equal and none empty."""
    parts = max(1, min(parts, count))
    return [
        BatchPart(slice(*edges)) for edges in pairwise(count * index // parts for index in range(parts + 1))
    ]
