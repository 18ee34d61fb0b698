"""What the history commands tell besides the store: the logs there are, and why a query is refused."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from soulsgui.config.errors import nearest
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.library import LATEST, Library
from soulsgui.runner.services.logs import read_lines
from soulsgui.telemetry.store import client_names
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.messages.metrics import EVALUATION_METRICS


def server_logs(folders: Folders) -> Path:
    """Logs of what lives longer than a run."""
    return folders.server / "logs"


def refuse_unknown(
    run: RunFolder, params: control.HistoryQueryParams, found: control.History, present: Iterable[str]
) -> None:
    """Refuse a query, whose answer was empty, of a metric or client that a run does not know.

    What may yet come is no mistake: a run without rows, or `present` clients without an episode.
    """
    metrics = [*found.metrics, *(one for one in EVALUATION_METRICS if one not in found.metrics)]
    if tuple(found.last_update) != (0, 0) and params.metric not in metrics:
        raise _unknown("metric", params.metric, metrics)
    clients = sorted({*client_names(run.store), *present})
    if params.client and params.client not in clients:
        raise _unknown("client", params.client, clients)


def _unknown(what: str, name: str, known: list[str]) -> Refused:
    near = nearest(name, known)
    hint = f"Did you mean {near}? " if near else ""
    return Refused(
        ErrorCode.NOT_FOUND,
        f"The run has no {what} “{name}”.",
        f"{hint}There are: {', '.join(known) or 'none yet'}",
    )


def log_paths(folders: Folders, library: Library, run_id: str) -> dict[str, Path]:
    """Return the logs there are, by service: those of a run (`latest` need not exist), and others."""
    found = {path.stem: path for path in sorted(server_logs(folders).glob("*.log"))}
    if run_id != LATEST or library.folders():
        run = library.find(run_id)
        found |= {path.stem: path for path in sorted(run.logs.glob("*.log"))}
    return found


def log_lines(
    paths: Mapping[str, Path], params: control.HistoryLogsParams
) -> tuple[list[control.LogLine], int]:
    """Return lines of one log, or the newest of all by time, and the number of the first line there is."""
    if params.service:
        path = paths.get(params.service)
        if path is None:
            known = ", ".join(paths) or "none"
            raise Refused(ErrorCode.NOT_FOUND, f"“{params.service}” has no log.", f"There are: {known}")
        return read_lines(path, params.service, params.before, params.n, params.level, params.filter)
    if params.before is not None:
        raise Refused(
            ErrorCode.BAD_REQUEST,
            "before: lines are numbered per service.",
            "Name the service to page back.",
        )
    timed: list[tuple[float, control.LogLine]] = []
    for service, path in paths.items():
        lines, _ = read_lines(path, service, None, params.n, params.level, params.filter)
        moment = 0.0
        for line in lines:
            # A line without a time of its own (of a traceback) belongs to the one before it.
            moment = line.time if line.time is not None else moment
            timed.append((moment, line))
    timed.sort(key=lambda pair: pair[0])
    return [line for _, line in timed[-params.n :]], 1
