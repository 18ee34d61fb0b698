"""The live plot of the overview: one metric of the run with its goal, moments worth a line, and controls."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSettings, QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QLabel, QSizePolicy, QSlider, QVBoxLayout, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed, Fetch
from soulsgui.gui.overview.curve import LiveCurve
from soulsgui.gui.overview.figures import goal_words
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.plotting.rows import LENGTH, RETURN, Axis, Mark, attempt_start, axis_title
from soulsgui.gui.runs.models import kind_look
from soulsgui.gui.states import run_is_active
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.inputs import leave_wheel_to_page
from soulsgui.gui.widgets.labels import Label, muted, set_tip
from soulsgui.wire.control import ApiError, CheckpointInfo, RunStatus
from soulsgui.wire.messages.metrics import (
    EVALUATION_PREFIX,
    EVALUATION_RETURN,
    AttemptRow,
    AttemptStart,
    CheckpointRow,
    Row,
)

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

_LOADING_AFTER_MS = 500
"""What comes sooner is not told of."""
_MANUAL = "manual"


class RunMarks:
    """The moments of one run that stand as lines on its curve, from lists and from live rows.

    A current and a best checkpoint take the place of the one before, as on the disk; those saved by hand
    stay.
    """

    def __init__(self) -> None:
        self._saved: dict[str, Mark] = {}
        self._attempts: dict[int, AttemptStart] = {}

    def take_list(self, checkpoints: Iterable[CheckpointInfo]) -> None:
        """Take the list of all checkpoints."""
        self._saved = {}
        for info in checkpoints:
            self._save(info.kind, info.id, info.updates, info.episodes, info.env_steps, info.created)

    def take_attempts(self, attempts: Iterable[AttemptStart]) -> None:
        """Take the beginnings of attempts."""
        self._attempts |= {start.attempt: start for start in attempts}

    def take_rows(self, rows: Iterable[Row], run: str) -> bool:
        """Take live rows of a run, and return whether one of them was a moment to be marked."""
        found = False
        for row in rows:
            if row.run_id != run or not isinstance(row, CheckpointRow | AttemptRow):
                continue
            found = True
            if isinstance(row, CheckpointRow):
                self._save(row.saved, row.path, row.update, row.episodes, row.env_steps, row.time)
            else:
                self._attempts[row.attempt] = attempt_start(row)
        return found

    def _save(self, kind: str, path: str, update: int, episodes: int, env_steps: int, time: float) -> None:
        word = "Quicksave" if kind == _MANUAL else f"{kind_look(kind).word} checkpoint"
        mark = Mark(episodes, env_steps, time, f"{word}, update {text.count(update)}")
        self._saved[path if kind == _MANUAL else kind] = mark

    @property
    def marks(self) -> list[Mark]:
        """The lines to be drawn, in the order of time."""
        resumed = [
            Mark(
                start.episodes,
                start.env_steps,
                start.time,
                f"Attempt {start.attempt} from update {text.count(start.update)}",
            )
            for start in self._attempts.values()
            if start.attempt > min(self._attempts)
        ]
        return sorted([*self._saved.values(), *resumed], key=lambda mark: mark.time)


_GAP_PX = 8
_SMOOTH_EVERY_MS = 60
_USUAL_SMOOTHING = 40

MEAN_RETURN = "mean_return"
"""Mean return over the last episodes (`stop.window`)."""

_ABBREVIATIONS = {"kl": "KL", "q": "Q", "td": "TD", "s": "(s)"}


def metric_title(metric: str) -> str:
    """Return a metric's name in words: `approx_kl` becomes `Approx KL`."""
    titles = {
        RETURN: "Return",
        LENGTH: "Episode length",
        MEAN_RETURN: "Mean return",
        "env_steps_per_s": "Steps/s",
        "lr": "Learning rate",
        "grad_norm": "Gradient norm",
    }
    if metric in titles:
        return titles[metric]
    words = [_ABBREVIATIONS.get(word, word) for word in metric.split("_")]
    return text.plain(" ".join([words[0][:1].upper() + words[0][1:], *words[1:]]))


def metric_order(metrics: Iterable[str]) -> list[str]:
    """Return metrics as they are offered: evaluations and those of episodes first, the others by name."""
    offered = set(metrics)
    judged = [EVALUATION_RETURN] if EVALUATION_RETURN in offered else []
    first = [*judged, RETURN, LENGTH, MEAN_RETURN]
    others = sorted(offered - set(first), key=lambda metric: metric_title(metric).casefold())
    return [*first, *others]


def goal_metrics(run: RunStatus) -> tuple[str, ...]:
    """Return the metrics that the goal of a run is a value of; none where it has no such goal."""
    if run.goal_return is None:
        return ()
    return (EVALUATION_RETURN,) if run.goal_judged_by == "evaluation" else (RETURN, MEAN_RETURN)


def smoothing_weight(position: int) -> float:
    """Return the weight of the exponential mean, 0 to 0.999, for a position of the slider, 0 to 100."""
    return 1.0 - math.pow(10.0, -3.0 * position / 100)


def smoothing_words(position: int) -> str:
    """Return what a position of the slider means: over about how many values it smooths."""
    if position <= 0:
        return "off"
    return f"up to {round(1 / (1 - smoothing_weight(position))):,} values"


class PlotControls(QWidget):
    """What is drawn, and how.

    Signals:
        metric_chosen: Another metric is wanted; with its name.
        axis_chosen: x means something else; with the `Axis`.
        smoothed: The smoothing was changed; with the weight of the exponential mean.
    """

    metric_chosen = Signal(str)
    axis_chosen = Signal(object)
    smoothed = Signal(float)

    def __init__(self, settings: QSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._chosen = str(settings.value("overview/metric") or "")
        self._opening = RETURN
        self._build()
        self._restore()
        self._smooth_soon = Throttle(self, self._smooth, _SMOOTH_EVERY_MS)
        self.metric_box.activated.connect(self._choose_metric)
        self.axis_box.activated.connect(self._choose_axis)
        self.smoothing.valueChanged.connect(self._smoothing_moved)

    def _build(self) -> None:
        self.metric_box = QComboBox(self)
        self.metric_box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.metric_box.setAccessibleName("Metric")
        self.axis_box = QComboBox(self)
        for axis in Axis:
            self.axis_box.addItem(axis_title(axis), axis)
        self.smoothing = QSlider(Qt.Orientation.Horizontal, self)
        self.smoothing.setRange(0, 100)
        self.smoothing.setPageStep(10)
        self.smoothing.setMinimumWidth(60)
        self.smoothing.setMaximumWidth(260)
        self.smoothing.setAccessibleName("Smoothing")
        for field in (self.metric_box, self.axis_box, self.smoothing):
            leave_wheel_to_page(field)
        self._smoothing_words, self._note = muted(Label(parent=self)), muted(Label(parent=self))
        self.follow = QCheckBox("&Follow", self)
        self.follow.setChecked(True)
        self.follow.setToolTip("Keep the newest rows in view; Space comes back to them")
        self.fit = FittingButton("Fit", "fit", self)
        self.fit.explain("Show the whole curve (Home)")
        self._note.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        row = FlowLayout(_GAP_PX, parent=self)
        for part in (
            self.metric_box,
            self._caption("over", self.axis_box),
            self.axis_box,
            self._caption("S&moothing", self.smoothing),
            self.smoothing,
            self._smoothing_words,
            self._note,
            self.follow,
            self.fit,
        ):
            row.addWidget(part)

    def _caption(self, words: str, buddy: QWidget) -> QLabel:
        caption = Label(words, self)
        caption.setBuddy(buddy)
        return caption

    def _restore(self) -> None:
        # Over environment steps, as papers show curves, before the first choice.
        self.axis_box.setCurrentIndex(max(self.axis_box.findData(str(self._settings.value("overview/x"))), 0))
        stored = str(self._settings.value("overview/smoothing"))
        self.smoothing.setValue(int(stored) if stored.isdecimal() else _USUAL_SMOOTHING)
        self._say_smoothing()
        self.offer(())

    @property
    def wanted(self) -> str:
        """The metric that is wanted, whether there are rows of it or not."""
        return self._chosen or self._opening

    def open_with(self, metric: str) -> None:
        """Want this metric as long as the user has not chosen another one."""
        if metric != self._opening:
            self._opening = metric
            self.offer(self._offered)

    @property
    def chosen_axis(self) -> Axis:
        """What x means."""
        return Axis(self.axis_box.currentData())

    @property
    def weight(self) -> float:
        """Weight of the exponential mean."""
        return smoothing_weight(self.smoothing.value())

    def offer(self, metrics: Iterable[str]) -> None:
        """Offer these metrics of updates beside those of episodes."""
        self._offered = tuple(metrics)
        offered = metric_order([*self._offered, self.wanted])
        with QSignalBlocker(self.metric_box):
            if offered != [self.metric_box.itemData(place) for place in range(self.metric_box.count())]:
                self.metric_box.clear()
                for metric in offered:
                    self.metric_box.addItem(metric_title(metric), metric)
            self.metric_box.setCurrentIndex(self.metric_box.findData(self.wanted))

    def note(self, words: str) -> None:
        """Say what is to be known of the curve; empty for nothing."""
        self._note.setText(words)

    def _choose_metric(self) -> None:
        metric = str(self.metric_box.currentData())
        # What opens by itself is no choice: a run that is judged otherwise opens with what judges that one.
        self._chosen = "" if metric == self._opening else metric
        self._settings.setValue("overview/metric", self._chosen)
        self.metric_chosen.emit(metric)

    def _choose_axis(self) -> None:
        self._settings.setValue("overview/x", self.chosen_axis.value)
        self.axis_chosen.emit(self.chosen_axis)

    def _smoothing_moved(self) -> None:
        self._say_smoothing()
        self._smooth_soon.request()

    def _say_smoothing(self) -> None:
        self._smoothing_words.setText(smoothing_words(self.smoothing.value()))
        set_tip(
            self.smoothing,
            f"Over about how many values the thick line is a mean: {self._smoothing_words.text()}; "
            "at most over a twentieth of the curve",
        )
        # The slider must not move under the mouse.
        self._smoothing_words.setMinimumWidth(self.fontMetrics().horizontalAdvance(smoothing_words(100)))

    def _smooth(self) -> None:
        self._settings.setValue("overview/smoothing", str(self.smoothing.value()))
        self.smoothed.emit(self.weight)


class PlotSection(QWidget):
    """The curve of one metric of the run, live.

    Signals:
        problem: The curve can't be had; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(self, feed: Feed, settings: QSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._run = RunStatus()
        self._told = ""
        self._dimmed = False
        self.controls = PlotControls(settings, self)
        self.host = PlotHost(self, x_title=False)
        self.marks = RunMarks()
        self.curve = LiveCurve(feed, self)
        self.beside = LiveCurve(feed, self)
        self._curves = (self.curve, self.beside)
        self._named: list[str] = []
        for curve in self._curves:
            curve.show_along(self.controls.chosen_axis)
        self._smooth(self.controls.weight)
        self._loading_timer = QTimer(self, singleShot=True, interval=_LOADING_AFTER_MS)
        self._loading_timer.timeout.connect(self._say_loading)
        self._checkpoints = Fetch(self, self._ask_checkpoints)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.controls)
        column.addWidget(self.host, 1)
        self._connect()

    def _connect(self) -> None:
        self.controls.metric_chosen.connect(self._show_metric)
        self.controls.axis_chosen.connect(self._show_along)
        self.controls.smoothed.connect(self._smooth)
        for curve in self._curves:
            curve.replaced.connect(self._show_series)
            curve.loaded.connect(self._loaded)
            curve.changed.connect(self._draw)
            curve.failed.connect(self._failed)
        self._checkpoints.came.connect(self._take_checkpoints)
        self._feed.rows_arrived.connect(self._take_rows)
        self.host.when_ready(self._plot_ready)

    def show_run(self, run: RunStatus) -> None:
        """Draw this run from now on."""
        old, self._run = self._run, run
        # What judges a run is what its curves open with.
        self.controls.open_with(EVALUATION_RETURN if run.goal_judged_by == "evaluation" else RETURN)
        if run.id != old.id:
            self.marks = RunMarks()
            self._told = ""
        self._follow()
        if run.id != old.id:
            self._list_checkpoints()
            if self.host.plot is not None:
                # The part of x that was looked at means nothing in another run.
                self.host.plot.fit()
        if (run.id, run.goal_return, run.goal_judged_by) != (old.id, old.goal_return, old.goal_judged_by):
            self._offer_metrics()
            self._show_goal()
        if (run.id, run.state) != (old.id, old.state):
            self._show_empty_text()

    def renew(self) -> None:
        """What came live may have gaps: ask for curve and checkpoints again."""
        for curve in self._curves:
            curve.renew()
        self._list_checkpoints()

    def dim(self, dimmed: bool) -> None:
        """Fade the curve while it is not the present."""
        self._dimmed = dimmed
        if self.host.plot is not None:
            self.host.plot.dim(dimmed)
        if not dimmed:
            for curve in self._curves:
                curve.go_on()
        self._show_empty_text()

    def _follow(self) -> None:
        wanted = self.controls.wanted
        self.curve.follow(self._run.id, wanted)
        # An evaluation means little without its training.
        self.beside.follow(self._run.id if wanted == EVALUATION_RETURN else "", RETURN)

    def _show_metric(self) -> None:
        self._follow()
        self._show_goal()

    def _show_along(self, axis: Axis) -> None:
        for curve in self._curves:
            curve.show_along(axis)
        if self.host.plot is not None:
            self.host.plot.show_along(axis)

    def _smooth(self, weight: float) -> None:
        for curve in self._curves:
            curve.smooth_with(weight)
        self._draw()

    def _take_rows(self, rows: list[Row]) -> None:
        for curve in self._curves:
            curve.take(rows)
        if self.marks.take_rows(rows, self._run.id):
            self._show_marks()

    def _loaded(self) -> None:
        self._told = ""
        for curve in self._curves:
            self.marks.take_attempts(curve.attempts)
        self._offer_metrics()
        self._show_marks()
        self._show_empty_text()

    def _offer_metrics(self) -> None:
        # What is to reach the goal is offered before its first row.
        self.controls.offer([*self.curve.metrics, *goal_metrics(self._run)])

    def _failed(self, error: ApiError) -> None:
        # It is asked for again and again; one message is enough.
        if error.message != self._told:
            self._told = error.message
            self.problem.emit(error)

    def _list_checkpoints(self) -> None:
        self._checkpoints.forget()
        if self._run.id:
            self._checkpoints.request()

    def _ask_checkpoints(self) -> Call | None:
        if not self._feed.connection.live:
            return None
        return self._feed.call("checkpoint.list", {"run": self._run.id})

    def _take_checkpoints(self, result: dict[str, Any]) -> None:
        self.marks.take_list(CheckpointInfo.model_validate(info) for info in result["checkpoints"])
        self._show_marks()

    def _plot_ready(self, plot: "Plot") -> None:
        plot.follow_changed.connect(self.controls.follow.setChecked)
        plot.drawn.connect(self._refine)
        self.controls.follow.toggled.connect(plot.set_follow)
        self.controls.fit.clicked.connect(plot.fit)
        plot.dim(self._dimmed)
        self._show_series()
        self._show_marks()
        self._show_goal()
        self._show_empty_text()

    def _show_series(self) -> None:
        if self.host.plot is not None:
            self._named = self._names()
            shown = [curve.series for curve in self._curves if curve.series.run_id or curve is self.curve]
            self.host.plot.show_series(
                [
                    (series, name, colour)
                    for colour, (series, name) in enumerate(zip(shown, self._named, strict=True))
                ]
            )
            self.host.plot.set_follow(self.controls.follow.isChecked())
            self._show_empty_text()

    def _names(self) -> list[str]:
        """Return the names of the curves that are drawn."""
        name = metric_title(self.curve.series.metric)
        if not self.beside.series.run_id:
            return [name]
        if self.curve.is_loaded and not len(self.curve.series):
            name = f"{name}: none yet"
        return [name, "Training return"]

    def _refine(self, left: float, right: float) -> None:
        finer = [curve.look_at(left, right) for curve in self._curves]
        if any(finer) and not self._loading_timer.isActive():
            self._loading_timer.start()

    def _say_loading(self) -> None:
        loading = any(curve.finer.waiting for curve in self._curves)
        self.controls.note("Loading …" if loading else "")

    def _draw(self) -> None:
        self._say_loading()
        if self._names() != self._named:
            # The first row of one has come.
            self._show_series()
        if self.host.plot is not None:
            self.host.plot.changed()

    def _show_marks(self) -> None:
        if self.host.plot is not None:
            self.host.plot.show_marks(self.marks.marks)

    def _show_goal(self) -> None:
        if self.host.plot is not None:
            goal = self._run.goal_return if self.controls.wanted in goal_metrics(self._run) else None
            words = "" if goal is None else f"goal {goal_words(goal)}"
            self.host.plot.show_goal(goal, words)

    def _show_empty_text(self) -> None:
        if self.host.plot is None:
            return
        if not self.curve.is_loaded and not self._feed.connection.live:
            words = "The curve is read as soon as the connection is back."
        elif not self.curve.is_loaded:
            words = "Loading …"
        elif run_is_active(self._run.state):
            of_evaluations = self.controls.wanted.startswith(EVALUATION_PREFIX)
            words = (
                "The curve begins with the first evaluation."
                if of_evaluations
                else "The curve begins with the first rows."
            )
        else:
            words = "This run has no rows of this metric."
        self.host.plot.show_empty_text(words)

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what came meanwhile."""
        super().showEvent(event)
        for curve in self._curves:
            curve.wake()
