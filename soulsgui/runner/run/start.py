"""Preparing a run, new or resumed: its settings, its folder, and the check of its environment."""

import asyncio
import json
import logging
import shutil
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soulsgui.config.declaring import Effect, needs_goal
from soulsgui.config.layers import combine, layers_of, load_run_settings, over_defaults
from soulsgui.config.parsing import Layer, unknown_keys
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.rules import broken_rules
from soulsgui.config.schema import Settings, all_settings, is_idle, public_values, without_effect
from soulsgui.errors import (
    CheckpointError,
    EnvironmentCheckError,
    EnvironmentMissingError,
    UsageError,
)
from soulsgui.installing import NO_TORCH, can_train, how_to_train
from soulsgui.process import own_command
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.agreed import AgreedRuns, RunNotAgreedError
from soulsgui.runner.run.library import Library, find_checkpoint, refuse_links
from soulsgui.runner.run.queue import QueueEntry
from soulsgui.runner.run.record import CHECKING, END_WORDS, RunRecord
from soulsgui.runner.services.asked import AskedProcess, asked_process
from soulsgui.system import atomic_write, read_small
from soulsgui.wire.control import (
    TRUST_ANY,
    ErrorCode,
    RunResumeParams,
    RunStartParams,
    RunSummary,
    ServerSetParams,
)
from soulsgui.wire.manifest import CONFIG, read_manifest, verify

logger = logging.getLogger(__name__)

_GOALS = ("stop.mean_return", "stop.env_steps")


def override_layer(values: Mapping[str, Any], source: str = "overrides") -> Layer:
    """Return settings by dotted key as the layer above all others."""
    known = all_settings()
    kept = {key: value for key, value in values.items() if key in known}
    return Layer(source, kept, problems=tuple(unknown_keys(source, values)))


@dataclass(frozen=True)
class Beginning:
    """How a new run is to begin."""

    settings: Settings
    checkpoint: Path | None = None  # What it begins from
    summary: str = ""  # As `QueuedRun.config_summary`


def config_summary(different: Mapping[str, Any], base: str) -> str:
    """Return which settings of a run differ from what it is made from, as `QueuedRun.config_summary`."""
    named = ", ".join(f"{key} = {_words(value)}" for key, value in different.items())
    return f"{named}, else as {base}" if named else f"as {base}"


def _words(value: Any) -> str:
    return "none" if value is None else json.dumps(value)


def _summary(base: str, made_from: Settings, settings: Settings, asked: Collection[str]) -> str:
    known = all_settings()
    changes = [
        one
        for one in changed(made_from, settings)
        if not known[one.key].effect.of_server and not is_idle(one.key, settings.algorithm)
    ]
    changes.sort(key=lambda one: one.key not in asked)  # what this run alone has, first: the end may be cut
    return config_summary({one.key: one.after for one in changes}, base)


def beginning(folders: Folders, library: Library, params: RunStartParams, base: Layer) -> Beginning:
    """Return how a new run would begin; its own values win over the runner's `base`.

    Raises:
        RunNotAgreedError: Nobody on this computer has agreed to what its checkpoint would have it run.
    """
    above = [base, override_layer(params.overrides)]
    if not params.from_checkpoint:
        layers = layers_of(folders, params.preset, above)
        settings = combine(layers)
        preset = layers[1 : -len(above) - 1]  # one at most: between the defaults and the user's own settings
        name = preset[0].source if preset else "the defaults"
        made_from = combine(over_defaults(preset))
        return Beginning(settings, summary=_summary(name, made_from, settings, params.overrides))
    if params.preset:
        raise UsageError(
            "A run from a checkpoint has the settings of that checkpoint: it can't be combined with a "
            "preset.",
            "Leave one of them out.",
        )
    path = find_checkpoint(library, params.from_checkpoint)
    manifest = read_manifest(path)
    if not manifest.resumable or CONFIG not in manifest.files:
        raise CheckpointError(
            f"Training can't start from {path}: it contains only weights, or no settings.",
            "Choose another checkpoint.",
        )
    verify(path, manifest)
    found, settings = load_run_settings(path / CONFIG), load_run_settings(path / CONFIG, above)
    was, now = (one.agent or one.algorithm for one in (found, settings))
    if was != now:
        raise UsageError(
            f"The checkpoint was trained with {was}: {now} can't continue from it.",
            "Leave out the setting that chooses another, or start without the checkpoint.",
        )
    if (goal := settings.stop.env_steps) is not None and goal <= manifest.env_steps:
        raise UsageError(
            f"stop.env_steps = {goal:,}: the checkpoint already has {manifest.env_steps:,} steps.",
            "Set it higher, or leave it out: --set stop.env_steps=null",
        )
    agreed = AgreedRuns(folders)
    asks = agreed.asks(found, settings)
    if asks is not None and params.trust not in (TRUST_ANY, asks.digest):
        raise RunNotAgreedError(f"The checkpoint {path}", asks)
    summary = _summary(f"checkpoint {params.from_checkpoint}", found, settings, params.overrides)
    return Beginning(settings, path, summary)


def refuse_without_torch() -> None:
    """Make sure that this computer can train."""
    if not can_train():
        raise Refused(ErrorCode.NOT_NOW, NO_TORCH, f"To train here: {how_to_train()}")


def new_run(
    library: Library, settings: Settings, asked: QueueEntry, wall_time: float
) -> tuple[RunFolder, RunRecord]:
    """Make folder, configuration and record of a new run; if that fails, nothing of it is left."""
    run = library.create(asked.name, wall_time)
    try:
        record = RunRecord(
            id=run.run_id,
            name=asked.name,
            note=asked.note,
            experiment=asked.experiment,
            sweep=asked.sweep,
            dir=str(run.root),
            created=wall_time,
            number=library.next_number(),
            attempt=1,
            state="starting",
            detail=CHECKING,
            **goals(settings),
        )
        library.write_settings(run, settings)
        library.write_record(run, record)
    except BaseException:
        shutil.rmtree(run.root, ignore_errors=True)
        raise
    return run, record


def goals(settings: Settings) -> dict[str, Any]:
    """Return the fields of a record that its configuration tells."""
    return {
        "env_id": settings.env.id,
        "algorithm": settings.algorithm,
        "agent": settings.agent,
        "seed": settings.seed,
        "goal_return": settings.stop.mean_return,
        "goal_env_steps": settings.stop.env_steps,
        "goal_window": settings.stop.window,
        "goal_judged_by": settings.goal_judged_by,
        "local_clients": settings.clients.local,
    }


def write_spaces(run: RunFolder, report: Mapping[str, Any]) -> None:
    """Write what the probe found where the trainer looks for it."""
    atomic_write(run.spaces, json.dumps(report["spaces"], indent=1).encode())


def spaces_are_known(run: RunFolder) -> bool:
    """Whether what an earlier probe found can be read."""
    try:
        found = json.loads(read_small(run.spaces))
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s is damaged (%r): the environment is probed again", run.spaces, error)
        return False
    return isinstance(found, dict) and all(isinstance(found.get(n), dict) for n in ("observation", "action"))


def choose_checkpoint(run: RunFolder, checkpoint: str) -> None:
    """Let the trainer begin from a checkpoint, by its path below the run's folder; empty takes that back."""
    if checkpoint:
        atomic_write(run.resume_from, checkpoint.encode())
    else:
        run.resume_from.unlink(missing_ok=True)


@dataclass(frozen=True)
class Change:
    """A setting that a run goes on with another value of; in words `stop.window = 50 (was 20)`."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.key} = {_words(self.after)} (was {_words(self.before)})"


@dataclass(frozen=True)
class Resumption:
    """How a run is to go on."""

    run: RunFolder
    settings: Settings  # Its configuration from now on
    changes: tuple[Change, ...]  # What of that differs from the one before
    checkpoint: str  # What it goes on from, by its path below the run's folder; empty for the newest

    @property
    def words(self) -> str:
        """How it goes on, as it follows `was resumed`: from what, with which changes."""
        begins = f" from {self.checkpoint}" if self.checkpoint else ""
        return begins + (f" with {', '.join(map(str, self.changes))}" if self.changes else "")


def resumption(library: Library, agreed: AgreedRuns, params: RunResumeParams) -> Resumption:
    """Return how a run is to go on; nothing is changed by that.

    Raises:
        RunNotAgreedError: Nobody on this computer has agreed to what it would run.
    """
    run = library.find(params.run)
    refuse_links(run)
    record, checkpoint, steps = library.record(run), params.checkpoint, None
    if checkpoint:
        info = library.checkpoints.get_resumable(run, checkpoint)
        checkpoint, steps = info.id, info.env_steps
    else:
        library.checkpoints.check_resumable(run)
    before = library.settings(run)
    settings = _with_values(run, before, params)
    if params.without_goal:
        settings = _without_goal(settings)
    elif checkpoint in ("", run.checkpoint.name):
        refuse_reached(record, _is_other_goal(record.reached, before, settings))
    changes = changed(before, settings)
    _refuse_steps_made(changes, record.env_steps if steps is None else steps)
    asks = agreed.asks(before)
    if asks is not None and params.trust not in (TRUST_ANY, asks.digest):
        raise RunNotAgreedError(f"Run {run.run_id}", asks)
    return Resumption(run, settings, changes, checkpoint)


def changed(before: Settings, after: Settings) -> tuple[Change, ...]:
    """Return what differs between the settings of a run and those that it goes on with."""
    old, new = public_values(before), public_values(after)
    return tuple(Change(key, old[key], new[key]) for key in new if new[key] != old[key])


def live_change(run: RunFolder, values: Mapping[str, Any]) -> tuple[Settings, tuple[Change, ...]]:
    """Return the settings that a run would go on with at once, and what of that is another value than now.

    Raises:
        ConfigError: A key or a value is wrong.
        UsageError: A setting can't change in a run that goes on, or nothing would change.
    """
    before = load_run_settings(run.config)
    after = load_run_settings(run.config, [override_layer(values, "config.apply")])
    changes = changed(before, after)
    fixed = [key for key in values if not all_settings()[key].effect.live]
    if servers := [key for key in fixed if all_settings()[key].effect.of_server]:
        raise UsageError(
            f"{', '.join(servers)}: belongs to the server, not to a run.",
            f"Save it: soulsgui config set {servers[0]}=VALUE",
        )
    if fixed:
        raise UsageError(
            f"{', '.join(fixed)}: can't change while a run is active.",
            "Only settings with the effect `now` or `next round` can (soulsgui config show). Or start a "
            "new run.",
        )
    if idle := without_effect(values, before.algorithm):
        raise UsageError(idle)
    if bool(before.evaluates_every) != bool(after.evaluates_every):
        raise UsageError(
            "evaluation.every_updates: evaluations can only be switched on or off when a run is resumed.",
            "Stop it, then: soulsgui run resume --set evaluation.every_updates=VALUE",
        )
    if not changes:
        raise UsageError(f"{', '.join(values) or 'No setting'}: this changes nothing.")
    return after, changes


def of_the_runner(overrides: Layer) -> tuple[Layer, dict[str, Any]]:
    """Split the settings of `serve --resume --set` into the runner's, with the mistakes, and the run's."""
    known = all_settings()
    own = {key for key in overrides.values if known[key].effect.of_server}
    runners = {key: value for key, value in overrides.values.items() if key in own | {"logging.level"}}
    runs = {key: value for key, value in overrides.values.items() if key not in own}
    return Layer(overrides.source, runners, problems=overrides.problems), runs


def while_it_runs(keys: Sequence[str]) -> str:
    """Say, behind a sentence, how settings of the server are changed while it runs; empty: not at all."""
    names = [key.removeprefix("redis.") for key in keys if key.startswith("redis.")]
    options = " ".join(f"--{name} ..." for name in names if name in ServerSetParams.model_fields)
    return f"; while it runs: soulsgui server set {options}" if options else ""


def _with_values(run: RunFolder, before: Settings, params: RunResumeParams) -> Settings:
    if not params.overrides:
        return before
    settings = load_run_settings(run.config, [override_layer(params.overrides)])
    known = all_settings()
    servers = [key for key in params.overrides if known[key].effect.of_server]
    if servers:
        raise UsageError(
            f"{', '.join(servers)}: set for the server, not for a run.",
            f"Set it when the server starts: soulsgui serve --set {servers[0]}=VALUE{while_it_runs(servers)}",
        )
    changes = changed(before, settings)
    effects = {change.key: known[change.key].effect for change in changes}
    fixed = [key for key, effect in effects.items() if effect is not Effect.RESUME and not effect.live]
    if fixed:
        raise UsageError(
            f"{', '.join(fixed)}: can't change in a resumed run: it would be another experiment.",
            "Leave it out, or start a new run with it: soulsgui run start --set KEY=VALUE",
        )
    _refuse_other_goal(before, params, {change.key for change in changes})
    return settings


def _refuse_other_goal(before: Settings, params: RunResumeParams, changing: set[str]) -> None:
    """Refuse goals that contradict `without_goal`, or that a schedule of the run is spread over."""
    wished = [key for key in _GOALS if params.overrides.get(key) is not None]
    if params.without_goal and wished:
        raise UsageError(
            f"{', '.join(wished)}: a goal, although the run is to continue without its goals.",
            "Leave one of them out.",
        )
    name = before.algorithm
    spread = [f"{name}.{key}" for key, value in getattr(before, name) if needs_goal(value)]
    if spread and "stop.env_steps" in changing:
        raise UsageError(
            f"stop.env_steps: can't change in a run with schedules over all its steps: {', '.join(spread)}.",
            "Leave it out, or start a new run with it: soulsgui run start --set KEY=VALUE",
        )


def _without_goal(settings: Settings) -> Settings:
    without = settings.model_copy(
        update={"stop": settings.stop.model_copy(update={"mean_return": None, "env_steps": None})}
    )
    for broken in broken_rules(without):
        why = f"The run can't continue without its goal: {broken.key}: {broken.reason}"
        raise Refused(ErrorCode.BAD_REQUEST, why, "Start a new run with another goal.")
    return without


def _is_other_goal(reached: str, before: Settings, after: Settings) -> bool:
    """Whether the goal that was reached is another one now: fewer steps than were made are refused anyway."""
    old, new = before.stop, after.stop
    if reached == "env_steps":
        return new.env_steps != old.env_steps
    judged = (new.judged_by, new.window) == (old.judged_by, old.window)
    goal, old_goal = new.mean_return, old.mean_return
    return not judged or goal is None or (old_goal is not None and goal > old_goal)


def refuse_reached(run: RunRecord | RunSummary, other_goal: bool = False) -> None:
    """Refuse to go on with a run that would end at once, unless its goal is another one now."""
    if run.reached in ("mean_return", "env_steps") and not other_goal:
        raise Refused(
            ErrorCode.NOT_NOW,
            f"Run {run.id} {END_WORDS[run.reached]}: it would end again at once.",
            f"To continue without a goal: soulsgui run resume {run.id} --without-goal; with another one: "
            f"--set stop.{run.reached}=VALUE. Or continue from an older checkpoint.",
        )


def _refuse_steps_made(changes: Sequence[Change], steps: int) -> None:
    for change in changes:
        if change.key == "stop.env_steps" and change.after is not None and change.after <= steps:
            raise UsageError(
                f"stop.env_steps = {change.after:,}: the run has made {steps:,} steps already, and would end "
                "at once.",
                "Set it higher, or continue from an older checkpoint.",
            )


Told = Callable[[str], object]  # takes what the check does at the moment, such as "step 3"

Probe = Callable[[Settings, Told], Awaitable[dict[str, Any]]]
"""Returns what a check of the environment of a configuration finds."""

_PLAYED_S = 10.0
_LOAD_LIMIT_S = 60.0


async def probe_environment(settings: Settings, told: Told) -> dict[str, Any]:
    """Return what a check of the environment reports; one that does not do for the run is an error."""
    report = await examine(settings, told)
    problems = [str(problem) for problem in report.get("problems", [])]
    if problems or not report["spaces"]:
        found = "\n".join(problems) or "It has no spaces."
        kind = EnvironmentMissingError if report.get("missing") is True else EnvironmentCheckError
        raise kind(f"{settings.env.id} can't be trained on. {found}")
    if misfit := report.get("misfit"):
        raise EnvironmentCheckError(str(misfit["message"]), str(misfit["remedy"]))
    return report


async def examine(settings: Settings, told: Told) -> dict[str, Any]:
    """Return what `environments.check.check` and `images.fit_report` there report, good or bad.

    `told` is told what the check does; one that can't be done to its end is an `EnvironmentCheckError`.
    """
    env, client, network = settings.env, settings.client, settings.network
    request = env.model_dump(mode="json", include={"id", "kwargs", "wrappers"}) | {
        "learner": {"algorithm": settings.algorithm, "network": network.name, "channels": network.channels},
        "seconds": min(_PLAYED_S, client.hang_seconds),
        "step_s": client.step_seconds,
        "delay_s": client.step_delay,
    }
    async with asked_process(own_command("probe"), request) as process:
        report = await _report(process, settings, told)
        if report is None:
            ended = await process.last_words()
            silent = (
                f"It ended the process in which it was tested with exit code {process.code}, without a "
                "message."
            )
            raise _unchecked(settings, ended or silent)
    if not all(isinstance(report.get(name), dict | None) for name in ("spaces", "misfit")):
        raise _unchecked(settings, repr(report))
    return report


async def _report(process: AskedProcess, settings: Settings, told: Told) -> dict[str, Any] | None:
    """Return the report; None when the process ends before, or says what it should not."""
    client = settings.client
    doing, limit_s = "", _LOAD_LIMIT_S
    while True:
        try:
            message = await asyncio.wait_for(process.message(), limit_s)
        except TimeoutError as error:
            what = f"was not checked: its check had not started after {limit_s:g} s."
            remedy = "Try again when this computer is less busy."
            if doing:
                what = f"hangs: {doing} takes longer than {limit_s:g} s."
                remedy = "Fix it, or give it more time: client.hang_seconds."
            raise EnvironmentCheckError(f"{settings.env.id} {what}", remedy) from error
        if "doing" not in message:
            report = message.get("report")
            return report if isinstance(report, dict) else None
        told(str(message["doing"]))
        doing = f"{message['doing']}{message.get('place', '')}"
        limit_s = client.hang_seconds + client.step_seconds + client.step_delay


def _unchecked(settings: Settings, why: str) -> EnvironmentCheckError:
    return EnvironmentCheckError(
        f"{settings.env.id} could not be checked:\n{why}", "Fix the environment, or choose another: env.id."
    )
