"""What every policy of a client can do, and how one is made from its description."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.policies.categorical import CATEGORICAL, CategoricalMLPPolicy
from soulsgui.policies.implicit_quantile import IMPLICIT_QUANTILE, ImplicitQuantileMLPPolicy
from soulsgui.policies.numpy_actor import NumpyActorPolicy
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


class Policy(Protocol):
    """Chooses actions with weights that came over the wire."""

    @property
    def num_actions(self) -> int:
        """Number of actions, where they are numbered."""

    @property
    def first_action(self) -> int:
        """The smallest of them."""

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over.

        Raises:
            CheckpointError: They do not fit.
        """

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw an action for each raw observation `[B, *shape]`; return them and their log-probabilities."""

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best action for each raw observation `[B, *shape]`."""

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return what the environment takes, `[B, *space shape]`, for stored actions `[B, ...]`.

        `act` and `greedy` return stored ones.
        """

    def from_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions `[B, ...]` that become these: flat rows of what an environment takes."""

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` of each action at its raw observation `[B, *shape]`."""

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of raw observations, `[B, ...]`: the same as on the server."""


KINDS: dict[str, Callable[[Mapping[str, Any]], Policy]] = {
    "mlp": NumpyMLPPolicy,
    "actor": NumpyActorPolicy,
    CATEGORICAL: CategoricalMLPPolicy,
    IMPLICIT_QUANTILE: ImplicitQuantileMLPPolicy,
}
"""How to make each kind of policy."""


def make_policy(spec: Mapping[str, Any]) -> Policy:
    """Make the policy that a server describes.

    Args:
        spec: `Agent.policy_spec()`, as JSON.

    Raises:
        CheckpointError: There is no such kind here, or its description can't be read.
    """
    kind = spec.get("kind")
    if kind not in KINDS:
        raise CheckpointError(
            f"The server's policy is of a kind that is not known here: {kind!r}.",
            "Client and server are of different versions: update the older one.",
        )
    return KINDS[kind](spec)
