"""Policies that value actions, in numpy: by a mean, a distribution over atoms (C51) or quantiles (IQN)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.numpy_mlp import NumpyMLPPolicy, check_tensors, unchanged
from soulsgui.policies.specs import layer_shapes, reading_description

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class ValueBasedPolicy(ABC):
    """Acts by the values of numbered actions."""

    to_environment = from_environment = staticmethod(unchanged)

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
    """Draw actions `[B]` by logits `[B, actions]`, minus infinity where not valid; also return their logs."""
    log_probs = log_softmax(logits)
    cumulated = np.exp(log_probs).cumsum(axis=1)
    drawn = rng.random(len(logits), dtype=np.float32)[:, None] * cumulated[:, -1:]
    index = np.add.reduce(cumulated[:, :-1] <= drawn, axis=1, dtype=np.int64)
    return index + first_action, log_probs[np.arange(len(index)), index]


def fitting(tensors: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...]) -> Floats:
    """Return a copy of one tensor, if `check_tensors` finds it to fit."""
    check_tensors(tensors, {name: shape})
    return np.array(tensors[name], np.float32)


CATEGORICAL = "categorical_mlp"


def categorical_spec(
    network: Mapping[str, Any], first_action: int, support: tuple[float, float, int]
) -> dict[str, Any]:
    """Describe the policy as JSON-able data.

    Args:
        network: `MLPPolicySpec.to_json` of the network; its outputs are logits of atoms, action by action.
        support: Value of the lowest and of the highest atom, and how many there are, evenly spaced.
    """
    whole = {"kind": CATEGORICAL, "network": dict(network)}
    return whole | {"first_action": first_action, "support": list(support)}


class CategoricalMLPPolicy(ValueBasedPolicy):
    """Values actions by means over atoms of what they may return (C51, Bellemare et al. 2017)."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        with reading_description():
            lowest, highest, count = spec["support"]
            self._atoms = np.linspace(float(lowest), float(highest), int(count), dtype=np.float32)
            self._network = NumpyMLPPolicy(spec["network"])
            actions, rest = divmod(self._network.num_actions, len(self._atoms))
            if rest or not actions:
                raise ValueError(f"{self._network.num_actions} outputs for {len(self._atoms)} atoms")
            super().__init__(actions, int(spec["first_action"]))

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over, as `Policy.load`."""
        self._network.load(tensors)

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return the values `[B, actions]` of raw observations `[B, *shape]`."""
        logits = self._network.outputs(obs).reshape(len(obs), self.num_actions, -1)
        values: Floats = np.exp(log_softmax(logits)) @ self._atoms
        return values


IMPLICIT_QUANTILE = "implicit_quantile_mlp"


def implicit_quantile_spec(
    network: Mapping[str, Any], actions: int, first_action: int, hidden: int, cosines: int, levels: int
) -> dict[str, Any]:
    """Describe the policy as JSON-able data.

    Args:
        network: `MLPPolicySpec.to_json` of the torso; its outputs become features by its activation.
        hidden: Width of the hidden layer behind the features; 0: there is none.
        cosines: Numbers that a level is embedded in.
        levels: How many quantiles a value is the mean of.
    """
    return {
        "kind": IMPLICIT_QUANTILE,
        "network": dict(network),
        "num_actions": actions,
        "first_action": first_action,
        "hidden": hidden,
        "cosines": cosines,
        "levels": levels,
    }


class ImplicitQuantileMLPPolicy(ValueBasedPolicy):
    """Values actions by means over quantiles of what they may return (IQN, Dabney et al. 2018).

    They are at even levels. Weights: `policy.N` of the torso, `embedding` of the levels, `head.N` after it.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        with reading_description():
            self._network = NumpyMLPPolicy(spec["network"])
            self._hidden, cosines, levels = (int(spec[name]) for name in ("hidden", "cosines", "levels"))
            super().__init__(int(spec["num_actions"]), int(spec["first_action"]))
            if min(cosines, levels, self.num_actions) < 1 or self._hidden < 0:
                raise ValueError("sizes below 1")
        level = (np.arange(levels, dtype=np.float32) + np.float32(0.5)) / np.float32(levels)
        self._waves = np.cos(level[:, None] * (np.pi * np.arange(cosines)).astype(np.float32))
        self._embedded: Floats = np.zeros((0, 0), np.float32)
        self._head: list[tuple[Floats, Floats]] = []

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over, as `Policy.load`."""
        features = self._network.num_actions
        weight = fitting(tensors, "embedding.weight", (features, self._waves.shape[1]))
        bias = fitting(tensors, "embedding.bias", (features,))
        sizes = [features, *([self._hidden] if self._hidden else []), self.num_actions]
        shapes = layer_shapes("head", tuple(sizes))
        head = [fitting(tensors, name, shape) for name, shape in shapes.items()]
        self._network.load(tensors)  # behind all that may be refused: then nothing has changed
        self._embedded = np.maximum(self._waves @ weight.T + bias, 0)
        self._head = list(zip(head[::2], head[1::2], strict=True))

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return the values `[B, actions]` of raw observations `[B, *shape]`."""
        features = self._activated(self._network.outputs(obs))
        mixed: Floats = features[:, None] * self._embedded  # [B, levels, features]
        for weight, bias in self._head[:-1]:
            hidden: Floats = mixed @ weight.T + bias
            mixed = self._activated(hidden)
        weight, bias = self._head[-1]
        # The last layer is linear: the mean over the levels may come before it.
        values: Floats = mixed.mean(axis=1) @ weight.T + bias
        return values

    def _activated(self, numbers: Floats) -> Floats:
        return np.tanh(numbers) if self._network.spec.activation == "tanh" else np.maximum(numbers, 0)
