"""Policies that numpy can't run: the server's network itself, built here from its description.

The only room of the clients that knows torch; `policies.policy.make_policy` comes here when a server asks.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec
from soulsgui.errors import CheckpointError
from soulsgui.policies.distributions import Categorical
from soulsgui.policies.normalise import normalise
from soulsgui.policies.torch_spec import TorchPolicySpec
from soulsgui.rl.networks.named import build_network, sees_images

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
_STATISTICS = ("mean", "var", "eps", "clip")


class TorchPolicy:
    """Acts with the network that exported the weights, on the CPU.

    Args:
        spec: The policy spec as JSON (`TorchPolicySpec.to_json`).

    Raises:
        CheckpointError: The spec can't be read.
        UsageError: There is no such network here, or it can't see such observations.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = read = TorchPolicySpec.from_json(spec)
        self.num_actions, self.first_action = read.num_actions, read.first_action
        box = BoxSpec(read.observation_shape, read.observation_dtype)
        # Weights come over the wire: the first ones are never acted with.
        generator = torch.Generator().manual_seed(0)
        self._network = build_network(
            read.network, box, read.hidden_sizes, read.activation, read.num_actions, 1.0, generator
        )
        self._sees_images = sees_images(read.network, box)
        self._statistics: dict[str, NDArray[Any]] = {}

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over; nothing is kept of the arrays given.

        Args:
            tensors: At least those of the network, as `policy.NAME`, and the normaliser's.

        Raises:
            CheckpointError: A tensor is missing, misshapen or not finite.
        """
        state = self._network.state_dict()
        for name, tensor in state.items():
            self._check(tensors, f"policy.{name}", tuple(tensor.shape))
        if self.spec.normalise:
            size = (int(np.prod(self.spec.observation_shape)),)
            for name, shape in zip(_STATISTICS, (size, size, (), ()), strict=True):
                self._check(tensors, f"normaliser.{name}", shape)
            self._statistics = {name: np.array(tensors[f"normaliser.{name}"]) for name in _STATISTICS}
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(torch.from_numpy(np.array(tensors[f"policy.{name}"])))

    @staticmethod
    def _check(tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> None:
        tensor = tensors.get(name)
        if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
            found = "missing" if tensor is None else f"of shape {tensor.shape}, or not finite"
            raise CheckpointError(
                f"The weights don't fit the policy: {name} of shape {shape} is {found}.",
                "Check that client and server run the same environment and the same run.",
            )

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[Ints, Floats]:
        """Draw one action per observation.

        Args:
            obs: `[B, *shape]`, raw.
            rng: Gives one uniform number per observation.
            mask: `[B, actions]` bool, which actions are valid, at least one each; None: all are.

        Returns:
            Actions `[B]` int64 and their log-probabilities `[B]` float32.
        """
        distribution = Categorical(self.outputs(obs), mask)
        index = distribution.sample(rng)
        return index + self.first_action, distribution.log_prob(index)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> Ints:
        """Return the best valid action `[B]` int64 per observation `[B, *shape]`."""
        return Categorical(self.outputs(obs), mask).mode() + self.first_action

    def to_environment(self, action: Ints) -> Ints:
        """Return the actions: the environment takes them as they are stored."""
        return action

    def from_environment(self, action: Ints) -> Ints:
        """Return the actions: they are stored as the environment takes them."""
        return action

    def log_prob(self, obs: NDArray[Any], action: Ints, mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` float32 of each action `[B]` at its observation `[B, *shape]`."""
        return Categorical(self.outputs(obs), mask).log_prob(action - self.first_action)

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what the network says of observations `[B, *shape]`: logits `[B, actions]`."""
        if self.spec.normalise:
            inputs: NDArray[Any] = normalise(obs, self._statistics).reshape(obs.shape)
        else:
            inputs = obs if self._sees_images else obs.astype(np.float32)
        with torch.no_grad():
            said: Floats = self._network(torch.from_numpy(np.ascontiguousarray(inputs))).numpy()
        return said


def make_torch_policy(spec: Mapping[str, Any]) -> TorchPolicy:
    """Make the policy for a client's process: it leaves the computer's other cores to the game.

    Args:
        spec: As `TorchPolicy`.
    """
    torch.set_num_threads(1)
    return TorchPolicy(spec)
