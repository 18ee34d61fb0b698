"""Commands that read the data folder themselves, with or without a runner."""

import sys
import time
from pathlib import Path

from soulsgui.cli.output import folders_of, log_line, moment, say, say_json
from soulsgui.cli.parser import Arguments
from soulsgui.cli.runner import RunnerClient
from soulsgui.config.paths import Folders
from soulsgui.errors import ServerUnreachableError
from soulsgui.printable import printable
from soulsgui.runner.events import EVENTS_FILE, read_events
from soulsgui.runner.history import log_lines, log_paths
from soulsgui.runner.library import Library
from soulsgui.runner.log_lines import LogFollower
from soulsgui.runner.outcome import duration_words
from soulsgui.runner.words import size_words, table
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import CheckpointInfo, HistoryLogsParams, RunSummary
from soulsgui.wire.messages.server_config import algorithm_name

_FOLLOW_EVERY_S = 0.2
_CHECKPOINT_HEADS = (
    "CHECKPOINT",
    "SAVED",
    "STEPS",
    "MODEL",
    "TRAINING RETURN",
    "EVALUATION",
    "SIZE",
    "STATE",
    "NOTE",
)
_RUN_HEADS = (
    "RUN",
    "NAME",
    "STATE",
    "ENVIRONMENT",
    "ALGORITHM",
    "STEPS",
    "BEST RETURN",
    "DURATION",
    "SIZE",
    "NOTE",
)


def checkpoints(arguments: Arguments) -> int:
    """`checkpoints list`: the checkpoints of a run, verified."""
    library = Library(folders_of(arguments).runs)
    run = library.find(arguments.run)
    found = library.checkpoints.list(run)
    if arguments.as_json:
        say_json([info.model_dump(mode="json") for info in found])
        return 0
    rows = [
        [
            info.id,
            moment(info.created),
            f"{info.env_steps:,}",
            str(info.model_id),
            *_scores(info),
            size_words(info.size_bytes),
            "" if info.valid else f"damaged: {info.error}",
            info.note,
        ]
        for info in found
    ]
    say(table(rows, _CHECKPOINT_HEADS) or f"Run {run.run_id} has no checkpoint yet.")
    return 0


def _scores(info: CheckpointInfo) -> tuple[str, str]:
    """Return the mean return it was saved with, that of training episodes or that of an evaluation."""
    score = "" if info.score is None else f"{info.score:.1f}"
    return ("", score) if info.scored_by == "evaluation" else (score, "")


def runs(arguments: Arguments) -> int:
    """`runs list`: the runs in the data folder."""
    found = _known_runs(folders_of(arguments))
    if arguments.as_json:
        say_json([summary.model_dump(mode="json") for summary in found])
        return 0
    rows = [
        [
            run.id,
            run.name,
            run.state,
            run.env_id,
            algorithm_name(run.algorithm, run.agent),
            f"{run.env_steps:,}",
            f"{run.best_mean_return:.1f}" if run.best_mean_return is not None else "",
            duration_words(run.seconds),
            size_words(run.size_bytes),
            run.note,
        ]
        for run in found
    ]
    say(table(rows, _RUN_HEADS) or "There is no run yet. Start one: soulsgui serve")
    return 0


def _known_runs(folders: Folders) -> list[RunSummary]:
    """Ask the runner, who knows which run goes on; without one, none does."""
    try:
        client = RunnerClient(folders.server / CONTROL_FILE)
        return [RunSummary.model_validate(run) for run in client.command("runs.list")["runs"]]
    except ServerUnreachableError:
        return Library(folders.runs).summaries(None)


def logs(arguments: Arguments) -> int:
    """`logs`: the end of a log, and what is added to it."""
    folders = folders_of(arguments)
    paths = log_paths(folders, Library(folders.runs), arguments.run)
    params = HistoryLogsParams(service=arguments.service, n=min(max(arguments.n, 1), 5000))
    lines, _ = log_lines(paths, params)
    for line in lines:
        say(log_line(line))
    if arguments.follow:
        _follow(arguments.service, paths[arguments.service], lines[-1].number if lines else 0)
    return 0


def _follow(service: str, path: Path, shown: int) -> None:
    follower = LogFollower({service: path}, from_start=True)
    while True:
        for line in follower.poll():
            if line.number > shown:
                say(log_line(line))
        sys.stdout.flush()
        time.sleep(_FOLLOW_EVERY_S)


def events(arguments: Arguments) -> int:
    """`events`: what happened on this server."""
    path = folders_of(arguments).server / EVENTS_FILE
    found = [event for event in read_events(path) if event.number > arguments.since]
    if arguments.as_json:
        say_json([event.model_dump(mode="json") for event in found])
        return 0
    for event in found:
        said = ". ".join(part.rstrip(".") for part in (event.what, event.cause, event.remedy) if part)
        say(f"{event.number:>5}  {moment(event.time)}  {event.level:<7}  {printable(said, None)}")
    return 0
