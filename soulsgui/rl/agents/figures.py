"""What an agent's updates tell, summed up until somebody asks."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from soulsgui.errors import ServiceError


class FigureSums:
    """Adds the figures of updates up where the networks live: reading them there would wait for each update.

    Attributes:
        sums: `[F]`, on the device.
        count: How many were added since they were asked for.

    Args:
        names: The figures, `F`.
        device: Where they are added up.
        setting: Key of the learning rate, named when figures are no longer finite.
    """

    def __init__(self, names: Sequence[str], device: torch.device, setting: str) -> None:
        self.sums = torch.zeros(len(names), device=device)
        self.count = 0
        self._names = tuple(names)
        self._setting = setting

    def add(self, figures: Tensor) -> None:
        """Add the figures `[F]` of one update."""
        self.sums += figures
        self.count += 1

    def means(self, updates: int, told: Mapping[str, float]) -> dict[str, float]:
        """Return means over the updates since the last call, and begin anew.

        Args:
            updates: Updates of the agent so far.
            told: What there is to tell as of the last of them, such as `learning_rate`; returned beside the
                others.

        Returns:
            Each figure by its name, and what is told. Nothing when there was no update.

        Raises:
            ServiceError: A figure is no longer finite; the agent is then of no more use.
        """
        if not self.count:
            return {}
        means = dict(zip(self._names, (self.sums / self.count).tolist(), strict=True))
        self.sums.zero_()
        self.count = 0
        if not np.isfinite(list(means.values())).all():
            raise ServiceError(
                f"The updates of the agent up to {updates} gave numbers that are not finite: {means}.",
                f"Resume from a checkpoint with a lower {self._setting}, and check the size of the rewards.",
            )
        return {**means, **told}
