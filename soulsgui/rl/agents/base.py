"""What every agent offers to the node that trains it."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.gradients.shared import Group, SharedGradient


class Agent(Protocol):
    """A learner without any process around it.

    Attributes:
        updates: Updates so far.
    """

    updates: int

    def policy_spec(self) -> dict[str, Any]:
        """Return what a client needs to build the policy, as JSON-able data."""

    def export_weights(self) -> dict[str, NDArray[Any]]:
        """Return what a client needs to act, copies."""

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return what the exported network says, `[B, actions]`, of raw observations `[B, *shape]`."""

    def learn_mixed(self) -> None:
        """Let networks compute in bfloat16 in the updates, where that is enough."""

    def share(self, group: Group) -> SharedGradient:
        """Compute gradients together with the other processes of a group from now on.

        Returns:
            What the leader's agent calls at each step; the others `serve` it.
        """

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Return everything a bit-equal continuation needs: arrays, and JSON-able data."""

    def load_state(self, tensors: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Continue from what `state` returned.

        Raises:
            CheckpointError: It does not fit.
        """


class AsynchronousAgent(Agent, Protocol):
    """A learner whose updates are told of now and then, many at once."""

    def figures(self) -> dict[str, float]:
        """Return means over the updates since the last call, and begin anew.

        Raises:
            ServiceError: A figure is no longer finite; the agent is then of no more use.
        """
