"""`client --simulate N`: N clients from one asynchronous process."""

import asyncio
import logging
import random
import threading
from typing import Any

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.sampling.identity import own_versions
from soulsgui.sampling.progress import Progress
from soulsgui.sampling.simulate.client import SimulatedClient
from soulsgui.sampling.simulate.view import SharedView
from soulsgui.wire.connection import Address
from soulsgui.wire.instance import own_instance
from soulsgui.wire.keys import Keys, check_client_name
from soulsgui.wire.tls import AsyncPinnedConnection

logger = logging.getLogger(__name__)

_SOCKET_TIMEOUT_S = 10.0
_LOOK_FOR_STOP_S = 0.1
_TELL_EVERY_S = 10.0


def run_fleet(address: Address, name: str, count: int, rate: float, num_envs: int) -> int:
    """Simulate clients until told to stop; return the exit code.

    Args:
        address: The server.
        name: First part of their names: `NAME-1`, `NAME-2` …
        count: How many.
        rate: Environment steps per second of each.
        num_envs: Environments each claims to step side by side.

    Raises:
        UsageError: Clients can't be called so.
    """
    setup_logging()
    check_client_name(f"{name}-{count}")
    logger.warning(
        "the trainer learns from the random samples of these %d clients: use a run of its own", count
    )
    asyncio.run(Fleet(address, name, count, rate, num_envs).run(stop_on_signals()))
    return 0


class Fleet:
    """The clients of one process; see `run_fleet`."""

    def __init__(self, address: Address, name: str, count: int, rate: float, num_envs: int) -> None:
        self._address = address
        keys = Keys(address.prefix)
        instance, versions = own_instance(), own_versions()
        self.view = SharedView(self._connection(), keys)
        self.clients = [
            SimulatedClient(
                self._connection(),
                keys,
                Progress(
                    f"{name}-{number}", instance, num_envs, versions, simulated=True, keeps_episodes=False
                ),
                self.view,
                rate,
                random.Random(number),
            )
            for number in range(1, count + 1)
        ]

    def _connection(self) -> "redis.asyncio.Redis":
        address = self._address
        how: dict[str, Any] = {
            "host": address.host,
            "port": address.port,
            "username": address.user or None,
            "password": address.password or None,
            "socket_timeout": _SOCKET_TIMEOUT_S,
            "socket_connect_timeout": _SOCKET_TIMEOUT_S,
            "socket_keepalive": True,
            "retry": Retry(NoBackoff(), 0),
            "protocol": 2,
        }
        if not address.pin:
            return redis.asyncio.Redis(**how)
        pool = redis.asyncio.ConnectionPool(connection_class=AsyncPinnedConnection, pin=address.pin, **how)
        return redis.asyncio.Redis.from_pool(pool)

    async def run(self, asked: threading.Event) -> None:
        """Play until asked to stop, or until the server has sent every client away."""
        stop = asyncio.Event()
        following = asyncio.create_task(self.view.follow(stop))
        playing = [asyncio.create_task(client.run(stop)) for client in self.clients]
        telling = asyncio.create_task(self._tell())
        everybody = asyncio.gather(*playing)
        while not (asked.is_set() or everybody.done()):
            await asyncio.wait({everybody}, timeout=_LOOK_FOR_STOP_S)
        stop.set()
        await everybody
        telling.cancel()
        await asyncio.gather(following, telling, return_exceptions=True)
        self._log("left")

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            self._log("so far")

    def _log(self, when: str) -> None:
        made = [client.progress for client in self.clients]
        logger.info(
            "%s: %d clients, %d in a session, %d steps, %d episodes",
            when,
            len(made),
            sum(bool(progress.session) for progress in made),
            sum(progress.env_steps for progress in made),
            sum(progress.episodes for progress in made),
        )
