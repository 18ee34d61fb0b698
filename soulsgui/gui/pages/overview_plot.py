"""The live plot of the overview: one metric of the run, with its goal and the moments worth a line."""

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QSettings, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.pages.overview_curve import LiveCurve
from soulsgui.gui.pages.overview_figures import goal_words
from soulsgui.gui.pages.overview_marks import RunMarks
from soulsgui.gui.pages.overview_metrics import beside, goal_metrics, metric_title, opening_metric
from soulsgui.gui.pages.overview_plot_controls import PlotControls
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.plotting.rows import RETURN, Axis
from soulsgui.gui.states import run_is_active
from soulsgui.wire.control import ApiError, CheckpointInfo, RunStatus
from soulsgui.wire.messages.metrics import EVALUATION_PREFIX, Row

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

_PATIENCE_MS = 500
"""What comes sooner is not told of."""


class PlotSection(QWidget):
    """The curve of one metric of the run, live.

    Signals:
        problem: The curve can't be had; with the `ApiError`.

    Attributes:
        curve: The metric that is wanted.
        beside: The one that is drawn with it, if any.

    Args:
        feed: The runner.
        settings: Where the choice of metric, x and smoothing is remembered.
        parent: The widget it stands in.
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
        self._patience = QTimer(self, singleShot=True, interval=_PATIENCE_MS)
        self._patience.timeout.connect(self._say_loading)
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

    # --- the run ---

    def show_run(self, run: RunStatus) -> None:
        """Draw this run from now on."""
        old, self._run = self._run, run
        self.controls.open_with(opening_metric(run))
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

    # --- how it is shown ---

    def _follow(self) -> None:
        also = beside(self.controls.wanted)
        self.curve.follow(self._run.id, self.controls.wanted)
        self.beside.follow(self._run.id if also else "", also or RETURN)

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

    # --- what comes ---

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

    # --- drawing ---

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
            name = tr("{metric}: none yet").format(metric=name)
        return [name, tr("Training return")]

    def _refine(self, left: float, right: float) -> None:
        finer = [curve.look_at(left, right) for curve in self._curves]
        if any(finer) and not self._patience.isActive():
            self._patience.start()

    def _say_loading(self) -> None:
        loading = any(curve.refining for curve in self._curves)
        self.controls.note(tr("Loading …") if loading else "")

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
            words = "" if goal is None else tr("goal {value}").format(value=goal_words(goal))
            self.host.plot.show_goal(goal, words)

    def _show_empty_text(self) -> None:
        if self.host.plot is None:
            return
        if not self.curve.is_loaded and not self._feed.connection.live:
            words = tr("The curve is read as soon as the connection is back.")
        elif not self.curve.is_loaded:
            words = tr("Loading …")
        elif run_is_active(self._run.state):
            of_evaluations = self.controls.wanted.startswith(EVALUATION_PREFIX)
            words = (
                tr("The curve begins with the first evaluation.")
                if of_evaluations
                else tr("The curve begins with the first rows.")
            )
        else:
            words = tr("This run has no rows of this metric.")
        self.host.plot.show_empty_text(words)

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what came meanwhile."""
        super().showEvent(event)
        for curve in self._curves:
            curve.wake()
