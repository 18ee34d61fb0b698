"""What a policy remembers of each environment between its steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Remembered:
    """Rows of numbers by name, one row for each environment; all 0 at the beginning of an episode.

    A recurrent policy reads them and puts others in their place at every step it acts in. Whoever steps the
    environments says how many there are, notes the rows that a piece of an episode begins with, and forgets
    where an episode ended. New weights change nothing here: what was remembered with the old ones is gone on
    from.

    Args:
        shapes: Shape of one environment's row of each field; none: nothing is remembered.

    Attributes:
        shapes: As given.
        fields: Name → `[N, *shape]` float32.
    """

    def __init__(self, shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        self.shapes = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self.fields: dict[str, Floats] = {}
        self.begin(1)

    def begin(self, count: int) -> None:
        """Be that of `count` environments, in all of which an episode begins."""
        self.fields = {name: np.zeros((count, *shape), np.float32) for name, shape in self.shapes.items()}

    def forget(self, where: NDArray[np.bool_]) -> None:
        """Begin an episode in the environments `where` is True, `[N]`."""
        for rows in self.fields.values():
            rows[where] = 0.0


def remembered_by(policy: Any) -> Remembered:
    """Return what a policy remembers (`policies.policy.Policy`); nothing where it has no memory."""
    found = getattr(policy, "remembered", None)
    return found if isinstance(found, Remembered) else Remembered()
