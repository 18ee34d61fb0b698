"""The services of one run: trainer, telemetry, evaluator, and the clients the server starts itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import redis

from soulsgui.errors import ServiceError
from soulsgui.runner.bus import Bus
from soulsgui.runner.refusal import Refused
from soulsgui.runner.roster import Roster
from soulsgui.runner.service import ServiceSpec
from soulsgui.runner.services import RunServices, client_name
from soulsgui.runner.supervisor import Supervisor
from soulsgui.wire.commands import NodeCommand
from soulsgui.wire.connection import AWAY
from soulsgui.wire.control import ErrorCode, ServiceStatus
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, TRAINER

logger = logging.getLogger(__name__)

LetIn = Callable[[list[str]], Awaitable[None]]

READY_LIMIT_S = 55.0
ANSWER_LIMIT_S = 60.0

_NODES = (TRAINER, TELEMETRY)
"""Without them there is no training."""

_LOOK_EVERY_S = 0.25
_REST_LIMIT_S = 2.0


class Crew:
    """Starts and ends the services of a run together.

    Args:
        services: Their command lines.
        supervisor: Runs them.
        bus: Writes to the server.
        roster: The clients.
        clients: Names of the clients the server starts itself.
        let_in: Makes the server know them, before they are started.
        evaluates: Whether the run has an evaluator.
    """

    def __init__(
        self,
        services: RunServices,
        supervisor: Supervisor,
        bus: Bus,
        roster: Roster,
        clients: list[str],
        let_in: LetIn,
        evaluates: bool = False,
    ) -> None:
        self.clients = clients
        self._evaluator = [EVALUATOR] if evaluates else []
        self._services = services
        self._supervisor = supervisor
        self._bus = bus
        self._roster = roster
        self._let_in = let_in

    @property
    def names(self) -> list[str]:
        """Every service of the run."""
        return [*_NODES, *self._evaluator, *self.clients]

    def spec(self, name: str) -> ServiceSpec:
        """Return a service of the run.

        Raises:
            Refused: It has none of that name.
        """
        if name == TRAINER:
            return self._services.trainer()
        if name == TELEMETRY:
            return self._services.telemetry()
        if name in self._evaluator:
            return self._services.evaluator()
        if name in self.clients:
            return self._services.client(name)
        raise Refused(
            ErrorCode.NOT_FOUND, f"The run has no service {name!r}.", f"It has: {', '.join(self.names)}"
        )

    async def start(self) -> None:
        """Start all of them; each waits by itself for what it needs.

        Raises:
            ServiceError: One can't be started at all.
        """
        passing = ("client", "evaluator")
        known = [status.name for status in self._supervisor.statuses() if status.kind in passing]
        await self._supervisor.remove(*(name for name in known if name not in self.names))
        await self._enlist()
        for name in self.names:
            await self._supervisor.start(self.spec(name))

    async def _enlist(self) -> None:
        """Put our own clients on the roster before they beat, so that the trainer need not wait for that."""
        self._roster.set_local(self.clients)
        await self._let_in(self.clients)
        await self._bus.call(self._roster.forgetting_former())
        await self._bus.call(self._roster.without_wish(*self.clients))
        await self._bus.call(self._roster.listing(self.clients))

    async def adopt(self, start_others: bool = True) -> list[str]:
        """Take over those that live on from an earlier runner.

        Those that can't be taken over, because they work for a server at another address, are ended and
        started anew.

        Args:
            start_others: Whether these, and those that don't live, are started if any lives.

        Returns:
            Who lived on.
        """
        self._roster.set_local(self.clients)
        await self._let_in(self.clients)
        specs = [self.spec(name) for name in self.names]
        adopted = [spec.name for spec in specs if await self._supervisor.adopt(spec)]
        left = {record.name for record in self._supervisor.orphans()}
        living = [spec.name for spec in specs if spec.name in adopted or spec.name in left]
        if living and start_others:
            for spec in specs:
                if spec.name not in adopted:
                    await self._start_missing(spec)
        return living

    async def _start_missing(self, spec: ServiceSpec) -> None:
        try:
            await self._supervisor.start(spec)
        except ServiceError as error:
            # Those that live must not end for the sake of this one, which shows as failed.
            logger.error("%s", error)

    async def until_ready(self) -> bool:
        """Return once trainer and telemetry are ready.

        Returns:
            False when that took too long, or when one was stopped meanwhile.

        Raises:
            ServiceError: One of them failed.
        """
        for name in _NODES:
            if not await self._supervisor.wait_ready(name, READY_LIMIT_S):
                return False
        return True

    async def end_clients(self, evaluator_grace_s: float | None) -> None:
        """End clients and evaluator; the trainer takes nothing of them any more, telemetry all that came.

        Args:
            evaluator_grace_s: Time for the evaluator, which plays with the last weights; None takes its own.
        """
        if self._supervisor.running(TRAINER):
            await self._ask_to_rest()
        await asyncio.gather(
            self._supervisor.stop(*self.clients),
            self._supervisor.stop(*self._evaluator, grace_s=evaluator_grace_s),
        )

    async def _ask_to_rest(self) -> None:
        """Let the trainer take nothing in any more: what comes after the end is no fault of the clients."""
        try:
            await self._bus.ask(TRAINER, NodeCommand(command="rest"), _REST_LIMIT_S)
        except (Refused, redis.RedisError, *AWAY) as error:
            logger.info("the trainer does not rest before the end: %s", error)

    async def end(self, save: bool) -> None:
        """End all of them: telemetry after what the trainer said last."""
        others = self._supervisor.stop(*self.clients, *self._evaluator)
        await asyncio.gather(self._end_trainer(save), others)
        await self._supervisor.stop(TELEMETRY)

    async def _end_trainer(self, save: bool) -> None:
        if not save:
            await self._supervisor.stop(TRAINER, grace_s=0.0)
            return
        if self._supervisor.running(TRAINER):
            await self._ask_to_stop()
        await self._supervisor.stop(TRAINER)

    async def _ask_to_stop(self) -> None:
        """Let the trainer save and end by itself; whatever comes in between, it is stopped afterwards."""
        asking = asyncio.create_task(self._bus.ask(TRAINER, NodeCommand(command="stop"), ANSWER_LIMIT_S))
        while not asking.done() and self._supervisor.running(TRAINER):
            await asyncio.wait({asking}, timeout=_LOOK_EVERY_S)
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            logger.info("the trainer ended before it answered")
        except (Refused, redis.RedisError, *AWAY) as error:
            logger.warning("the trainer did not stop when asked to: %s", error)

    async def abandon(self) -> None:
        """Kill and forget all of them."""
        await self._supervisor.stop(*self.names, grace_s=0.0)
        await self._supervisor.remove(*self.names)
        self._roster.set_local([])

    async def set_clients(self, count: int) -> None:
        """Start or stop clients until there are so many.

        Raises:
            ServiceError: One can't be started.
            redis.RedisError: The server is away.
        """
        wanted = [client_name(number) for number in range(1, count + 1)]
        surplus = [name for name in self.clients if name not in wanted]
        missing = [name for name in wanted if name not in self.clients]
        await self._supervisor.stop(*surplus)
        await self._supervisor.remove(*surplus)
        self.clients = wanted
        await self._enlist()
        for name in missing:
            await self._supervisor.start(self.spec(name))

    def trainer_status(self) -> ServiceStatus | None:
        """Return how the trainer is; None before it was ever started."""
        return next((status for status in self._supervisor.statuses() if status.name == TRAINER), None)

    def restarts(self) -> dict[str, int]:
        """Return how often each of them was started again after a failure."""
        known = set(self.names)
        return {
            status.name: status.restarts for status in self._supervisor.statuses() if status.name in known
        }
