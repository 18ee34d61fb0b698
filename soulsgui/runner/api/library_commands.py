"""Handlers of commands about the runs of the library and their checkpoints (see `wire.control.commands`)."""

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import public_values
from soulsgui.errors import UsageError
from soulsgui.process import own_command
from soulsgui.runner.api.jobs import RunningJob
from soulsgui.runner.api.run_commands import check_redis, check_trainer
from soulsgui.runner.api.server import Check, Handler
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.checkpoints import Checkpoints
from soulsgui.runner.run.evaluations import copied, evaluate
from soulsgui.runner.run.library import LATEST, UNPACKED, named_checkpoint
from soulsgui.runner.run.scores import kept_evaluations, with_evaluations
from soulsgui.runner.run.start import refuse_reached, refuse_without_torch
from soulsgui.system import find_dir
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.manifest import read_manifest

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner
    from soulsgui.runner.run.session import RunSession


async def _list_runs(runner: "Runner", params: control.RunsListParams) -> control.RunList:
    if params.trashed:
        return control.RunList(runs=await asyncio.to_thread(runner.bin.runs.summaries, None))
    runs = await asyncio.to_thread(runner.library.summaries, runner.run_manager.active)
    return control.RunList(runs=[_with_allowed(runner, run) for run in runs])


async def _told(runner: "Runner", run: RunFolder) -> control.RunSummary:
    return _with_allowed(
        runner, await asyncio.to_thread(runner.library.summary, run, runner.run_manager.active)
    )


def _with_allowed(runner: "Runner", run: control.RunSummary) -> control.RunSummary:
    """Return a run with why `run.resume` would be refused, but for what its settings tell."""
    active, why = runner.run_manager.active, ""
    try:
        refuse_without_torch()
        check_redis(runner)
        runner.run_manager.check_room("refuse" if active is not None and active.id == run.id else "stop")
        refuse_reached(run)
    except Refused as refused:
        why = refused.message
    return run.model_copy(update={"allowed": {"run.resume": why}})


async def _show_run(runner: "Runner", params: control.RunParams) -> control.RunDetails:
    run = await asyncio.to_thread(runner.library.find, params.run)
    settings, checkpoints = await asyncio.gather(
        asyncio.to_thread(runner.library.settings, run),
        asyncio.to_thread(runner.library.checkpoints.list, run),
    )
    return control.RunDetails(
        run=await _told(runner, run),
        settings=public_values(settings),
        versions=runner.library.versions(run),
        checkpoints=await asyncio.to_thread(with_evaluations, run, checkpoints),
        evaluations=await asyncio.to_thread(kept_evaluations, run),
    )


async def _compare(runner: "Runner", params: control.RunsCompareParams) -> control.RunComparison:
    runs = [await asyncio.to_thread(runner.library.find, name) for name in params.runs]
    values = [public_values(await asyncio.to_thread(runner.library.settings, run)) for run in runs]
    sides = {
        key: [one.get(key) for one in values] for key in dict.fromkeys(key for one in values for key in one)
    }
    return control.RunComparison(
        runs=[await _told(runner, run) for run in runs],
        settings={key: told for key, told in sides.items() if any(value != told[0] for value in told)},
    )


async def _edit_run(runner: "Runner", params: control.RunsEditParams) -> control.RunSummary:
    run = await asyncio.to_thread(runner.library.find, params.run)
    changes = params.model_dump(include={"name", "note"}, exclude_none=True)
    if params.pin is not None:
        changes["pinned"] = params.pin
    runner.run_manager.edit(run, changes)
    return await _told(runner, run)


async def _trash_run(runner: "Runner", params: control.WholeRunParams) -> control.RunSummary:
    async with runner.bin.changing:
        run = await asyncio.to_thread(runner.library.find, params.run, whole=True)
        told = await _told(runner, run)
        if runner.run_manager.run == run:
            raise Refused(
                ErrorCode.NOT_NOW, f"Run {run.run_id} is active.", "Stop it first: soulsgui run stop"
            )
        runner.bin.throw_run(run)  # in no thread: nobody goes on with it meanwhile
    await runner.run_manager.library_changed()
    return told


async def _restore_run(runner: "Runner", params: control.RunParams) -> control.RunSummary:
    async with runner.bin.changing:
        run = await asyncio.to_thread(runner.bin.restore_run, params.run)
    await runner.run_manager.library_changed()
    return await _told(runner, run)


async def _purge_runs(runner: "Runner", params: control.RunsPurgeParams) -> control.Freed:
    async with runner.bin.changing:
        return control.Freed(freed_bytes=await asyncio.to_thread(runner.bin.purge_runs, params.run))


async def _list_checkpoints(runner: "Runner", params: control.CheckpointListParams) -> control.CheckpointList:
    run = await asyncio.to_thread(runner.library.find, params.run)
    folder = runner.bin.checkpoints_of(run) if params.trashed else run
    found = await asyncio.to_thread(runner.library.checkpoints.list, folder)
    return control.CheckpointList(checkpoints=await asyncio.to_thread(with_evaluations, run, found))


async def _verify_checkpoints(
    runner: "Runner", params: control.CheckpointVerifyParams, job: RunningJob
) -> control.CheckpointList:
    run, one = await asyncio.to_thread(named_checkpoint, runner.library, params.run, LATEST)
    read = Checkpoints(job.tell)
    if one:
        return control.CheckpointList(checkpoints=[await job.in_thread(read.get, run, one)])
    return control.CheckpointList(checkpoints=await job.in_thread(read.list, run))


async def _load_checkpoint(
    runner: "Runner", params: control.CheckpointParams, _job: RunningJob
) -> control.CheckpointTold:
    session, checkpoints = runner.run_manager.not_ending(), runner.library.checkpoints
    source, path = await asyncio.to_thread(named_checkpoint, runner.library, params.path, params.run)
    info = await asyncio.to_thread(checkpoints.get_resumable, source, path)
    stays = source == session.run and info.kind in ("manual", "history")
    if not stays:
        await asyncio.to_thread(_refuse_misfit, session, Path(info.path))
        info = await asyncio.to_thread(checkpoints.take, session.run, Path(info.path))
    loading = asyncio.create_task(runner.run_manager.load(session, info.id))
    try:
        await asyncio.shield(loading)
    except asyncio.CancelledError:
        await loading  # half of it would leave the run without a trainer
    return control.CheckpointTold(checkpoint=info)


def _refuse_misfit(session: "RunSession", path: Path) -> None:
    """Refuse what the trainer of a run could not go on from."""
    own: dict[str, Any] = {"algorithm": session.settings.algorithm}
    other = read_manifest(path)
    if other.agent:  # older versions did not tell it
        own["agent"] = session.settings.agent
    if (newest := find_dir(session.run.checkpoint)) is not None:
        manifest = read_manifest(newest)
        own |= {"spaces": manifest.spaces, "policy": manifest.policy}
    if any(getattr(other, name) != value for name, value in own.items()):
        raise Refused(
            ErrorCode.BAD_REQUEST,
            f"{path} was saved for a different environment, algorithm, agent or network.",
            "Start another run from it: soulsgui run start --from RUN/CHECKPOINT",
        )


async def _edit_checkpoint(runner: "Runner", params: control.CheckpointEditParams) -> control.CheckpointTold:
    run, path = await asyncio.to_thread(named_checkpoint, runner.library, params.path, params.run)
    info = await asyncio.to_thread(runner.library.checkpoints.edit, run, path, params.note, params.pin)
    return control.CheckpointTold(checkpoint=info)


async def _export_checkpoint(
    runner: "Runner", params: control.CheckpointExportParams, job: RunningJob
) -> control.Exported:
    run, path = await asyncio.to_thread(named_checkpoint, runner.library, params.path, params.run)
    info = await asyncio.to_thread(runner.library.checkpoints.get, run, path)
    async with copied(job, run, info) as (aside, held):
        name = f"{run.run_id}_{held.model_id}.{params.format}"
        target = str(job.new_file(name))
        request = {"checkpoint": str(aside), "target": target, "format": params.format}
        told = await job.in_process([*own_command("job"), "export-checkpoint"], request)
    return control.Exported(name=name, checked=str(told["checked"]))


async def _trash_checkpoint(runner: "Runner", params: control.CheckpointParams) -> None:
    async with runner.bin.changing:  # its run is not thrown away meanwhile
        run, path = await asyncio.to_thread(named_checkpoint, runner.library, params.path, params.run)
        info = await asyncio.to_thread(runner.library.checkpoints.get, run, path)
        runner.bin.throw_checkpoint(run, info, runner.run_manager.run == run)  # in no thread, as a run


async def _restore_checkpoint(runner: "Runner", params: control.CheckpointParams) -> control.CheckpointTold:
    async with runner.bin.changing:
        run, path = await asyncio.to_thread(named_checkpoint, runner.library, params.path, params.run)
        path = await asyncio.to_thread(runner.bin.restore_checkpoint, run, path)
    info = await asyncio.to_thread(runner.library.checkpoints.get, run, path)
    return control.CheckpointTold(checkpoint=info)


async def _purge_checkpoints(runner: "Runner", params: control.CheckpointPurgeParams) -> control.Freed:
    async with runner.bin.changing:
        run, path = await asyncio.to_thread(named_checkpoint, runner.library, params.path, params.run)
        if params.path and not path:
            raise UsageError(f"{params.path} is a run.", f"soulsgui checkpoints purge --run {params.path}")
        freed = await asyncio.to_thread(runner.bin.purge_checkpoints, run, path)
    return control.Freed(freed_bytes=freed)


async def _export_run(runner: "Runner", params: control.RunParams, job: RunningJob) -> control.Exported:
    run = await asyncio.to_thread(runner.library.find, params.run)
    name = f"{run.run_id}.soulsrun"
    request = {"run": str(run.root), "target": str(job.new_file(name))}
    told = await job.in_process([*own_command("job"), "export-run"], request)
    return control.Exported(name=name, checked=str(told["checked"]))


async def _import_run(
    runner: "Runner", params: control.RunsImportParams, job: RunningJob
) -> control.RunSummary:
    source = runner.jobs.files.get(params.file)
    root, aside = runner.library.root, f"{UNPACKED}.{job.id}"
    request = {"source": str(source), "runs": str(root), "name": params.name, "aside": aside}
    try:
        told = await job.in_process([*own_command("job"), "import-run"], request)
    finally:
        runner.jobs.files.remove(params.file)
        await asyncio.to_thread(shutil.rmtree, root / aside, ignore_errors=True)
    return await _told(runner, RunFolder(Path(told["run"])))


HANDLERS: dict[str, Handler] = {
    "runs.list": _list_runs,
    "runs.show": _show_run,
    "runs.compare": _compare,
    "runs.edit": _edit_run,
    "runs.trash": _trash_run,
    "runs.restore": _restore_run,
    "runs.purge": _purge_runs,
    "runs.export": _export_run,
    "runs.import": _import_run,
    "checkpoint.list": _list_checkpoints,
    "checkpoint.verify": _verify_checkpoints,
    "checkpoint.load": _load_checkpoint,
    "checkpoint.edit": _edit_checkpoint,
    "checkpoint.evaluate": evaluate,
    "checkpoint.export": _export_checkpoint,
    "checkpoint.trash": _trash_checkpoint,
    "checkpoint.restore": _restore_checkpoint,
    "checkpoint.purge": _purge_checkpoints,
}
CHECKS: dict[str, Check] = {"checkpoint.load": check_trainer}
