"""Commands that read the data folder themselves, with or without a runner."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from soulsgui.cli.output import folders_of, log_line, moment, say, say_json, warn_without_effect
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import RunnerClient
from soulsgui.config.declaring import Effect
from soulsgui.config.errors import ConfigError, nearest
from soulsgui.config.layers import combine, layers_of, load_settings
from soulsgui.config.parsing import parse_assignments
from soulsgui.config.paths import Folders
from soulsgui.config.schema import all_settings, shipped_with
from soulsgui.errors import ServerUnreachableError, UsageError, printable
from soulsgui.runner import settings_file
from soulsgui.runner.events import EVENTS_FILE, read_events
from soulsgui.runner.run.library import Library, log_lines, log_paths, public_tree, public_values
from soulsgui.runner.services.logs import LogFollower
from soulsgui.runner.services.outcome import duration_words
from soulsgui.runner.status_text import size_words, table
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import CheckpointInfo, ConfigSaveParams, HistoryLogsParams, RunSummary
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


_WHEN = {
    Effect.NEW_RUN: "with the next new run",
    Effect.RESUME: "with the next new run; one that goes on takes it by: soulsgui run resume --set KEY=VALUE",
    Effect.RESTART_RUNNER: "when the server starts anew",
}


def show(arguments: Arguments) -> int:
    """`config show`: the effective configuration."""
    settings = load_settings(folders_of(arguments), arguments.preset, arguments.assignments)
    warn_without_effect(parse_assignments(arguments.assignments).values, lambda: settings.algorithm)
    part, known = arguments.part, all_settings()
    every = public_values(settings)
    values = {key: value for key, value in every.items() if not part or f"{key}.".startswith(f"{part}.")}
    if not values:
        near = nearest(part, [*(key.partition(".")[0] for key in known), *known])
        raise UsageError(
            f"{part!r} is neither a setting nor a section of them.",
            f"Did you mean {near}?" if near else "See all of them: soulsgui config show",
        )
    if arguments.as_json:
        tree: Any = public_tree(settings)
        for name in part.split(".") if part else ():
            tree = tree[name]
        say_json(tree)
    else:
        brought = shipped_with(every)
        for key, value in values.items():
            with_it = f", as shipped for {settings.agent or settings.algorithm}"
            note = with_it if key in brought and value == brought[key] else ""
            say(f"{key}: {_shown(value)}  # {known[key].effect}{note}")
    return 0


def check(arguments: Arguments) -> int:
    """`config check`: every mistake, with its place and the nearest valid key."""
    try:
        settings = load_settings(folders_of(arguments), arguments.preset, arguments.assignments)
    except ConfigError as error:
        if not arguments.as_json:
            raise
        say_json({"problems": settings_file.as_plain(error)})
        return error.exit_code
    warn_without_effect(parse_assignments(arguments.assignments).values, lambda: settings.algorithm)
    if arguments.as_json:
        say_json({"problems": []})
    else:
        say("The configuration is right.")
    return 0


def diff(arguments: Arguments) -> int:
    """`config diff`: what differs from the shipped settings, and where that was written."""
    overrides = parse_assignments(arguments.assignments)
    found = settings_file.difference(folders_of(arguments), arguments.preset, overrides)
    if arguments.as_json:
        say_json(found)
        return 0
    for one in found:
        place = f"{one['source']}, line {one['line']}" if one["line"] else one["source"]
        say(f"{one['key']}: {_shown(one['shipped'])} -> {_shown(one['value'])}  ({place})")
    if not found:
        say("Nothing differs from the shipped settings.")
    return 0


def change(arguments: Arguments) -> int:
    """`config set`: write settings into the user's config.yaml, comments kept."""
    without = next((word for word in arguments.values if "=" not in word), None)
    if without is not None:
        raise UsageError(
            f"config set: {without!r} has no value.",
            f"Usage: soulsgui config set KEY=VALUE ... (what it is now: soulsgui config show {without})",
        )
    layer = parse_assignments(arguments.values, "config set")
    folders = folders_of(arguments)
    # As words of the command: the lines of a file that is never written help nobody.
    settings = combine(layers_of(folders, overrides=[layer]))
    settings_file.save(folders, ConfigSaveParams(changes=layer.values))
    say(f"written to {folders.overrides}")
    for effect, when in _WHEN.items():
        if keys := [key for key in layer.values if all_settings()[key].effect is effect]:
            say(f"{', '.join(keys)}: takes effect {when}")
    warn_without_effect(layer.values, lambda: settings.algorithm)
    return 0


def _shown(value: Any) -> str:
    return json.dumps(value)
