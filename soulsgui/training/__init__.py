"""The server's side of learning: samples come in, the agent is updated, weights go out.

Offers `PPOTrainingNode`, `DQNTrainingNode`, `SACTrainingNode` and `VTraceTrainingNode`; torch is imported
when one of them is asked for, not by the parts that need none.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soulsgui.training.dqn_node import DQNTrainingNode
    from soulsgui.training.ppo_node import PPOTrainingNode
    from soulsgui.training.sac_node import SACTrainingNode
    from soulsgui.training.vtrace_node import VTraceTrainingNode

__all__ = ["DQNTrainingNode", "PPOTrainingNode", "SACTrainingNode", "VTraceTrainingNode"]

_HOMES = {
    "DQNTrainingNode": "soulsgui.training.dqn_node",
    "PPOTrainingNode": "soulsgui.training.ppo_node",
    "SACTrainingNode": "soulsgui.training.sac_node",
    "VTraceTrainingNode": "soulsgui.training.vtrace_node",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
