"""A policy whose network sees something else than what is stored: choices one-hot, an image apart."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.observations import ObservationSpec, PartsSpec, observation_from_json
from soulsgui.policies.described import unreadable
from soulsgui.policies.remembered import Remembered, remembered_by

if TYPE_CHECKING:
    from soulsgui.policies.policy import Mask, Policy

ENCODING = "encoding"
"""Where the description of a policy says how its network sees observations; nothing where as they are."""


def with_encoding(policy: Mapping[str, Any], observation: ObservationSpec, images: bool) -> dict[str, Any]:
    """Return the description of a policy that encodes observations before its network sees them.

    Args:
        policy: What the network makes of what it sees, as JSON-able data.
        observation: What is stored.
        images: The network sees images as such.
    """
    if not isinstance(observation, PartsSpec):
        return dict(policy)
    return {**policy, ENCODING: {"observation": observation.to_json(), "images": images}}


class EncodedPolicy:
    """Shows a policy the observations as its network sees them; everything else is that policy's.

    Args:
        inner: Acts on what is seen.
        encoding: From the description of the policy.

    Raises:
        CheckpointError: It can't be read.
    """

    def __init__(self, inner: "Policy", encoding: Mapping[str, Any]) -> None:
        self._inner = inner
        self.num_actions, self.first_action = inner.num_actions, inner.first_action
        self.load, self.to_environment = inner.load, inner.to_environment
        self.from_environment = inner.from_environment
        try:
            self._observation = observation_from_json(encoding["observation"])
            self._images = bool(encoding["images"])
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error

    @property
    def remembered(self) -> Remembered:
        """What the policy remembers."""
        return remembered_by(self._inner)

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: "Mask | None" = None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Draw an action for each stored observation `[B, *shape]`, as `Policy.act`."""
        return self._inner.act(self._seen(obs), rng, mask)

    def greedy(self, obs: NDArray[Any], mask: "Mask | None" = None) -> NDArray[Any]:
        """Return the best action for each stored observation, as `Policy.greedy`."""
        return self._inner.greedy(self._seen(obs), mask)

    def log_prob(
        self, obs: NDArray[Any], action: NDArray[Any], mask: "Mask | None" = None
    ) -> NDArray[np.float32]:
        """Return the log-probability of each action at its stored observation, as `Policy.log_prob`."""
        return self._inner.log_prob(self._seen(obs), action, mask)

    def outputs(self, obs: NDArray[Any]) -> NDArray[np.float32]:
        """Return what the network says of stored observations, as `Policy.outputs`."""
        return self._inner.outputs(self._seen(obs))

    def _seen(self, obs: NDArray[Any]) -> NDArray[Any]:
        return self._observation.encode(obs, self._images)
