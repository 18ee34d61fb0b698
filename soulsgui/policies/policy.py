"""What every policy of a client can do, and how one is made from its description."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.observations import ObservationSpec, PartsSpec, observation_from_json
from soulsgui.errors import CheckpointError, ClientRegistrationError
from soulsgui.policies.action_heads import ActionHead, HeadSpec
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy, check_tensors
from soulsgui.policies.numpy_recurrent import NumpyRecurrentPolicy, Remembered, remembered_by
from soulsgui.policies.specs import RECURRENT, TORCH, TORCH_RECURRENT, reading_description
from soulsgui.policies.value_based import (
    CATEGORICAL,
    IMPLICIT_QUANTILE,
    CategoricalMLPPolicy,
    ImplicitQuantileMLPPolicy,
)

Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]


class Policy(Protocol):
    """Chooses actions with weights that came over the wire, at observations `[B, *shape]` as they are stored.

    Those are not normalised (`environments.observations`). Actions `[B, ...]` are as they are stored, too. A
    mask `[B, sum(sizes)]` says which are valid, at least one in each choice; None: all are.

    One with a memory has `remembered` (`policies.numpy_recurrent.remembered_by`): each call of `act` or
    `greedy` is then a step of every environment, and who steps them says when an episode ended. None is for
    use by several threads at once.
    """

    @property
    def num_actions(self) -> int:
        """Number of actions, or of what the network says, where they are numbered."""

    @property
    def first_action(self) -> int:
        """The smallest of them."""

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over, keeping nothing of the arrays.

        Raises:
            CheckpointError: A tensor is missing, misshapen or not finite.
        """

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw an action for each observation; return them and their log-probabilities `[B]`."""

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best action for each observation."""

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return what the environment takes, `[B, *space shape]`, for actions."""

    def from_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return actions that become these: flat rows of what an environment takes."""

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` of each action at its observation."""

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of observations, `[B, ...]`: the same as on the server."""


def outputs_now(policy: Any, obs: NDArray[Any]) -> Floats:
    """Return what the network says of observations `[B, *shape]` after what it remembers, if anything."""
    outputs: Floats = getattr(policy, "outputs_now", policy.outputs)(obs)
    return outputs


ACTOR = "actor"


def actor_spec(network: Mapping[str, Any], head: HeadSpec) -> dict[str, Any]:
    """Describe a network and the head that makes actions of what it says, as JSON-able data."""
    return {"kind": ACTOR, "network": dict(network), "head": head.to_json()}


class ActorPolicy:
    """Acts like the torch policy that exported the weights: log-probabilities and actions to 1e-5.

    The network's outputs alone are used; a CheckpointError says that they are not those that the head needs.
    Where there is one numbered choice, `NumpyMLPPolicy` does the same in less time.
    """

    num_actions = 0
    first_action = 0

    def __init__(self, network: Policy, head: HeadSpec) -> None:
        self.head = ActionHead(head)
        self.to_environment, self.from_environment = self.head.to_environment, self.head.from_environment
        self._network = network
        if network.num_actions != head.outputs:
            raise CheckpointError(
                f"The description of the policy can't be read: its network says {network.num_actions} "
                f"numbers, its head needs {head.outputs}.",
                "Client and server have different versions: update the older one.",
            )

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over, as `Policy.load`."""
        check_tensors(tensors, self.head.spec.tensors)
        self._network.load(tensors)
        self.head.load(tensors)

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw one action per observation, as `Policy.act`."""
        return self.head.act(self._network.outputs(obs), rng, mask)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best stored action `[B, ...]` for each raw observation `[B, *shape]`."""
        return self.head.stored(self.head.distribution(self._network.outputs(obs), mask).mode())

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` of each stored action at its raw observation `[B, *shape]`."""
        distribution = self.head.distribution(self._network.outputs(obs), mask)
        return distribution.log_prob(self.head.drawn(action))

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of raw observations, `[B, outputs]`."""
        return self._network.outputs(obs)


ENCODING = "encoding"
"""Where the description of a policy says how its network sees observations; nothing where as they are."""


def with_encoding(policy: Mapping[str, Any], observation: ObservationSpec, images: bool) -> dict[str, Any]:
    """Return the description of a policy that encodes observations before its network sees them."""
    if not isinstance(observation, PartsSpec):
        return dict(policy)
    return {**policy, ENCODING: {"observation": observation.to_json(), "images": images}}


class EncodedPolicy:
    """Shows a policy the observations as its network sees them; everything else is that policy's.

    A CheckpointError says that the encoding in its description can't be read.
    """

    def __init__(self, inner: Policy, encoding: Mapping[str, Any]) -> None:
        self._inner = inner
        self.num_actions, self.first_action = inner.num_actions, inner.first_action
        self.load, self.to_environment = inner.load, inner.to_environment
        self.from_environment = inner.from_environment
        with reading_description():
            self._observation = observation_from_json(encoding["observation"])
            self._images = bool(encoding["images"])

    @property
    def remembered(self) -> Remembered:
        """What the policy remembers."""
        return remembered_by(self._inner)

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Draw an action for each stored observation, as `Policy.act`."""
        return self._inner.act(self._seen(obs), rng, mask)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Return the best action for each stored observation, as `Policy.greedy`."""
        return self._inner.greedy(self._seen(obs), mask)

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return the log-probability of each action at its stored observation, as `Policy.log_prob`."""
        return self._inner.log_prob(self._seen(obs), action, mask)

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of stored observations, as `Policy.outputs`."""
        return self._inner.outputs(self._seen(obs))

    def outputs_now(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of stored observations, as `outputs_now` of its policy."""
        return outputs_now(self._inner, self._seen(obs))

    def _seen(self, obs: NDArray[Any]) -> NDArray[Any]:
        return self._observation.encode(obs, self._images)


def _torch_policy(spec: Mapping[str, Any], device: str) -> Policy:
    """Make a policy that needs torch, which is imported here and nowhere else on a client."""
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
    except (ImportError, OSError) as error:
        raise ClientRegistrationError(
            f"PyTorch is installed here, but can't be loaded: {error}",
            "Reinstall it on this computer: pip install --force-reinstall torch",
        ) from error
    return make_torch_policy(spec, device)


def _actor_policy(spec: Mapping[str, Any], device: str) -> Policy:
    network, head, kinds = spec.get("network"), spec.get("head"), (MLP, TORCH)
    if not isinstance(network, Mapping) or not isinstance(head, Mapping) or network.get("kind") not in kinds:
        raise CheckpointError(
            "The description of the policy can't be read: it has no network, or no head.",
            "Client and server have different versions: update the older one.",
        )
    return ActorPolicy(make_policy(network, device), HeadSpec.from_json(head))


MLP = "mlp"
IN_NUMPY: Mapping[str, Callable[[Mapping[str, Any]], Policy]] = {
    MLP: NumpyMLPPolicy,
    RECURRENT: NumpyRecurrentPolicy,
    CATEGORICAL: CategoricalMLPPolicy,
    IMPLICIT_QUANTILE: ImplicitQuantileMLPPolicy,
}
"""How to make each kind of policy that needs no torch."""

ELSEWHERE: Mapping[str, Callable[[Mapping[str, Any], str], Policy]] = {
    ACTOR: _actor_policy,
    TORCH: _torch_policy,
    TORCH_RECURRENT: _torch_policy,
}
"""The same of those that may need it, with the device it computes on."""


def make_policy(spec: Mapping[str, Any], device: str = "cpu") -> Policy:
    """Make the policy that a server describes (`Agent.policy_spec`).

    Args:
        device: Where torch computes: `cpu`, `cuda`, or `auto`, a GPU where there is one.

    Raises:
        CheckpointError: There is no such kind here, or its description can't be read.
        ClientRegistrationError: It needs what is not installed here.
        HardwareError: There is no GPU for `cuda`.
        UsageError: Its network can't be made here.
    """
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in (*IN_NUMPY, *ELSEWHERE):
        raise CheckpointError(
            f"The server's policy is of a kind that is not known here: “{kind}”.",
            "Client and server have different versions: update the older one.",
        )
    policy = IN_NUMPY[kind](spec) if kind in IN_NUMPY else ELSEWHERE[kind](spec, device)
    return EncodedPolicy(policy, spec[ENCODING]) if ENCODING in spec else policy
