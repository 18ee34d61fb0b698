"""A policy over actions of any kind: a network of any kind, and a head."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.policies.action_heads import ActionHead, HeadSpec
from soulsgui.policies.numpy_mlp import check_tensors

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

ACTOR = "actor"


class Network(Protocol):
    """What says numbers for observations: a policy over numbered actions whose outputs alone are used."""

    @property
    def num_actions(self) -> int:
        """How many numbers it says for each."""

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over.

        Raises:
            CheckpointError: They do not fit.
        """

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what it says of raw observations, `[B, outputs]`."""


def actor_spec(network: Mapping[str, Any], head: HeadSpec) -> dict[str, Any]:
    """Return the description of a policy, as JSON-able data.

    Args:
        network: That of what says `head.outputs` numbers for each observation.
        head: What makes actions of them.
    """
    return {"kind": ACTOR, "network": dict(network), "head": head.to_json()}


class ActorPolicy:
    """Acts like the torch policy that exported the weights: log-probabilities and actions to 1e-5.

    Where there is one numbered choice, `NumpyMLPPolicy` does the same in less time. Not for use by several
    threads at once.

    Args:
        network: What says the numbers.
        head: What makes actions of them.

    Raises:
        CheckpointError: They don't fit together.
    """

    num_actions = 0
    first_action = 0

    def __init__(self, network: Network, head: HeadSpec) -> None:
        self.head = ActionHead(head)
        self._network = network
        if network.num_actions != head.outputs:
            raise CheckpointError(
                f"The description of the policy can't be read: its network says {network.num_actions} "
                f"numbers, its head needs {head.outputs}.",
                "Client and server are of different versions: update the older one.",
            )

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over; nothing is kept of the arrays given.

        Args:
            tensors: At least what `MLPPolicySpec.tensor_shapes` and `HeadSpec.tensors` name.

        Raises:
            CheckpointError: A tensor is missing, misshapen or not finite.
        """
        check_tensors(tensors, self.head.spec.tensors)
        self._network.load(tensors)
        self.head.load(tensors)

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw one action per observation.

        Args:
            obs: `[B, *shape]`, raw.
            rng: What chance comes from.
            mask: `[B, A]` bool, which actions are valid, at least one in each choice; None: all are.

        Returns:
            Stored actions `[B, ...]` and their log-probabilities `[B]` float32.
        """
        distribution = self.head.distribution(self._network.outputs(obs), mask)
        drawn = distribution.sample(rng)
        return self.head.stored(drawn), distribution.log_prob(drawn)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best stored action `[B, ...]` for each raw observation `[B, *shape]`."""
        return self.head.stored(self.head.distribution(self._network.outputs(obs), mask).mode())

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return what the environment takes, `[B, *space shape]`, for stored actions `[B, ...]`."""
        return self.head.to_environment(action)

    def from_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions `[B, ...]` that become these: flat rows of what the environment takes."""
        return self.head.from_environment(action)

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` of each stored action at its raw observation `[B, *shape]`."""
        distribution = self.head.distribution(self._network.outputs(obs), mask)
        return distribution.log_prob(self.head.drawn(action))

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of raw observations, `[B, outputs]`."""
        return self._network.outputs(obs)
