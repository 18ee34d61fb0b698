"""What every policy of a client can do, and how one is made from its description."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError, ClientRegistrationError
from soulsgui.policies import recurrent_spec, torch_spec
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.actor import ACTOR, ActorPolicy
from soulsgui.policies.categorical import CATEGORICAL, CategoricalMLPPolicy
from soulsgui.policies.encoded import ENCODING, EncodedPolicy
from soulsgui.policies.implicit_quantile import IMPLICIT_QUANTILE, ImplicitQuantileMLPPolicy
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.numpy_recurrent import NumpyRecurrentPolicy

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


class Policy(Protocol):
    """Chooses actions with weights that came over the wire.

    One with a memory has `remembered` (`policies.remembered.remembered_by`): each call of `act` or `greedy`
    is then a step of every environment, and who steps them says when an episode ended.
    """

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
        """Draw an action for each stored observation `[B, *shape]`; return them and their log-probabilities.

        Observations are not normalised (`environments.observations` tells how they are stored).
        """

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best action for each stored observation `[B, *shape]`."""

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return what the environment takes, `[B, *space shape]`, for stored actions `[B, ...]`.

        `act` and `greedy` return stored ones.
        """

    def from_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return stored actions `[B, ...]` that become these: flat rows of what an environment takes."""

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` of each action at its stored observation `[B, *shape]`."""

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of stored observations, `[B, ...]`: the same as on the server."""


def _torch_policy(spec: Mapping[str, Any]) -> Policy:
    """Make a policy that needs torch, which is imported here and nowhere else on a client.

    Raises:
        ClientRegistrationError: There is no torch on this computer.
    """
    try:
        from soulsgui.sampling.torch_policy import make_torch_policy
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ClientRegistrationError(
            f"The network {spec.get('network')} of this run needs PyTorch, which is not installed here.",
            "Install it on this computer with: pip install torch. Or choose network.name mlp on the server: "
            "that one needs none.",
        ) from error
    return make_torch_policy(spec)


def _actor_policy(spec: Mapping[str, Any]) -> Policy:
    """Make a policy of a network and a head.

    Raises:
        CheckpointError: Its description can't be read.
    """
    network, head = spec.get("network"), spec.get("head")
    makers: Mapping[str, Callable[[Mapping[str, Any]], Policy]] = {
        "mlp": NumpyMLPPolicy,
        torch_spec.KIND: _torch_policy,
    }
    if not isinstance(network, Mapping) or not isinstance(head, Mapping) or network.get("kind") not in makers:
        raise CheckpointError(
            "The description of the policy can't be read: it has no network, or no head.",
            "Client and server are of different versions: update the older one.",
        )
    return ActorPolicy(makers[network["kind"]](network), HeadSpec.from_json(head))


KINDS: dict[str, Callable[[Mapping[str, Any]], Policy]] = {
    "mlp": NumpyMLPPolicy,
    ACTOR: _actor_policy,
    recurrent_spec.KIND: NumpyRecurrentPolicy,
    recurrent_spec.TORCH_KIND: _torch_policy,
    CATEGORICAL: CategoricalMLPPolicy,
    IMPLICIT_QUANTILE: ImplicitQuantileMLPPolicy,
    torch_spec.KIND: _torch_policy,
}
"""How to make each kind of policy."""


def make_policy(spec: Mapping[str, Any]) -> Policy:
    """Make the policy that a server describes.

    Args:
        spec: `Agent.policy_spec()`, as JSON.

    Raises:
        CheckpointError: There is no such kind here, or its description can't be read.
        ClientRegistrationError: It needs what is not installed here.
        UsageError: Its network can't be made here.
    """
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise CheckpointError(
            f"The server's policy is of a kind that is not known here: {kind!r}.",
            "Client and server are of different versions: update the older one.",
        )
    policy = KINDS[kind](spec)
    return EncodedPolicy(policy, spec[ENCODING]) if ENCODING in spec else policy
