"""A game PC's side: environments are stepped, samples are sent, weights come in.

Offers `PPOConnector` and `DQNConnector`, imported when they are asked for: a client's process needs neither;
and the errors that they raise while the server does not answer, or refuses.
"""

from typing import TYPE_CHECKING

from soulsgui.errors import ClientRegistrationError, ServerTimeoutError

if TYPE_CHECKING:
    from soulsgui.sampling.connectors.dqn import DQNConnector
    from soulsgui.sampling.connectors.ppo import PPOConnector

__all__ = ["ClientRegistrationError", "DQNConnector", "PPOConnector", "ServerTimeoutError"]


def __getattr__(name: str) -> object:
    if name not in ("DQNConnector", "PPOConnector"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from soulsgui.sampling.connectors import dqn, ppo

    return dqn.DQNConnector if name == "DQNConnector" else ppo.PPOConnector
