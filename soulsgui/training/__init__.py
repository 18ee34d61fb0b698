"""The server's side of learning: samples come in, the agent is updated, weights go out.

Offers the training nodes, and what a Python program trains with on one machine. torch is imported when one of
them is asked for, not by the parts that need none.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soulsgui.modes.asynchronous.config import (
        AsyncTrainerConfig,
        ReplayBufferConfig,
        load_async_trainer_config,
        load_replay_buffer_config,
    )
    from soulsgui.modes.asynchronous.recorder import TensorboardRecorder
    from soulsgui.modes.asynchronous.trainer import AsyncTrainer, Evaluator
    from soulsgui.training.nodes import (
        DQNTrainingNode,
        PPOTrainingNode,
        SACTrainingNode,
        VTraceTrainingNode,
    )

__all__ = [
    "AsyncTrainer", "AsyncTrainerConfig", "DQNTrainingNode", "Evaluator", "PPOTrainingNode",
    "ReplayBufferConfig", "SACTrainingNode", "TensorboardRecorder", "VTraceTrainingNode",
    "load_async_trainer_config", "load_replay_buffer_config",
]  # fmt: skip

_ELSEWHERE = {
    "AsyncTrainer": "trainer",
    "Evaluator": "trainer",
    "TensorboardRecorder": "recorder",
    "AsyncTrainerConfig": "config",
    "ReplayBufferConfig": "config",
    "load_async_trainer_config": "config",
    "load_replay_buffer_config": "config",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    where = f"modes.asynchronous.{_ELSEWHERE[name]}" if name in _ELSEWHERE else "training.nodes"
    return getattr(import_module(f"soulsgui.{where}"), name)
