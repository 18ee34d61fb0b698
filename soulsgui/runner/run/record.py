"""The record of a run, its state, and its events, derived from its services and nodes. Time is passed in."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from soulsgui.config.sections.algorithms import BEYOND_SUPPORT, BEYOND_SUPPORT_REMEDY, beyond_support_words
from soulsgui.runner.events import EventLog, Level
from soulsgui.runner.status_text import count_words, return_words
from soulsgui.wire.control import CheckpointInfo, RunState, RunStatus, ServiceStatus
from soulsgui.wire.control.states import Topic
from soulsgui.wire.keys import EVALUATOR, TRAINER
from soulsgui.wire.messages.base import Message, Moment
from soulsgui.wire.messages.metrics import EVALUATION_CUT, EVALUATION_RETURN, AttemptRow, UpdateRow
from soulsgui.wire.messages.node import NodeState, TrainingProgress

Reached = Literal["", "mean_return", "env_steps", "stopped", "failed"]

LIVE_STATES: frozenset[str] = frozenset({"starting", "waiting", "running", "paused", "saving", "frozen"})
"""States of a run that goes on."""

ENDED_STATES: frozenset[str] = frozenset({"finished", "stopped", "failed"})  # states of a run that is over

END_WORDS: dict[str, str] = {
    "mean_return": "has reached its goal return",
    "env_steps": "has made all its steps",
    "stopped": "was stopped",
    "failed": "failed",
    "": "was stopped",
}
"""How a run ended, as it follows its name."""

CHECKING = "checking the environment"

NO_RATES = {"env_steps_per_s": 0.0, "updates_per_s": 0.0}
"""What a run tells whose trainer rests, or does not run."""

_TOLD_BY_OTHERS = {"detail", "attempt", "mean_return", "best_mean_return", "evaluation_return"}
_TOLD_BY_TRAINER = TrainingProgress.model_fields.keys() - _TOLD_BY_OTHERS


class RunRecord(RunStatus):
    """`run.json`: the facts of a run beside its configuration."""

    note: str = ""  # The user's own words about it
    pinned: bool = False  # Whether it is kept from being thrown away
    created: Moment = 0.0  # Seconds since the epoch
    # Runs of a data folder are counted from 1 as they begin or go on, whatever its clock says; 0 for one that
    # never did here, and of before that.
    number: int = 0
    # How often each service was restarted after a failure.
    restarts: dict[str, int] = Field(default_factory=dict)
    local_clients: int = 0  # Clients the server starts itself in this run

    @property
    def title(self) -> str:
        """What it is called where a person reads of it."""
        return self.name or self.id

    @property
    def called(self) -> str:
        """What it is called in a sentence: `Run “lunar”`."""
        return f"Run “{self.name}”" if self.name else f"Run {self.id}"


class ActiveRun(Message):
    """`active_run.json`: which run goes on, for the runner after a crash of this one."""

    run_id: str
    clients: list[str]  # Names of the clients the server starts itself
    began: float = 0.0  # When this attempt began, seconds since the epoch
    seconds_before: float = 0.0  # How long the run had gone on before it
    ending: Reached = ""  # Why it is being ended; empty while it is not
    error: str = ""  # What is wrong with it, when that is why
    saves: bool = True  # Whether it is saved at its end

    def seconds(self, wall_time: float) -> float:
        """Return how long the run has gone on; a clock that was set back counts as nothing."""
        return self.seconds_before + max(wall_time - self.began, 0.0)


@dataclass(frozen=True)
class RunView:
    """The state of a run at one moment."""

    trainer: ServiceStatus | None  # The supervised trainer, None while there is none
    node: NodeState | None  # The trainer's own state, None while its present process has not written one
    stopping: bool = False  # Whether the run is being ended
    server_up: bool = True  # Whether Redis answers
    disk_full: bool = False  # Whether Redis refuses writes because of its disk
    check: str = ""  # What the check of the environment does, in words
    evaluating: bool = False  # Whether the evaluator plays
    confirming: bool = False  # Whether greedy episodes are to confirm the goal


def run_state(view: RunView) -> tuple[RunState, str]:
    """Return the state of a run that goes on, and in words what it waits for or does."""
    trainer, node = view.trainer, view.node
    loading = (node.detail if node is not None else "") or "the trainer is loading"
    if view.stopping:
        doing = "evaluating its last weights" if view.evaluating else "saving and ending its services"
        return "saving", doing
    if not view.server_up:
        return "waiting", "for Redis"
    if view.disk_full:
        return "waiting", "disk full"
    if trainer is None:
        return "starting", CHECKING + (f": {view.check}" if view.check else "")
    if trainer.state == "starting":
        return "starting", loading
    if trainer.state == "failed":
        return "failed", f"The trainer failed: {trainer.outcome}"
    if trainer.state in ("stopped", "stopping"):
        return "waiting", "the trainer is stopped"
    if trainer.state == "backoff":
        return "starting", f"the trainer is restarting ({trainer.outcome})"
    if node is None or node.phase == "loading":
        return "starting", loading
    if node.phase in ("waiting", "paused", "frozen"):
        return node.phase, node.detail
    if node.phase == "stopping":
        return "saving", node.detail
    # A regular checkpoint takes a moment of a running run: not a state of its own.
    return "running", "confirming the goal with greedy episodes" if view.confirming else node.detail


def goal_reached(trainer: NodeState | None, telemetry: NodeState | None) -> Reached:
    """Return the goal that a node says was reached, empty while none is."""
    if trainer is None:
        return ""
    # Until the trainer has begun its attempt, telemetry tells how the one before ended.
    verdict = telemetry.verdict if telemetry is not None and telemetry.attempt == trainer.attempt else None
    if verdict is not None and verdict.reached:
        return "mean_return"
    return "env_steps" if trainer.stop_reached else ""


def with_progress(
    record: RunRecord, trainer: NodeState | None, telemetry: NodeState | None, wall_time: float
) -> RunRecord:
    """Return the record with the numbers of its nodes; what a node does not tell stays as it is."""
    changes: dict[str, object] = dict(NO_RATES)
    if trainer is not None and trainer.run_id == record.id:
        changes |= {name: getattr(trainer, name) for name in _TOLD_BY_TRAINER}
        changes["attempt"] = max(trainer.attempt, record.attempt)
        saved = trainer.checkpoint_time
        changes["checkpoint_age_s"] = None if saved is None else max(wall_time - saved, 0.0)
    if telemetry is not None and telemetry.run_id == record.id:
        changes["episodes"] = telemetry.episodes
        judge = telemetry.judged_by or record.goal_judged_by
        changes["goal_judged_by"] = judge
        # Also none: an attempt may begin before the first evaluation.
        changes["evaluation_return"] = telemetry.evaluation_return
        if telemetry.mean_return is not None:
            changes["mean_return"] = telemetry.mean_return
        if telemetry.verdict is not None and telemetry.verdict.reached_with is not None:
            # What is played while the run is being stopped does not take back what it has reached.
            judged = "evaluation_return" if judge == "evaluation" else "mean_return"
            changes[judged] = telemetry.verdict.reached_with
        if telemetry.best_mean_return is not None:
            changes["best_mean_return"] = telemetry.best_mean_return
    return record.model_copy(update=changes)


def ended(record: RunRecord, reached: Reached, error: str = "") -> RunRecord:
    """Return the record of a run that is over."""
    states: dict[Reached, RunState] = {"mean_return": "finished", "env_steps": "finished", "failed": "failed"}
    by_evaluation = reached == "mean_return" and record.goal_judged_by == "evaluation"
    return record.model_copy(
        update={
            "state": states.get(reached, "stopped"),
            "mean_return": record.evaluation_return if by_evaluation else record.mean_return,
            "reached": reached or "stopped",
            "detail": "",
            "error": error or record.error,
            **NO_RATES,
            "learns_on": "",
            "learner_waits": None,
            "clients_wait": None,
            "wished_pause": False,
        }
    )


def interrupted(record: RunRecord) -> RunRecord:
    """Return the record of a run that says it goes on though nothing of it lives."""
    reason = record.error or "The runner ended without stopping this run."
    over = {"state": "stopped", "reached": "stopped", "detail": "", "error": reason, "wished_pause": False}
    return record.model_copy(update=over)


class RunNews:
    """Reports each event of a run once; `goal` is the mean return that it is to reach."""

    def __init__(self, events: EventLog, run_id: str, goal: float | None) -> None:
        self._events = events
        self._run_id = run_id
        self._goal = goal
        self._said: dict[str, str] = {}  # The words of each trouble when it was looked at last
        self._told: set[str] = set()
        self._refuted = 0  # how often greedy episodes did not confirm a goal

    def look(self, trainer: NodeState) -> None:
        """Report the changes since the trainer's last state as events."""
        if self._is_new("trouble", trainer.trouble):
            remedy = "It continues by itself when they are back, or when somebody stops or forgets them."
            self._tell_change("warning", trainer.trouble, remedy, "The run is no longer waiting.")
        if self._is_new("diverged", trainer.diverged):
            remedy = "If it happens again, lower the learning rate, and check the size of the rewards."
            passed = "The training has passed the point where it diverged"
            self._tell_change("error", trainer.diverged, remedy, passed, "divergence")
        # Why it is not saved may be told in other words each time.
        if self._is_new("unsaved", "unsaved" if trainer.unsaved else ""):
            full = trainer.phase == "paused"
            remedy = "Free some space; training continues" if full else "Fix the cause; it is tried again"
            unsaved = trainer.unsaved and f"The run is {trainer.unsaved}"
            self._tell_change("error", unsaved, f"{remedy} by itself.", "The run is saved again")

    def _is_new(self, what: str, words: str) -> bool:
        before, self._said[what] = self._said.get(what, ""), words
        return words != before

    def _tell_change(self, level: Level, words: str, remedy: str, over: str, topic: Topic = "") -> None:
        """Report a trouble in its words, or that it is `over` where there are none any more."""
        if words:
            self.add(level, words, remedy, topic=topic)
        else:
            self.add("info", over)

    def take_row(self, row: UpdateRow) -> None:
        """Report what a new row of the curves says about the goal, and settings it suggests to change."""
        if row.confirms is not None:
            self._note_confirmation(row)
        cut = "Greedy episodes of the evaluation did not end and were cut"
        remedy = "The environment sets no step limit, so evaluation.max_steps applies."
        self._warn_once(EVALUATION_CUT, cut if EVALUATION_CUT in row.values else "", remedy, EVALUATOR)
        beyond = beyond_support_words(row.values.get(BEYOND_SUPPORT, 0.0))
        self._warn_once(BEYOND_SUPPORT, beyond, BEYOND_SUPPORT_REMEDY, TRAINER)

    def take_attempt(self, row: AttemptRow, steps_before: int | None) -> None:
        """Report where an attempt begins; the steps that the one before came to are None where unknown."""
        if row.passed_over:
            words = f"The run continues from another checkpoint, of update {row.update:,}: {row.passed_over}"
            self.add("error", words, "Check the disk of the data folder: files on it change or get lost.")
        if steps_before is not None:
            self.add("info", new_attempt_words(steps_before, row))

    def _note_confirmation(self, row: UpdateRow) -> None:
        goal, mean = self._goal, row.values.get(EVALUATION_RETURN)
        if goal is None or mean is None:
            return
        came_to = f"mean return {return_words(mean)} of {goal:g}"
        episodes = f"Greedy episodes of model {row.model_id}"
        if mean >= goal:
            self.add("info", f"{episodes} confirm the goal: {came_to}", service=EVALUATOR)
            return
        # Where returns are chance it is reached each second: told the first time, the second, the fourth …
        self._refuted += 1
        if self._refuted & (self._refuted - 1):
            return
        again = f" ({self._refuted} times so far)" if self._refuted > 1 else ""
        told = f"{episodes} do not confirm the goal that training reached: {came_to}{again}."
        words = f"{told} The run continues"
        self.add("info", words, service=EVALUATOR)

    def _warn_once(self, figure: str, words: str, remedy: str, service: str) -> None:
        if words and figure not in self._told:
            self._told.add(figure)
            self.add("warning", words, remedy, service)

    def add(
        self, level: Level, words: str, remedy: str = "", service: str = TRAINER, topic: Topic = ""
    ) -> None:
        """Tell something."""
        self._events.add(level, words, "", remedy, service, self._run_id, topic)


def new_attempt_words(steps_before: int, row: AttemptRow) -> str:
    """Say where the trainer goes on after it had ended at some steps, and what that cost."""
    lost = max(steps_before - row.env_steps, 0)
    begins = f"The trainer continues at {row.env_steps:,} steps (attempt {row.attempt})"
    if not lost:
        return f"{begins}: nothing is lost"
    if not row.env_steps:
        return f"The trainer begins again (attempt {row.attempt}): {lost:,} steps are lost, none was saved"
    return f"{begins}: {lost:,} steps after the last checkpoint are lost"


def loss_words(record: RunRecord, checkpoints: Iterable[CheckpointInfo], why: str) -> str:
    """Say what of a run that has ended no checkpoint holds; empty when everything is saved."""
    newest = max(
        (info for info in checkpoints if info.resumable),
        key=lambda info: (info.attempt, info.updates),
        default=None,
    )
    updates = record.updates - (newest.updates if newest is not None else 0)
    if updates <= 0:
        return ""
    steps = max(record.env_steps - (newest.env_steps if newest is not None else 0), 0)
    return f"the last {count_words(updates, 'update')} ({count_words(steps, 'step')}) are lost: {why}"
