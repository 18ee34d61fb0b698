"""What policies that value their actions have in common, whatever the values come from."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class ValuingPolicy(ABC):
    """Acts by the values of numbered actions.

    Args:
        num_actions: Number of actions.
        first_action: The smallest of them.
    """

    def __init__(self, num_actions: int, first_action: int) -> None:
        self.num_actions, self.first_action = num_actions, first_action

    @abstractmethod
    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return the values `[B, actions]` of raw observations `[B, *shape]`."""

    def greedy(self, obs: NDArray[Any], mask: Mask | None = None) -> Ints:
        """Return the most valuable action `[B]` int64 of each observation; only valid ones count."""
        index: Ints = self._values(obs, mask).argmax(axis=1)
        return index + self.first_action

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None = None
    ) -> tuple[Ints, Floats]:
        """Draw actions, those whose values are 1 apart e to 1; return them and their log-probabilities."""
        return draw(self._values(obs, mask), rng, self.first_action)

    def to_environment(self, action: Ints) -> Ints:
        """Return the actions: the environment takes them as they are stored."""
        return action

    def from_environment(self, action: Ints) -> Ints:
        """Return the actions: they are stored as the environment takes them."""
        return action

    def log_prob(self, obs: NDArray[Any], action: Ints, mask: Mask | None = None) -> Floats:
        """Return the log-probability `[B]` with which `act` takes each action `[B]`."""
        log_probs = log_softmax(self._values(obs, mask))
        picked: Floats = log_probs[np.arange(len(obs)), action - self.first_action]
        return picked

    def _values(self, obs: NDArray[Any], mask: Mask | None) -> Floats:
        return only_valid(self.outputs(obs), mask)


def only_valid(values: Floats, mask: Mask | None) -> Floats:
    """Return values `[B, actions]`, minus infinity where the action is neither to be drawn nor best."""
    return values if mask is None else np.where(mask, values, np.float32(-np.inf))


def log_softmax(logits: Floats) -> Floats:
    """Return log-probabilities `[..., N]` of logits `[..., N]`."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_probs: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return log_probs


def draw(logits: Floats, rng: np.random.Generator, first_action: int) -> tuple[Ints, Floats]:
    """Draw an action of each row of logits `[B, actions]`, minus infinity where it is not valid.

    Returns:
        Actions `[B]` int64 and their log-probabilities `[B]` float32.
    """
    log_probs = log_softmax(logits)
    cumulated = np.exp(log_probs).cumsum(axis=1)
    drawn = rng.random(len(logits), dtype=np.float32)[:, None] * cumulated[:, -1:]
    index = np.add.reduce(cumulated[:, :-1] <= drawn, axis=1, dtype=np.int64)
    return index + first_action, log_probs[np.arange(len(index)), index]


def fitting(tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> Floats:
    """Return a copy of one tensor.

    Raises:
        CheckpointError: It is missing, misshapen or not finite.
    """
    tensor = tensors.get(name)
    if tensor is None or tensor.shape != shape or not np.isfinite(tensor).all():
        found = "missing" if tensor is None else f"of shape {tensor.shape}, or not finite"
        raise CheckpointError(
            f"The weights don't fit the policy: {name} of shape {shape} is {found}.",
            "Check that client and server run the same environment and the same run.",
        )
    return np.array(tensor, np.float32)
