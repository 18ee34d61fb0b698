"""The strip that says how a run ended, and offers what next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QVBoxLayout, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, Feed, Fetch
from soulsgui.gui.overview.figures import goal_words, window_words
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.theme import GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.inputs import ENVIRONMENT, task_of
from soulsgui.gui.widgets.labels import Heading, IconLabel, Label, set_property
from soulsgui.wire.control import BEST, Preset, RunStatus

_WORDS_CHARACTERS = 48
_BEGINS = ("run.start", "run.resume")


@dataclass(frozen=True)
class EndWords:
    """How a run ended."""

    icon: str
    tone: Tone
    title: str
    detail: str = ""


def end_words(run: RunStatus) -> EndWords | None:
    """Return what to say of a run that ended by itself; None while it goes on or when it was stopped."""
    after, steps, mean = text.duration(run.seconds), text.count(run.env_steps), text.value(run.mean_return)
    if run.state == "failed":
        return EndWords("state-bad", Tone.BAD, "The run failed", run.error)
    if run.state != "finished":
        return None
    if run.reached == "mean_return":
        title = f"Solved: reached {goal_words(run.goal_return or 0.0)} after {after}"
        # Training goes on while an evaluation is played: the model that reached the goal is a little older.
        detail = {
            "evaluation": f"Mean of an evaluation: {mean}. The run made {steps} steps.",
            "both": f"{window_words(run)}: {mean}, confirmed by greedy episodes, after {steps} steps.",
            "training": f"{window_words(run)}: {mean}, after {steps} steps.",
        }[run.goal_judged_by]
        return EndWords("star", Tone.GOOD, title, detail)
    best = text.value(run.best_mean_return)
    detail = f"Mean return at its end {mean}; the highest during the run, that of its best model: {best}."
    return EndWords("state-finished", Tone.GOOD, f"Finished: made {steps} steps in {after}", detail)


def next_preset(presets: Sequence[Preset], env_id: str) -> Preset | None:
    """Return a preset that trains another environment than the one that is solved; None without any."""
    others = (preset for preset in presets if preset.values.get(ENVIRONMENT, env_id) != env_id)
    return next(others, None)


class EndStrip(QFrame):
    """Shown when a run has ended by itself.

    Signals:
        log_asked: The log of a service is to be shown; with its name.
    """

    log_asked = Signal(str)

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "bar")
        self._feed = feed
        self._run = RunStatus()
        self._preset: Preset | None = None
        self._gone = ""
        self._mark = IconLabel(0, self)
        self._title = Heading("", 0, self)
        self._detail = Label(parent=self)
        self._detail.setWordWrap(True)
        self.watch = FittingButton("Watch it play", "watch", self)
        self.watch.explain("See its best model play")
        self.next = FittingButton("", "", self)
        words = Words("Continue without the goal", "Resuming …", "Resumed")
        self.go_on = CommandButton(words, "resume", self._go_on, self)
        self.go_on.problem.connect(lambda error: notify_problem(shell, error))
        self.again = FittingButton("New run…", "play", self)
        self.checkpoints = FittingButton("Checkpoints", "page-runs", self)
        self.log = FittingButton("Trainer's log", "log", self)
        self._lay_out()
        self.watch.clicked.connect(lambda: shell.open_player(self._run, BEST))
        self.next.clicked.connect(
            lambda: shell.open_new_run(preset=self._preset.name if self._preset else "")
        )
        self.again.clicked.connect(lambda: shell.open_new_run())
        self.checkpoints.clicked.connect(lambda: shell.show_page("runs", run=self._run.id))
        self.log.clicked.connect(lambda: self.log_asked.emit("trainer"))
        feed.asked.connect(self._asked)
        self._presets = Fetch(self, self._ask)
        self._presets.came.connect(self._take_presets)
        self.hide()

    def _lay_out(self) -> None:
        self._title.setWordWrap(True)
        said = QWidget(self)
        said.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        said.setMinimumWidth(_WORDS_CHARACTERS * self.fontMetrics().averageCharWidth())
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(self._title)
        words.addWidget(self._detail)
        row = QHBoxLayout(said)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(GAP_S)
        row.addWidget(self._mark)
        row.addLayout(words, 1)
        parts = FlowLayout(GAP_S, parent=self)
        parts.setContentsMargins(GAP_M, GAP_XS, GAP_M, GAP_XS)
        for part in (said, self.watch, self.next, self.go_on, self.again, self.checkpoints, self.log):
            parts.addWidget(part)

    def show_run(self, run: RunStatus) -> None:
        """Say how it ended, or nothing while it goes on."""
        self._run = run
        words = end_words(run)
        if words is None:
            self._gone = ""
        if words is None or run.id == self._gone:
            self.hide()
            return
        self._mark.show_icon(words.icon, words.tone)
        self._title.setText(words.title)
        self._detail.setText(words.detail)
        set_property(self, "tone", words.tone)
        failed = run.state == "failed"
        self.log.setVisible(failed)
        self.watch.setVisible(not failed)
        self.checkpoints.setVisible(not failed)
        self.go_on.setVisible(not failed)
        if self.isHidden():
            self._offer_next()
            self._presets.request()
            self.show()

    def _asked(self, command: str) -> None:
        # Whatever becomes of the next one: beside its trouble the success of the last one would mislead.
        if command in _BEGINS and not self.isHidden():
            self._gone = self._run.id
            self.hide()

    def _ask(self) -> Call | None:
        return self._feed.call("config.presets") if self._feed.connection.live else None

    def _take_presets(self, result: dict[str, Any]) -> None:
        presets = [Preset.model_validate(preset) for preset in result["presets"]]
        self._preset = next_preset(presets, self._run.env_id)
        self._offer_next()

    def _offer_next(self) -> None:
        solved = self._run.reached == "mean_return" and not self._run.sweep
        offered = solved and self._preset is not None
        self.next.setVisible(offered)
        self.again.setVisible(not offered)  # the next one is a new run, too
        if self._preset is not None:
            words = f"Train {task_of(self._preset)}…"
            self.next.say(words, "play")
            self.next.explain(f"{self._preset.title}\n{self._preset.about}".strip())

    def _go_on(self) -> Call:
        return self._feed.call("run.resume", {"run": self._run.id, "without_goal": True})
