"""The policy of IQN in numpy: values are means over quantiles at even levels (Dabney et al. 2018)."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.described import unreadable
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.valuing import Floats, ValuingPolicy, fitting

IMPLICIT_QUANTILE = "implicit_quantile_mlp"


def implicit_quantile_spec(
    network: Mapping[str, Any], actions: int, first_action: int, hidden: int, cosines: int, levels: int
) -> dict[str, Any]:
    """Describe the policy as JSON-able data.

    Args:
        network: `MLPPolicySpec.to_json` of the torso; its outputs become features by its activation.
        actions: Number of actions.
        first_action: The smallest action.
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


class ImplicitQuantileMLPPolicy(ValuingPolicy):
    """Values actions by quantiles of what they may return, at levels that are always the same.

    The weights are `policy.N` of the torso, `embedding` of the levels, and `head.N` of what comes after.

    Args:
        spec: As `implicit_quantile_spec` wrote it.

    Raises:
        CheckpointError: The spec can't be read.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        try:
            self._network = NumpyMLPPolicy(spec["network"])
            self._hidden, cosines, levels = (int(spec[name]) for name in ("hidden", "cosines", "levels"))
            super().__init__(int(spec["num_actions"]), int(spec["first_action"]))
            if min(cosines, levels, self.num_actions) < 1 or self._hidden < 0:
                raise ValueError("sizes below 1")
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error
        level = (np.arange(levels, dtype=np.float32) + np.float32(0.5)) / np.float32(levels)
        self._waves = np.cos(level[:, None] * (np.pi * np.arange(cosines)).astype(np.float32))
        self._embedded: Floats = np.zeros((0, 0), np.float32)
        self._head: list[tuple[Floats, Floats]] = []

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over.

        Raises:
            CheckpointError: A tensor is missing, misshapen or not finite.
        """
        self._network.load(tensors)
        features = self._network.num_actions
        weight = fitting(tensors, "embedding.weight", (features, self._waves.shape[1]))
        bias = fitting(tensors, "embedding.bias", (features,))
        self._embedded = np.maximum(self._waves @ weight.T + bias, 0)
        sizes = [features, *([self._hidden] if self._hidden else []), self.num_actions]
        self._head = [
            (
                fitting(tensors, f"head.{index}.weight", (outputs, inputs)),
                fitting(tensors, f"head.{index}.bias", (outputs,)),
            )
            for index, (inputs, outputs) in enumerate(pairwise(sizes))
        ]

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
