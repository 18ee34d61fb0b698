"""What an off-policy agent offers to the node that trains it.

The node knows the agent and its memory (`buffers.memory`), and nothing of their kind: both have agreed on
what a batch is (`NStepBatch` for windows, `SequenceBatch` for recurrent agents).
"""

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.frame_stacks import Observations
from soulsgui.policies.schedules import Moment
from soulsgui.rl.agents.base import AsynchronousAgent
from soulsgui.rl.quickened import Quickened
from soulsgui.rl.returns.reward_scaling import Rewards


class OffPolicyAgent(AsynchronousAgent, Protocol):
    """Learns from batches that were made with other weights, too.

    Attributes:
        sample_rng: What to draw from the memory with; part of the agent's state.
        rewards: What is to be remembered of the environment's rewards; part of the agent's state, too.
        moment: Where the run is: what schedules look at. The node keeps it up to date.
    """

    sample_rng: np.random.Generator
    rewards: Rewards
    moment: Moment

    def observe(self, obs: Observations) -> None:
        """Take new raw observations `[N, *shape]` into the normaliser's statistics, if there is one."""

    @property
    def quickened(self) -> Quickened[Any] | None:
        """What of the update may be compiled; None: nothing that would gain."""

    def update(self, batch: Any, tell: bool = True) -> NDArray[np.float32] | None:
        """Make one update with what the memory gave.

        Args:
            batch: What the memory gave.
            tell: Return how wrong it was about each, if it can say.
        """
