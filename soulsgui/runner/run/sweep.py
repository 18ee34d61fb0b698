"""Sweeps: trials drawn by Optuna, each a run that waits in the queue, ours or a worker's; one at a time."""

import asyncio
import errno
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import combine, with_new_names
from soulsgui.config.parsing import Layer, layer_of_tree
from soulsgui.config.schema import Settings, public_tree
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.installing import how_to_install
from soulsgui.runner.events import Level
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.agreed import AgreedRuns
from soulsgui.runner.run.library import named, run_stem
from soulsgui.runner.run.manager import RunManager
from soulsgui.runner.run.queue import entry_of
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.run.search_space import Dimension, search_space
from soulsgui.runner.run.services import RunContext
from soulsgui.runner.run.start import beginning, config_summary, refuse_without_torch
from soulsgui.runner.run.workers import ACTIVE_FILE, ActiveSweep, Workers
from soulsgui.runner.status_text import count_words
from soulsgui.system import atomic_write, no_room, read_small, usable_cores
from soulsgui.telemetry.store.schema import set_aside
from soulsgui.wire.control import ErrorCode, RunStartParams, SweepStartParams, SweepState, SweepStatus
from soulsgui.wire.control.states import CLIENT
from soulsgui.wire.keys import TRAINER

if TYPE_CHECKING:
    from soulsgui.runner.run.study import Study, Trial

logger = logging.getLogger(__name__)

_FILE = "sweeps.sqlite3"
_ROOM_AGAIN_S = 5.0
_TAKE_AGAIN_S = 60.0
_GIVEN_UP_AFTER = 3  # trials in a row that came to nothing, turns in a row that failed


class Sweeps:
    """The sweeps of a data folder. What goes on is written down: the next runner goes on with it.

    In a worker it makes the trials that are drawn for it, of the sweep of another data folder.
    """

    def __init__(self, context: RunContext, manager: RunManager, base: Layer) -> None:
        self._context, self._manager, self._base = context, manager, base
        self._path = context.folders.data / _FILE
        self._active_file = context.folders.server / ACTIVE_FILE
        self.workers = Workers(context, manager, base)
        self._worker = 1  # Which of them this server is, the first where it has the others
        self._study: Study | None = None  # The sweep that goes on
        self._trial: Trial | None = None  # Its trial that goes on
        self._failed_turns = 0
        self._room_again_at = 0.0  # When its trial is put into the queue that was full; 0 if it was not
        self._take_again_at = 0.0  # When runs of workers are taken again, which could not be
        self._working = asyncio.Lock()

    @property
    def goes_on(self) -> bool:
        """Whether a sweep goes on."""
        return self._active_file.exists()

    async def start(self, params: SweepStartParams) -> SweepStatus:
        """Begin a sweep; its first trial begins with the next turn."""
        refuse_without_torch()
        studies = _studies()
        async with self._working, self._disk_told():
            if self.goes_on:
                raise Refused(ErrorCode.NOT_NOW, "A sweep is running.", "Stop it first: soulsgui sweep stop")
            asked = RunStartParams(preset=params.preset, overrides=params.overrides)
            settings = beginning(self._context.folders, self._context.library, asked, self._base).settings
            _refuse_endless(settings, params)
            space = await asyncio.to_thread(search_space, params.space, settings)
            _refuse_too_many(settings, space, params.parallel)
            AgreedRuns(self._context.folders).agree(settings)
            await self.workers.clear()  # of what one could not give back when it was ended
            stem = run_stem(params.name or "sweep", time.time())
            study = await asyncio.to_thread(
                studies.Study.create, self._path, stem, params, public_tree(settings), space
            )
            atomic_write(self._active_file, ActiveSweep(sweep=study.name).to_json().encode())
            self._study = study
            crowded = self._crowded(params.parallel)
            what = f"Sweep {study.name} was started: {params.trials} trials"
            self._tell("warning" if crowded else "info", what, crowded)
            status: SweepStatus = await asyncio.to_thread(study.status)
            return status.model_copy(update={"crowded": crowded})

    async def status(self, name: str) -> SweepStatus:
        """Return a sweep by its id, how it begins, the name in it, or `latest`."""
        studies = _studies()
        known = await asyncio.to_thread(studies.names, self._path)
        chosen = named(known, name, "sweep", "sweep start")
        study = await asyncio.to_thread(studies.Study, self._path, chosen)
        status: SweepStatus = await asyncio.to_thread(study.status)
        going = self._study.name if self._study is not None else study.name  # it may be about to go on
        if status.state == "running" and not (self.goes_on and going == study.name):
            return status.model_copy(update={"state": "failed"})  # it could not be noted when it was given up
        return status

    async def stop(self) -> SweepStatus:
        """End the sweep that goes on, and the runs of its trials."""
        async with self._working, self._disk_told():
            if self._study is None and not self.goes_on:
                raise Refused(ErrorCode.NOT_NOW, "No sweep is running.", "Start one: soulsgui sweep start")
            study = not_saved = None
            try:
                study = await self._loaded()
                if study is not None:
                    not_saved = await self._end(study, "stopped")
            except Exception as error:
                if _passes(error):
                    raise  # it can be stopped again
                await self._abandon(error)
                study = None
            if study is None:
                what = "The sweep was stopped: it could not be continued."
                remedy = "See why: soulsgui events. To stop the active run of it: soulsgui run stop"
                raise Refused(ErrorCode.NOT_NOW, what, remedy)
            if not_saved is not None:
                raise not_saved
            return await asyncio.to_thread(study.status)

    async def turn(self) -> None:
        """Look after the trial that goes on, or begin the next one."""
        manager = self._manager
        if manager.holds_queue or time.monotonic() < self._room_again_at:
            return  # the server begins: its workers are not taken over yet
        async with self._working:
            study = None
            try:
                study = await self._loaded()
                if study is None or manager.holds_queue or manager.closing:
                    return
                if self._worker == 1:
                    await self._draw(study)
                elif self._trial is None:
                    self._trial = await asyncio.to_thread(study.trial_of, self._worker)
                if self._trial is not None:
                    await self._look_after(study, self._trial)
                self._failed_turns = 0
            except Exception as error:
                self._study = self._trial = None  # its file is looked at anew
                self._failed_turns += not _passes(error)
                if self._failed_turns < _GIVEN_UP_AFTER or self._worker > 1:
                    raise  # a worker tries again until it is ended
                logger.exception("the sweep is stopped")
                if study is not None:
                    with suppress(Exception):
                        await asyncio.to_thread(study.end, "failed")
                await self._abandon(error)

    def _crowded(self, parallel: int) -> str:
        """Say that more trials are to be trained at a time than clients of this server leave cores free."""
        cores, statuses = usable_cores(), self._context.supervisor.statuses()
        playing = sum(one.kind == CLIENT and one.pid is not None for one in statuses)
        if parallel == 1 or parallel <= cores - playing:
            return ""
        play = f"{count_words(playing, 'client')} already {'plays' if playing == 1 else 'play'}"
        return f"{parallel} trials at a time on {count_words(cores, 'core')}, on which {play}"

    async def _draw(self, study: "Study") -> None:
        """Draw a trial for this server and for each worker that has none; end when all are made."""
        if await asyncio.to_thread(study.failed_in_a_row) >= _GIVEN_UP_AFTER:
            await self._end(study, "failed")
            return
        self._trial = self._trial or await asyncio.to_thread(study.next_trial)
        others = range(2, study.asked.parallel + 1)
        theirs = {worker: await asyncio.to_thread(study.next_trial, worker) for worker in others}
        going = {trial.name for trial in (self._trial, *theirs.values()) if trial is not None}
        if not going:
            await self._end(study, "finished")
            return
        if theirs:
            await self._take_runs(going)
        for worker, trial in theirs.items():
            if trial is not None:
                await self.workers.start(study.name, worker)

    async def _take_runs(self, going: Collection[str]) -> None:
        """Put what workers have made into the library; `going` names the trials that go on."""
        if time.monotonic() < self._take_again_at:
            return
        try:
            await self.workers.take_runs(going)
        except OSError as error:  # told at the end
            logger.warning("runs of workers can't be put into the library yet: %s", error)
            self._take_again_at = time.monotonic() + _TAKE_AGAIN_S

    async def _loaded(self) -> "Study | None":
        """Return the sweep that goes on, also one that an earlier runner began."""
        if self._study is None and self.goes_on:
            found = ActiveSweep.read(read_small(self._active_file))
            if found is not None and found.home:
                self._path, self._worker = Path(found.home) / _FILE, found.worker
            try:
                loading = asyncio.to_thread(_studies().Study, self._path, found.sweep if found else "")
                self._study = study = await loading
                if study.state != "running":  # it was ended, and its runner before that was noted here
                    await self._end(study, study.state)
            except (SoulsGuiError, KeyError, ValidationError) as error:
                if self._worker > 1:
                    raise  # that is for the server whose sweep it is
                await self._abandon(error)
        return self._study

    async def _abandon(self, error: Exception) -> None:
        """Go on with the sweep no more, whatever stands where it is noted."""
        await self.workers.clear()
        if self._active_file.is_file():
            self._active_file.unlink()
        elif self._active_file.exists():
            set_aside(self._active_file)
        self._study = self._trial = None
        self._failed_turns = 0
        self._tell("error", "The sweep can't be continued", str(error) or type(error).__name__)

    @asynccontextmanager
    async def _disk_told(self) -> AsyncIterator[None]:
        """Let an error of Optuna that comes of the disk, or of rights there, say so."""
        try:
            yield
        except Exception as error:
            if isinstance(error, OSError) or not (number := _errno_of(error)):
                raise
            why = _why_not_written(self._path) if number == errno.EACCES else None
            raise why or OSError(number, os.strerror(number), str(self._path)) from error

    async def _look_after(self, study: "Study", trial: "Trial") -> None:
        manager = self._manager
        entry = manager.queue.of_sweep(study.name)
        if entry is not None:
            await asyncio.to_thread(trial.note_queued)  # where the last runner had no time for it
            if entry.run_id and entry.run_id == manager.record.id and manager.session is not None:
                await self._look_at_run(trial, manager.record)
            return
        record = await asyncio.to_thread(self._record_of, study.name, trial)
        if record is not None:
            await self._ended(study, trial, record)
        elif trial.queued:
            await self._over(trial, None)  # it could not begin, or was taken out of the queue
        else:
            await self._put_in(study, trial)

    async def _put_in(self, study: "Study", trial: "Trial") -> None:
        """Put the run of a trial into the queue, in which there may be no room yet.

        One whose values do not go together is given up.
        """
        base = layer_of_tree(with_new_names(study.config), study.name)
        try:
            settings = combine([base, Layer(study.name, trial.values)])
        except ConfigError as error:
            logger.warning("%s of %s can't be run: %s", trial.name, study.name, error)
            await self._over(trial, None, pruned=True)
            return
        queue = self._manager.queue
        try:
            summary = config_summary(trial.values, f"sweep {study.name}")
            about = {"name": trial.name, "sweep": study.name, "config_summary": summary}
            queue.add([entry_of(queue.next_number, settings, **about)])
        except Refused as full:
            if not self._room_again_at:
                what = f"Sweep {study.name} waits for room in the queue"
                self._tell("info", what, full.message, full.remedy)
            self._room_again_at = time.monotonic() + _ROOM_AGAIN_S
            return
        self._room_again_at = 0.0
        await asyncio.to_thread(trial.note_queued)

    async def _look_at_run(self, trial: "Trial", record: RunRecord) -> None:
        """Tell what the run of a trial has come to; end one that is not worth going on with."""
        from soulsgui.runner.run.study import PARTS

        await asyncio.to_thread(trial.note_run, record.id)
        node = self._manager.node(TRAINER)
        why = "it diverged" if node is not None and node.diverged else ""
        if not why and record.mean_return is not None and record.goal_env_steps:
            part = min(PARTS * record.env_steps // record.goal_env_steps, PARTS - 1)
            if part and await asyncio.to_thread(trial.report, part, record.mean_return):
                why = f"its mean return of {record.mean_return:.4g} is lower than that of others"
        session = self._manager.session
        if why and session is not None and not session.ending:
            self._tell("info", f"{record.called} was pruned: {why}", run_id=record.id)
            await self._manager.stop(evaluate=False)

    async def _ended(self, study: "Study", trial: "Trial", record: RunRecord) -> None:
        await asyncio.to_thread(trial.note_run, record.id)
        score = getattr(record, study.asked.score) if record.state == "finished" else None
        await self._over(trial, score, pruned=record.state == "stopped")

    async def _over(self, trial: "Trial", score: float | None, pruned: bool = False) -> None:
        await asyncio.to_thread(trial.tell, score, pruned)
        self._trial = None

    async def _end(self, study: "Study", state: SweepState) -> Refused | None:
        """End a sweep with the runs of its trials; return why that of this server was not saved."""
        await asyncio.to_thread(study.end, state)
        self._study = self._trial = None
        not_saved, _ = await asyncio.gather(self._end_run(study.name), self.workers.clear())
        self._active_file.unlink(missing_ok=True)
        self._room_again_at = 0.0
        failed = state == "failed"
        cause = f"{_GIVEN_UP_AFTER} trials in a row failed." if failed else ""
        remedy = "See why: soulsgui events" if failed else f"The best trial: soulsgui sweep best {study.name}"
        self._tell("error" if failed else "info", f"Sweep {study.name} {_ENDS[state]}", cause, remedy)
        return not_saved

    async def _end_run(self, sweep: str) -> Refused | None:
        manager = self._manager
        if (entry := manager.queue.of_sweep(sweep)) is None:
            return None
        try:
            if manager.record.id == entry.run_id and manager.session is not None:
                await manager.stop(evaluate=False)
            else:
                manager.queue.remove(str(entry.number))
        except Refused as error:
            return error
        return None

    def _record_of(self, sweep: str, trial: "Trial") -> RunRecord | None:
        """Return the run of a trial, which may have been renamed since it was noted."""
        library = self._context.library
        runs = (library.record(run) for run in library.folders())
        of_sweep = (one for one in runs if one.sweep == sweep)
        if trial.run_id:
            return next((one for one in of_sweep if one.id == trial.run_id), None)
        return next((one for one in of_sweep if one.name == trial.name), None)

    def _tell(self, level: Level, what: str, cause: str = "", remedy: str = "", run_id: str = "") -> None:
        self._context.events.add(level, what, cause, remedy, run_id=run_id)


_ENDS: dict[SweepState, str] = {
    "running": "is running",
    "finished": "has finished all its trials",
    "stopped": "was stopped",
    "failed": "has failed",
}


_OF_SQLITE = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_READONLY: errno.EACCES,
    sqlite3.SQLITE_CANTOPEN: errno.EACCES,
    sqlite3.SQLITE_BUSY: errno.EBUSY,
}


def _errno_of(error: BaseException | None) -> int:
    """Return what the file system, or SQLite below Optuna, has said of the disk; 0 for nothing."""
    while error is not None:
        if isinstance(error, OSError) and no_room(error):
            return errno.ENOSPC
        if found := _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF):
            return found
        error = error.__cause__
    return 0


def _why_not_written(path: Path) -> OSError | None:
    """Try to write to a file, and to a journal beside it; return what the system says, which SQLite hides."""
    target = Path(os.path.realpath(path))
    try:
        with target.open("ab"), TemporaryFile(dir=target.parent):
            return None
    except OSError as error:
        return error


def _passes(error: BaseException) -> bool:
    """Whether the disk is full, or another process keeps the file locked: it is tried again."""
    return _errno_of(error) in (errno.ENOSPC, errno.EBUSY)


def _studies() -> ModuleType:
    """Return what needs Optuna, which is optional and takes a second to import."""
    try:
        from soulsgui.runner.run import study
    except ImportError as error:
        if (error.name or "").partition(".")[0] == __name__.partition(".")[0]:
            raise
        what = "Sweeps need Optuna, which is not installed here."
        raise Refused(ErrorCode.NOT_NOW, what, f"Install it: {how_to_install('optuna')}") from error
    return study


def _refuse_too_many(settings: Settings, space: Mapping[str, Dimension], parallel: int) -> None:
    if parallel > (cores := usable_cores()):
        raise UsageError(
            f"{parallel} trials can't be trained at the same time: the server may use {cores} cores.",
            f"Let each have one at least: --parallel {cores}",
        )
    if parallel == 1:
        return

    def searched(key: str, value: Any) -> list[Any]:
        return space[key].ends if key in space else [value]

    local = min(searched("clients.local", settings.clients.local))
    wanted = max(one or 1 for one in searched("ppo.n_clients", settings.ppo.n_clients))
    if "ppo" not in searched("algorithm", settings.algorithm):
        wanted = 1
    if local < wanted:
        waits = f", and ppo.n_clients {wanted}" if wanted > 1 else ""
        raise UsageError(
            "Trials at the same time are played by clients of this computer alone: clients.local is "
            f"{local}{waits}.",
            f"For instance: --set clients.local={wanted}",
        )


def _refuse_endless(settings: Settings, params: SweepStartParams) -> None:
    if settings.stop.env_steps is None or "stop.env_steps" in params.space:
        raise UsageError(
            "A sweep compares runs of the same length: stop.env_steps has to be set.",
            "For instance: --set stop.env_steps=50000",
        )
    if params.score == "evaluation_return" and not settings.evaluates_every:
        raise UsageError(
            "Trials have no evaluation_return while evaluation.every_updates is 0.",
            "Let them be evaluated: --set evaluation.every_updates=5, or use another --score.",
        )
