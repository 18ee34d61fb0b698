"""What a policy drew for actions that a loop written by hand has taken from it, and brings back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.actions import ActionSpec, BoxActionSpec
from soulsgui.policies.policy import Policy

_MOST = 65_536


class DrawnActions:
    """Remembers the stored form of actions within bounds, by what the environment takes for them.

    Such an action was squashed, and near its bounds many draws become the same number. Of equal actions the
    newest draw counts; of those that nobody remembers the policy says what might have been drawn.

    Args:
        space: What the environment takes.
    """

    def __init__(self, space: ActionSpec) -> None:
        self._space = space
        self._squashed = isinstance(space, BoxActionSpec)
        self._drawn: dict[bytes, NDArray[Any]] = {}

    def given_out(self, action: NDArray[Any], policy: Policy) -> Any:
        """Return what the environment takes for one stored action; it is remembered."""
        taken = policy.to_environment(action[None])[0]
        if not self._squashed:
            return taken.item() if taken.ndim == 0 else taken
        row = self._space.read(taken)
        if len(self._drawn) >= _MOST:
            del self._drawn[next(iter(self._drawn))]
        # At the end, also when it was there.
        self._drawn.pop(row.tobytes(), None)
        self._drawn[row.tobytes()] = action
        return taken

    def stored(self, row: NDArray[Any], policy: Policy) -> NDArray[Any]:
        """Return how an action is stored.

        Args:
            row: What the environment took, as `ActionSpec.read` returns it.
            policy: Asked for an action that it was not asked for before.
        """
        if not self._squashed:
            return row
        drawn = self._drawn.get(row.tobytes())
        if drawn is not None:
            return drawn
        stored: NDArray[np.float32] = policy.from_environment(row[None])[0]
        return stored
