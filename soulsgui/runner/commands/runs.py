"""`runs.*`: the library of runs."""

import asyncio
from typing import TYPE_CHECKING, Any

from soulsgui.runner.run.record import RunRecord
from soulsgui.wire.control import Empty, RunsEditParams, RunSummary

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner


async def list_runs(runner: "Runner", _params: Empty) -> dict[str, Any]:
    """List every run, the newest first."""
    summaries = await asyncio.to_thread(runner.library.summaries, _active(runner))
    return {"runs": [summary.model_dump(mode="json") for summary in summaries]}


async def edit(runner: "Runner", params: RunsEditParams) -> RunSummary:
    """Change name or note of a run."""
    run = runner.library.find(params.run)
    changes = params.model_dump(include={"name", "note"}, exclude_none=True)
    runner.run_manager.edit(run, changes)
    return await asyncio.to_thread(runner.library.summary, run, _active(runner))


def _active(runner: "Runner") -> RunRecord | None:
    return runner.run_manager.record if runner.run_manager.run is not None else None
