"""Evaluations that somebody asks for: which weights play by which settings, in a process of its own."""

import asyncio
import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soulsgui.config.layers import combine, defaults_layer, load_run_settings
from soulsgui.config.parsing import Layer, layer_of_tree
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import counted
from soulsgui.process import own_command
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.agreed import AgreedRuns, RunNotAgreedError
from soulsgui.runner.run.checkpoints import copy_whole
from soulsgui.runner.run.library import named_checkpoint
from soulsgui.runner.run.scores import keep_evaluation
from soulsgui.runner.run.start import override_layer
from soulsgui.runner.server.bus import ANSWER_LIMIT_S
from soulsgui.runner.status_text import return_words, spread_words
from soulsgui.telemetry.store import played_as_asked
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import EVALUATOR, TRAINER
from soulsgui.wire.manifest import CONFIG, Manifest, read_manifest, verify
from soulsgui.wire.messages.server_config import Execution
from soulsgui.wire.node_commands import NodeCommand

if TYPE_CHECKING:
    from soulsgui.runner.api.jobs import RunningJob
    from soulsgui.runner.app import Runner


_LOOK_EVERY_S = 0.5


async def evaluate(
    runner: "Runner", params: control.CheckpointEvaluateParams, job: "RunningJob"
) -> control.Evaluated:
    """Play weights of a run as a job, and return what its episodes gave.

    It is kept with the run, unless it was played by other settings or for those who watch.
    """
    run, checkpoint = await asyncio.to_thread(named_checkpoint, runner.library, params.checkpoint, params.run)
    best_kind = "gif" if find_spec("av") is None else "mp4"  # what can't be made, the process says
    suffix = params.video and f".{best_kind if params.video == 'any' else params.video}"
    trained = runner.run_manager.run == run and runner.supervisor.running(TRAINER)
    if params.model_id is None and not (trained and checkpoint == control.NEWEST):
        get = runner.library.checkpoints.get
        info = await asyncio.to_thread(get, run, checkpoint or control.NEWEST)
        async with copied(job, run, info) as (aside, _):
            found = await _play(runner, params, job, aside, suffix)
        found, played = found.model_copy(update={"checkpoint": info.path}), info.id
    elif trained:
        found, played = await _play_trained(runner, params, job, run, suffix), ""
    else:
        raise Refused(
            ErrorCode.NOT_NOW,
            f"Run {run.run_id} is not being trained now: only its checkpoints can be used.",
            f"See which there are: soulsgui checkpoints list {run.run_id}",
        )
    if not (params.overrides or params.frames):
        await asyncio.to_thread(keep_evaluation, run, found, played)
        returns = spread_words(found) if found.episodes > 1 else return_words(found.mean_return)
        over = f"over {counted(found.episodes, 'episode')}: mean return {returns}"
        what = f"The weights of update {found.updates:,} were evaluated {over}"
        runner.events.add("info", what, run_id=run.run_id)
    return found


async def _play_trained(
    runner: "Runner",
    params: control.CheckpointEvaluateParams,
    job: "RunningJob",
    run: RunFolder,
    suffix: str,
) -> control.Evaluated:
    if (evaluator := runner.run_manager.node(EVALUATOR)) is not None and evaluator.phase == "frozen":
        return await _ask_clients(runner, params, job, run)
    args = {"kind": "watched", "model_id": params.model_id}
    answer = await runner.bus.ask(TRAINER, NodeCommand(command="save", args=args), ANSWER_LIMIT_S)
    aside = run.root / str(answer.result["path"])
    try:
        return await _play(runner, params, job, aside, suffix)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


async def _ask_clients(
    runner: "Runner", params: control.CheckpointEvaluateParams, job: "RunningJob", run: RunFolder
) -> control.Evaluated:
    """Have clients play the newest weights: the server can't make the environment."""
    if params.model_id is not None or params.video or params.frames or params.stochastic or params.overrides:
        raise Refused(
            ErrorCode.NOT_NOW,
            "The server can't make the environment: clients can only play the newest weights, with the "
            "settings of the run, greedily and without pictures.",
            "Leave out all other options, or evaluate on a computer where the environment is installed.",
        )
    asked = NodeCommand(command="evaluate", args={"episodes": params.episodes})
    attempt = int((await runner.bus.ask(TRAINER, asked, ANSWER_LIMIT_S)).result["attempt"])
    job.tell("clients are asked to play the next weights")
    while (found := await asyncio.to_thread(played_as_asked, run.store, asked.id)) is None:
        if runner.run_manager.run != run:
            raise Refused(ErrorCode.FAILED, f"{run.run_id} ended before clients had played.")
        if runner.run_manager.record.attempt > attempt:  # its trainer of now knows nothing of it
            what = f"The trainer of {run.run_id} was restarted before clients had played."
            raise Refused(ErrorCode.FAILED, what, "Try again.")
        await asyncio.sleep(_LOOK_EVERY_S)
    order, settings = found.order, runner.library.settings(run)
    return control.Evaluated(
        run_id=run.run_id,
        checkpoint=params.checkpoint,
        model_id=order.model_id,
        updates=order.update,
        env_steps=order.env_steps,
        algorithm=settings.algorithm,
        agent=settings.agent,
        env_id=settings.env.id,
        seed=params.seed,
        greedy=True,
        notes=["It was played by clients, from start states of their own."],
        returns=list(found.returns),
        lengths=list(found.lengths),
        seconds=found.seconds,
        cut=found.cut,
        **control.episode_figures(found.returns, found.lengths),
    )


@asynccontextmanager
async def copied(
    job: "RunningJob", run: RunFolder, info: control.CheckpointInfo
) -> AsyncIterator[tuple[Path, Manifest]]:
    """Give a copy of a checkpoint to a process, while newer ones may replace it; and what the copy says."""
    aside = run.watched / f"{info.id.replace('/', '-')}-{secrets.token_hex(4)}"
    try:
        yield aside, await job.in_thread(copy_whole, Path(info.path), aside, memory=False)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


async def _play(
    runner: "Runner",
    params: control.CheckpointEvaluateParams,
    job: "RunningJob",
    path: Path,
    suffix: str,
) -> control.Evaluated:
    info = await asyncio.to_thread(read_manifest, path)
    changes = override_layer(params.overrides)
    agreed = AgreedRuns(runner.folders)
    settings, asks = await asyncio.to_thread(settings_to_play, agreed, path, info, changes)
    if asks is not None and params.trust not in (control.TRUST_ANY, asks.digest):
        raise RunNotAgreedError(f"The checkpoint {params.checkpoint or control.NEWEST}", asks)
    if asks is not None:
        agreed.agree(settings)
    job.tell("loading weights and environment")
    request: dict[str, Any] = {
        "path": str(path),
        "settings": settings.model_dump(mode="json"),
        "episodes": params.episodes,
        "seed": params.seed,
        "greedy": not params.stochastic,
        "frames": params.frames,
        "video": str(job.new_file(f"model-{info.model_id}{suffix}")) if suffix else "",
    }

    def reply(message: dict[str, Any]) -> dict[str, Any]:
        if "picture" in message:
            runner.feed.show(job.id, control.Picture.model_validate(message["picture"]))
        return {"pace": runner.feed.pace(job.id)}

    try:
        return control.Evaluated.model_validate(
            await job.in_process(own_command("evaluation"), request, reply)
        )
    finally:
        runner.feed.show(job.id, None)


def settings_to_play(
    agreed: AgreedRuns, path: Path, info: Manifest, changes: Layer
) -> tuple[Settings, Execution | None]:
    """Return the settings to play a checkpoint with, and what is to be agreed to before; None for nothing."""
    below = _settings_of(path, info)
    settings = combine([below, changes])
    return settings, agreed.asks(combine([below]), settings)


def _settings_of(path: Path, info: Manifest) -> Layer:
    """Return the settings of a checkpoint: its own; of an older one, those of the run it stands with."""
    if CONFIG in info.files:
        own: Path | None = path / CONFIG
        verify(path, info.model_copy(update={"files": {CONFIG: info.files[CONFIG]}}))
    else:
        above = (RunFolder(folder).config for folder in (path.parent, path.parent.parent))
        own = next((config for config in above if config.exists()), None)
    if own is not None:
        return layer_of_tree(load_run_settings(own).model_dump(mode="json"), own.name)
    shipped = defaults_layer()
    return Layer(shipped.source, shipped.values | {"env.id": info.env_id})
