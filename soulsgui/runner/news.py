"""What is new of the run that goes on, told as events: what holds it up, divergence, saving, attempts."""

from collections.abc import Sequence

from soulsgui.config.sections.dqn import BEYOND_SUPPORT, BEYOND_SUPPORT_REMEDY, beyond_support_words
from soulsgui.runner.active import Active
from soulsgui.runner.events import EventLog, Level
from soulsgui.wire.keys import EVALUATOR, TRAINER
from soulsgui.wire.messages.metrics import EVALUATION_CUT, EVALUATION_RETURN, AttemptRow, Row, UpdateRow
from soulsgui.wire.messages.node import NodeState


class News:
    """Tells each piece of news once.

    Args:
        events: Where to note it.
    """

    def __init__(self, events: EventLog) -> None:
        self._events = events

    def look(self, active: Active, trainer: NodeState | None) -> None:
        """Tell what became different since the last look.

        Args:
            active: The run.
            trainer: The newest state of its trainer; None when there is none.
        """
        if trainer is not None:
            self._note_trouble(active, trainer)
            self._note_divergence(active, trainer)
            self._note_saving(active, trainer)

    def take_rows(self, active: Active, rows: Sequence[Row]) -> None:
        """Look at new rows of the curves: what a new attempt cost, and figures that ask for a change."""
        for row in rows:
            words = active.begin_attempt(row) if isinstance(row, AttemptRow) else ""
            if words:
                self._add(active, "info", words)
            if isinstance(row, UpdateRow):
                if row.confirms is not None:
                    self._note_confirmation(active, row)
                cut = "Greedy episodes of the evaluation did not end and were cut"
                remedy = "The environment sets no limit of steps: evaluation.max_steps is what they get."
                self._warn_once(
                    active, EVALUATION_CUT, cut if EVALUATION_CUT in row.values else "", remedy, EVALUATOR
                )
                beyond = beyond_support_words(row.values.get(BEYOND_SUPPORT, 0.0))
                self._warn_once(active, BEYOND_SUPPORT, beyond, BEYOND_SUPPORT_REMEDY, TRAINER)

    def _warn_once(self, active: Active, figure: str, words: str, remedy: str, service: str) -> None:
        if words and figure not in active.told:
            active.told.add(figure)
            self._add(active, "warning", words, remedy, service)

    def _note_trouble(self, active: Active, trainer: NodeState) -> None:
        """Tell when something begins, and when it ceases, to hold the run up."""
        if trainer.trouble == active.trouble:
            return
        if trainer.trouble:
            remedy = "It goes on by itself when they are back, or when somebody stops or forgets them."
            self._add(active, "warning", trainer.trouble, remedy)
        else:
            self._add(active, "info", "The run waits no longer.")
        active.trouble = trainer.trouble

    def _note_divergence(self, active: Active, trainer: NodeState) -> None:
        """Tell that the training has diverged and was taken back, and when that is overcome."""
        if trainer.diverged == active.diverged:
            return
        if trainer.diverged:
            remedy = "If it happens again, lower the learning rate, and check the size of the rewards."
            self._add(active, "error", trainer.diverged, remedy)
        else:
            self._add(active, "info", "The training has passed the place where it diverged")
        active.diverged = trainer.diverged

    def _note_saving(self, active: Active, trainer: NodeState) -> None:
        """Tell when the run can't be saved, and when it can again."""
        news = active.save_news.of(trainer)
        if news is not None:
            what, remedy = news
            self._add(active, "error" if remedy else "info", f"The run {what}", remedy)

    def _note_confirmation(self, active: Active, row: UpdateRow) -> None:
        """Tell whether greedy episodes confirm that the goal is reached."""
        goal, mean = active.settings.stop.mean_return, row.values.get(EVALUATION_RETURN)
        if goal is None or mean is None:
            return
        confirmed = "confirm the goal" if mean >= goal else "do not confirm the goal that training reached"
        words = f"Greedy episodes of model {row.model_id} {confirmed}: mean return {mean:.1f} of {goal:g}"
        self._add(active, "info", words if mean >= goal else f"{words}. The run goes on", service=EVALUATOR)

    def _add(
        self, active: Active, level: Level, words: str, remedy: str = "", service: str = TRAINER
    ) -> None:
        self._events.add(level, words, remedy=remedy, service=service, run_id=active.run.run_id)
