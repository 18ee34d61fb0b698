"""`checkpoint.*`: the checkpoints of runs."""

import asyncio
from typing import TYPE_CHECKING, Any

from soulsgui.runner.bus import ANSWER_LIMIT_S
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.wire.commands import NodeCommand
from soulsgui.wire.control import (
    CheckpointEditParams,
    CheckpointInfo,
    CheckpointListParams,
    CheckpointSaveParams,
    ErrorCode,
)
from soulsgui.wire.keys import TRAINER

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner


async def list_checkpoints(runner: "Runner", params: CheckpointListParams) -> dict[str, Any]:
    """List the checkpoints of a run, verified, the newest first."""
    run = runner.library.find(params.run)
    found = await asyncio.to_thread(runner.library.checkpoints.list, run)
    return {"checkpoints": [info.model_dump(mode="json") for info in found]}


async def save(runner: "Runner", params: CheckpointSaveParams) -> dict[str, Any]:
    """Quicksave: answered when the checkpoint is on disk."""
    run = runner.run_manager.run
    if run is None:
        raise no_run()
    if not runner.supervisor.running(TRAINER):
        raise Refused(
            ErrorCode.NOT_NOW, "The trainer is not up, so there is nothing to save.", "Try again when it is."
        )
    args = {"kind": "manual", "note": params.note, "buffer": params.buffer}
    command = NodeCommand(command="save", args=args)
    answer = await runner.bus.ask(TRAINER, command, ANSWER_LIMIT_S)
    info = await asyncio.to_thread(runner.library.checkpoints.get, run, str(answer.result["path"]))
    return _shown(info)


async def edit(runner: "Runner", params: CheckpointEditParams) -> dict[str, Any]:
    """Change the note of a checkpoint."""
    run = runner.library.find(params.run)
    return _shown(
        await asyncio.to_thread(runner.library.checkpoints.edit_note, run, params.path, params.note)
    )


def _shown(info: CheckpointInfo) -> dict[str, Any]:
    return {"checkpoint": info.model_dump(mode="json")}
