"""`history.*`: what was."""

import asyncio
from typing import TYPE_CHECKING, Any

from soulsgui.runner import history as past
from soulsgui.wire.control import History, HistoryEventsParams, HistoryLogsParams, HistoryQueryParams

if TYPE_CHECKING:
    from soulsgui.runner.app import Runner
    from soulsgui.runner.base import BaseRunner


async def query(runner: "Runner", params: HistoryQueryParams) -> History:
    """Return a curve."""
    run = runner.library.find(params.run)
    found = await asyncio.to_thread(past.curve, run, params)
    if not found.value and not params.missing_ok:
        past.refuse_unknown(run, params, found, runner.roster.names())
    return found


async def logs(runner: "Runner", params: HistoryLogsParams) -> dict[str, Any]:
    """Return lines of logs."""
    paths = past.log_paths(runner.folders, runner.library, params.run)
    lines, first = await asyncio.to_thread(past.log_lines, paths, params)
    return {"lines": [line.model_dump(mode="json") for line in lines], "first": first}


async def events(runner: "BaseRunner", params: HistoryEventsParams) -> dict[str, Any]:
    """Return the events after a number."""
    return {"events": [event.model_dump(mode="json") for event in runner.events.since(params.since)]}
