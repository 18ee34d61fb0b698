"""The runner's way of writing to Redis: off the event loop, with answers awaited."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import redis

from soulsgui.runner.refusal import Refused
from soulsgui.wire.connection import AWAY, Address, connect
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import NODES, Keys
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.node_commands import NodeAnswer, NodeCommand, send_command

logger = logging.getLogger(__name__)

T = TypeVar("T")

ANSWER_LIMIT_S = 60.0  # what a node may take to answer a command that takes long, such as to save


class Bus:
    """Writes and commands to one server."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.keys = Keys(address.prefix)
        self._connection = connect(address, "runner")
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="runner-bus")
        self._waiting: dict[str, asyncio.Future[NodeAnswer]] = {}

    async def call(self, operation: Callable[[redis.Redis], T]) -> T:
        """Run an operation on the connection, in a thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, operation, self._connection)

    async def ask(self, node: str, command: NodeCommand, timeout_s: float) -> NodeAnswer:
        """Send a node a command and return its answer; none in time, or one that it failed, is `Refused`."""
        future: asyncio.Future[NodeAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[command.id] = future
        try:
            await self.call(lambda connection: send_command(connection, self.keys, node, command))
            answer = await asyncio.wait_for(future, timeout_s)
        except TimeoutError as error:
            raise Refused(
                ErrorCode.NO_ANSWER,
                f"The {node} did not answer `{command.command}` within {timeout_s:.0f} s.",
                f"Look at its log: soulsgui logs {node}",
            ) from error
        finally:
            self._waiting.pop(command.id, None)
        if not answer.ok:
            raise Refused(
                ErrorCode.FAILED,
                f"The {node} could not {command.command}: {answer.error}",
                f"Look at its log: soulsgui logs {node}",
            )
        return answer

    async def tell(self, node: str, command: NodeCommand, timeout_s: float) -> bool:
        """Ask a node for something that may as well fail; return whether it did that."""
        try:
            await self.ask(node, command, timeout_s)
        except (Refused, redis.RedisError, *AWAY) as error:
            logger.info("the %s does not %s: %s", node, command.command, error)
            return False
        return True

    def resolve(self, answers: list[NodeAnswer]) -> None:
        """Hand answers to those who wait for them."""
        for answer in answers:
            future = self._waiting.get(answer.id)
            if future is not None and not future.done():
                future.set_result(answer)

    async def let_clients_rest(self) -> None:
        """Tell clients that no run is active: all of them wait until one is described again."""
        try:
            await self.call(describing_no_run(self.keys))
        except (redis.RedisError, *AWAY) as error:
            logger.warning("clients can't be told that no run is active: %s", error)

    def close(self) -> None:
        """Close the connection."""
        self._executor.shutdown(wait=True)
        self._connection.close()


def describing_no_run(keys: Keys) -> Callable[[redis.Redis], Any]:
    """Return the operation that takes the description of a run away, and lets every client look."""

    def tell(connection: redis.Redis) -> None:
        pipeline = connection.pipeline(transaction=True)
        pipeline.delete(keys.config)
        pipeline.publish(keys.weights_event, "over")
        pipeline.execute()

    return tell


def clear_run_keys(keys: Keys, run_id: str = "") -> Callable[[redis.Redis], Any]:
    """Return the operation that takes away what an earlier run left on the server.

    At a resume the weights stay, so that model ids never go back, and so do the grants. The description of
    another run goes: who reads it now would play for that one. `run_id` is empty for a new run.
    """
    names = [key for node in NODES for key in (keys.node(node), keys.commands(node))]

    def clear(connection: redis.Redis) -> None:
        # MGET answers nil for a key of another type, where GET would fail.
        (described,) = cast("list[bytes | None]", connection.mget([keys.config]))
        config = ServerConfig.read(described)
        others = not run_id or config is None or config.run_id != run_id
        gone = [keys.config, keys.rejects] if others else []
        if not run_id:
            grants = connection.scan_iter(keys.grant("*"), count=1000)
            gone += [keys.weights, *(key.decode() for key in grants)]
        connection.delete(*names, *gone)

    return clear
