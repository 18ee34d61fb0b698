"""The policy of C51 in numpy: values are means over atoms of the return (Bellemare et al. 2017)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.policies.described import unreadable
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.valuing import Floats, ValuingPolicy, log_softmax

CATEGORICAL = "categorical_mlp"


def categorical_spec(
    network: Mapping[str, Any], first_action: int, support: tuple[float, float, int]
) -> dict[str, Any]:
    """Describe the policy as JSON-able data.

    Args:
        network: `MLPPolicySpec.to_json` of the network; its outputs are logits of atoms, action by action.
        first_action: The smallest action.
        support: Value of the lowest and of the highest atom, and how many there are, evenly spaced.
    """
    return {
        "kind": CATEGORICAL,
        "network": dict(network),
        "first_action": first_action,
        "support": list(support),
    }


class CategoricalMLPPolicy(ValuingPolicy):
    """Values actions by the probabilities of what they may return.

    Args:
        spec: As `categorical_spec` wrote it.

    Raises:
        CheckpointError: The spec can't be read.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        try:
            lowest, highest, count = spec["support"]
            self._atoms = np.linspace(float(lowest), float(highest), int(count), dtype=np.float32)
            self._network = NumpyMLPPolicy(spec["network"])
            actions, rest = divmod(self._network.num_actions, len(self._atoms))
            if rest or not actions:
                raise ValueError(f"{self._network.num_actions} outputs for {len(self._atoms)} atoms")
            super().__init__(actions, int(spec["first_action"]))
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error

    def load(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take weights over.

        Raises:
            CheckpointError: A tensor is missing, misshapen or not finite.
        """
        self._network.load(tensors)

    def outputs(self, obs: NDArray[Any]) -> Floats:
        """Return the values `[B, actions]` of raw observations `[B, *shape]`."""
        logits = self._network.outputs(obs).reshape(len(obs), self.num_actions, -1)
        values: Floats = np.exp(log_softmax(logits)) @ self._atoms
        return values
