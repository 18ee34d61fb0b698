"""The server's side of learning: samples come in, the agent is updated, weights go out.

Offers `PPOTrainingNode`; torch is imported when that is asked for, not by the parts that need none.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soulsgui.training.ppo_node import PPOTrainingNode

__all__ = ["PPOTrainingNode"]


def __getattr__(name: str) -> object:
    if name != "PPOTrainingNode":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from soulsgui.training.ppo_node import PPOTrainingNode

    return PPOTrainingNode
