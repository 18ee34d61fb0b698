"""What is new of the run that goes on, told as events: what holds it up, divergence, saving, evaluations."""

from soulsgui.config.sections.dqn import BEYOND_SUPPORT, BEYOND_SUPPORT_REMEDY, beyond_support_words
from soulsgui.runner.events import EventLog, Level
from soulsgui.wire.keys import EVALUATOR, TRAINER
from soulsgui.wire.messages.metrics import EVALUATION_CUT, EVALUATION_RETURN, UpdateRow
from soulsgui.wire.messages.node import NodeState


class RunNews:
    """Tells each piece of news of a run once.

    Args:
        events: Where to note it.
        run_id: The run.
        goal: The mean return that it is to reach.
    """

    def __init__(self, events: EventLog, run_id: str, goal: float | None) -> None:
        self._events = events
        self._run_id = run_id
        self._goal = goal
        self._trouble = ""
        self._diverged = ""
        self._unsaved = False
        self._told: set[str] = set()

    def look(self, trainer: NodeState) -> None:
        """Tell what became different since the trainer's state before."""
        if trainer.trouble != self._trouble:
            self._trouble = trainer.trouble
            if trainer.trouble:
                remedy = "It goes on by itself when they are back, or when somebody stops or forgets them."
                self.add("warning", trainer.trouble, remedy)
            else:
                self.add("info", "The run waits no longer.")
        if trainer.diverged != self._diverged:
            self._diverged = trainer.diverged
            if trainer.diverged:
                remedy = "If it happens again, lower the learning rate, and check the size of the rewards."
                self.add("error", trainer.diverged, remedy)
            else:
                self.add("info", "The training has passed the place where it diverged")
        if bool(trainer.unsaved) != self._unsaved:
            self._unsaved = bool(trainer.unsaved)
            full = trainer.phase == "paused"
            remedy = "Free some space; training goes on" if full else "Mend the cause; it is tried again"
            if trainer.unsaved:
                self.add("error", f"The run is {trainer.unsaved}", f"{remedy} by itself.")
            else:
                self.add("info", "The run is saved again")

    def take_row(self, row: UpdateRow) -> None:
        """Tell what a new row of the curves says of the goal, and what of it asks for a change."""
        if row.confirms is not None:
            self._note_confirmation(row)
        cut = "Greedy episodes of the evaluation did not end and were cut"
        remedy = "The environment sets no limit of steps: evaluation.max_steps is what they get."
        self._warn_once(EVALUATION_CUT, cut if EVALUATION_CUT in row.values else "", remedy, EVALUATOR)
        beyond = beyond_support_words(row.values.get(BEYOND_SUPPORT, 0.0))
        self._warn_once(BEYOND_SUPPORT, beyond, BEYOND_SUPPORT_REMEDY, TRAINER)

    def _note_confirmation(self, row: UpdateRow) -> None:
        """Tell whether greedy episodes confirm that the goal is reached."""
        goal, mean = self._goal, row.values.get(EVALUATION_RETURN)
        if goal is None or mean is None:
            return
        confirmed = "confirm the goal" if mean >= goal else "do not confirm the goal that training reached"
        words = f"Greedy episodes of model {row.model_id} {confirmed}: mean return {mean:.1f} of {goal:g}"
        self.add("info", words if mean >= goal else f"{words}. The run goes on", service=EVALUATOR)

    def _warn_once(self, figure: str, words: str, remedy: str, service: str) -> None:
        if words and figure not in self._told:
            self._told.add(figure)
            self.add("warning", words, remedy, service)

    def add(self, level: Level, words: str, remedy: str = "", service: str = TRAINER) -> None:
        """Tell something."""
        self._events.add(level, words, remedy=remedy, service=service, run_id=self._run_id)
