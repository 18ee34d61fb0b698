"""What a run is and in which state: told from its services and nodes. Pure: time is passed in."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from soulsgui.wire.control import RunState, RunStatus, ServiceStatus
from soulsgui.wire.messages.metrics import AttemptRow
from soulsgui.wire.messages.node import NodeState, Verdict

Reached = Literal["", "mean_return", "env_steps", "stopped", "failed"]

LIVE_STATES: frozenset[str] = frozenset({"starting", "waiting", "running", "paused", "saving", "frozen"})
"""States of a run that goes on."""

ENDED_STATES: frozenset[str] = frozenset({"finished", "stopped", "failed"})
"""States of a run that is over."""

END_WORDS: dict[Reached, str] = {
    "mean_return": "has reached its return",
    "env_steps": "has made its steps",
    "stopped": "was stopped",
    "failed": "failed",
    "": "was stopped",
}
"""How a run ended, as it follows its name."""

CHECKING = "checking the environment"

_BEST_SAVE_GAP_S = 1.0


class RunRecord(RunStatus):
    """`run.json`: what is known of a run beside its configuration.

    Attributes:
        note: The user's own words about it.
        created: Seconds since the epoch.
        number: Runs of a data folder are counted from 1, whatever its clock says; 0 for one of before that.
        restarts: How often each service was restarted after a failure.
        local_clients: Clients the server starts itself in this run.
    """

    note: str = ""
    created: float = 0.0
    number: int = 0
    restarts: dict[str, int] = Field(default_factory=dict)
    local_clients: int = 0

    @property
    def title(self) -> str:
        """What it is called where a person reads of it."""
        return self.name or self.id


@dataclass(frozen=True)
class RunView:
    """What is known of a run at one moment.

    Attributes:
        trainer: The supervised trainer, None while there is none.
        node: The trainer's own state, None while its present process has not written one.
        stopping: Whether the run is being ended.
        server_up: Whether Redis answers.
        disk_full: Whether Redis refuses writes because of its disk.
        check: What the check of the environment does, in words.
        evaluating: Whether the evaluator plays.
        confirming: Whether greedy episodes are to confirm the goal.
    """

    trainer: ServiceStatus | None
    node: NodeState | None
    stopping: bool = False
    server_up: bool = True
    disk_full: bool = False
    check: str = ""
    evaluating: bool = False
    confirming: bool = False


def run_state(view: RunView) -> tuple[RunState, str]:
    """Return the state of a run that goes on, and in words what it waits for or does."""
    trainer = view.trainer
    if view.stopping:
        if view.evaluating:
            return "saving", "evaluating its last weights"
        return "saving", "saving and ending its services"
    if not view.server_up:
        return "waiting", "for Redis"
    if view.disk_full:
        return "waiting", "disk full"
    if trainer is None:
        return "starting", CHECKING + (f": {view.check}" if view.check else "")
    if trainer.state == "starting":
        return "starting", _loading(view)
    if trainer.state == "failed":
        return "failed", f"The trainer failed: {trainer.outcome}"
    if trainer.state in ("stopped", "stopping"):
        return "waiting", "the trainer is stopped"
    if trainer.state == "backoff":
        return "starting", f"the trainer is started again ({trainer.outcome})"
    return _by_phase(view)


def _loading(view: RunView) -> str:
    detail = view.node.detail if view.node is not None else ""
    return detail or "the trainer is loading"


def _by_phase(view: RunView) -> tuple[RunState, str]:
    node = view.node
    if node is None or node.phase == "loading":
        return "starting", _loading(view)
    if node.phase == "waiting":
        return "waiting", node.detail
    if node.phase in ("paused", "frozen"):
        return node.phase, node.detail
    if node.phase == "stopping":
        return "saving", node.detail
    # A regular checkpoint takes a moment of a running run: not a state of its own.
    return "running", "confirming the goal by greedy episodes" if view.confirming else node.detail


def goal_reached(trainer: NodeState | None, telemetry: NodeState | None) -> Reached:
    """Return the goal that a node says was reached, empty while none is."""
    if telemetry is not None and telemetry.verdict is not None and telemetry.verdict.reached:
        return "mean_return"
    if trainer is not None and trainer.stop_reached:
        return "env_steps"
    return ""


def with_progress(
    record: RunRecord, trainer: NodeState | None, telemetry: NodeState | None, wall_time: float
) -> RunRecord:
    """Return the record with the numbers of its nodes; what a node does not tell stays as it is.

    Args:
        record: The record so far.
        trainer: The trainer's newest state in this run.
        telemetry: Telemetry's newest state in this run.
        wall_time: Seconds since the epoch, for the age of the checkpoint.
    """
    changes: dict[str, object] = {"env_steps_per_s": 0.0, "updates_per_s": 0.0}
    if trainer is not None and trainer.run_id == record.id:
        changes |= {
            "attempt": max(trainer.attempt, record.attempt),
            "model_id": trainer.model_id,
            "env_steps": trainer.env_steps,
            "updates": trainer.updates,
            "episodes": trainer.episodes,
            "env_steps_per_s": trainer.env_steps_per_s,
            "updates_per_s": trainer.updates_per_s,
            "policy_lag": trainer.policy_lag,
            "learns_on": trainer.learns_on,
            "learner_waits": trainer.learner_waits,
            "clients_wait": trainer.clients_wait,
            "lost_chunks": trainer.lost_chunks,
            "rejected": trainer.rejected,
            "staleness": trainer.staleness,
            "error": trainer.error,
            "checkpoint_env_steps": trainer.checkpoint_env_steps,
            "checkpoint_age_s": _age(trainer.checkpoint_time, wall_time),
        }
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


def seen_as(record: RunRecord, view: RunView, seconds: float) -> RunRecord:
    """Return the record with its state.

    Args:
        record: The record so far.
        view: What is known of the run now.
        seconds: How long it has gone on.
    """
    state, detail = run_state(view)
    return record.model_copy(update={"state": state, "detail": detail, "seconds": seconds})


def _age(moment: float | None, wall_time: float) -> float | None:
    return None if moment is None else max(wall_time - moment, 0.0)


def ended(record: RunRecord, reached: Reached, error: str = "") -> RunRecord:
    """Return the record of a run that is over."""
    states: dict[Reached, RunState] = {
        "mean_return": "finished",
        "env_steps": "finished",
        "failed": "failed",
    }
    by_evaluation = reached == "mean_return" and record.goal_judged_by == "evaluation"
    return record.model_copy(
        update={
            "state": states.get(reached, "stopped"),
            "mean_return": record.evaluation_return if by_evaluation else record.mean_return,
            "reached": reached or "stopped",
            "detail": "",
            "error": error or record.error,
            "env_steps_per_s": 0.0,
            "updates_per_s": 0.0,
            "learns_on": "",
            "learner_waits": None,
            "clients_wait": None,
            "wished_pause": False,
        }
    )


def interrupted(record: RunRecord) -> RunRecord:
    """Return the record of a run that says it goes on though nothing of it lives."""
    reason = record.error or "The runner ended without stopping this run."
    return record.model_copy(
        update={
            "state": "stopped",
            "reached": "stopped",
            "detail": "",
            "error": reason,
            "wished_pause": False,
        }
    )


def new_attempt_words(steps_before: int, row: AttemptRow) -> str:
    """Say where the trainer goes on after it had ended, and what that cost.

    Args:
        steps_before: Environment steps it had made when it was last heard of.
        row: The beginning of its new attempt.
    """
    lost = max(steps_before - row.env_steps, 0)
    begins = f"The trainer goes on at {row.env_steps:,} steps (attempt {row.attempt})"
    if not lost:
        return f"{begins}: nothing is lost"
    if not row.env_steps:
        return f"The trainer begins anew (attempt {row.attempt}): {lost:,} steps are lost, none was saved"
    return f"{begins}: {lost:,} steps after the last checkpoint are lost"


class BestModel:
    """Decides when the best model is to be saved: once per change, one save at a time.

    Args:
        saved: Model id and score of the one that is saved already.

    Attributes:
        oldest: Id of the oldest weights that the trainer may still hold: those of earlier attempts are gone.
    """

    def __init__(self, saved: tuple[int, float] | None = None) -> None:
        self.oldest = float("-inf")
        self._saved = saved
        self._outstanding: tuple[int, float] | None = None
        self._last_at = float("-inf")

    def due(self, verdict: Verdict | None, now: float, hurry: bool = False) -> tuple[int, float] | None:
        """Return (model id, score) to save now, or None; what is returned counts as being saved.

        Args:
            verdict: What telemetry says.
            now: Monotonic time, seconds.
            hurry: Whether the run ends: this one is the last, and waits neither for a gap nor for an answer.
        """
        if verdict is None or verdict.best_model_id is None or verdict.best_score is None:
            return None
        best = (verdict.best_model_id, verdict.best_score)
        if best in (self._saved, self._outstanding) or verdict.best_model_id < self.oldest:
            return None
        if not hurry and (self._outstanding is not None or now - self._last_at < _BEST_SAVE_GAP_S):
            return None
        self._outstanding, self._last_at = best, now
        return best

    def answered(self, delivered: bool) -> None:
        """Note that the save was answered (or that nobody will answer)."""
        if delivered:
            self._saved = self._outstanding
        self._outstanding = None
