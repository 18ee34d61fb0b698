"""One evaluation that is watched: its checkpoint, its picture, what the policy says, and its video."""

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QBoxLayout,
    QGridLayout,
    QProgressBar,
    QSlider,
    QStackedWidget,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.feed import Feed, JobCall
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.runs.models import described, evaluated_words
from soulsgui.gui.shell import Shell
from soulsgui.gui.states import run_is_active
from soulsgui.gui.theme import GAP_M, GAP_S
from soulsgui.gui.watching.picture import ActionBars, PictureView, decoded
from soulsgui.gui.watching.recording import Recording
from soulsgui.gui.widgets.agree import run_dialog
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.dialog import ask_where_to_save
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import ChoiceBox
from soulsgui.gui.widgets.labels import Label, caption, keep_place, muted, set_property, wrapped
from soulsgui.wire.control import (
    BEST,
    NEWEST,
    ApiError,
    CheckpointList,
    ErrorCode,
    Evaluated,
    Picture,
    PictureShown,
    RunStatus,
    RunSummary,
)
from soulsgui.wire.messages.server_config import Execution

EPISODES = 10
_CANCELLED = ApiError(code=ErrorCode.FAILED, message="It was cancelled.", remedy="Start it again.")

_FACTS = ("Seed", "Step", "Return so far")
_LATE_S = 0.05
_SIDE_CHARACTERS = 44
_ANY_WIDTH = 16777215  # Qt's own limit


def _of_all(number: int) -> str:
    return f"{number + 1} of {EPISODES}"


class WatchPane(QWidget):
    """Plays one evaluation of a run.

    Signals:
        changed: It plays, rests or has come to its end.
    """

    changed = Signal()

    def __init__(
        self,
        feed: Feed,
        run: RunStatus | RunSummary,
        checkpoint: str,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self._feed, self._run, self._wanted, self._clock = feed, run, checkpoint, clock
        self.recording = Recording()
        self.playing, self.speed, self.seed = True, 1.0, 0
        self._began_with = 0  # the seed of its first episode
        self._first = 0  # the episode that the evaluation which is shown began with
        self._shown_at = 0.0
        self._job: JobCall | None = None
        self._film: JobCall | None = None
        self._video = ""  # where it is saved
        self._asks: Execution | None = None
        self._build()
        self._timer = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self.go_on)
        ask = partial(feed.ask, "checkpoint.list", {"run": run.id})
        self._list = Fetch(self, ask, came=self._take_list, failed=self._fail)
        feed.picture_shown.connect(self._picture_came)
        feed.connection_changed.connect(self._show_connection)
        self._list.request()

    def _build(self) -> None:
        self.checkpoint = ChoiceBox("Checkpoint", self, characters=16)
        self.checkpoint.setToolTip("Which weights play")
        self.checkpoint.activated.connect(lambda: self.start())
        self.save = FittingButton("Save &video…", "export", self)
        self.save.clicked.connect(self._ask_where_to_save)
        self.picture = PictureView(self)
        self.empty = EmptyState("watch", "", "", "Try again", "restart", self)
        self.empty.acted.connect(self._try_again)
        self.stack = QStackedWidget(self)
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.picture)
        self.episode = ChoiceBox("", self, characters=len(_of_all(EPISODES)) + 7)  # with a return
        self.episode.setToolTip("Choose which one to see: it is shown again, or played from its own seed")
        self.episode.addItems([_of_all(number) for number in range(EPISODES)])
        self.facts = {name: Label(text.NOTHING, self) for name in _FACTS}
        self.heading, self.bars = muted(Label("", self)), ActionBars(self)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName("Place among the pictures received")
        self.slider.valueChanged.connect(self._slid)
        self.words = muted(wrapped("", self, selectable=True))
        self.progress = QProgressBar(self)
        self.progress.setTextVisible(False)
        self.progress.setMaximum(1000)
        self.progress.setFixedWidth(120)
        self.progress.setAccessibleName("How much of it has been played")
        self._side = self._told()
        self._middle = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._middle.setSpacing(GAP_M)
        self._middle.addWidget(self.stack, 1)
        self._middle.addWidget(self._side)
        self.stand_narrow(False)
        parts = (row((self.checkpoint, 1), self.save), (self._middle, 1), self.slider)
        self.of_film = muted(wrapped("", self, selectable=True))
        keep_place(self.of_film)  # so that the picture stays as large as the one beside it
        self.of_film.hide()
        told = row((self.words, 1), self.progress)
        column(*parts, told, self.of_film, on=self, margins=NO_MARGINS, gap_px=GAP_S)
        self._say_starting("")
        self._take_keyboard(self.stack)

    def _take_keyboard(self, where: QWidget) -> None:
        """Let the keys steer what plays: the picture, or its place as long as there is none."""
        if not isinstance(self.window().focusWidget(), QAbstractSpinBox):  # somebody types a seed there
            where.setFocus()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Take the keys of the picture in its place, too."""
        self.picture.keyPressEvent(event)

    def stand_narrow(self, narrow: bool) -> None:
        """Tell below the picture what is told beside it where there is room."""
        side_px = _SIDE_CHARACTERS * self.fontMetrics().averageCharWidth()
        self._side.setMaximumWidth(_ANY_WIDTH if narrow else side_px)
        self._side.setMinimumWidth(side_px)
        below, beside = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._middle.setDirection(below if narrow else beside)

    def _told(self) -> QWidget:
        side = QWidget(self)
        grid = QGridLayout()
        grid.setHorizontalSpacing(GAP_M)
        grid.setColumnStretch(1, 1)
        grid.addWidget(muted(caption("&Episode", self.episode, self)), 0, 0)
        grid.addWidget(self.episode, 0, 1)
        for line, (name, value) in enumerate(self.facts.items(), 1):
            value.setProperty("heading", "0")
            value.setAlignment(Qt.AlignmentFlag.AlignRight)
            value.setAccessibleName(name)
            grid.addWidget(muted(Label(name, self)), line, 0)
            grid.addWidget(value, line, 1)
        column(grid, self.heading, (self.bars, 1), on=side, margins=NO_MARGINS, gap_px=GAP_M)
        return side

    # Which weights play

    @property
    def chosen(self) -> str:
        """The checkpoint that is chosen."""
        return str(self.checkpoint.currentData() or self._wanted)

    def another(self) -> str:
        """Return a checkpoint to watch beside the one that is chosen."""
        following = (self.checkpoint.currentIndex() + 1) % max(self.checkpoint.count(), 1)
        return str(self.checkpoint.itemData(following) or "")

    def _take_list(self, listed: CheckpointList) -> None:
        valid = (one for one in listed.checkpoints if one.valid)
        whole = sorted(valid, key=lambda one: (one.updates, one.created))[::-1]
        active = self._feed.status.run
        goes_on = active.id == self._run.id and run_is_active(active.state)
        newest = [("The newest weights, as they are trained", NEWEST)] if goes_on else []
        best = next((one.id for one in whole if one.kind == "best"), "")
        offered = [*newest, *((described(one), one.id) for one in whole)]
        self.checkpoint.offer(offered, best if self._wanted == BEST else self._wanted)
        if self.checkpoint.count():
            self.start()
        else:
            hint = "Every few rounds one is saved. Start the run, or resume it."
            self._say_empty("This run has no checkpoint that can play", hint, "Try again")

    # The evaluation

    def start(self) -> None:
        """Play it from its first episode on."""
        self._began_with = self.seed
        for number in range(EPISODES):
            self.episode.setItemText(number, _of_all(number))
        self._play_from(0)

    def see_episode(self, number: int) -> None:
        """Show an episode from its beginning on: what came of it, or played anew where that is not kept."""
        place = self.recording.beginning_of(number - self._first)
        if place is None:
            self._play_from(number)
        else:
            self.recording.go_to(place)
            self.play(True)

    def _play_from(self, first: int, trust: str = "") -> None:
        self._end()
        self.recording = Recording()
        self._first = first
        params: dict[str, Any] = {"run": self._run.id, "checkpoint": self.chosen}
        params |= {"seed": self._began_with + first, "episodes": EPISODES - first}
        job = self._feed.job("checkpoint.evaluate", params | {"frames": True, "trust": trust})
        job.progressed.connect(self._progressed)
        job.done.connect(self._done)
        job.tell_problem(self._fail)
        job.dropped.connect(self._cancelled)
        self._job, self.playing = job, True
        self.episode.setCurrentIndex(first)
        for value in self.facts.values():
            value.setText(text.NOTHING)
        self.bars.clear()
        self.heading.setText("")
        self._show_slider()
        self._say_starting("")
        self._take_keyboard(self.stack)
        self._allow()
        self.changed.emit()

    def leave(self, shell: Shell) -> None:
        """End what plays. A video that is being filmed is saved all the same: the window tells of it."""
        self._end()
        if self._film is not None:
            path = self._video
            told = partial(shell.notify, about=path)
            self._film.done.connect(lambda _: told("success", f"The video is saved: {path}"))
            self._film.tell_problem(lambda why: told("error", f"No video: {why.message}", why.remedy))
            told("info", "The video is still being filmed.", f"It will be saved as {path}.")

    def _end(self) -> None:
        self._timer.stop()
        if self._job is not None and not self._job.over:
            self._job.cancel()
        self._unwatch()
        self._job = None

    @property
    def over(self) -> bool:
        """Whether nothing more comes."""
        return self._job is None or self._job.over

    @property
    def at_end(self) -> bool:
        """Whether nothing more comes, and all that came has been shown."""
        return self.over and not self.recording.ahead

    def play(self, playing: bool) -> None:
        """Play, from the beginning where it was at the end, or rest."""
        if playing and self.at_end:
            self.recording.go_to(0)
        self.playing, self._shown_at = playing, self._clock()
        self.go_on()

    def set_speed(self, speed: float) -> None:
        """Play at a multiple of the pace of the environment."""
        self.speed, self._shown_at = speed, self._clock()
        self.go_on()

    def step(self, by: int) -> None:
        """Pause, and show another picture."""
        self._slid(self.recording.place + by)

    def _slid(self, place: int) -> None:
        self.playing = False
        self.recording.go_to(place)
        self.go_on()

    def go_on(self) -> None:
        """Show what is due, and come back for what follows; nothing is, while nobody can see it."""
        if self.window().isMinimized():
            self._ask_pace()
            return
        now = self._clock()
        while self.playing and (stays_s := self.recording.stays_s) is not None:
            due = self._shown_at + stays_s / self.speed
            if due > now:
                self._timer.start(math.ceil(1000 * (due - now)))
                break
            self.recording.go_to(self.recording.place + 1)
            self._shown_at = max(due, now - _LATE_S)
        self._show()
        self._ask_pace()

    def _picture_came(self, shown: PictureShown) -> None:
        if self._job is None or self._job.job is None or shown.job != self._job.job.id:
            return
        first = not len(self.recording)
        self.recording.add(shown.picture)
        if shown.picture.ended:
            number = self._number(shown.picture)
            self.episode.setItemText(number, f"{_of_all(number)}: {text.value(shown.picture.return_so_far)}")
        if first:
            self._shown_at = self._clock()
            self.stack.setCurrentWidget(self.picture)
            self.progress.show()
            self._take_keyboard(self.picture)
            self._allow()
        if first or (self.playing and not self._timer.isActive()):
            self.go_on()
        else:
            self._show_slider()
            self._ask_pace()
            self.changed.emit()

    def _ask_pace(self) -> None:
        """Let the evaluation go on or wait, so that neither side has to keep more than a little."""
        if self._job is not None and self._job.job is not None and not self._job.over:
            self._feed.watch(self._job.job.id, self.speed if self.recording.wants_more() else 0.0)

    def _progressed(self, words: str) -> None:
        part = self._job.job.part if self._job is not None and self._job.job is not None else None
        if len(self.recording):
            self._say(words)
        else:
            self._say_starting(words if part is None else "The environment is being made")
        self.progress.setValue(round(1000 * min(max(part or 0.0, 0.0), 1.0)))
        self._ask_pace()

    def _done(self, found: Evaluated) -> None:
        self.progress.setValue(1000)
        episodes = text.plural(found.episodes, "One episode", "{n} episodes")
        words = ". ".join([f"{episodes}: mean return {evaluated_words(found)}", *found.notes])
        self._say(words)
        if not len(self.recording):
            self._say_empty("It ended before a picture arrived", words, "Play it again")
        self._ended()

    def _cancelled(self) -> None:
        self._fail(_CANCELLED)

    def _fail(self, error: ApiError) -> None:
        self._asks = error.asks
        action = "Look at it…" if error.asks is not None else "Try again"
        if len(self.recording):
            self._say(error.words(" "), "bad")
            self.progress.hide()
        else:
            self._say_empty(error.message, error.remedy, action)
        self._ended()

    def _unwatch(self) -> None:
        if self._job is not None and self._job.job is not None:
            self._feed.watch(self._job.job.id, None)

    def _ended(self) -> None:
        self._unwatch()
        self._allow()
        self.changed.emit()

    def _try_again(self) -> None:
        asks = self._asks
        if asks is not None:
            dialog = run_dialog(asks, lambda: dialog.accept(), self)
            dialog.accepted.connect(lambda: self._play_from(self._first, asks.digest))
            dialog.open()
        elif self.checkpoint.count():
            self._play_from(self._first)
        else:
            self._list.request()

    # What is shown

    def _number(self, picture: Picture) -> int:
        """Return which of all episodes a picture is of, from 0."""
        return min(self._first + picture.episode, EPISODES - 1)

    def _show(self) -> None:
        picture = self.recording.shown
        self._show_slider()
        if picture is None:
            return
        image = decoded(picture.jpeg)
        if image.isNull():
            self._say("A picture came that can't be shown: it is damaged or too large.", "bad")
        self.picture.show_image(image)
        ended = " (ended)" if picture.ended else ""
        number = self._number(picture)
        self.episode.setCurrentIndex(number)
        said = (
            str(self._began_with + number),
            f"{text.count(picture.step)}{ended}",
            text.value(picture.return_so_far),
        )
        for name, words in zip(_FACTS, said, strict=True):
            self.facts[name].setText(words)
        self.bars.show_picture(picture)
        self.heading.setText(self.bars.heading)
        self.bars.setAccessibleDescription(self.bars.words)
        self.changed.emit()

    def _show_slider(self) -> None:
        with QSignalBlocker(self.slider):
            self.slider.setMaximum(max(len(self.recording) - 1, 0))
            self.slider.setValue(self.recording.place)

    def _say(self, words: str, tone: str = "muted") -> None:
        self.words.setText(words)
        set_property(self.words, "tone", tone)

    def _say_starting(self, doing: str) -> None:
        self.progress.hide()
        self.empty.button.hide()
        self.empty.say("Starting …", text.sentence(doing[:1].upper() + doing[1:]) if doing else "")
        self.stack.setCurrentWidget(self.empty)
        self.progress.setValue(0)
        self._say("")

    def _say_empty(self, title: str, hint: str, action: str) -> None:
        self.empty.say(title, hint)
        self.empty.button.setText(action)
        self.empty.button.show()
        self.progress.hide()
        self.stack.setCurrentWidget(self.empty)
        self._say("")

    def _show_connection(self) -> None:
        away = why_not(self._feed.connection)
        if away:
            self._say(f"{away} What was received can still be viewed.", "warning")
        elif self.words.property("tone") == "warning":
            self._say("")
        if not away and not self.checkpoint.count():
            self._list.request()
        self._allow()

    def _allow(self) -> None:
        away = why_not(self._feed.connection)
        shown, filming = self.recording.shown, self._film is not None
        self.save.setEnabled(not away and shown is not None and not filming)
        tip = "Film the episode that is shown, from its beginning to its end"
        if self.chosen == NEWEST:
            tip = "Film this episode, played by the weights that are the newest when it is filmed"
        self.save.explain(away or tip)
        self.empty.button.setEnabled(not away)
        self.checkpoint.setEnabled(not away)
        self.episode.setEnabled(not away)

    # The video

    def _ask_where_to_save(self) -> None:
        picture = self.recording.shown
        if picture is None:
            return
        number = self._number(picture)
        name = f"{self._run.id}_{self.chosen.rpartition('/')[2]}_episode-{number + 1}.mp4"
        film = partial(self.film, episode=number)
        ask_where_to_save("Save the video", name, "Videos (*.mp4 *.gif)", film, self)

    def film(self, path: str, episode: int) -> None:
        """Have an episode of this evaluation filmed, and save the video."""
        kind = "gif" if Path(path).suffix.lower() == ".gif" else "mp4"
        params = {"run": self._run.id, "checkpoint": self.chosen, "episodes": 1, "video": kind}
        params["seed"] = self._began_with + episode
        film = self._feed.job("checkpoint.evaluate", params, save_to=path)
        film.progressed.connect(self._filming)
        film.done.connect(self._saved)
        film.tell_problem(self._not_saved)
        film.dropped.connect(self._film_dropped)
        self._film, self._video = film, path
        self._tell_of_film("Filming …")

    def _filming(self, words: str) -> None:
        self._tell_of_film(f"Filming: {words}")

    def _saved(self) -> None:
        self._film = None
        self._tell_of_film(f"The video is saved: {self._video}", "good")

    def _film_dropped(self) -> None:
        self._not_saved(_CANCELLED)

    def _not_saved(self, error: ApiError) -> None:
        self._film = None
        self._tell_of_film(f"No video: {error.words(' ')}", "bad")

    def _tell_of_film(self, words: str, tone: str = "muted") -> None:
        self.of_film.setText(words)
        set_property(self.of_film, "tone", tone)
        self.of_film.show()
        self._allow()
