"""How a run goes on: from which checkpoint, and with which other values of its settings."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from soulsgui.config.declaring import Effect
from soulsgui.config.layers import Layer, combine
from soulsgui.config.load import run_layer
from soulsgui.config.paths import RunFolder
from soulsgui.config.rules import broken_rules
from soulsgui.config.schedules import needs_goal
from soulsgui.config.schema import Settings
from soulsgui.config.settings_info import all_settings
from soulsgui.errors import UsageError
from soulsgui.runner.library import Library, public_values
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.record import END_WORDS, RunRecord
from soulsgui.runner.run.start import override_layer
from soulsgui.wire.control import ErrorCode, RunResumeParams

_GOALS = ("stop.mean_return", "stop.env_steps")


@dataclass(frozen=True)
class Change:
    """A setting that a run goes on with another value of; in words `stop.window = 50 (was 20)`."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.key} = {json.dumps(self.after)} (was {json.dumps(self.before)})"


@dataclass(frozen=True)
class Resumption:
    """How a run is to go on.

    Attributes:
        run: Its folder.
        settings: Its configuration from now on.
        changes: What of that differs from the one before.
        checkpoint: What it goes on from, by its path below the run's folder; empty for the newest.
    """

    run: RunFolder
    settings: Settings
    changes: tuple[Change, ...]
    checkpoint: str

    @property
    def words(self) -> str:
        """How it goes on, as it follows `was resumed`: from what, with which changes."""
        begins = f" from {self.checkpoint}" if self.checkpoint else ""
        return begins + (f" with {', '.join(map(str, self.changes))}" if self.changes else "")


def resumption(library: Library, params: RunResumeParams) -> Resumption:
    """Return how a run is to go on; nothing is changed by that."""
    run = library.find(params.run)
    record, checkpoint, steps = library.record(run), params.checkpoint, None
    if checkpoint:
        info = library.checkpoints.get_resumable(run, checkpoint)
        checkpoint, steps = info.id, info.env_steps
    before = library.settings(run)
    settings = _with_values(run, before, params)
    if params.without_goal:
        settings = _without_goal(settings)
    elif checkpoint in ("", run.checkpoint.name):
        _refuse_reached(record, before, settings)
    changes = changed(before, settings)
    _refuse_steps_made(changes, record.env_steps if steps is None else steps)
    return Resumption(run, settings, changes, checkpoint)


def changed(before: Settings, after: Settings) -> tuple[Change, ...]:
    """Return what differs between the settings of a run and those that it goes on with."""
    old, new = public_values(before), public_values(after)
    return tuple(Change(key, old[key], new[key]) for key in new if new[key] != old[key])


def of_the_runner(overrides: Layer) -> tuple[Layer, dict[str, Any]]:
    """Return what of `serve --resume --set` the runner itself uses, and what is meant for the run.

    Both use `logging.level`. Mistakes stay with the runner's.
    """
    known = all_settings()
    own = {key for key in overrides.values if known[key].effect is Effect.RESTART_RUNNER}
    runners = {key: value for key, value in overrides.values.items() if key in own | {"logging.level"}}
    runs = {key: value for key, value in overrides.values.items() if key not in own}
    return Layer(overrides.source, runners, problems=overrides.problems), runs


def _with_values(run: RunFolder, before: Settings, params: RunResumeParams) -> Settings:
    """Return the settings of a run with the values that were asked for."""
    if not params.overrides:
        return before
    settings = combine([run_layer(run.config), override_layer(params.overrides)])
    known = all_settings()
    servers = [key for key in params.overrides if known[key].effect is Effect.RESTART_RUNNER]
    if servers:
        raise UsageError(
            f"{', '.join(servers)}: set for the server, not for a run.",
            "Set it when the server starts: soulsgui serve --set KEY=VALUE",
        )
    changes = changed(before, settings)
    fixed = [change.key for change in changes if known[change.key].effect is not Effect.RESUME]
    if fixed:
        raise UsageError(
            f"{', '.join(fixed)}: can't change in a run that goes on, or it would be another experiment.",
            "Leave it out, or begin a new run with it: soulsgui run start --set KEY=VALUE",
        )
    _refuse_other_goal(before, params, {change.key for change in changes})
    return settings


def _refuse_other_goal(before: Settings, params: RunResumeParams, changing: set[str]) -> None:
    """Refuse goals that contradict `without_goal`, or that a schedule of the run is spread over."""
    wished = [key for key in _GOALS if params.overrides.get(key) is not None]
    if params.without_goal and wished:
        raise UsageError(
            f"{', '.join(wished)}: a goal, while the run is to go on without its goals.",
            "Leave one of them out.",
        )
    name = before.algorithm
    spread = [f"{name}.{key}" for key, value in getattr(before, name) if needs_goal(value)]
    if spread and "stop.env_steps" in changing:
        raise UsageError(
            f"stop.env_steps: can't change in a run with schedules over all its steps: {', '.join(spread)}.",
            "Leave it out, or begin a new run with it: soulsgui run start --set KEY=VALUE",
        )


def _without_goal(settings: Settings) -> Settings:
    """Return the settings of a run without its goals."""
    without = settings.model_copy(
        update={"stop": settings.stop.model_copy(update={"mean_return": None, "env_steps": None})}
    )
    for broken in broken_rules(without):
        raise Refused(
            ErrorCode.BAD_REQUEST,
            f"The run can't go on without its goal: {broken.key}: {broken.reason}",
            "Begin a new run with another goal.",
        )
    return without


def _refuse_reached(record: RunRecord, before: Settings, after: Settings) -> None:
    """Refuse to go on with a run that would end at once, unless its goal is another one now."""
    old, new = before.stop, after.stop
    if record.reached == "mean_return":
        judged = (new.judged_by, new.window) == (old.judged_by, old.window)
        old_goal, goal = old.mean_return, new.mean_return
        raised = goal is None or (old_goal is not None and goal > old_goal)
        reached = judged and not raised
    else:
        # Fewer steps than were made are refused in any case.
        reached = record.reached == "env_steps" and new.env_steps == old.env_steps
    if reached:
        raise Refused(
            ErrorCode.NOT_NOW,
            f"Run {record.id} {END_WORDS[record.reached]}: it would end again at once.",
            f"To go on without a goal: soulsgui run resume {record.id} --without-goal; with another one: "
            f"--set stop.{record.reached}=VALUE. Or go on from an older checkpoint.",
        )


def _refuse_steps_made(changes: Sequence[Change], steps: int) -> None:
    """Refuse a new goal of fewer steps than the run goes on from."""
    for change in changes:
        if change.key == "stop.env_steps" and change.after is not None and change.after <= steps:
            raise UsageError(
                f"stop.env_steps = {change.after:,}: the run has made {steps:,} steps already, and would end "
                "at once.",
                "Set it higher, or go on from an older checkpoint.",
            )
