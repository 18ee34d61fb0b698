"""The server's side of learning: samples come in, the agent is updated, weights go out.

Offers `PPOTrainingNode`, `DQNTrainingNode`, `SACTrainingNode` and `VTraceTrainingNode`; torch is imported
when one of them is asked for, not by the parts that need none.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soulsgui.training.nodes import (
        DQNTrainingNode,
        PPOTrainingNode,
        SACTrainingNode,
        VTraceTrainingNode,
    )

__all__ = ["DQNTrainingNode", "PPOTrainingNode", "SACTrainingNode", "VTraceTrainingNode"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("soulsgui.training.nodes"), name)
