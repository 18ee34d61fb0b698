"""The services of one run: trainer, telemetry, evaluator, and the clients the server starts itself."""

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import ServiceError, UsageError
from soulsgui.process import SUPERVISED_ENV, child_env, own_command
from soulsgui.runner.access.access_control import local_address_file
from soulsgui.runner.access.roster import ClientRoster
from soulsgui.runner.events import EventLog
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.start import Probe
from soulsgui.runner.server.bus import ANSWER_LIMIT_S, Bus
from soulsgui.runner.server.reader import ServerState
from soulsgui.runner.services.processes import ProcessTree
from soulsgui.runner.services.service import Health, ServiceSpec
from soulsgui.runner.services.supervisor import Supervisor
from soulsgui.runner.status_text import waits_words
from soulsgui.telemetry.export import PROGRAM
from soulsgui.wire.connection import AWAY, Address
from soulsgui.wire.control import ServiceStatus
from soulsgui.wire.control.states import CLIENT
from soulsgui.wire.keys import EVALUATOR, INFERENCE, SINKS, TELEMETRY, TRAINER, inference_server
from soulsgui.wire.node_commands import NodeCommand

logger = logging.getLogger(__name__)

LetIn = Callable[[list[str]], Awaitable[None]]

READY_LIMIT_S = 55.0

EVALUATOR_HURRIED_GRACE_S = 7.0
"""What the evaluation at the end of a run that was stopped may take; at a goal it has its own grace."""

SINK = "sink"

_NODES = (TRAINER, TELEMETRY)  # without them there is no training

_LIMITS: dict[str, dict[str, Any]] = {
    # An update of a large network is not interrupted.
    TRAINER: {"tier": 1, "grace_s": 10.0, "save_grace_s": 60.0, "start_limit_s": 120.0},
    TELEMETRY: {"tier": 1, "grace_s": 30.0},
    # It is given longer than the evaluation at the end may take.
    EVALUATOR: {"tier": 2, "grace_s": 13.0},
    # What telemetry stored last goes on to it.
    **{name: {"tier": 1, "grace_s": 30.0, "retry_s": 60.0} for name in SINKS},
}
"""What is special about each node, as fields of its `ServiceSpec`."""

_LOOK_EVERY_S = 0.25
_REST_LIMIT_S = 2.0
_EXPORT_LIMIT_S = 30.0
_LATER_S = 60.0


@dataclass(frozen=True)
class RunContext:
    """What a run needs of its runner."""

    folders: Folders
    library: Library
    supervisor: Supervisor
    bus: Bus
    roster: ClientRoster
    server_state: ServerState
    events: EventLog  # Where to note what happened
    probe: Probe  # Tells the spaces of an environment
    let_in: LetIn  # Makes the server know its own clients, before they are started


def client_name(number: int) -> str:
    """Return the name of a client the server starts itself, counted from 1."""
    return f"client-{number}"


def binding_of(address_file: Path) -> str:
    """Return what tells the server that children find in their address file from every other one.

    They come in by its socket: the port of its gateway may change while they run.
    """
    try:
        address = Address.read(address_file)
    except UsageError:
        return ""
    told = f"{address.socket} {address.user} {address.password} {address.prefix} {address.pin}"
    return hashlib.sha256(told.encode()).hexdigest()


def node_health(name: str, server_state: ServerState) -> Callable[[], Health]:
    """Return the check of a node: its key, written by the very process that is supervised."""

    def check() -> Health:
        state = server_state.node(name)
        if state is None:
            return Health(ready=False)
        return Health(
            ready=True,
            tick=state.tick,
            phase=state.phase,
            detail=state.detail or waits_words(state.learner_waits, state.clients_wait),
            error=state.error,
            farewell=state.farewell,
        )

    return check


def client_health(name: str, roster: ClientRoster, supervisor: Supervisor) -> Callable[[], Health]:
    """Return the check of a client: its heartbeat, from the very process that is supervised.

    A client watches its environment itself; that an inference server hangs, its heartbeat tells.
    """
    tree = ProcessTree()

    def check() -> Health:
        beat = roster.beat(name)
        if beat is None or not tree.includes(supervisor.pid_of(name), beat.instance.pid):
            return Health(ready=False)
        return Health(
            ready=True,
            tick=beat.counter if beat.inference is None else beat.inference.turns,
            detail=beat.phase if beat.inference is None else beat.error or beat.inference.words(),
            error=beat.error,
            farewell="said goodbye" if beat.leaving else "",
        )

    return check


class RunServices:
    """Knows the services of a run as the supervisor wants them, and starts and ends them together."""

    def __init__(self, context: RunContext, run: RunFolder, settings: Settings, clients: list[str]) -> None:
        self._hang_s = settings.client.hang_seconds  # after it the evaluator gives up on its environment
        self.clients = clients  # Names of the clients the server starts itself
        self._evaluator = [EVALUATOR] if settings.evaluates_every else []
        self._inference = [inference_server(number + 1) for number in range(settings.inference_servers)]
        self._sinks = settings.telemetry.sinks
        self._run = run
        self._context = context
        self._supervisor = context.supervisor
        self._server = binding_of(context.folders.server_address)

    @property
    def names(self) -> list[str]:
        """Every service of the run."""
        return [*_NODES, *self._evaluator, *self._sinks, *self._inference, *self.clients]

    def spec(self, name: str) -> ServiceSpec:
        """Return a service of the run."""
        context, special = self._context, _LIMITS.get(name)
        tells: tuple[str, ...]
        if special is not None:
            kind, role = (SINK, (name,)) if name in SINKS else (name, ())
            tells, server_file = (*role, "--run", str(self._run.root)), context.folders.server_address
            health, binding = node_health(name, context.server_state), self._server
            # Nodes read the settings of their run, which no other try would change. Clients are tried again:
            # what they refuse may be put right meanwhile, by another run or by their owner.
            special = special | {"refusal_code": UsageError.exit_code}
            if name == EVALUATOR:
                special["live_limit_s"] = self._hang_s + _LATER_S
        elif name in self._inference:
            # To the trainer it is a client; but it answers all others.
            kind, tells, server_file = INFERENCE, ("--name", name), context.folders.server_address
            health, binding = client_health(name, context.roster, self._supervisor), self._server
            special = {"tier": 2}
        else:
            # It knows its own secret alone.
            kind, tells = CLIENT, ("--name", name)
            server_file = local_address_file(context.folders.server, name)
            health, binding = client_health(name, context.roster, self._supervisor), binding_of(server_file)
            special = {"tier": 2}
        return ServiceSpec(
            name=name,
            kind=kind,
            argv=(*own_command(kind), *tells, "--server-file", str(server_file)),
            log_path=self._run.logs / f"{name}.log",
            health=health,
            binding=binding,
            env=child_env() | SUPERVISED_ENV,
            **special,
        )

    async def start(self) -> None:
        """Start all of them; each waits by itself for what it needs."""
        passing = (CLIENT, EVALUATOR, INFERENCE, SINK)
        known = [status.name for status in self._supervisor.statuses() if status.kind in passing]
        await self._supervisor.remove(*(name for name in known if name not in self.names))
        await self._enlist()
        for name in self.names:
            await self._supervisor.start(self.spec(name))

    async def _enlist(self) -> None:
        """Put our own clients on the roster before they beat, so that the trainer need not wait for that."""
        roster, bus = self._context.roster, self._context.bus
        own = [*self.clients, *self._inference]
        roster.set_local(own)
        await self._context.let_in(self.clients)
        await bus.call(roster.forgetting_stale_locals())
        await bus.call(roster.without_wish(*own))
        await bus.call(roster.listing(own))

    async def adopt(self, start_others: bool) -> list[str]:
        """Take over those that live on from an earlier runner, and return their names.

        Those that can't be taken over, because they work for a server at another address, are ended and
        started anew; with `start_others`, and if any lives, so are those that don't live.
        """
        self._context.roster.set_local([*self.clients, *self._inference])
        await self._context.let_in(self.clients)
        specs = [self.spec(name) for name in self.names]
        adopted = [spec.name for spec in specs if await self._supervisor.adopt(spec)]
        left = {record.name for record in self._supervisor.orphans()}
        living = [spec.name for spec in specs if spec.name in adopted or spec.name in left]
        if living and start_others:
            for spec in (one for one in specs if one.name not in adopted):
                try:
                    await self._supervisor.start(spec)
                except ServiceError as error:
                    # Those that live must not end for the sake of this one, which shows as failed.
                    logger.error("%s", error)
        return living

    async def until_ready(self) -> bool | None:
        """Return once trainer and telemetry are ready, as `Supervisor.wait_ready` does.

        Where telemetry alone is late the run goes on all the same: it has begun.
        """
        deadline = time.monotonic() + READY_LIMIT_S
        if not (ready := await self._supervisor.wait_ready(TRAINER, READY_LIMIT_S)):
            return ready
        told = await self._supervisor.wait_ready(TELEMETRY, max(deadline - time.monotonic(), 0.0))
        return None if told is None else True

    async def end_clients(self, evaluator_grace_s: float | None) -> None:
        """End clients and evaluator; the trainer takes nothing of them any more, telemetry all that came.

        The evaluator, which plays with the last weights, is given that time; None gives it its own.
        """
        if self._supervisor.running(TRAINER):
            # What comes after the end is no fault of the clients.
            try:
                await self._context.bus.ask(TRAINER, NodeCommand(command="rest"), _REST_LIMIT_S)
            except (Refused, redis.RedisError, *AWAY) as error:
                logger.info("the trainer does not rest before the end: %s", error)
        await asyncio.gather(
            self._supervisor.stop(*self.clients, *self._inference),
            self._supervisor.stop(*self._evaluator, grace_s=evaluator_grace_s),
        )

    async def end(self, save: bool) -> None:
        """End all of them: telemetry stores the trainer's last rows, then sinks take these elsewhere."""
        others = self._supervisor.stop(*self.clients, *self._inference, *self._evaluator)
        await asyncio.gather(self._end_trainer(save), others)
        await self._supervisor.stop(TELEMETRY)
        await self._supervisor.stop(*self._sinks)
        outcome = self._supervisor.outcome_of(TELEMETRY)
        if self._run.store.exists() and (outcome is None or not outcome.in_order):
            await self._export()

    async def _export(self) -> None:
        """Write the curves and the figure of the run, which telemetry did not live to do."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM, str(self._run.root),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, env=os.environ | child_env(),
        )  # fmt: skip
        try:
            if await asyncio.wait_for(process.wait(), _EXPORT_LIMIT_S):
                logger.warning("the figure of run %s could not be drawn", self._run.run_id)
        except TimeoutError:
            logger.warning("the figure of run %s takes too long: it is left as it was", self._run.run_id)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _end_trainer(self, save: bool) -> None:
        """Let the trainer save and end by itself; whatever comes in between, it is stopped afterwards."""
        if save and self._supervisor.running(TRAINER):
            await self._ask_to_stop()
        await self._supervisor.stop(TRAINER, grace_s=None if save else 0.0)

    async def _ask_to_stop(self) -> None:
        bus = self._context.bus
        asking = asyncio.create_task(bus.ask(TRAINER, NodeCommand(command="stop"), ANSWER_LIMIT_S))
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
        self._context.roster.set_local([])

    async def set_clients(self, count: int) -> None:
        """Start or stop clients until there are so many."""
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
