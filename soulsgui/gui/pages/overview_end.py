"""The strip that says how a run ended, and offers what next."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QEvent, QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from soulsgui.gui import text
from soulsgui.gui.calls import Call
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.pages.overview_figures import goal_words, window_words
from soulsgui.gui.run_choice import ENVIRONMENT, task_of
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton, give_way
from soulsgui.gui.widgets.labels import Heading, IconLabel, set_property
from soulsgui.wire.control import Preset, RunStatus

_MARGIN_PX = 10
_GAP_PX = 8
_WORDS_CHARACTERS = 36
_BEGINS = ("run.start", "run.resume")


@dataclass(frozen=True)
class EndWords:
    """How a run ended.

    Attributes:
        icon: Name of its icon.
        tone: Its colour.
        title: What became of it.
        detail: What else there is to say.
    """

    icon: str
    tone: Tone
    title: str
    detail: str = ""


def end_words(run: RunStatus) -> EndWords | None:
    """Return what to say of a run that ended by itself; None while it goes on or when it was stopped."""
    after = text.duration(run.seconds)
    if run.state == "failed":
        return EndWords("state-bad", Tone.BAD, tr("The run failed"), run.error)
    if run.state != "finished":
        return None
    if run.reached == "mean_return":
        title = tr("Solved: reached {goal} after {time}").format(
            goal=goal_words(run.goal_return or 0.0), time=after
        )
        # Training goes on while an evaluation is played: the model that reached the goal is a little older.
        words = {
            "evaluation": tr("Mean of an evaluation: {value}. The run made {steps} steps."),
            "both": tr("{mean}: {value}, confirmed by greedy episodes, after {steps} steps."),
            "training": tr("{mean}: {value}, after {steps} steps."),
        }[run.goal_judged_by]
        detail = words.format(
            mean=window_words(run), value=text.value(run.mean_return), steps=text.count(run.env_steps)
        )
        return EndWords("star", Tone.GOOD, title, detail)
    title = tr("Finished: made {steps} steps in {time}").format(steps=text.count(run.env_steps), time=after)
    detail = tr("Mean return at its end {value}; the highest during the run, that of its best model: {best}.")
    detail = detail.format(value=text.value(run.mean_return), best=text.value(run.best_mean_return))
    return EndWords("state-finished", Tone.GOOD, title, detail)


def next_preset(presets: Sequence[Preset], env_id: str) -> Preset | None:
    """Return a preset that trains another environment than the one that is solved; None without any."""
    for preset in presets:
        if preset.values.get(ENVIRONMENT, env_id) != env_id:
            return preset
    return None


class EndStrip(QFrame):
    """Shown when a run has ended by itself.

    Signals:
        log_asked: The log of a service is to be shown; with its name.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    log_asked = Signal(str)

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "bar")
        self._feed = feed
        self._shell = shell
        self._run = RunStatus()
        self._preset: Preset | None = None
        self._gone = ""
        self._mark = IconLabel(0, self)
        self._title = Heading("", 0, self)
        self._detail = QLabel(self)
        self._detail.setWordWrap(True)
        self.next = FittingButton("", "", self)
        words = Words(self.tr("Go on without the goal"), self.tr("Resuming …"), self.tr("Resumed"))
        self.go_on = CommandButton(words, "resume", self._go_on, self)
        self.go_on.problem.connect(lambda error: notify_problem(shell, error))
        self.again = FittingButton(self.tr("New run…"), "play", self)
        self.checkpoints = FittingButton(self.tr("Checkpoints"), "page-runs", self)
        self.log = FittingButton(self.tr("Trainer's log"), "log", self)
        self._buttons = (self.next, self.go_on, self.again, self.checkpoints, self.log)
        self._lay_out()
        self._connect()
        self._presets = Fetch(self, self._ask)
        self._presets.came.connect(self._take_presets)
        self.hide()

    def _lay_out(self) -> None:
        self._title.setWordWrap(True)
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(self._title)
        words.addWidget(self._detail)
        said = QHBoxLayout()
        said.setSpacing(_GAP_PX)
        said.addWidget(self._mark)
        said.addLayout(words, 1)
        buttons = QHBoxLayout()
        buttons.setSpacing(_GAP_PX)
        for button in self._buttons:
            buttons.addWidget(button)
        buttons.addStretch(1)
        self._parts = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._parts.setContentsMargins(_MARGIN_PX, 5, _MARGIN_PX, 5)
        self._parts.setSpacing(_GAP_PX)
        self._parts.addLayout(said, 1)
        self._parts.addLayout(buttons)

    # --- room ---

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the buttons below the words where there is no room beside them."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Do the same when something else is said, or in other letters."""
        if event.type() == QEvent.Type.LayoutRequest and hasattr(self, "_parts"):
            self._fit()
        return super().event(event)

    def minimumSizeHint(self) -> QSize:
        """Never make the page wider: buttons give up their words instead. Never cut the words."""
        least = _WORDS_CHARACTERS * self.fontMetrics().averageCharWidth()
        return QSize(least, self._parts.totalMinimumHeightForWidth(self.width()))

    def _fit(self) -> None:
        shown = [button for button in self._buttons if not button.isHidden()]
        room = self.width() - 2 * _MARGIN_PX
        needed = sum(button.full_width for button in shown) + _GAP_PX * len(shown)
        words = _WORDS_CHARACTERS * self.fontMetrics().averageCharWidth() + self._mark.width() + _GAP_PX
        beside = words + needed <= room
        direction = QBoxLayout.Direction
        self._parts.setDirection(direction.LeftToRight if beside else direction.TopToBottom)
        give_way(self._buttons, room, _GAP_PX)

    def _connect(self) -> None:
        self.next.clicked.connect(self._begin_next)
        self.again.clicked.connect(lambda: self._shell.open_new_run())
        self.checkpoints.clicked.connect(lambda: self._shell.show_page("runs", run=self._run.id))
        self.log.clicked.connect(lambda: self.log_asked.emit("trainer"))
        self._feed.asked.connect(self._asked)

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

    # --- what next ---

    def _ask(self) -> Call | None:
        return self._feed.call("config.presets") if self._feed.connection.live else None

    def _take_presets(self, result: dict[str, Any]) -> None:
        presets = [Preset.model_validate(preset) for preset in result["presets"]]
        self._preset = next_preset(presets, self._run.env_id)
        self._offer_next()

    def _offer_next(self) -> None:
        offered = self._preset is not None and self._run.reached == "mean_return"
        self.next.setVisible(offered)
        if self._preset is not None:
            words = tr("Train {environment}…").format(environment=task_of(self._preset))
            self.next.say(words, "play")
            self.next.explain(f"{self._preset.title}\n{self._preset.about}".strip())

    def _go_on(self) -> Call:
        return self._feed.call("run.resume", {"run": self._run.id, "without_goal": True})

    def _begin_next(self) -> None:
        if self._preset is not None:
            self._shell.open_new_run(preset=self._preset.name)

    @property
    def words(self) -> str:
        """What it says; empty while it is hidden."""
        return "" if self.isHidden() else f"{self._title.text()}\n{self._detail.text()}"
