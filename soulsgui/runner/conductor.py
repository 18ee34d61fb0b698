"""Begins, watches and ends the run of a server: one at a time."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from soulsgui.config.layers import Layer
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.runner.active import Active, Probe
from soulsgui.runner.beginning import Beginning
from soulsgui.runner.bus import Bus
from soulsgui.runner.crew import Crew, LetIn
from soulsgui.runner.ending import Ending
from soulsgui.runner.events import EventLog
from soulsgui.runner.knowledge import Knowledge
from soulsgui.runner.library import Library
from soulsgui.runner.news import News
from soulsgui.runner.opening import (
    effective_settings,
    goals,
    left_run,
    new_run,
    refuse_without_torch,
)
from soulsgui.runner.pausing import Pausing
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.runner.resuming import resumption
from soulsgui.runner.run import RunRecord
from soulsgui.runner.standing import Standing
from soulsgui.runner.supervisor import Supervisor
from soulsgui.wire.control import ErrorCode, RunResumeParams, RunStartParams
from soulsgui.wire.keys import TELEMETRY, TRAINER
from soulsgui.wire.messages.metrics import Row
from soulsgui.wire.messages.node import NodeState

logger = logging.getLogger(__name__)


class Conductor:
    """The run of a server.

    Attributes:
        pausing: Lets the run that goes on rest.

    Args:
        folders: The user's folders.
        library: The runs.
        supervisor: Runs the services.
        bus: Writes to the server.
        knowledge: What is read from it.
        events: Where to note what happened.
        base: Settings the runner was started with.
        probe: Tells the spaces of an environment.
        let_in: Makes the server know its own clients.
    """

    def __init__(
        self,
        folders: Folders,
        library: Library,
        supervisor: Supervisor,
        bus: Bus,
        knowledge: Knowledge,
        events: EventLog,
        base: Layer,
        probe: Probe,
        let_in: LetIn,
    ) -> None:
        self._folders = folders
        self._library = library
        self._bus = bus
        self._base = base
        self._standing = Standing(folders, library, knowledge)
        self._ending = Ending(self._standing, library, supervisor, knowledge, events, bus)
        self.pausing = Pausing(self._standing, supervisor, bus, events)
        self._news = News(events)
        self._beginning = Beginning(
            folders,
            library,
            supervisor,
            bus,
            knowledge,
            events,
            probe,
            let_in,
            self._standing,
            self._ending,
        )
        self._tasks: set[asyncio.Task[None]] = set()

    # --- what others may know ----------------------------------------------------------------------

    @property
    def record(self) -> RunRecord:
        """The run that goes on, or the last one."""
        return self._standing.record

    @record.setter
    def record(self, record: RunRecord) -> None:
        self._standing.record = record

    @property
    def over(self) -> asyncio.Event:
        """Set while no run goes on."""
        return self._standing.over

    @property
    def loss(self) -> str:
        """What of the run that ended last no checkpoint holds, in words; empty when everything is saved."""
        return self._standing.loss

    @property
    def _active(self) -> Active | None:
        return self._standing.active

    @property
    def begun(self) -> set[str]:
        """Ids of the runs that were begun, resumed or taken over here."""
        return self._beginning.begun

    @property
    def run(self) -> RunFolder | None:
        """The run that goes on, None when there is none."""
        return self._active.run if self._active is not None else None

    @property
    def settings(self) -> Settings | None:
        """The configuration of the run that goes on."""
        return self._active.settings if self._active is not None else None

    @property
    def crew(self) -> Crew | None:
        """The services of the run that goes on."""
        return self._active.crew if self._active is not None else None

    @property
    def ending(self) -> bool:
        """Whether the run is being ended."""
        return self._active is not None and bool(self._active.ending)

    @property
    def hurried(self) -> bool:
        """Whether something is about to change that somebody waits for."""
        return self._active is not None and (bool(self._active.ending) or self.record.state == "starting")

    def node(self, name: str) -> NodeState | None:
        """Return the state of a node of the run that goes on."""
        return self._standing.node(name)

    # --- beginning ---------------------------------------------------------------------------------

    async def start(self, params: RunStartParams) -> RunFolder:
        """Begin a new run and return it once it is ready to train.

        Raises:
            ConfigError: The configuration has mistakes; nothing was started.
            EnvironmentCheckError: The environment can't be made, or does not work.
            Refused: Another run goes on, or a service failed at its start.
        """
        refuse_without_torch()
        settings = effective_settings(self._folders, params, self._base)
        await self._make_room(params.if_active)
        run, record = new_run(self._library, settings, params, time.time())
        await self._beginning.open(run, settings, record)
        return run

    async def resume(self, params: RunResumeParams) -> RunFolder:
        """Go on with a run as a new attempt and return it once it is ready to train.

        Raises:
            ConfigError: Its configuration is damaged, or can't be with the values that were asked for.
            CheckpointError: The chosen checkpoint is missing.
            UsageError: A setting can't change any more.
            Refused: There is no such run, another one goes on, or a service failed at its start.
        """
        refuse_without_torch()
        resumption(self._library, params)  # refused before anything is stopped
        await self._make_room(params.if_active)
        resumed = resumption(self._library, params)  # what was stopped may be this run
        run, settings = resumed.run, resumed.settings
        again: dict[str, Any] = {"state": "starting", "detail": "", "reached": "", "error": ""}
        record = self._library.record(run).model_copy(update=again | goals(settings))
        await self._beginning.open(run, settings, record, resumed)
        return run

    async def opened(self) -> None:
        """Return once the services of the run that is being begun are started.

        Raises:
            Exception: What kept them from it.
        """
        await self._beginning.opened()

    async def _make_room(self, if_active: str) -> None:
        if self._active is None:
            return
        if if_active == "refuse":
            raise Refused(
                ErrorCode.NOT_NOW,
                f"The run {self._active.run.run_id} goes on.",
                "Stop it first: soulsgui run stop",
            )
        await self.stop()

    # --- after a crash of the runner ---------------------------------------------------------------

    async def adopt(self) -> bool:
        """Go on with the run that an earlier runner left, if anything of it lives.

        Returns:
            Whether there was one.
        """
        found = left_run(self._folders, self._library)
        if found is None:
            await self._bus.let_clients_rest()
            return False
        left, run, settings = found
        active = await self._beginning.take_over(left, run, settings)
        if active is None:
            await self._bus.let_clients_rest()
            return False
        if left.ending:
            self._spawn(self._ending.end(active))
        return True

    # --- while it goes on --------------------------------------------------------------------------

    def turn(self, now: float, wall_time: float) -> None:
        """Look at what the nodes say, and do what follows from it.

        Args:
            now: Monotonic time, seconds.
            wall_time: Seconds since the epoch.
        """
        reached = self._standing.look(now, wall_time)
        active = self._active
        if active is None or active.ending or not active.begun:
            return  # whatever its services say, its environment is still being checked
        trainer, telemetry = self.node(TRAINER), self.node(TELEMETRY)
        stop_reason = trainer.stop_reason if trainer is not None else ""
        if reached or stop_reason:
            error = self.record.detail if reached == "failed" else "" if reached else stop_reason
            self._ending.wish(active, reached or "stopped", error)
            self._spawn(self._ending.end(active))
            return
        self._news.look(active, trainer)
        active.note_checkpoint(trainer)
        active.best.look(telemetry.verdict if telemetry is not None else None, now)
        self._standing.write_now_and_then(active, now)

    def take_rows(self, rows: Sequence[Row]) -> None:
        """Look at new rows of the curves for beginnings of attempts, and tell what a new one cost."""
        if self._active is not None:
            self._news.take_rows(self._active, rows)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the run failed", exc_info=task.exception())

    def edit(self, run: RunFolder, changes: dict[str, Any]) -> None:
        """Change name or note of a run.

        Raises:
            OSError: It can't be written.
        """
        known = self.record if self.run == run else self._library.record(run)
        self._library.write_record(run, known.model_copy(update=changes))
        if self.record.id == run.run_id:
            self.record = self.record.model_copy(update=changes)

    async def set_clients(self, count: int) -> None:
        """Start or stop clients of our own until there are so many.

        Raises:
            Refused: No run goes on.
        """
        async with self._ending.lock:
            active = self._active
            if active is None or active.ending:
                raise no_run()
            await active.crew.set_clients(count)
            self._standing.set_active(active)
            self.record = self.record.model_copy(update={"local_clients": count})

    # --- ending ------------------------------------------------------------------------------------

    async def stop(self, save: bool = True, evaluate: bool = True) -> RunFolder:
        """Save and end the run, and return it.

        Args:
            save: Whether to save; without it the last checkpoint is what remains.
            evaluate: Whether to evaluate its last weights, as far as there is time.

        Raises:
            Refused: No run goes on.
        """
        active = self._active
        if active is None:
            raise no_run()
        await self._beginning.cancel()
        active.evaluates &= evaluate
        if self._active is active:
            if active.ending:
                await self.over.wait()
            else:
                self._ending.wish(active, "stopped", save=save)
                await self._ending.end(active)
        if active.loss:
            raise Refused(
                ErrorCode.FAILED,
                f"Run {active.run.run_id} has ended, but was not saved: {active.loss}.",
                "Mend the cause (a full disk: free some space there), then go on from its last checkpoint: "
                f"soulsgui run resume {active.run.run_id}",
            )
        return active.run

    def hurry(self) -> None:
        """Note that nobody waits for the end of the run to be saved any more."""
        if self._active is not None:
            self._active.saves = self._active.evaluates = False

    async def fail(self, error: str) -> None:
        """Save and end the run because it can't reach what it was begun for; nothing happens without one.

        Args:
            error: Why, in words.
        """
        active = self._active
        if active is not None and not active.ending:
            self._ending.wish(active, "failed", error)
            await self._ending.end(active)

    async def close(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
