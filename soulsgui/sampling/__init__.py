"""A game PC's side: environments are stepped, samples are sent, weights come in.

Offers connectors, the sampling processes of a Python program, and the mark of a restart hook, imported when
they are asked for: a client's process seldom needs any; and what connectors raise while the server does not
answer, or refuses.
"""

from typing import TYPE_CHECKING

from soulsgui.errors import ClientRegistrationError, ServerTimeoutError
from soulsgui.lazy import lazily

if TYPE_CHECKING:
    from soulsgui.modes.asynchronous.actors import ActorManager, InitGuard, actor_stats_fmt
    from soulsgui.modes.asynchronous.config import ActorManagerConfig, SimpleStepProcessorConfig
    from soulsgui.modes.asynchronous.sync_model import SyncModel
    from soulsgui.sampling.connectors.dqn import DQNConnector
    from soulsgui.sampling.connectors.ppo import PPOConnector
    from soulsgui.sampling.environment import restart_hook

__all__ = [
    "ActorManager",
    "ActorManagerConfig",
    "ClientRegistrationError",
    "DQNConnector",
    "InitGuard",
    "PPOConnector",
    "ServerTimeoutError",
    "SimpleStepProcessorConfig",
    "SyncModel",
    "actor_stats_fmt",
    "restart_hook",
]

__getattr__ = lazily(
    __name__,
    {
        "ActorManager": "modes.asynchronous.actors",
        "ActorManagerConfig": "modes.asynchronous.config",
        "DQNConnector": "sampling.connectors.dqn",
        "InitGuard": "modes.asynchronous.actors",
        "PPOConnector": "sampling.connectors.ppo",
        "SimpleStepProcessorConfig": "modes.asynchronous.config",
        "SyncModel": "modes.asynchronous.sync_model",
        "actor_stats_fmt": "modes.asynchronous.actors",
        "restart_hook": "sampling.environment",
    },
)
