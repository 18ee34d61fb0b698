"""What an off-policy agent offers to the node that trains it.

The node knows the agent and its memory (`buffers.memory`), and nothing of their kind: both have agreed on
what a batch is (`NStepBatch` for windows, `SequenceBatch` for recurrent agents).
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.frame_stacks import Observations
from soulsgui.rl.agents.base import Agent


class OffPolicyAgent(Agent, Protocol):
    """Learns from batches that were made with other weights, too.

    Attributes:
        sample_rng: What to draw from the memory with; part of the agent's state.
    """

    sample_rng: np.random.Generator

    def observe(self, obs: Observations) -> None:
        """Take new raw observations `[N, *shape]` into the normaliser's statistics, if there is one."""

    def update(self, batch: Any) -> NDArray[np.float32] | None:
        """Make one update with what the memory gave; return how wrong it was about each, if it can say."""

    def figures(self) -> dict[str, float]:
        """Return means over the updates since the last call, and begin anew.

        Raises:
            ServiceError: A figure is no longer finite; the agent is then of no more use.
        """
