"""Begins, resumes, takes over and ends the runs of a server: one at a time, those of the queue in turn."""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from soulsgui.config.errors import ConfigError
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentCheckError, ServiceError, SoulsGuiError
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.runner.run.agreed import AgreedRuns, RunNotAgreedError
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.queue import QueueEntry, RunQueue
from soulsgui.runner.run.record import ActiveRun, Reached, RunRecord, interrupted
from soulsgui.runner.run.services import READY_LIMIT_S, RunContext
from soulsgui.runner.run.session import RunSession
from soulsgui.runner.run.start import (
    Resumption,
    beginning,
    choose_checkpoint,
    goals,
    new_run,
    refuse_without_torch,
    resumption,
)
from soulsgui.system import atomic_write, read_small
from soulsgui.wire.control import ErrorCode, QueuedRun, RunPlace, RunResumeParams, RunStartParams
from soulsgui.wire.messages.live import LiveChange, read_changes, undoable
from soulsgui.wire.messages.node import NodeState

logger = logging.getLogger(__name__)

OPEN_LIMIT_S = 30.0  # with `READY_LIMIT_S` less than a command may take

_Begun = tuple[RunSession, Coroutine[Any, Any, None]]  # a run, and the work until its services are started

_ACTIVE_FILE = "active_run.json"
_QUEUE_FILE = "run_queue.json"
_WRITE_AGAIN_S = 5.0
_QUEUE_AGAIN_S = 60.0


def remember_active(folders: Folders, active: ActiveRun | None) -> None:
    """Write down which run goes on; None when none does."""
    path = folders.server / _ACTIVE_FILE
    if active is None:
        path.unlink(missing_ok=True)
    else:
        atomic_write(path, active.to_json().encode())


def left_run(folders: Folders, library: Library) -> tuple[ActiveRun, RunFolder, Settings] | None:
    """Return the run that went on when the last runner ended, None when none did or it can't be read."""
    try:
        left = ActiveRun.read(read_small(folders.server / _ACTIVE_FILE))
        run = RunFolder(folders.runs / (left.run_id if left is not None else ""))
        return (left, run, library.settings(run)) if left is not None and run.run.exists() else None
    except FileNotFoundError:
        return None
    except ConfigError as error:
        logger.error("the run that went on can't be taken over: %s", error)
        return None


class RunManager:
    """The run of a server: the one that goes on, or the last one."""

    def __init__(self, context: RunContext, base: Layer) -> None:
        self.session: RunSession | None = None  # The run that goes on, None when there is none
        self.over = asyncio.Event()  # Set while no run is active
        self.over.set()
        # What of the run that ended last no checkpoint holds, in words; empty when everything is saved.
        self.loss = ""
        self.begun: set[str] = set()  # Ids of the runs that were begun, resumed or taken over here
        self.queue = RunQueue(context.folders.server / _QUEUE_FILE)
        self.holds_queue = True  # Whether no run of the queue begins by itself: the server begins
        self.closing = False  # Whether the server ends: what it stops stays in the queue
        context.events.tell_loss(self.queue.loss and f"The queue of runs is lost: {self.queue.loss}")
        self._context = context
        self._base = base
        self._last: RunRecord = context.library.last_record()
        self._owed: RunSession | None = None
        self._owed_at = float("-inf")
        self._opening: asyncio.Task[None] | None = None
        self._beginning = asyncio.Lock()  # Held by who ends the run that goes on, and begins another
        self._advancing: asyncio.Task[None] | None = None
        self._queue_due = float("-inf")
        self._changing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def record(self) -> RunRecord:
        """The run that goes on, or the last one."""
        return self.session.record if self.session is not None else self._last

    @property
    def active(self) -> RunRecord | None:
        """The record of the run that goes on, None when there is none."""
        return self.session.record if self.session is not None else None

    @property
    def run(self) -> RunFolder | None:
        """The run that goes on, None when there is none."""
        return self.session.run if self.session is not None else None

    @property
    def hurried(self) -> bool:
        """Whether something is about to change that somebody waits for."""
        session = self.session
        return session is not None and (bool(session.ending) or session.record.state == "starting")

    def queued(self) -> list[QueuedRun]:
        """Return the runs that wait for their turn, in order."""
        active = self.session.run.run_id if self.session is not None else ""
        return [QueuedRun.model_validate(one.model_dump()) for one in self.queue.waiting(active)]

    def node(self, name: str) -> NodeState | None:
        """Return the newest state of a node of the active run, or of the last one."""
        return self._context.server_state.node_of(name, self.record.id)

    def _begin(
        self, run: RunFolder, settings: Settings, record: RunRecord, left: ActiveRun | None = None
    ) -> RunSession:
        """Make a run the one that goes on; none of its services is started yet."""
        if self.closing:
            raise Refused(ErrorCode.NOT_NOW, "The server is being ended.", "Start it again first.")
        if not run.root.is_dir():  # it may have been put into the bin while it was looked at
            raise Refused(ErrorCode.NOT_FOUND, f"The run {run.run_id} is gone.", "See: soulsgui runs list")
        self._context.server_state.forget_nodes()
        session = RunSession(self._context, run, settings, record, left)
        self.begun.add(run.run_id)
        self.session, self._owed = session, None
        self.over.clear()
        self._remember()
        session.note_record()
        return session

    def _leave(self, session: RunSession) -> None:
        self.session, self._last = None, session.record
        self._owed = session if session.owes_record else None
        try:
            self._remember()
        finally:
            self.over.set()

    def _remember(self) -> None:
        """Write down which run goes on, for the runner after a crash of this one."""
        try:
            left = self.session.left() if self.session is not None else None
            remember_active(self._context.folders, left)
        except Exception:
            # Only that runner would read it.
            logger.exception("the active run can't be recorded")

    async def start(self, params: RunStartParams) -> RunPlace:
        """Begin a new run and return once it is ready to train, or waits in the queue.

        Of several seeds the first begins; the others wait.
        """
        refuse_without_torch()
        library, folders, going = self._context.library, self._context.folders, self.session
        begins = await asyncio.to_thread(beginning, folders, library, params, self._base)
        settings = begins.settings
        busy = self.session is not None or self._beginning.locked() or bool(self.queue.waiting())
        waits = params.if_active == "queue" and busy
        async with nullcontext() if waits else self._beginning:
            if not waits:
                await self._make_room(params.if_active, going)
            AgreedRuns(folders).agree(settings)
            entries = self.queue.entries_for(params, begins, time.time())
            if waits or len(entries) > 1:
                self.queue.add(entries)
            place = RunPlace(run_id="", run_dir="", experiment=entries[0].experiment)
            if waits:
                return place.model_copy(update={"queued": [one.number for one in entries]})
            session, work = await self._begin_new(entries[0], settings)
        await self._open(session, work)
        began = {"run_id": session.run.run_id, "run_dir": str(session.run.root)}
        return place.model_copy(update=began | {"queued": [one.number for one in entries[1:]]})

    async def _begin_new(self, entry: QueueEntry, settings: Settings) -> _Begun:
        library, queued = self._context.library, entry in self.queue.waiting()
        run, record = await asyncio.to_thread(new_run, library, settings, entry, time.time())
        if queued:  # another one may have got its number meanwhile
            self.queue.began(entry.number, run.run_id)
        if entry.checkpoint:
            taken = await asyncio.to_thread(library.checkpoints.take, run, Path(entry.checkpoint))
            choose_checkpoint(run, taken.id)
            record = record.model_copy(update={"begun_env_steps": taken.env_steps})
        session = self._begin(run, settings, record)
        return session, self._start(session)

    async def resume(self, params: RunResumeParams) -> RunFolder:
        """Go on with a run as a new attempt and return it once it is ready to train."""
        refuse_without_torch()
        going, folders = self.session, self._context.folders
        # Refused before anything is stopped.
        await asyncio.to_thread(resumption, self._context.library, AgreedRuns(folders), params)
        async with self._beginning:
            await self._make_room(params.if_active, going)
            session, work = await self._begin_again(params)
        await self._open(session, work)
        return session.run

    async def _begin_again(self, params: RunResumeParams) -> _Begun:
        library, agreed = self._context.library, AgreedRuns(self._context.folders)
        number = await asyncio.to_thread(library.next_number)
        resumed = await asyncio.to_thread(resumption, library, agreed, params)
        # Nothing is waited for from here on: the run may not be put into the bin before it is the active one.
        run, settings = resumed.run, resumed.settings
        again: dict[str, Any] = {"state": "starting", "detail": "", "reached": "", "error": ""}
        again["number"] = number  # from now on it is the latest
        record = library.record(run).model_copy(update=again | goals(settings))
        agreed.agree(settings)
        before = run.config.read_bytes() if resumed.changes else b""
        if before:
            library.write_settings(run, settings)
        session = self._begin(run, settings, record)
        return session, self._resume(session, resumed, before)

    def check_room(self, if_active: str) -> None:
        """Raise why no run can be begun beside the one that goes on, unless that is to be stopped first."""
        if self.session is not None and if_active == "refuse":
            raise Refused(
                ErrorCode.NOT_NOW,
                f"The run {self.session.run.run_id} is active.",
                "Stop it first: soulsgui run stop",
            )

    async def _make_room(self, if_active: str, going: RunSession | None) -> None:
        """End the run that goes on, if it is the one that went on when somebody asked for another."""
        if self.session not in (None, going):
            raise Refused(
                ErrorCode.NOT_NOW, "Another run was started at the same moment.", "Try again later."
            )
        self.check_room(if_active)
        if self.session is not None:
            await self.stop()

    async def _open(self, session: RunSession, work: Coroutine[Any, Any, None]) -> None:
        """Begin a run in a task that `stop` may cancel; return when it is ready, or its check is slow."""
        self._opening = opening = asyncio.create_task(work)
        # What goes wrong is told as an event.
        opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        done, _ = await asyncio.wait({opening}, timeout=OPEN_LIMIT_S)
        if not done:
            raise _not_ready(session, f"after {OPEN_LIMIT_S:.0f} s")
        await self.opened(opening)  # another one may be begun by now
        try:
            ready = await session.services.until_ready()
        except ServiceError as error:
            raise Refused(ErrorCode.FAILED, error.message, error.remedy) from error
        if session.ending == "stopped":
            raise Refused(ErrorCode.NOT_NOW, "The run was stopped before it had started.")
        if not ready and not session.ending:
            late = "yet: a service was stopped or restarted meanwhile"
            raise _not_ready(session, late if ready is None else f"after {READY_LIMIT_S:.0f} s")

    async def opened(self, opening: asyncio.Task[None] | None = None) -> None:
        """Return once the services of the run that is being begun are started, or raise what hindered it."""
        if (opening := opening or self._opening) is None:
            return
        await asyncio.wait({opening})
        if opening.cancelled():
            raise Refused(ErrorCode.NOT_NOW, "The run was stopped before it had started.")
        opening.result()

    async def _start(self, session: RunSession) -> None:
        called = session.record.called
        try:
            await session.start()
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            session.end_because("stopped" if cancelled else "failed", str(error))
            if self.closing or not (cancelled or isinstance(error, SoulsGuiError)):
                self.queue.put_back(session.run.run_id)  # such as Redis away: nothing is wrong with the run
            else:
                wrong = isinstance(error, EnvironmentCheckError)
                self.queue.over(session.run.run_id, with_experiment=wrong)
            self._leave(session)
            self._last = await asyncio.to_thread(self._context.library.last_record)
            if not cancelled:
                # Whoever asked for it may have been answered long ago.
                session.tell("error", f"{called} could not be started", str(error))
            raise
        session.tell("info", f"{called} was started")

    async def _resume(self, session: RunSession, resumed: Resumption, before: bytes) -> None:
        try:
            await session.resume(resumed.checkpoint)
        except BaseException as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            session.end_because("stopped" if cancelled else "failed", str(error))
            self._finish(session)
            if before:  # nothing was learned with its changes
                atomic_write(session.run.config, before)
            raise
        session.tell("info", f"{session.record.called} was resumed{resumed.words}")

    async def adopt(self) -> bool:
        """Go on with the run that an earlier runner left; return whether anything of one lives."""
        found = left_run(self._context.folders, self._context.library)
        adopted = found is not None and await self._adopt(*found)
        if not adopted:
            await self._context.bus.let_clients_rest()
        return adopted

    async def _adopt(self, left: ActiveRun, run: RunFolder, settings: Settings) -> bool:
        session = self._begin(run, settings, self._context.library.record(run), left)
        adopted = await session.adopt(left)
        if adopted:
            self._remember()
            session.tell(
                "warning",
                f"{session.record.called} was taken over",
                f"The runner had ended without stopping it; {', '.join(adopted)} had continued.",
            )
            if left.ending:
                self._spawn_end(session)
        elif left.ending:
            await self._conclude(session)
        else:
            session.record = interrupted(session.record)
            session.note_record()
            self._leave(session)
            session.tell(
                "error",
                f"{session.record.called} was interrupted",
                "The runner and every service of the run ended unexpectedly.",
                f"Resume it: soulsgui run resume {run.run_id}",
            )
        return bool(adopted)

    def turn(self, now: float, wall_time: float) -> None:
        """Look at what the nodes say, and do what follows from it."""
        session = self.session
        if session is None:
            self._write_what_is_owed(now)
            self._look_at_queue(now)
        elif (end := session.look(now, wall_time)) is not None:
            self._end_because(session, *end)
            self._spawn_end(session)

    def _look_at_queue(self, now: float) -> None:
        """Let the run that waits longest begin, unless another one is about to."""
        busy = self._beginning.locked() or (self._advancing is not None and not self._advancing.done())
        held = self.holds_queue or self.closing or busy or not self._context.server_state.reachable
        if not held and now >= self._queue_due and (waiting := self.queue.waiting()):
            self._advancing = self._do(self._begin_queued(waiting[0]))

    async def _begin_queued(self, entry: QueueEntry) -> None:
        try:
            async with self._beginning:
                if self.closing or self.session is not None or entry not in self.queue.waiting():
                    return
                begun = RunFolder(self._context.folders.runs / entry.run_id)
                if entry.run_id and begun.root.is_dir():
                    if self._context.library.record(begun).reached in ("mean_return", "env_steps", "failed"):
                        self.queue.over(entry.run_id)
                        return
                    session, work = await self._begin_again(RunResumeParams(run=entry.run_id))
                else:
                    settings = entry.settings
                    if (asks := AgreedRuns(self._context.folders).asks(settings)) is not None:
                        raise RunNotAgreedError(f"Run {entry.number} of the queue", asks)
                    session, work = await self._begin_new(entry, settings)
            await self._open(session, work)
        except SoulsGuiError as error:
            # One that was begun is told of, and taken out, where it ends; it may only be slow.
            if not self.closing and entry.number in (one.number for one in self.queued()):
                self.queue.remove(str(entry.number))
                what = f"Run {entry.number} of the queue ({entry.name or entry.env_id}) can't start"
                self._context.events.add("error", what, error.message, error.remedy, run_id=entry.run_id)
        except Exception:  # such as a disk that is full: nothing of the queue is lost by it
            self._queue_due = time.monotonic() + _QUEUE_AGAIN_S
            logger.exception("run %d of the queue can't start; trying again in a while", entry.number)

    def _write_what_is_owed(self, now: float) -> None:
        if self._owed is None or now - self._owed_at < _WRITE_AGAIN_S:
            return
        self._owed_at = now
        if self._owed.write_record() is None:  # it was told when it failed first
            logger.info("the record of run %s is written", self._owed.run.run_id)
            self._owed = None

    def edit(self, run: RunFolder, changes: dict[str, Any]) -> None:
        """Change name or note of a run, or whether it is pinned."""
        known = self.record if self.run == run else self._context.library.record(run)
        self._context.library.write_record(run, known.model_copy(update=changes))
        if self.session is not None and self.run == run:
            self.session.record = self.session.record.model_copy(update=changes)
        elif self._last.id == run.run_id:
            self._last = self._last.model_copy(update=changes)

    async def library_changed(self) -> None:
        """Tell of the latest run, which may have been thrown away, or put back."""
        last = await asyncio.to_thread(self._context.library.last_record)
        if last.id != self._last.id:  # else what is on the disk may be older
            self._last = last

    async def set_clients(self, count: int) -> None:
        """Start or stop clients of our own until there are so many."""
        async with self._changing:
            session = self.session
            if session is None or session.ending:
                raise no_run()
            await session.set_clients(count)
            self._remember()

    async def load(self, session: RunSession, checkpoint: str) -> None:
        """Let a run go on from a checkpoint (`RunSession.load`), unless it ends or has ended meanwhile."""
        async with self._changing:
            if self.session is not session or session.ending:
                raise Refused(ErrorCode.NOT_NOW, f"Run {session.run.run_id} has ended meanwhile.")
            await session.load(checkpoint)
        await session.services.until_ready()

    async def apply(self, values: Mapping[str, Any]) -> LiveChange | None:
        """Let the run go on with other values of live settings (`RunSession.apply`)."""
        async with self._changing:
            return await self.not_ending().apply(values)

    async def undo(self) -> LiveChange | None:
        """Take the last change of live settings back, the one before it at the next time."""
        async with self._changing:
            session = self.not_ending()
            last = undoable(read_changes(session.run.changes))
            if last is None:
                raise Refused(ErrorCode.NOT_NOW, "There is no change in this run to undo.")
            return await session.apply(last.before, undoes=True)

    def not_ending(self) -> RunSession:
        """Return the run that goes on, or raise that there is none, or that it is being ended."""
        if self.session is None:
            raise no_run()
        if self.session.ending:
            raise Refused(ErrorCode.NOT_NOW, "The run is being ended.", "Wait for that: soulsgui status")
        return self.session

    async def stop(self, save: bool = True, evaluate: bool = True) -> RunFolder:
        """End the run and return it, evaluated as there is time; one that was not saved is `Refused`."""
        session = self.session
        if session is None:
            raise no_run()
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
            await asyncio.wait({self._opening})
        session.evaluates &= evaluate
        if self.session is session:
            if session.ending:
                await self.over.wait()
            else:
                self._end_because(session, "stopped", "", save)
                await self._end(session)
        if session.loss:
            raise Refused(
                ErrorCode.FAILED,
                f"Run {session.run.run_id} has ended, but was not saved: {session.loss}.",
                "Fix the cause (a full disk: free some space there), then continue from its last "
                f"checkpoint: soulsgui run resume {session.run.run_id}",
            )
        return session.run

    async def fail(self, error: str) -> None:
        """Save and end the run because it can't reach what it was begun for; nothing happens without one."""
        session = self.session
        if session is not None and not session.ending:
            self._end_because(session, "failed", error)
            await self._end(session)

    async def close(self) -> None:
        """Wait for what is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _end_because(self, session: RunSession, reached: Reached, error: str, saves: bool = True) -> None:
        """Note that a run is to be ended, also for the runner after a crash of this one."""
        session.end_because(reached, error, saves)
        self._remember()

    async def _end(self, session: RunSession) -> None:
        async with self._changing:
            try:
                await session.end()
            finally:
                await self._conclude(session)

    async def _conclude(self, session: RunSession) -> None:
        try:
            await session.find_loss()
        finally:
            self._finish(session)

    def _finish(self, session: RunSession) -> None:
        self.loss = session.loss
        session.finish()
        if not (self.closing and session.ending == "stopped"):  # it goes on with the next server
            self.queue.over(session.run.run_id)
        self._leave(session)
        session.tell_the_end()

    def _spawn_end(self, session: RunSession) -> None:
        self._do(self._end(session))

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("a task of the run failed", exc_info=task.exception())


def _not_ready(session: RunSession, late: str) -> Refused:
    return Refused(
        ErrorCode.NO_ANSWER,
        f"Run {session.run.run_id} is not ready {late}; it is still starting.",
        "Watch it: soulsgui status",
    )
