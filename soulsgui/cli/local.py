"""Commands that read the data folder themselves, with or without a runner."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from soulsgui.cli.output import (
    answer,
    folders_of,
    log_line,
    moment,
    room,
    say,
    say_json,
    warn_without_effect,
)
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import RunnerClient
from soulsgui.config import soulsai
from soulsgui.config.declaring import Effect
from soulsgui.config.errors import ConfigError, nearest
from soulsgui.config.layers import combine, layers_of, load_settings
from soulsgui.config.parsing import Layer, parse_assignments
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import all_settings, public_tree, public_values, shipped_with
from soulsgui.errors import ServerUnreachableError, UsageError, printable
from soulsgui.runner import settings_file
from soulsgui.runner.audit import AUDIT_FILE
from soulsgui.runner.events import EVENTS_FILE
from soulsgui.runner.journal import read_journal
from soulsgui.runner.run.history import log_lines, log_paths
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.scores import with_evaluations
from soulsgui.runner.run.start import while_it_runs
from soulsgui.runner.services.logs import LogFollower
from soulsgui.runner.services.outcome import duration_words
from soulsgui.runner.status_text import return_words, size_words, spread_words, table
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import (
    AuditEntry,
    CheckpointInfo,
    ConfigSaveParams,
    Event,
    HistoryLogsParams,
    RunSummary,
)
from soulsgui.wire.messages.server_config import algorithm_name

_FOLLOW_EVERY_S = 0.2


def checkpoints(arguments: Arguments) -> int:
    """`checkpoints list`: the checkpoints of a run, verified."""
    library = Library(folders_of(arguments).runs)
    run = library.find(arguments.run)
    listed = RunFolder(run.trash / run.run_id) if arguments.trashed else run
    found = with_evaluations(run, library.checkpoints.list(listed))
    told = {
        "CHECKPOINT": [info.id for info in found],
        "SAVED": [moment(info.created) for info in found],
        "STEPS": [f"{info.env_steps:,}" for info in found],
        "MODEL": [str(info.model_id) for info in found],
        "TRAINING RETURN": [_score(info, evaluated=False) for info in found],
        "EVALUATION": [
            spread_words(info.evaluated) if info.evaluated else _score(info, evaluated=True) for info in found
        ],
        "SIZE": [size_words(info.size_bytes) for info in found],
        "STATE": ["" if info.valid else f"damaged: {info.error}" for info in found],
        "NOTE": [info.note for info in found],
        "PINNED": ["yes" if info.pinned else "" for info in found],
    }
    nothing = f"Run {run.run_id} has no checkpoint {'in its bin' if arguments.trashed else 'yet'}."
    return answer(arguments, found, _columns(told) or nothing)


def _columns(told: dict[str, list[str]], width: int | None = None) -> str:
    return table([list(row) for row in zip(*told.values(), strict=True)], list(told), width)


def _score(info: CheckpointInfo, evaluated: bool) -> str:
    """Return the mean return it was saved with, if that was of an evaluation, or of training."""
    if info.score is None or evaluated != (info.scored_by == "evaluation"):
        return ""
    return return_words(info.score)


def runs(arguments: Arguments) -> int:
    """`runs list`: the runs in the data folder."""
    folders = folders_of(arguments)
    try:
        # The runner knows which run goes on; without one, none does.
        client = RunnerClient(folders.server / CONTROL_FILE)
        listed = client.command("runs.list", {"trashed": arguments.trashed})
        found = [RunSummary.model_validate(run) for run in listed["runs"]]
    except ServerUnreachableError:
        found = Library(folders.trash / "runs" if arguments.trashed else folders.runs).summaries(None)
    told: dict[str, list[str]] = {
        "RUN": [run.id for run in found],
        "NAME": [run.name for run in found],
        "STATE": [run.state for run in found],
        "ENVIRONMENT": [run.env_id for run in found],
        "ALGORITHM": [algorithm_name(run.algorithm, run.agent) for run in found],
        "STEPS": [f"{run.env_steps:,}" for run in found],
        "BEST MODEL": [
            return_words(run.best_mean_return) if run.best_mean_return is not None else "" for run in found
        ],
        "DURATION": [duration_words(run.seconds) for run in found],
        "SIZE": [size_words(run.size_bytes) for run in found],
        "NOTE": [run.note for run in found],
        "PINNED": ["yes" if run.pinned else "" for run in found],
    }
    nothing = "The bin is empty." if arguments.trashed else "There is no run yet. Start one: soulsgui serve"
    return answer(arguments, found, _columns(told) or nothing)


def logs(arguments: Arguments) -> int:
    """`logs`: the end of a log, and what is added to it."""
    folders, service = folders_of(arguments), arguments.service
    paths = log_paths(folders, Library(folders.runs), arguments.run)
    lines, _ = log_lines(paths, HistoryLogsParams(service=service, n=min(max(arguments.n, 1), 5000)))
    for line in lines:
        say(log_line(line))
    if not arguments.follow:
        return 0
    shown = lines[-1].number if lines else 0
    follower = LogFollower({service: paths[service]}, from_start=True)
    while True:
        for line in follower.poll():
            if line.number > shown:
                say(log_line(line))
        sys.stdout.flush()
        time.sleep(_FOLLOW_EVERY_S)


def events(arguments: Arguments) -> int:
    """`events`: what happened on this server."""
    path = folders_of(arguments).server / EVENTS_FILE
    found = [event for event in read_journal(path, Event) if event.number > arguments.since]
    lines = []
    for event in found:
        said = printable(event.words(), None)
        lines.append(f"{event.number:>5}  {moment(event.time)}  {event.level:<7}  {said}")
    return answer(arguments, found, "\n".join(lines))


def audit(arguments: Arguments) -> int:
    """`audit`: the commands that changed something on this server, or here in client mode."""
    folders = folders_of(arguments)
    files = [folder / AUDIT_FILE for folder in (folders.server, folders.client)]
    entries = (one for path in files for one in read_journal(path, AuditEntry))
    found = sorted(entries, key=lambda one: one.time)[-max(arguments.n, 1) :]
    told = {
        "TIME": [moment(one.time) for one in found],
        "COMMAND": [f"{one.command} {one.params}".rstrip() for one in found],
        "FROM": [one.origin for one in found],
        "PROCESS": [one.program or one.peer for one in found],
        "OUTCOME": [one.words() for one in found],
    }
    return answer(arguments, found, _columns(told, room()) or "No command has changed anything yet.")


_WHEN = {
    Effect.NEW_RUN: "with the next new run",
    Effect.NOW: "with the next new run; for the active run: soulsgui hyper set KEY=VALUE",
    Effect.NEXT_ROUND: "with the next new run; for the active run: soulsgui hyper set KEY=VALUE",
    Effect.RESUME: "with the next new run; for the active run: soulsgui run resume --set KEY=VALUE",
    Effect.SAVED: "at once",
    Effect.RESTART_RUNNER: "when the server is restarted",
}


def show(arguments: Arguments) -> int:
    """`config show`: the effective configuration."""
    settings = load_settings(folders_of(arguments), arguments.preset, arguments.assignments)
    warn_without_effect(parse_assignments(arguments.assignments).values, lambda: settings.algorithm)
    part, known = arguments.part, all_settings()
    every = public_values(settings)
    within = f"{part}." if part else ""
    values = {key: value for key, value in every.items() if f"{key}.".startswith(within)}
    hidden = [key for key, info in known.items() if info.secret and f"{key}.".startswith(within)]
    if not values and not hidden:
        near = nearest(part, [*(key.partition(".")[0] for key in known), *known])
        raise UsageError(
            f"“{part}” is neither a setting nor a section.",
            f"Did you mean {near}?" if near else "See all of them: soulsgui config show",
        )
    tree: Any = public_tree(settings)
    for name in part.split(".") if part else ():
        tree = tree.get(name)  # a secret is not in it
    brought, lines = shipped_with(every), []
    for key, value in values.items():
        as_shipped = f", the default for {settings.agent or settings.algorithm}"
        note = as_shipped if key in brought and value == brought[key] else ""
        lines.append(f"{key}: {json.dumps(value)}  # {known[key].effect}{note}")
    lines += [f"{key}: ***  # a secret is not shown" for key in hidden]
    return answer(arguments, tree, "\n".join(lines))


def check(arguments: Arguments) -> int:
    """`config check`: every mistake, with its place and the nearest valid key."""
    file: Path | None = arguments.file
    if file is not None and not file.exists():
        raise UsageError(f"There is no file {file}.", "To check your own: soulsgui config check")
    overrides = parse_assignments(arguments.assignments)
    try:
        settings = combine(layers_of(folders_of(arguments), arguments.preset, [overrides], file))
    except ConfigError as error:
        if not arguments.as_json:
            raise
        say_json({"problems": settings_file.as_plain(error)})
        return error.exit_code
    warn_without_effect(overrides.values, lambda: settings.algorithm)
    return answer(arguments, {"problems": []}, "The configuration is valid.")


def presets(arguments: Arguments) -> int:
    """`config presets`: what `--preset` takes."""
    found = settings_file.presets()
    told = {
        "PRESET": [preset.name for preset in found],
        "TASK": [preset.title for preset in found],
        "": [preset.about for preset in found],
    }
    return answer(arguments, found, _columns(told))


def diff(arguments: Arguments) -> int:
    """`config diff`: what differs from the shipped settings, and where that was written."""
    overrides = parse_assignments(arguments.assignments)
    found = settings_file.difference(folders_of(arguments), arguments.preset, overrides)
    lines = []
    for one in found:
        place = f"{one['source']}, line {one['line']}" if one["line"] else one["source"]
        lines.append(f"{one['key']}: {json.dumps(one['shipped'])} -> {json.dumps(one['value'])}  ({place})")
    return answer(arguments, found, "\n".join(lines) or "Nothing differs from the defaults.")


def change(arguments: Arguments) -> int:
    """`config set`: write settings into the user's config.yaml, comments kept."""
    without = next((word for word in arguments.values if "=" not in word), None)
    if without is not None:
        raise UsageError(
            f"config set: “{without}” has no value.",
            f"Usage: soulsgui config set KEY=VALUE ... (what it is now: soulsgui config show {without})",
        )
    layer = parse_assignments(arguments.values, "config set")
    return _write(arguments, layer)


def import_soulsai(arguments: Arguments) -> int:
    """`config import-soulsai`: the same with what a configuration of SoulsAI sets."""
    path: Path = arguments.soulsai_file
    found = soulsai.import_file(path)
    lines = [f"{one.key}: {json.dumps(one.value)}  # {one.source or _ALWAYS}" for one in found.taken]
    if found.left_out:
        lines += ["", "not taken over:", *(f"  {line}" for line in found.left_out_words), ""]
    return _write(arguments, Layer(path.name, found.values), "\n".join(lines))


_ALWAYS = "SoulsAI always does that"


def _write(arguments: Arguments, layer: Layer, told: str = "") -> int:
    """Write settings into the user's config.yaml, if they are right, and say when they take effect."""
    folders = folders_of(arguments)
    # As words of the command: the lines of a file that is never written help nobody.
    settings = combine(layers_of(folders, overrides=[layer]))
    settings_file.save(folders, ConfigSaveParams(changes=layer.values))
    if told:
        say(told)
    say(f"written to {folders.overrides}")
    for effect, when in _WHEN.items():
        if keys := [key for key in layer.values if all_settings()[key].effect is effect]:
            at_once = while_it_runs(keys) if effect is Effect.RESTART_RUNNER else ""
            say(f"{', '.join(keys)}: takes effect {when}{at_once}")
    warn_without_effect(layer.values, lambda: settings.algorithm)
    return 0
