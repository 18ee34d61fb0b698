"""Handlers of commands about the runner, its services, the active run and settings (`wire.control`)."""

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from soulsgui import __version__
from soulsgui.config.schema import public_values
from soulsgui.errors import ServiceError
from soulsgui.runner import settings_file
from soulsgui.runner.api.server import Check, Handler
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.runner.run.agreed import AgreedRuns
from soulsgui.runner.run.experiments import compare, experiments, find
from soulsgui.runner.run.history import log_lines, log_paths, refuse_unknown
from soulsgui.runner.run.library import LATEST
from soulsgui.runner.run.start import refuse_without_torch, resumption
from soulsgui.runner.server.bus import ANSWER_LIMIT_S
from soulsgui.runner.server.redis_server import REDIS
from soulsgui.runner.server.settings import set_server
from soulsgui.runner.server.usage import usage
from soulsgui.telemetry.store import query_history
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode, Event
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.messages.live import read_changes
from soulsgui.wire.node_commands import NodeCommand

if TYPE_CHECKING:
    from soulsgui.config.paths import RunFolder
    from soulsgui.runner.app import Runner
    from soulsgui.runner.base import BaseRunner

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
    return await runner.run_manager.start(params)


async def _resume(runner: "Runner", params: control.RunResumeParams) -> control.RunPlace:
    return _place(await runner.run_manager.resume(params))


async def _stop(runner: "Runner", _params: control.Empty) -> control.RunPlace:
    return _place(await runner.run_manager.stop())


def _place(run: "RunFolder") -> control.RunPlace:
    return control.RunPlace(run_id=run.run_id, run_dir=str(run.root))


async def _list_queue(runner: "Runner", _params: control.Empty) -> control.RunQueued:
    return control.RunQueued(queue=runner.run_manager.queued())


async def _move_queued(runner: "Runner", params: control.QueueMoveParams) -> control.RunQueued:
    runner.run_manager.queue.move(params.number, params.place, _active_id(runner))
    return control.RunQueued(queue=runner.run_manager.queued())


async def _remove_queued(runner: "Runner", params: control.QueueRemoveParams) -> control.RunQueued:
    runner.run_manager.queue.remove(params.which, _active_id(runner))
    return control.RunQueued(queue=runner.run_manager.queued())


def _active_id(runner: "Runner") -> str:
    return runner.run_manager.run.run_id if runner.run_manager.run is not None else ""


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


def check_redis(runner: "Runner") -> None:
    """Raise that Redis is down, where it is."""
    if not runner.supervisor.running(REDIS):
        raise Refused(ErrorCode.NOT_NOW, "Redis is down.", "Look at its log: soulsgui logs redis")


def _check_save(runner: "Runner", params: control.Params) -> None:
    check_trainer(runner, params, ", so there is nothing to save")


def check_trainer(runner: "Runner", _params: control.Params, hence: str = "") -> None:
    """Raise why nothing can be asked of the trainer of a run now."""
    runner.run_manager.not_ending()
    check_redis(runner)
    if not runner.supervisor.running(TRAINER):
        raise Refused(ErrorCode.NOT_NOW, f"The trainer is not running{hence}.", "Try again when it is.")


def _check_start(runner: "Runner", params: control.RunStartParams) -> None:
    refuse_without_torch()
    check_redis(runner)
    runner.run_manager.check_room(params.if_active)


def _check_resume(runner: "Runner", params: control.RunResumeParams) -> None:
    refuse_without_torch()
    check_redis(runner)
    runner.run_manager.check_room(params.if_active)
    last = runner.run_manager.record.id
    # That one is known, and asked about at every status; others are found later, as is one put into the bin.
    if params.run == LATEST and (not last or (runner.library.root / last).is_dir()):
        known = params.model_copy(update={"run": last or LATEST})
        resumption(runner.library, AgreedRuns(runner.folders), known)


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
            "Everything needs Redis.",
            "Stop the run first: soulsgui run stop",
        )


async def _list_jobs(runner: "Runner", _params: control.Empty) -> control.JobList:
    return control.JobList(jobs=runner.jobs.all())


async def _cancel_job(runner: "Runner", params: control.JobParams) -> control.JobTold:
    return control.JobTold(job=await runner.jobs.cancel(params.job))


async def _experiments(runner: "Runner", score: control.ScoreName) -> list[control.Experiment]:
    runs = await asyncio.to_thread(runner.library.summaries, runner.run_manager.active)
    return await asyncio.to_thread(experiments, runs, runner.run_manager.queued(), score)


async def _list_experiments(runner: "Runner", params: control.ExperimentsParams) -> control.ExperimentList:
    return control.ExperimentList(experiments=await _experiments(runner, params.score))


async def _show_experiment(runner: "Runner", params: control.ExperimentParams) -> control.Experiment:
    return find(await _experiments(runner, params.score), params.experiment)


async def _compare_experiments(runner: "Runner", params: control.CompareParams) -> control.Comparison:
    found = await _experiments(runner, params.score)
    return await asyncio.to_thread(compare, [find(found, name) for name in params.experiments])


async def _start_sweep(runner: "Runner", params: control.SweepStartParams) -> control.SweepStatus:
    return await runner.sweeps.start(params)


async def _show_sweep(runner: "Runner", params: control.SweepParams) -> control.SweepStatus:
    return await runner.sweeps.status(params.sweep)


async def _stop_sweep(runner: "Runner", _params: control.Empty) -> control.SweepStatus:
    return await runner.sweeps.stop()


async def _query(runner: "Runner", params: control.HistoryQueryParams) -> control.History:
    run = await asyncio.to_thread(runner.library.find, params.run)
    found = await asyncio.to_thread(query_history, run.store, params)
    if not found.value and not params.missing_ok:
        refuse_unknown(run, params, found, runner.roster.names())
    return found


async def _logs(runner: "Runner", params: control.HistoryLogsParams) -> control.LogLines:
    paths = await asyncio.to_thread(log_paths, runner.folders, runner.library, params.run)
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
    told: dict[str, Any] = {"changes": read_changes(session.run.changes)} if session is not None else {}
    if params.run:
        run = await asyncio.to_thread(runner.library.find, params.run)
        settings = await asyncio.to_thread(runner.library.settings, run)
        told = {"run": public_values(settings), "asks": AgreedRuns(runner.folders).asks(settings)}
        told["changes"] = await asyncio.to_thread(read_changes, run.changes)
    values = await asyncio.to_thread(settings_file.values, runner.folders, running)
    return values.model_copy(update=told)


async def _check_config(runner: "Runner", params: control.ConfigCheckParams) -> control.ConfigProblems:
    return control.ConfigProblems(
        problems=await asyncio.to_thread(settings_file.problems, runner.folders, params)
    )


async def _save_config(runner: "Runner", params: control.ConfigSaveParams) -> control.SavedConfig:
    return control.SavedConfig(**await asyncio.to_thread(settings_file.save, runner.folders, params))


async def _apply(runner: "Runner", params: control.ConfigApplyParams) -> control.Applied:
    return control.Applied(change=await runner.run_manager.apply(params.keys))


async def _undo(runner: "Runner", _params: control.Empty) -> control.Applied:
    return control.Applied(change=await runner.run_manager.undo())


async def _presets(_runner: "Runner", _params: control.Empty) -> control.PresetList:
    return control.PresetList(presets=await asyncio.to_thread(settings_file.presets))


async def _test_alert(runner: "Runner", _params: control.Empty) -> control.AlertSent:
    event = Event(number=0, time=time.time(), level="info", what="This is a test of alerts.", topic="test")
    return control.AlertSent(place=runner.alerts.place, status=await runner.alerts.send(event))


HANDLERS: dict[str, Handler] = {
    "alerts.test": _test_alert,
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
    "run.queue.list": _list_queue,
    "run.queue.move": _move_queued,
    "run.queue.remove": _remove_queued,
    "run.pause": _pause,
    "run.continue": _go_on,
    "checkpoint.save": _quicksave,
    "experiments.list": _list_experiments,
    "experiments.show": _show_experiment,
    "experiments.compare": _compare_experiments,
    "sweep.start": _start_sweep,
    "sweep.status": _show_sweep,
    "sweep.stop": _stop_sweep,
    "history.query": _query,
    "history.logs": _logs,
    "history.events": events,
    "history.audit": audit,
    "job.list": _list_jobs,
    "job.cancel": _cancel_job,
    "config.get": _get_config,
    "config.check": _check_config,
    "config.save": _save_config,
    "config.apply": _apply,
    "config.undo": _undo,
    "config.presets": _presets,
}
CHECKS: dict[str, Check] = {
    "alerts.test": lambda runner, _params: runner.alerts.check(),
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
    "config.apply": check_trainer,
    "config.undo": check_trainer,
}
