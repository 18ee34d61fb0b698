"""Handlers of commands about the runner, its services, runs and settings (see `wire.control.commands`)."""

import asyncio
import os
from typing import TYPE_CHECKING, Any

from soulsgui import __version__
from soulsgui.config.schema import public_values
from soulsgui.errors import ServiceError
from soulsgui.runner import settings_file
from soulsgui.runner.api.jobs import RunningJob
from soulsgui.runner.api.server import Check, Handler
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.runner.run.agreed import AgreedRuns
from soulsgui.runner.run.checkpoints import Checkpoints
from soulsgui.runner.run.evaluations import evaluate
from soulsgui.runner.run.library import log_lines, log_paths, refuse_unknown
from soulsgui.runner.run.start import refuse_reached, refuse_without_torch, resumption
from soulsgui.runner.server.bus import ANSWER_LIMIT_S
from soulsgui.runner.server.redis_server import REDIS
from soulsgui.runner.server.settings import set_server
from soulsgui.runner.server.usage import usage
from soulsgui.telemetry.store import query_history
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.node_commands import NodeCommand

if TYPE_CHECKING:
    from soulsgui.config.paths import RunFolder
    from soulsgui.runner.app import Runner
    from soulsgui.runner.base import BaseRunner
    from soulsgui.runner.run.record import RunRecord

_READY_LIMIT_S = 50.0


async def hello(runner: "BaseRunner", _params: control.Empty) -> control.Hello:
    """Say who answers and what it can do."""
    return control.Hello(
        version=__version__,
        role=runner.role,
        server_id=runner.control.server_id,
        pid=os.getpid(),
        started=runner.started,
        data_dir=str(runner.folders.data),
        config_dir=str(runner.folders.config),
        capabilities=sorted(runner.handlers),
        ends_with_window=runner.ends_with_window,
    )


async def shutdown(runner: "BaseRunner", params: control.ShutdownParams) -> None:
    """End everything, after this answer."""
    runner.ask_to_close(params.save)


async def _start_service(runner: "Runner", params: control.ServiceParams) -> None:
    await runner.supervisor.start(runner.supervisor.spec_of(params.name))
    await _ready(runner, params.name)


async def _stop_service(runner: "Runner", params: control.ServiceParams) -> None:
    await runner.supervisor.stop(params.name)


async def _restart_service(runner: "Runner", params: control.ServiceParams) -> None:
    await runner.supervisor.restart(params.name)
    await _ready(runner, params.name)


async def _ready(runner: "Runner", name: str) -> None:
    if not (ready := await runner.supervisor.wait_ready(name, _READY_LIMIT_S)):
        limit = f"is not ready after {_READY_LIMIT_S:.0f} s"
        why = "was stopped or restarted meanwhile" if ready is None else limit
        raise Refused(ErrorCode.NO_ANSWER, f"{name} {why}.", f"Look at its log: soulsgui logs {name}")


async def _local_clients(runner: "Runner", params: control.LocalClientsParams) -> control.ClientCount:
    await runner.run_manager.set_clients(params.count)
    return control.ClientCount(count=params.count)


async def _start(runner: "Runner", params: control.RunStartParams) -> control.RunPlace:
    return _place(await runner.run_manager.start(params))


async def _resume(runner: "Runner", params: control.RunResumeParams) -> control.RunPlace:
    return _place(await runner.run_manager.resume(params))


async def _stop(runner: "Runner", _params: control.Empty) -> control.RunPlace:
    return _place(await runner.run_manager.stop())


def _place(run: "RunFolder") -> control.RunPlace:
    return control.RunPlace(run_id=run.run_id, run_dir=str(run.root))


async def _pause(runner: "Runner", _params: control.Empty) -> control.Done:
    return control.Done(done=await runner.run_manager.not_ending().pause())


async def _go_on(runner: "Runner", _params: control.Empty) -> control.Done:
    return control.Done(done=await runner.run_manager.not_ending().go_on())


async def _quicksave(runner: "Runner", params: control.CheckpointSaveParams) -> control.CheckpointTold:
    run = runner.run_manager.run
    if run is None:
        raise no_run()
    args = {"kind": "manual", "note": params.note, "buffer": params.buffer}
    command = NodeCommand(command="save", args=args)
    answer = await runner.bus.ask(TRAINER, command, ANSWER_LIMIT_S)
    info = await asyncio.to_thread(runner.library.checkpoints.get, run, str(answer.result["path"]))
    return control.CheckpointTold(checkpoint=info)


def _check_run(runner: "Runner", _params: control.Params) -> None:
    if runner.run_manager.run is None:
        raise no_run()


def _check_not_ending(runner: "Runner", _params: control.Params) -> None:
    runner.run_manager.not_ending()


def _check_redis(runner: "Runner") -> None:
    if not runner.supervisor.running(REDIS):
        raise Refused(ErrorCode.NOT_NOW, "Redis is down.", "Look at its log: soulsgui logs redis")


def _check_save(runner: "Runner", _params: control.Params) -> None:
    runner.run_manager.not_ending()
    _check_redis(runner)
    if not runner.supervisor.running(TRAINER):
        raise Refused(
            ErrorCode.NOT_NOW,
            "The trainer is not up, so there is nothing to save.",
            "Try again when it is.",
        )


def _check_start(runner: "Runner", params: control.RunStartParams) -> None:
    refuse_without_torch()
    _check_redis(runner)
    runner.run_manager.check_room(params.if_active)


def _check_resume(runner: "Runner", params: control.RunResumeParams) -> None:
    refuse_without_torch()
    _check_redis(runner)
    runner.run_manager.check_room(params.if_active)
    resumption(runner.library, AgreedRuns(runner.folders), params)


def _check_service(runner: "Runner", params: control.ServiceParams) -> None:
    try:
        runner.supervisor.spec_of(params.name)
    except ServiceError as error:
        raise Refused(ErrorCode.NOT_FOUND, error.message, error.remedy) from error
    if params.name != REDIS:
        _check_run(runner, params)


def _check_start_service(runner: "Runner", params: control.ServiceParams) -> None:
    _check_service(runner, params)
    if params.name != REDIS:
        runner.run_manager.not_ending()


def _check_restart_service(runner: "Runner", params: control.ServiceParams) -> None:
    _check_service(runner, params)
    if runner.run_manager.run is not None:
        runner.run_manager.not_ending()


def _check_stop_service(runner: "Runner", params: control.ServiceParams) -> None:
    _check_service(runner, params)
    if params.name == REDIS and runner.run_manager.run is not None:
        raise Refused(
            ErrorCode.NOT_NOW,
            "Nothing can go on without Redis.",
            "Stop the run first: soulsgui run stop",
        )


async def _list_runs(runner: "Runner", _params: control.Empty) -> control.RunList:
    runs = await asyncio.to_thread(runner.library.summaries, _active(runner))
    return control.RunList(runs=[_with_allowed(runner, run) for run in runs])


async def _edit_run(runner: "Runner", params: control.RunsEditParams) -> control.RunSummary:
    run = runner.library.find(params.run)
    changes = params.model_dump(include={"name", "note"}, exclude_none=True)
    runner.run_manager.edit(run, changes)
    return _with_allowed(runner, await asyncio.to_thread(runner.library.summary, run, _active(runner)))


def _with_allowed(runner: "Runner", run: control.RunSummary) -> control.RunSummary:
    """Return a run with why `_check_resume` would refuse it, but for what its settings tell."""
    active, why = _active(runner), ""
    try:
        refuse_without_torch()
        _check_redis(runner)
        runner.run_manager.check_room("refuse" if active is not None and active.id == run.id else "stop")
        refuse_reached(run)
    except Refused as refused:
        why = refused.message
    return run.model_copy(update={"allowed": {"run.resume": why}})


def _active(runner: "Runner") -> "RunRecord | None":
    return runner.run_manager.record if runner.run_manager.run is not None else None


async def _list_checkpoints(runner: "Runner", params: control.CheckpointListParams) -> control.CheckpointList:
    run = runner.library.find(params.run)
    return control.CheckpointList(checkpoints=await asyncio.to_thread(runner.library.checkpoints.list, run))


async def _edit_checkpoint(runner: "Runner", params: control.CheckpointEditParams) -> control.CheckpointTold:
    run, checkpoints = runner.library.find(params.run), runner.library.checkpoints
    info = await asyncio.to_thread(checkpoints.edit_note, run, params.path, params.note)
    return control.CheckpointTold(checkpoint=info)


async def _verify_checkpoints(
    runner: "Runner", params: control.CheckpointVerifyParams, job: RunningJob
) -> control.CheckpointList:
    run = runner.library.find(params.run)
    return control.CheckpointList(checkpoints=await job.in_thread(Checkpoints(job.tell).list, run))


async def _list_jobs(runner: "Runner", _params: control.Empty) -> control.JobList:
    return control.JobList(jobs=runner.jobs.all())


async def _cancel_job(runner: "Runner", params: control.JobParams) -> control.JobTold:
    return control.JobTold(job=await runner.jobs.cancel(params.job))


async def _query(runner: "Runner", params: control.HistoryQueryParams) -> control.History:
    run = runner.library.find(params.run)
    found = await asyncio.to_thread(query_history, run.store, params)
    if not found.value and not params.missing_ok:
        refuse_unknown(run, params, found, runner.roster.names())
    return found


async def _logs(runner: "Runner", params: control.HistoryLogsParams) -> control.LogLines:
    paths = log_paths(runner.folders, runner.library, params.run)
    lines, first = await asyncio.to_thread(log_lines, paths, params)
    return control.LogLines(lines=lines, first=first)


async def events(runner: "BaseRunner", params: control.HistoryEventsParams) -> control.EventList:
    """Return the events after a number."""
    return control.EventList(events=runner.events.since(params.since))


async def audit(runner: "BaseRunner", params: control.HistoryAuditParams) -> control.AuditList:
    """Return the commands that changed something."""
    return control.AuditList(entries=runner.audit.since(params.since, params.limit))


async def _get_config(runner: "Runner", params: control.ConfigGetParams) -> control.ConfigValues:
    session = runner.run_manager.session
    running = public_values(session.settings) if session is not None else {}
    told: dict[str, Any] = {}
    if params.run:
        run = runner.library.find(params.run)
        settings = await asyncio.to_thread(runner.library.settings, run)
        told = {"run": public_values(settings), "asks": AgreedRuns(runner.folders).asks(settings)}
    values = await asyncio.to_thread(settings_file.values, runner.folders, running)
    return values.model_copy(update=told)


async def _check_config(runner: "Runner", params: control.ConfigCheckParams) -> control.ConfigProblems:
    return control.ConfigProblems(
        problems=await asyncio.to_thread(settings_file.problems, runner.folders, params)
    )


async def _save_config(runner: "Runner", params: control.ConfigSaveParams) -> control.SavedConfig:
    return control.SavedConfig(**await asyncio.to_thread(settings_file.save, runner.folders, params))


async def _presets(_runner: "Runner", _params: control.Empty) -> control.PresetList:
    return control.PresetList(presets=await asyncio.to_thread(settings_file.presets))


HANDLERS: dict[str, Handler] = {
    "server.hello": hello,
    "server.shutdown": shutdown,
    "server.usage": usage,
    "server.set": set_server,
    "service.start": _start_service,
    "service.stop": _stop_service,
    "service.restart": _restart_service,
    "service.local_clients": _local_clients,
    "run.start": _start,
    "run.resume": _resume,
    "run.stop": _stop,
    "run.pause": _pause,
    "run.continue": _go_on,
    "checkpoint.save": _quicksave,
    "runs.list": _list_runs,
    "runs.edit": _edit_run,
    "history.query": _query,
    "history.logs": _logs,
    "history.events": events,
    "history.audit": audit,
    "checkpoint.list": _list_checkpoints,
    "checkpoint.edit": _edit_checkpoint,
    "checkpoint.evaluate": evaluate,
    "checkpoint.verify": _verify_checkpoints,
    "job.list": _list_jobs,
    "job.cancel": _cancel_job,
    "config.get": _get_config,
    "config.check": _check_config,
    "config.save": _save_config,
    "config.presets": _presets,
}
CHECKS: dict[str, Check] = {
    "service.start": _check_start_service,
    "service.stop": _check_stop_service,
    "service.restart": _check_restart_service,
    "service.local_clients": _check_not_ending,
    "run.start": _check_start,
    "run.resume": _check_resume,
    "run.stop": _check_run,
    "run.pause": _check_not_ending,
    "run.continue": lambda runner, _params: runner.run_manager.not_ending().check_paused(),
    "checkpoint.save": _check_save,
}
