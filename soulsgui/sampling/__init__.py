"""A game PC's side: environments are stepped, samples are sent, weights come in.

Offers `PPOConnector` and `DQNConnector`, imported when they are asked for: a client's process needs neither.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soulsgui.sampling.dqn_connector import DQNConnector
    from soulsgui.sampling.ppo_connector import PPOConnector

__all__ = ["DQNConnector", "PPOConnector"]


def __getattr__(name: str) -> object:
    if name == "PPOConnector":
        from soulsgui.sampling.ppo_connector import PPOConnector

        return PPOConnector
    if name == "DQNConnector":
        from soulsgui.sampling.dqn_connector import DQNConnector

        return DQNConnector
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
