"""The server's side of learning: samples come in, the agent is updated, weights go out.

Offers the training nodes, and what a Python program trains with on one machine; torch is imported when one of
them is asked for, not by the parts that need none.
"""

from typing import TYPE_CHECKING

from soulsgui.lazy import lazily

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
    "AsyncTrainer",
    "AsyncTrainerConfig",
    "DQNTrainingNode",
    "Evaluator",
    "PPOTrainingNode",
    "ReplayBufferConfig",
    "SACTrainingNode",
    "TensorboardRecorder",
    "VTraceTrainingNode",
    "load_async_trainer_config",
    "load_replay_buffer_config",
]

__getattr__ = lazily(
    __name__,
    {
        "AsyncTrainer": "modes.asynchronous.trainer",
        "AsyncTrainerConfig": "modes.asynchronous.config",
        "DQNTrainingNode": "training.nodes",
        "Evaluator": "modes.asynchronous.trainer",
        "PPOTrainingNode": "training.nodes",
        "ReplayBufferConfig": "modes.asynchronous.config",
        "SACTrainingNode": "training.nodes",
        "TensorboardRecorder": "modes.asynchronous.recorder",
        "VTraceTrainingNode": "training.nodes",
        "load_async_trainer_config": "modes.asynchronous.config",
        "load_replay_buffer_config": "modes.asynchronous.config",
    },
)
