"""Agents of one's own: what they offer, and how actors act with them; nothing here needs torch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.policy import Floats, Mask
from soulsgui.rl.buffers.replay import NStepBatch

ModelInfo = Mapping[str, NDArray[Any]]
"""Weights by name."""

OWN = "own"
"""The kind of their policy, of which nobody else knows anything."""


class SyncModel(ABC):
    """An agent whose weights travel from the trainer to the actors.

    Each process makes its own, and lets it `train`; actors call `sample` and `sync_model`, the trainer the
    others, too. Batches have the rewards of the environment, of `n_step` steps added up.

    Attributes:
        settings: Settings of the algorithm that its trainer goes by: `batch_size`, `replay_ratio`, `gamma`
            (of rewards that are added up), below `dqn`, or where actions are numbers below `sac`.
    """

    settings: ClassVar[Mapping[str, Any]] = {}

    @abstractmethod
    def sample(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return actions `[B, ...]`, as the environment takes them, at observations `[B, *shape]`."""

    @abstractmethod
    def opt(self, batch: NStepBatch) -> Mapping[str, float]:
        """Make one update; return what there is to record of it."""

    @abstractmethod
    def model_info(self) -> tuple[int, ModelInfo]:
        """Return the number of updates so far, and the weights; at first before any update."""

    @abstractmethod
    def sync_model(self, model_info: ModelInfo) -> None:
        """Take weights over, copying them."""

    def train(self) -> None:  # noqa: B027 - nothing is to be done where it makes no difference
        """Explore from now on."""

    def eval(self) -> None:  # noqa: B027
        """Act as well as possible from now on."""


class OwnPolicy:
    """A `SyncModel` as the policy of a client or an evaluation (`policies.policy.Policy`)."""

    num_actions = first_action = 0

    def __init__(self, agent: SyncModel) -> None:
        self._agent = agent
        agent.train()

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over."""
        self._agent.sync_model(tensors)

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[NDArray[Any], Floats]:
        """Let it choose; it says no probabilities."""
        return np.asarray(self._agent.sample(obs)), np.zeros(len(obs), np.float32)

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> NDArray[Any]:
        """Let it choose as well as it can."""
        self._agent.eval()
        try:
            return np.asarray(self._agent.sample(obs))
        finally:
            self._agent.train()

    def to_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return actions as they are: the agent chooses what the environment takes."""
        return action

    def from_environment(self, action: NDArray[Any]) -> NDArray[Any]:
        """Return actions as they are."""
        return action

    def log_prob(self, obs: NDArray[Any], action: NDArray[Any], mask: Mask | None = None) -> Floats:
        """Return zeros: it says no probabilities."""
        return np.zeros(len(obs), np.float32)

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return what `OwnAgent.outputs` does."""
        return np.zeros((len(obs), 1), np.float32)
