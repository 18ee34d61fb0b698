"""Shipped values that depend on what learns. They lie below a preset and whatever the user sets."""

from collections.abc import Mapping
from typing import Any

SHIPPED_WITH: dict[str, dict[str, Any]] = {
    "algorithm=ppo": {"normalize.rewards": True},
    "algorithm=dqn": {"network.hidden_sizes": [128, 128], "normalize.rewards": True},
    "dqn.agent=iqn": {"dqn.quantiles": 8},
    "dqn.agent=rainbow": {"dqn.priority_exponent": 0.5},
    "dqn.agent=r2d2": {
        "network.hidden_sizes": [64],
        "network.recurrent": "lstm",
        # 32 sequences in each update.
        "dqn.batch_size": 640,
        "dqn.learning_rate": 1e-3,
        "dqn.target_tau": 0.02,
    },
    "algorithm=sac": {
        "network.hidden_sizes": [256, 256],
        "network.value_hidden_sizes": [256, 256],
        "network.activation": "relu",
    },
}
"""By what learns, as `--set` says it: dotted key to value; an agent's win over its algorithm's."""


def shipped_with(*chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shipped values, by dotted key, that what learns brings along.

    Args:
        *chosen: Values by dotted key, later ones winning: `algorithm` and `dqn.agent` are looked at.
    """
    merged = {key: value for values in chosen for key, value in values.items()}
    found = dict(SHIPPED_WITH.get(f"algorithm={merged.get('algorithm')}", {}))
    if merged.get("algorithm") == "dqn":
        found |= SHIPPED_WITH.get(f"dqn.agent={merged.get('dqn.agent')}", {})
    return found
