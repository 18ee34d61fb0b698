"""The live plot of the overview: one metric of the run with its goal, moments worth a line, and controls."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.rules import goal_words
from soulsgui.gui.overview.pace import seconds_to
from soulsgui.gui.plotting.controls import (
    USUAL_SMOOTHING,
    CurveControls,
    metric_order,
    metric_title,
)
from soulsgui.gui.plotting.marks import RunMarks
from soulsgui.gui.plotting.rows import MEAN_RETURN, RETURN, Axis
from soulsgui.gui.plotting.view import CurvesView
from soulsgui.gui.states import run_is_active
from soulsgui.gui.theme import GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import ChoiceBox
from soulsgui.wire.control import CheckpointInfo, CheckpointList, RunStatus
from soulsgui.wire.messages.metrics import (
    EVALUATION_PREFIX,
    EVALUATION_RETURN,
    CheckpointRow,
    Row,
)

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

_METRIC_CHARACTERS = 20  # new metrics, with longer names, come while a run goes on


def goal_metrics(run: RunStatus) -> tuple[str, ...]:
    """Return the metrics that the goal of a run is a value of; none where it has no such goal."""
    if run.goal_return is None:
        return ()
    return (EVALUATION_RETURN,) if run.goal_judged_by == "evaluation" else (RETURN, MEAN_RETURN)


class MetricControls(CurveControls):
    """What is drawn, and how.

    Signals:
        metric_chosen: Another metric is wanted; with its name.
    """

    metric_chosen = Signal(str)

    def __init__(self, settings: QSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kept = settings
        self._chosen = str(settings.value("overview/metric") or "")
        axis, smoothing = str(settings.value("overview/x")), str(settings.value("overview/smoothing"))
        self.show_choice(
            # Over environment steps, as papers show curves, before the first choice.
            Axis(axis) if axis in list(Axis) else Axis.ENV_STEP,
            int(smoothing) if smoothing.isdecimal() else USUAL_SMOOTHING,
        )
        self.axis_chosen.connect(lambda chosen: settings.setValue("overview/x", chosen.value))
        self.smoothing.valueChanged.connect(lambda at: settings.setValue("overview/smoothing", str(at)))
        self._opening = RETURN
        self.metric_box = ChoiceBox("Metric", self, characters=_METRIC_CHARACTERS)
        self.row.insert_widget(0, self.metric_box)
        self.all = FittingButton("Plots", "page-plots", self)
        self.all.explain("Show this metric on the page of plots, beside other runs and metrics")
        self.row.addWidget(self.all)
        self.offer(())
        self.metric_box.activated.connect(self._choose_metric)

    @property
    def wanted(self) -> str:
        """The metric that is wanted, whether there are rows of it or not."""
        return self._chosen or self._opening

    def open_with(self, metric: str) -> None:
        """Want this metric as long as the user has not chosen another one."""
        if metric != self._opening:
            self._opening = metric
            self.offer(self._offered)

    def offer(self, metrics: Iterable[str]) -> None:
        """Offer these metrics of updates beside those of episodes."""
        self._offered = tuple(metrics)
        offered = metric_order([*self._offered, self.wanted])
        self.metric_box.offer([(metric_title(metric), metric) for metric in offered], self.wanted)

    def _choose_metric(self) -> None:
        metric = str(self.metric_box.currentData())
        # What opens by itself is no choice: a run that is judged otherwise opens with what judges that one.
        self._chosen = "" if metric == self._opening else metric
        self._kept.setValue("overview/metric", self._chosen)
        self.metric_chosen.emit(metric)


class CurveSection(QWidget):
    """The curve of one metric of the run, live.

    Signals:
        all_asked: The metric is to be seen beside others; with its name and the run.
    """

    all_asked = Signal(str, str)

    def __init__(self, feed: Feed, settings: QSettings, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._run = RunStatus()
        self.controls = MetricControls(settings, self)
        self.view = CurvesView(feed, self, x_title=False)
        self.host = self.view.host
        self.marks = RunMarks()
        self.checkpoints: list[CheckpointInfo] = []
        self.curve, self.beside = self.view.add_curve(), self.view.add_curve()
        self._named: list[str] = []
        self.view.show_along(self.controls.chosen_axis)
        self.view.smooth_with(self.controls.weight)
        self._checkpoints = Fetch(self, self._ask_checkpoints, came=self._take_checkpoints)
        column(self.controls, (self.view, 1), on=self, margins=NO_MARGINS, gap_px=GAP_XS)
        self._connect()

    def _connect(self) -> None:
        self.controls.metric_chosen.connect(self._show_metric)
        self.controls.all.clicked.connect(lambda: self.all_asked.emit(self.controls.wanted, self._run.id))
        self.controls.axis_chosen.connect(self.view.show_along)
        self.controls.smoothed.connect(self.view.smooth_with)
        self.view.replaced.connect(self._show_series)
        self.view.loaded.connect(self._loaded)
        self.view.changed.connect(self._name_again)
        self.view.noted.connect(self.controls.note)
        self._feed.rows_arrived.connect(self._take_rows)
        self.host.when_ready(self._plot_ready)

    def show_run(self, run: RunStatus) -> None:
        """Draw this run from now on."""
        old, self._run = self._run, run
        # What judges a run is what its curves open with.
        self.controls.open_with(EVALUATION_RETURN if run.goal_judged_by == "evaluation" else RETURN)
        if run.id != old.id:
            self.marks, self.checkpoints = RunMarks(), []
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

    def seconds_to_goal(self) -> float | None:
        """Return how long the curve takes to the goal of the run, None where it shows none."""
        goal = self._run.goal_return
        if goal is None or self.curve.series.metric not in goal_metrics(self._run):
            return None
        return seconds_to(goal, *self.curve.series.newest_attempt())

    def renew(self) -> None:
        """What came live may have gaps: ask for curve and checkpoints again."""
        self.view.renew()
        self._list_checkpoints()

    def dim(self, dimmed: bool) -> None:
        """Fade the curve while it is not the present."""
        self.view.dim(dimmed)
        self._show_empty_text()

    def _follow(self) -> None:
        wanted = self.controls.wanted
        self.curve.follow(self._run.id, wanted)
        # An evaluation means little without its training.
        self.beside.follow(self._run.id if wanted == EVALUATION_RETURN else "", RETURN)

    def _show_metric(self) -> None:
        self._follow()
        self._show_goal()

    def _take_rows(self, rows: list[Row]) -> None:
        if self.marks.take_rows(rows, self._run.id):
            self._show_marks()
        if any(isinstance(row, CheckpointRow) and row.run_id == self._run.id for row in rows):
            self._checkpoints.request()

    def _loaded(self) -> None:
        for curve in self.view.curves:
            self.marks.take_attempts(curve.attempts)
        self._offer_metrics()
        self._show_marks()
        self._show_empty_text()

    def _offer_metrics(self) -> None:
        # What is to reach the goal is offered before its first row.
        self.controls.offer([*self.curve.metrics, *goal_metrics(self._run)])

    def _list_checkpoints(self) -> None:
        self._checkpoints.forget()
        if self._run.id:
            self._checkpoints.request()

    def _ask_checkpoints(self) -> Call | None:
        if not self._feed.connection.live:
            return None
        return self._feed.call("checkpoint.list", {"run": self._run.id})

    def _take_checkpoints(self, listed: CheckpointList) -> None:
        self.checkpoints = listed.checkpoints
        self.marks.take_list(self.checkpoints)
        self._show_marks()

    def _plot_ready(self, plot: "Plot") -> None:
        plot.follow_changed.connect(self.controls.follow.setChecked)
        self.controls.follow.toggled.connect(plot.set_follow)
        self.controls.fit.clicked.connect(plot.fit)
        self._show_series()
        self._show_marks()
        self._show_goal()
        self._show_empty_text()

    def _show_series(self) -> None:
        if self.host.plot is not None:
            self._named = self._names()
            series = [curve.series for curve in self.view.curves[: len(self._named)]]
            self.view.show_curves(list(zip(series, self._named, (0, 1), strict=False)))
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

    def _name_again(self) -> None:
        if self._names() != self._named:
            # The first row of one has come.
            self._show_series()

    def _show_marks(self) -> None:
        if self.host.plot is not None:
            self.host.plot.show_marks(self.curve.series.placed(self.marks.marks))

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
