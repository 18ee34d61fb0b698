"""A runner in a terminal: `soulsgui serve`."""

import asyncio
import json
import logging
import shutil
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soulsgui.config.layers import combine, layers_of
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import SoulsGuiError, UsageError, printable
from soulsgui.process import Terminal, own_terminal, setup_logging
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused, as_api_error
from soulsgui.runner.run.agreed import AgreedRuns
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.record import ENDED_STATES, RunRecord
from soulsgui.runner.run.start import beginning, of_the_runner, resumption
from soulsgui.runner.status_text import run_line, summary_text
from soulsgui.system import raise_open_files
from soulsgui.wire.control import (
    CLIENT,
    ClientStatus,
    ErrorCode,
    RunResumeParams,
    RunStartParams,
    ServiceStatus,
)
from soulsgui.wire.keys import TELEMETRY, inference_number

logger = logging.getLogger(__name__)

_LINE_EVERY_S = 0.5
_GOAL_EVERY_S = 1.0
_LINE_EVERY_WITHOUT_TERMINAL_S = 10.0


@dataclass(frozen=True)
class ServeOptions:
    """What `soulsgui serve` was asked for."""

    # `--set` and the options that stand for settings; of a run that goes on, those of the run itself are what
    # it goes on with (`RunResumeParams.overrides`).
    overrides: Layer
    idle: bool = False  # Start no run
    preset: str = ""  # A preset's name
    resume: str = ""  # A run to go on with, or `latest`; empty begins a new one
    trust: str = ""  # What that may execute here though it comes from elsewhere (`RunResumeParams.trust`)
    name: str = ""  # Name of a new run
    from_checkpoint: str = ""  # What it begins from
    seeds: int = 1  # With how many seeds, one after another
    until_done: bool = False  # End when the run has reached its goal
    as_json: bool = False  # Print the summary as JSON, and nothing else, on standard output

    @property
    def start_params(self) -> RunStartParams:
        """How a new run begins."""
        told = {name: getattr(self, name) for name in ("preset", "name", "from_checkpoint", "seeds", "trust")}
        return RunStartParams(**told)


def serve(folders: Folders, options: ServeOptions) -> int:
    """Check settings, then run a server until it is told to end or its run is done; return the exit code."""
    base, of_run = of_the_runner(options.overrides) if options.resume else (options.overrides, {})
    settings = combine(layers_of(folders, options.preset, [base]))
    asked: dict[str, Any] = {"run": options.resume, "overrides": of_run, "trust": options.trust}
    resume = RunResumeParams(**asked) if options.resume else None
    _check(folders, options, settings, resume)
    setup_logging(settings.logging.level)
    raise_open_files()
    with own_terminal() as terminal:
        if terminal is not None:
            # Only what matters interrupts the status line.
            logging.getLogger().handlers[0].setLevel(logging.WARNING)
        headless = _Headless(options, Runner(folders, settings, base), resume, terminal)
        asyncio.run(headless.run())
    return headless.sum_up()


def _check(
    folders: Folders, options: ServeOptions, settings: Settings, resume: RunResumeParams | None
) -> None:
    new = options.name or options.from_checkpoint or options.seeds > 1
    if options.idle and (options.resume or new or options.until_done):
        raise UsageError(
            "--idle starts no run: it can't be combined with --resume, --name, --from, --seeds or "
            "--until-done.",
            "Leave one of them out.",
        )
    if options.trust and not (options.resume or options.from_checkpoint):
        what = "--trust only works with --resume and --from: a new run asks nothing."
        raise UsageError(what, "Leave it out.")
    if options.resume and (options.preset or new):
        raise UsageError(
            "--resume continues a run as it is configured: it can't be combined with --preset, --name, "
            "--from or --seeds.",
            "Leave one of them out.",
        )
    if resume is not None:
        settings = resumption(Library(folders.runs), AgreedRuns(folders), resume).settings
    elif options.from_checkpoint:
        settings = beginning(folders, Library(folders.runs), options.start_params, options.overrides).settings
    if options.until_done and settings.stop.mean_return is None and settings.stop.env_steps is None:
        raise UsageError(
            "--until-done needs a goal: neither stop.mean_return nor stop.env_steps is set.",
            "For instance: --set stop.mean_return=475",
        )


class _Headless:
    def __init__(
        self,
        options: ServeOptions,
        runner: Runner,
        resume: RunResumeParams | None,
        terminal: Terminal | None,
    ) -> None:
        self._options = options
        self._terminal = terminal
        self._runner = runner
        self._resume = resume
        self._error: SoulsGuiError | None = None

    async def run(self) -> None:
        """Serve until the end."""
        runner = self._runner
        runner.obey_signals()
        adopted = await runner.open(holds_queue=not self._options.idle)
        shown = _StatusLine(runner, self._terminal, self._options.idle)
        line = asyncio.create_task(shown.keep_showing())
        try:
            logger.info("control API at %s, data in %s", runner.control.url, runner.folders.data)
            await self._until_end(adopted)
        finally:
            try:
                await runner.close()
            finally:
                line.cancel()
                await asyncio.gather(line, return_exceptions=True)

    async def _until_end(self, adopted: bool) -> None:
        runner, options, manager = self._runner, self._options, self._runner.run_manager
        if adopted and not options.idle:
            logger.warning("the run of an earlier runner continues as it was; no other one is started")
        elif manager.queued() and self._resume is None and not options.idle:
            logger.warning("the queue of an earlier runner continues; no other run is started")
        elif not options.idle:
            await _first_of(self._start(), runner.closing.wait())
            if self._error is not None:
                return
        manager.holds_queue = False
        if options.until_done:
            await _first_of(self._all_over(), runner.closing.wait(), self._watch_goal())
        else:
            await runner.closing.wait()

    async def _all_over(self) -> None:
        """Return when no run is active, and none waits."""
        manager = self._runner.run_manager
        await manager.over.wait()
        while manager.session is not None or manager.queued():
            await asyncio.sleep(_GOAL_EVERY_S)

    async def _watch_goal(self) -> None:
        """End a run when nobody is left who plays, or who could say that the goal was reached."""
        runner = self._runner
        while True:
            await asyncio.sleep(_GOAL_EVERY_S)
            session = runner.run_manager.session
            if session is None or session.record.state == "starting":
                continue  # what its services are was told of the run before
            states = {service.name: service.state for service in runner.supervisor.statuses()}
            needed = session.settings.stop.env_steps is None
            if needed and states.get(TELEMETRY) == "failed":
                outcome = runner.supervisor.outcome_of(TELEMETRY)
                words = outcome.words if outcome is not None else "failed"
                await runner.run_manager.fail(f"The goal is not checked: telemetry {words}")
            elif why := nobody_plays(runner.supervisor.statuses(), lambda: runner.status().clients):
                await runner.run_manager.fail(why)

    async def _start(self) -> None:
        try:
            await self._begin()
        except SoulsGuiError as error:
            self._error = error
        except Exception as error:
            answer = as_api_error(error, "run.start" if self._resume is None else "run.resume")
            self._error = SoulsGuiError(answer.message, answer.remedy)

    async def _begin(self) -> None:
        options, manager = self._options, self._runner.run_manager
        try:
            if self._resume is not None:
                await manager.resume(self._resume)
            else:
                await manager.start(options.start_params)
        except Refused as error:
            if error.code is not ErrorCode.NO_ANSWER or manager.run is None:
                raise
            logger.warning("%s", error.message)  # a slow game, or a busy computer: nobody waits for an answer
            await manager.opened()

    def sum_up(self) -> int:
        """Print the result of the run and return the exit code; a run that did not start is an error."""
        if self._error is not None:
            raise self._error
        manager, library = self._runner.run_manager, self._runner.library
        record = manager.record
        # The newest run on disk may be one of long ago, which says nothing of this process.
        ours = record.id in manager.begun and record.state in ENDED_STATES
        found = summary(record, library) if ours else {}
        # Of an experiment also those that an earlier runner has ended.
        known = [library.record(run) for run in reversed(library.folders()) if run.run_id != record.id]
        others = [
            one for one in known if one.id in manager.begun or one.experiment == record.experiment != ""
        ]
        if found and record.experiment:
            found["runs"] = [summary(one, library) for one in (*others, record)]
        if self._options.as_json:
            sys.stdout.write(json.dumps(found) + "\n")
        elif found:
            said = summary_text(found)
            if record.experiment:
                said += f"\nall runs of it: soulsgui experiments show {record.experiment}"
            sys.stdout.write(printable(said, None, lines=True) + "\n")
        if not self._options.until_done:
            return 0
        if found and manager.loss:
            sys.stderr.write(f"Its end is not saved: {printable(manager.loss)}\n")
        done = found and is_done(record, manager.loss) and all(is_done(one, "") for one in others)
        return 0 if done else 1


def nobody_plays(services: Sequence[ServiceStatus], clients: Callable[[], Sequence[ClientStatus]]) -> str:
    """Say that all clients of this server were given up, where there are no others; empty otherwise."""
    ours = {service.name: service for service in services if service.kind == CLIENT}
    if not ours or any(service.state != "failed" for service in ours.values()):
        return ""
    if any(client.id not in ours and not inference_number(client.id) for client in clients()):
        return ""
    name, service = next(iter(ours.items()))
    return f"Nobody plays: {name} was given up: {service.outcome}"


def is_done(record: RunRecord, loss: str) -> bool:
    """Whether a run that has ended has reached its goal, and what it came to is saved."""
    return record.reached in ("mean_return", "env_steps") and not loss


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when the first of them is done, or raise its error; the others are cancelled."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


class _StatusLine:
    """Shows the state: in place on a terminal, else as a log line now and then."""

    def __init__(self, runner: Runner, terminal: Terminal | None, idle: bool) -> None:
        self._runner = runner
        self._terminal = terminal
        self._idle = idle
        self._run_id = ""

    async def keep_showing(self) -> None:
        """Show until cancelled."""
        shown_state, shown, shown_at = "", "", float("-inf")
        while True:
            state, line = self._line()
            now = time.monotonic()
            due = state != shown_state or now - shown_at >= _LINE_EVERY_WITHOUT_TERMINAL_S
            if self._terminal is not None:
                self._terminal.show(line)
            elif line and line != shown and due:
                shown_state, shown, shown_at = state, line, now
                logger.info("%s", line)
            await asyncio.sleep(_LINE_EVERY_S)

    def _line(self) -> tuple[str, str]:
        """Return state and line of the run; one that ended before this server started is left out."""
        manager = self._runner.run_manager
        if manager.run is not None:
            self._run_id = manager.run.run_id
        if manager.record.id and manager.record.id == self._run_id:
            width = None if self._terminal is None else shutil.get_terminal_size().columns - 1
            return manager.record.state, run_line(manager.record.model_dump(), width)
        return "idle", "no run is active" if self._idle else ""


def summary(record: RunRecord, library: Library) -> dict[str, Any]:
    """Return the result of a run: the document of `serve --until-done --json`."""
    run = RunFolder(Path(record.dir))
    saved = (info for info in library.checkpoints.list(run) if info.kind == "current" and info.valid)
    newest = next(saved, None)
    told = record.model_dump(mode="json")
    fields = {name: told[name] for name in _SUMMARY_FIELDS}
    checkpoint = newest.path if newest is not None else None
    return {"run_id": record.id, "run_dir": record.dir, **fields, "checkpoint": checkpoint}


_SUMMARY_FIELDS = (
    "experiment", "env_id", "algorithm", "agent", "seed", "env_steps", "episodes", "updates", "seconds",
    "mean_return", "best_mean_return", "evaluation_return", "goal_judged_by", "reached", "rejected",
    "restarts",
)  # fmt: skip
