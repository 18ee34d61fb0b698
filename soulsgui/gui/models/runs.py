"""The library of runs as its table shows it, and what can be done with a run now. Pure but for the model."""

import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.records import Column, RecordsModel, low
from soulsgui.gui.question import Question
from soulsgui.gui.run_actions import algorithm_title, run_title
from soulsgui.gui.states import run_is_active, run_look
from soulsgui.wire.control import RunStatus, RunSummary


def with_status(run: RunSummary, status: RunStatus) -> RunSummary:
    """Return a run of the library with what the newest status says of it."""
    if status.id != run.id:
        return run
    return run.model_copy(
        update={
            "state": status.state,
            "reached": status.reached,
            "name": status.name,
            "env_steps": status.env_steps,
            "episodes": status.episodes,
            "best_mean_return": status.best_mean_return,
            "seconds": status.seconds,
            "error": status.error,
        }
    )


def reached_words(run: RunSummary) -> str:
    """Return how a run ended, or what went wrong with it."""
    if run.error:
        return run.error
    words = {
        "mean_return": tr("Reached the return it was to reach."),
        "env_steps": tr("Made the steps it was to make."),
        "stopped": tr("Was stopped."),
        "failed": tr("Failed."),
    }
    return words.get(run.reached, run_look(run.state).word)


def columns() -> tuple[Column[RunSummary], ...]:
    """Return every column, from left to right."""
    best = tr(
        "The highest mean return during the run, that of its best model. "
        "The mean return at its end may be lower: it goes up and down while a run learns."
    )
    return (
        Column(
            "state",
            tr("State"),
            lambda run: run_look(run.state).word,
            lambda run: run_look(run.state).rank,
            tip=reached_words,
            look=lambda run: run_look(run.state),
            width=12,
        ),
        Column("name", tr("Name"), run_title, tip=lambda run: run.id, width=18),
        Column("env", tr("Environment"), lambda run: run.env_id or text.NOTHING, width=15),
        Column("algorithm", tr("Algorithm"), lambda run: algorithm_title(run) or text.NOTHING, width=9),
        _number("steps", tr("Steps"), lambda run: text.compact(run.env_steps), lambda run: run.env_steps),
        _number("episodes", tr("Episodes"), lambda run: text.count(run.episodes), lambda run: run.episodes),
        Column(
            "best",
            tr("Best mean"),
            lambda run: text.value(run.best_mean_return),
            lambda run: low(run.best_mean_return),
            number=True,
            width=11,
            about=best,
            tip=lambda _: best,
        ),
        _number("seconds", tr("Duration"), lambda run: text.duration(run.seconds), lambda run: run.seconds),
        _number("size", tr("Size"), lambda run: text.size(run.size_bytes), lambda run: run.size_bytes),
        _number(
            "created",
            tr("Created"),
            lambda run: text.clock(run.created, time.time()) if run.created else text.NOTHING,
            lambda run: run.created,
            width=16,
        ),
        Column(
            "note", tr("Note"), lambda run: " ".join(run.note.split()), tip=lambda run: run.note, width=16
        ),
    )


def _number(
    name: str,
    title: str,
    shown: Callable[[RunSummary], str],
    key: Callable[[RunSummary], float],
    width: int = 10,
) -> Column[RunSummary]:
    return Column(name, title, shown, key, number=True, width=width)


class RunsModel(RecordsModel[RunSummary]):
    """Every run: the active one on top, then the past ones in the order the user chose."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(columns(), lambda run: run.id, lambda run: run_is_active(run.state), parent)

    def take(self, runs: Iterable[RunSummary], status: RunStatus) -> None:
        """Take the library anew, with what the newest status says of one of them."""
        self.replace(with_status(run, status) for run in runs)

    def follow(self, status: RunStatus) -> bool:
        """Take the newest status and return whether its run is in the table."""
        run = self.find(status.id)
        if run is not None:
            self.change(with_status(run, status))
        return run is not None or not status.id

    def find(self, run_id: str) -> RunSummary | None:
        """Return a run, None when it is not in the table."""
        return next((run for run in self.records if run.id == run_id), None)


def why_not_resumed(run: RunSummary | None) -> str:
    """Return why a run can't be gone on with, empty when it can."""
    if run is None:
        return tr("Choose a run first.")
    if run_is_active(run.state):
        return tr("This run goes on already.")
    if not run.resumable:
        return tr("It has no checkpoint to go on from.")
    if has_reached(run):
        return tr("It has reached its goal and would end again at once.")
    return ""


def has_reached(run: RunStatus | RunSummary) -> bool:
    """Whether a run is over because it reached its goal: it goes on without that alone."""
    return run.reached in ("mean_return", "env_steps") and not run_is_active(run.state)


def why_not_without_goal(run: RunSummary | None) -> str:
    """Return why a run can't be gone on with without its goal, empty when it can."""
    if run is None or not has_reached(run):
        return tr("It has reached no goal.")
    return "" if run.resumable else tr("It has no checkpoint to go on from.")


def stopping_words(active: RunStatus) -> str:
    """Return what stopping the active run costs."""
    name = run_title(active)
    if active.checkpoint_age_s is None:
        return tr("{name} is stopped first; it saves before it ends.").format(name=name)
    return tr("{name} is stopped first; it saves before it ends (last checkpoint {ago}).").format(
        name=name, ago=text.ago(active.checkpoint_age_s)
    )


def resume_question(run: RunSummary, active: RunStatus) -> Question | None:
    """Return what to ask before a run is gone on with; None when nothing is lost."""
    if not run_is_active(active.state) or active.id == run.id:
        return None
    heading = tr("Stop {active} and resume {run}?").format(active=run_title(active), run=run_title(run))
    return Question(heading, stopping_words(active), tr("Stop and resume"))
