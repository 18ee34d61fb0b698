"""The beginning of a run: its services are started, resumed or taken over, until it is ready to train."""

import asyncio

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import ServiceError
from soulsgui.runner.active import Active, Probe
from soulsgui.runner.best import BestKeeper
from soulsgui.runner.bus import Bus
from soulsgui.runner.crew import READY_LIMIT_S, Crew, LetIn
from soulsgui.runner.ending import Ending
from soulsgui.runner.events import EventLog
from soulsgui.runner.knowledge import Knowledge
from soulsgui.runner.library import Library
from soulsgui.runner.opening import ActiveRun
from soulsgui.runner.refusal import Refused
from soulsgui.runner.resuming import Resumption
from soulsgui.runner.run import RunRecord, interrupted
from soulsgui.runner.services import RunServices, client_name
from soulsgui.runner.standing import Standing
from soulsgui.runner.supervisor import Supervisor
from soulsgui.system import atomic_write
from soulsgui.wire.control import ErrorCode

OPEN_LIMIT_S = 30.0
"""With `READY_LIMIT_S` less than a command may take."""


class Beginning:
    """Begins runs.

    Attributes:
        begun: Ids of the runs that were begun, resumed or taken over here.

    Args:
        folders: The user's folders.
        library: The runs.
        supervisor: Runs the services.
        bus: Writes to the server.
        knowledge: What is read from it.
        events: Where to note what happened.
        probe: Tells the spaces of an environment.
        let_in: Makes the server know its own clients.
        standing: The run that goes on.
        ending: Ends a run that can't be begun.
    """

    def __init__(
        self,
        folders: Folders,
        library: Library,
        supervisor: Supervisor,
        bus: Bus,
        knowledge: Knowledge,
        events: EventLog,
        probe: Probe,
        let_in: LetIn,
        standing: Standing,
        ending: Ending,
    ) -> None:
        self.begun: set[str] = set()
        self._folders = folders
        self._library = library
        self._supervisor = supervisor
        self._bus = bus
        self._knowledge = knowledge
        self._events = events
        self._probe = probe
        self._let_in = let_in
        self._standing = standing
        self._ending = ending
        self._opening: asyncio.Task[None] | None = None

    async def open(
        self, run: RunFolder, settings: Settings, record: RunRecord, resumed: Resumption | None = None
    ) -> None:
        """Begin a run in a task of its own, which `cancel` may end; return once it is ready to train.

        A game that is slow to be checked goes on being checked after the answer: `opened` waits for that.

        Args:
            run: Its folder.
            settings: Its configuration.
            record: What is known of it.
            resumed: How a run that has been before goes on, whose changes are written; None for a new run.

        Raises:
            Refused: Another run was begun, this one was stopped, or a service failed at its start.
            OSError: Its changes can't be written.
        """
        if self._standing.active is not None:
            raise Refused(ErrorCode.NOT_NOW, "Another run was begun at the same moment.", "Try again later.")
        before = run.config.read_bytes() if resumed is not None and resumed.changes else b""
        if before:
            self._library.write_settings(run, settings)
        active = self._set_active(run, settings, record)
        work = self._start(active) if resumed is None else self._resume(active, resumed, before)
        self._opening = asyncio.create_task(work)
        self._opening.add_done_callback(
            lambda task: task.cancelled() or task.exception()
        )  # is told as an event
        done, _ = await asyncio.wait({self._opening}, timeout=OPEN_LIMIT_S)
        if not done:
            raise _not_ready(active, OPEN_LIMIT_S)
        await self.opened()
        await _until_ready(active)

    async def opened(self) -> None:
        """Return once the services of the run that is being begun are started.

        Raises:
            Exception: What kept them from it.
        """
        if self._opening is None:
            return
        await asyncio.wait({self._opening})
        if self._opening.cancelled():
            raise Refused(ErrorCode.NOT_NOW, "The run was stopped before it had begun.")
        await self._opening

    async def cancel(self) -> None:
        """Give up a run whose services are being started, if there is one."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait({self._opening})

    async def _start(self, active: Active) -> None:
        title = self._standing.record.title
        try:
            await active.start(self._bus, self._probe)
        except BaseException as error:
            self._standing.set_active(None)
            self._standing.record = self._library.last_record()
            if not isinstance(error, asyncio.CancelledError):
                # Whoever asked for it may have been answered long ago.
                self._events.add(
                    "error", f"Run {title} could not be begun", cause=str(error), run_id=active.run.run_id
                )
            raise
        self._events.add("info", f"Run {title} was started", run_id=active.run.run_id)

    async def _resume(self, active: Active, resumed: Resumption, before: bytes) -> None:
        try:
            await active.resume(self._bus, self._probe, resumed.checkpoint)
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            active.end_because("stopped" if cancelled else "failed", str(error))
            self._ending.finish(active)
            if before:  # nothing was learned with its changes
                atomic_write(active.run.config, before)
            raise
        what = f"Run {self._standing.record.title} was resumed{resumed.words}"
        self._events.add("info", what, run_id=active.run.run_id)

    async def take_over(self, left: ActiveRun, run: RunFolder, settings: Settings) -> Active | None:
        """Go on with the run that an earlier runner left; note its end when nothing of it lives.

        Args:
            left: What that runner wrote down.
            run: Its folder.
            settings: Its configuration.

        Returns:
            The run; None when it is over.
        """
        active = self._set_active(run, settings, self._library.record(run), left)
        adopted = await active.adopt(left)
        if not adopted:
            if left.ending:
                await self._ending.conclude(active)
            else:
                self._interrupted(active)
            return None
        self._standing.set_active(active)
        cause = f"The runner had ended without stopping it; {', '.join(adopted)} had gone on."
        self._events.add(
            "warning", f"Run {self._standing.record.title} was taken over", cause, run_id=run.run_id
        )
        return active

    def _interrupted(self, active: Active) -> None:
        self._standing.record = interrupted(self._standing.record)
        self._standing.note_record(active.run)
        self._standing.set_active(None)
        self._events.add(
            "error",
            f"Run {self._standing.record.title} was interrupted",
            cause="The runner and every service of the run ended without being asked to.",
            remedy=f"Go on with it: soulsgui run resume {active.run.run_id}",
            run_id=active.run.run_id,
        )

    def _set_active(
        self, run: RunFolder, settings: Settings, record: RunRecord, left: ActiveRun | None = None
    ) -> Active:
        """Make a run the one that goes on; none of its services is started yet."""
        clients = [client_name(number) for number in range(1, settings.clients.local + 1)]
        if left is not None:
            clients = left.clients
        self._knowledge.forget_nodes()
        services = RunServices(self._folders, run, self._knowledge)
        crew = Crew(
            services,
            self._supervisor,
            self._bus,
            self._knowledge.roster,
            clients,
            self._let_in,
            bool(settings.evaluates_every),
        )
        best = BestKeeper(self._bus, self._library.best(run))
        active = Active(run, settings, crew, best, record.seconds)
        if left is not None:
            active.end_because(left.ending, left.error, left.saves)
        self._standing.record = record
        self.begun.add(run.run_id)
        self._standing.set_active(active)
        self._standing.note_record(run)
        return active


async def _until_ready(active: Active) -> None:
    try:
        ready = await active.crew.until_ready()
    except ServiceError as error:
        raise Refused(ErrorCode.FAILED, error.message, error.remedy) from error
    if active.ending == "stopped":
        raise Refused(ErrorCode.NOT_NOW, "The run was stopped before it had begun.")
    if not ready and not active.ending:
        raise _not_ready(active, READY_LIMIT_S)


def _not_ready(active: Active, after_s: float) -> Refused:
    return Refused(
        ErrorCode.NO_ANSWER,
        f"Run {active.run.run_id} is not ready after {after_s:.0f} s; it goes on starting.",
        "Watch it: soulsgui status",
    )
