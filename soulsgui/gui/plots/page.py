"""The page of plots: the runs and the metrics to choose from, and a plot for each metric."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QInputDialog,
    QScrollArea,
    QSplitter,
    QStackedLayout,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed, Fetch
from soulsgui.gui.geometry import Memory
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import SCORE_TITLES, algorithm_title, reward_words, run_title, short_name
from soulsgui.gui.plots.cell import PlotCell, Shown
from soulsgui.gui.plots.choices import Choice, Choices
from soulsgui.gui.plots.controls import PlotsControls
from soulsgui.gui.plots.layout import (
    PlotLayout,
    give_colour,
    keep_colours,
    keep_layout,
    keep_layouts,
    kept_colours,
    kept_layout,
    named_layouts,
)
from soulsgui.gui.plots.moments import Moments
from soulsgui.gui.plots.saving import Saving
from soulsgui.gui.plotting.controls import metric_order, metric_title
from soulsgui.gui.plotting.export import as_csv
from soulsgui.gui.plotting.nearest import find_nearest
from soulsgui.gui.plotting.rows import Axis, Mark
from soulsgui.gui.shell import Action, Shell, notify_problem
from soulsgui.gui.shell.pages import PLOTS
from soulsgui.gui.states import run_is_active, run_look
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, flow
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import Remark
from soulsgui.wire.control import CheckpointInfo, RunStatus, RunSummary

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

_MOST_CURVES = 20
_MOST_PLOTS = 12
_COLUMN_CHARACTERS = 70
_CHOICES_CHARACTERS = 30
_MOST_MARKS = 300
_MOST_CHARACTERS = 60
_TOGETHER_MS = 250
_EXPERIMENT = "experiment/"  # stands before its id among the names of runs, in which there is no `/`
_MOST_NAMED = 4


def members_of(runs: Sequence[RunSummary]) -> tuple[str, ...]:
    """Return the runs of an experiment that its mean is of: those that are over, or all while none is."""
    over = [run.id for run in runs if not run_is_active(run.state)]
    return tuple((over or [run.id for run in runs])[:_MOST_CURVES])


class PlotsPage(QWidget):
    """Any metrics of any runs and experiments: the runs over each other, the metrics side by side."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("plotsPage")
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), PLOTS)
        self._layout = kept_layout(shell.settings())
        self._colours = kept_colours(shell.settings())
        self._library = feed.library.runs
        self._runs: dict[str, RunSummary] = {}
        self._experiments: dict[str, tuple[str, ...]] = {}  # the runs that each is the mean of
        self._known: set[str] = set()
        self._clients: dict[str, list[str]] = {}
        self._client_colours: dict[str, int] = {}
        self._too_many = 0  # curves that one plot would have
        self._compared: list[str] = []  # the runs that are drawn, of each experiment one
        self._differing: tuple[str, ...] = ()  # settings that they differ in
        self.cells: dict[str, PlotCell] = {}
        self._build()
        self.moments = Moments(feed, self)
        self.saving = Saving(shell, self._drawn, self.values_in_view)
        self._redraw = Throttle(self, self._draw_all, _TOGETHER_MS)
        self._mark = Throttle(self, self._show_marks, _TOGETHER_MS)
        self._list = Throttle(self, self._take_runs, 0)
        self._comparison = Fetch(self, self._ask_comparison, came=self._take_comparison)
        self._connect()
        self._memory.restore(self._splitter, self._lists)
        self._show_connection()
        self._arrange()
        self._list.request()

    def _build(self) -> None:
        self.runs = Choices("Runs", "Search names, environments, algorithms", self)
        self.landing = self.runs.list
        self.landing.setObjectName("plotsRuns")
        self.pin = FittingButton("Pin", "pin", self)
        self.pin.setCheckable(True)
        self.pin.explain("Keep the run at the top of the list, and drawn by “Only this”")
        self.only = FittingButton("Only this", "filter", self)
        self.only.explain("Draw no other run but this one and the pinned ones")
        self.runs.column.addLayout(flow(self.pin, self.only, gap_px=6))
        # Tab goes by what was made first.
        self.metrics = Choices("Metrics", "Search metrics", self)
        self.controls = PlotsControls(self._shell.settings(), self)
        self._lists = QSplitter(Qt.Orientation.Vertical, self)
        self._lists.setObjectName("plotsLists")
        self._lists.setChildrenCollapsible(False)
        self._lists.addWidget(self.runs)
        self._lists.addWidget(self.metrics)
        self._lists.setMinimumWidth(_CHOICES_CHARACTERS * self.fontMetrics().averageCharWidth() // 2)
        self._drawn = QWidget(self)
        self._grid = QGridLayout(self._drawn)
        self._grid.setContentsMargins(*NO_MARGINS)
        self._grid.setSpacing(10)
        self._area = QScrollArea(self)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setWidgetResizable(True)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setWidget(self._drawn)
        self.warning = Remark(self, "warning", selectable=True)
        drawn = QWidget(self)
        column(self.controls, self.warning, (self._area, 1), on=drawn, margins=NO_MARGINS, gap_px=6)
        self._splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self._splitter.setObjectName("plotsSplitter")
        self._splitter.setChildrenCollapsible(False)
        self._splitter.addWidget(self._lists)
        self._splitter.addWidget(drawn)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setSizes([_CHOICES_CHARACTERS * self.fontMetrics().averageCharWidth(), 1000])
        self.empty = EmptyState("page-plots", "", "", "New run…", "play", self)
        self.empty.acted.connect(lambda: self._shell.open_new_run())
        self._stack = QStackedLayout()
        self._stack.addWidget(self._splitter)
        self._stack.addWidget(self.empty)
        column((self._stack, 1), on=self, margins=(12, 10, 12, 8))

    def _connect(self) -> None:
        feed = self._feed
        feed.snapshot_taken.connect(self.refresh)
        feed.connection_changed.connect(self._show_connection)
        self._library.changed.connect(self._list.request)
        self.runs.changed.connect(self._runs_chosen)
        self.metrics.changed.connect(self._metrics_chosen)
        self.controls.axis_chosen.connect(self._show_along)
        self.controls.smoothed.connect(self._smooth)
        self.controls.follow.toggled.connect(self._follow)
        self.controls.fit.clicked.connect(self._fit)
        self.controls.changed.connect(lambda what: self._change(**what))
        self.controls.cursors_wanted.connect(self._show_cursors)
        self.controls.export_wanted.connect(self.saving.save)
        self.controls.save_wanted.connect(self._ask_name)
        self.controls.layout_wanted.connect(self._show_named)
        self.controls.remove_wanted.connect(self._remove_named)
        self.runs.current_changed.connect(self._show_pin)
        self.pin.clicked.connect(self._pin)
        self.only.clicked.connect(self._show_only)
        self.moments.changed.connect(self._mark.request)

    def show_where(
        self,
        metric: str = "",
        run: str = "",
        runs: Sequence[str] = (),
        experiments: Sequence[str] = (),
        **_: Any,
    ) -> None:
        """Draw a metric of a run, beside what is drawn already, or these runs and experiments alone."""
        metrics = self._layout.metrics if metric in self._layout.metrics else (metric, *self._layout.metrics)
        alone = [*runs, *(_EXPERIMENT + name for name in experiments)]
        beside = dict.fromkeys([*self._layout.runs, run]) if self._layout.runs and run else self._layout.runs
        self._change(metrics=metrics if metric else self._layout.metrics, runs=tuple(alone or beside))

    def refresh(self) -> None:
        """Ask for the list of runs and for what is drawn again."""
        self._library.renew()
        self.moments.renew()
        for cell in self.cells.values():
            cell.view.renew()

    @property
    def layout_shown(self) -> PlotLayout:
        """What is drawn, and how."""
        return self._layout

    @property
    def shown_runs(self) -> tuple[str, ...]:
        """What is drawn: what was ticked, or else the run that goes on, or the newest."""
        known = self._runs.keys() | self._experiments
        chosen = tuple(run for run in self._layout.runs if run in known or not self._library.known)
        newest = self._feed.status.run.id or next(iter(self._runs), "")
        return chosen or ((newest,) if newest else ())

    def _change(self, **what: Any) -> None:
        """Draw something else, and remember it."""
        self._layout = self._layout.model_copy(update=what)
        keep_layout(self._shell.settings(), self._layout)
        self._arrange()

    def _take_runs(self) -> None:
        self._library.want()
        runs = self._library.entries
        self._runs = {run.id: run for run in runs}
        groups: dict[str, list[RunSummary]] = {}
        for run in runs:
            groups.setdefault(_EXPERIMENT + run.experiment, []).append(run)
        self._experiments = {
            name: members_of(found) for name, found in groups.items() if name != _EXPERIMENT and found[1:]
        }
        self._arrange()

    def _runs_chosen(self) -> None:
        self._change(runs=self.runs.ticked)

    def _metrics_chosen(self) -> None:
        self._change(metrics=self.metrics.ticked)

    def _arrange(self) -> None:
        """Draw what the layout says."""
        known = self._runs or (self.shown_runs and not self._library.known)
        self._stack.setCurrentIndex(0 if known else 1)
        self._say_empty()
        self._give_colours()
        self.controls.show_layout(self._layout, named_layouts(self._shell.settings()))
        experiments = [self._choice_of_experiment(name) for name in self._experiments]
        self.runs.show_choices([*experiments, *(self._choice_of(run) for run in self._runs.values())])
        self.runs.tick(self.shown_runs)
        self._offer_metrics()
        for metric in self.cells.keys() - set(self._layout.metrics[:_MOST_PLOTS]):
            cell = self.cells.pop(metric)
            self._grid.removeWidget(cell)
            cell.hide()
            cell.deleteLater()
        for metric in self._layout.metrics[:_MOST_PLOTS]:
            if metric not in self.cells:
                self.cells[metric] = self._make_cell(metric)
        self.cells = {metric: self.cells[metric] for metric in self._layout.metrics[:_MOST_PLOTS]}
        self._too_many = 0
        for cell in self.cells.values():
            cell.show_curves(self._curves_of(cell))
        self._say_limits()
        for plot in self.plots:
            self._dress(plot)
        single = [run for run in self.shown_runs[:_MOST_CURVES] if not run.startswith(_EXPERIMENT)]
        self.moments.show(single, self._layout.marks)
        self._mark.request()
        self._place_cells()
        self._show_pin()

    def _say_limits(self) -> None:
        said = []
        if self._too_many > _MOST_CURVES:
            said.append(f"{_MOST_CURVES} of {self._too_many:,} curves")
        if len(self._layout.metrics) > _MOST_PLOTS:
            said.append(f"{_MOST_PLOTS} of {len(self._layout.metrics)} metrics")
        self.controls.note(f"Drawn: {' and '.join(said)}" if said else "")
        # The runs of an experiment differ in their seeds alone: one of them stands for all.
        drawn = {self._experiments.get(name, (name,))[0] for name in self.shown_runs[:_MOST_CURVES]}
        compared = sorted(drawn & self._runs.keys())
        if compared != self._compared:
            self._compared, self._differing = compared, ()
            self._comparison.forget()
            self._comparison.request()
        self._warn()

    def _ask_comparison(self) -> Call | None:
        return self._feed.ask("runs.compare", {"runs": self._compared}) if len(self._compared) > 1 else None

    def _take_comparison(self, result: dict[str, Any]) -> None:
        self._differing = tuple(result["settings"])
        self._warn()

    def _warn(self) -> None:
        """Say why what is drawn can't be compared."""
        played = sorted({self._runs[run].env_id for run in self._compared} - {""})
        words = reward_words(self._differing)
        if len(played) > 1:
            more = ", …" if len(played) > _MOST_NAMED else ""
            words = (
                "The runs that are drawn play different environments, so their returns can't be compared: "
                f"{', '.join(played[:_MOST_NAMED])}{more}."
            )
        self.warning.setText(words)

    def _dress(self, plot: "Plot") -> None:
        """Draw y and the newest part of x as the layout says."""
        plot.show_scale(self._layout.scale)
        if plot.last != self._layout.last:
            plot.show_last(self._layout.last)

    def _give_colours(self) -> None:
        shown = self.shown_runs[:_MOST_CURVES]
        for place, run in enumerate(shown):
            # Those that were drawn before keep theirs.
            beside = shown[:place] if run in self._colours else shown
            self._colours[run] = give_colour(run, self._colours, beside)
        keep_colours(self._shell.settings(), self._colours)

    def _curves_of(self, cell: PlotCell) -> list[Shown]:
        """Return what a plot is to draw: a curve for each run or experiment, or for each client of a run."""
        found: list[Shown] = []
        for run in self.shown_runs:
            if run.startswith(_EXPERIMENT):
                found += self._experiment_curves(run)
                continue
            clients = self._clients.get(run, []) if self._layout.each_client and cell.of_episodes else []
            for client in clients:
                found.append(self._client_curve(run, client, found))
            if not clients:
                found.append(Shown(run, "", self._title(run), self._colours.get(run, 0)))
        self._too_many = max(self._too_many, len(found))
        return found[:_MOST_CURVES]

    def _experiment_curves(self, name: str) -> list[Shown]:
        """Return the mean of an experiment; by wall time its runs, which follow one another."""
        members, colour = self._experiments.get(name, ()), self._colours.get(name, 0)
        if self.controls.chosen_axis is Axis.TIME:
            return [Shown(run, "", self._title(run), colour) for run in members]
        called = f"{short_name(name.removeprefix(_EXPERIMENT))} (mean, lowest and highest of {len(members)})"
        return [Shown(name, "", called, colour, members)] if members else []

    def _client_curve(self, run: str, client: str, beside: list[Shown]) -> Shown:
        name, others = f"{run}/{client}", [f"{one.run}/{one.client}" for one in beside]
        colours = self._client_colours
        colours[name] = give_colour(name, colours, others)
        alone = len(self.shown_runs) == 1
        return Shown(run, client, client if alone else f"{self._title(run)} · {client}", colours[name])

    def _run_called(self, name: str) -> RunStatus | RunSummary | None:
        status = self._feed.status.run
        return self._runs.get(name) or (status if status.id == name else None)

    def _title(self, run: str) -> str:
        known = self._run_called(run)
        return run_title(known) if known is not None else run

    def _choice_of_experiment(self, name: str) -> Choice:
        members, pinned = self._experiments[name], name in self._layout.pinned
        tip = f"The mean of these runs, with a band from the lowest to the highest of them\n{name}"
        title = f"{short_name(name.removeprefix(_EXPERIMENT))} (mean of {len(members)})"
        return Choice(name, title, tip, self._colours.get(name, 0), pinned)

    def _choice_of(self, run: RunSummary) -> Choice:
        words = [run.id, run.env_id, algorithm_title(run), run_look(run.state).word.lower()]
        tip = " · ".join(word for word in words if word)
        if run.best_mean_return is not None:
            score = SCORE_TITLES["best_mean_return"].capitalize()
            tip += f"\n{score}: {text.value(run.best_mean_return)}"
        pinned = run.id in self._layout.pinned
        return Choice(run.id, run_title(run), tip, self._colours.get(run.id, 0), pinned)

    def _offer_metrics(self) -> None:
        offered = metric_order([*self._known, *self._layout.metrics])
        self.metrics.show_choices([Choice(metric, metric_title(metric), metric) for metric in offered])
        self.metrics.tick(self._layout.metrics)

    def _make_cell(self, metric: str) -> PlotCell:
        cell = PlotCell(self._feed, metric, self)
        cell.view.show_along(self.controls.chosen_axis)
        cell.view.smooth_with(self.controls.weight)
        cell.view.dim(not self._feed.connection.live)
        cell.view.problem.connect(partial(notify_problem, self._shell))
        cell.view.changed.connect(self._redraw.request)
        cell.learned.connect(self._learn)
        cell.view.host.when_ready(self._plot_ready)
        return cell

    def _plot_ready(self, plot: "Plot") -> None:
        plot.share_x(self._ranges)
        plot.set_follow(self.controls.follow.isChecked())
        plot.follow_changed.connect(self.controls.follow.setChecked)
        plot.moved.connect(self._moved)
        plot.pointed.connect(self._pointed)
        plot.dragged.connect(self._dragged)
        plot.clicked.connect(self._look_for_checkpoint)
        self._dress(plot)
        self._show_cursors()
        self._mark.request()

    @property
    def plots(self) -> list["Plot"]:
        """The plots that are made already."""
        return [cell.view.host.plot for cell in self.cells.values() if cell.view.host.plot is not None]

    def _ranges(self) -> list[tuple[float, float]]:
        return [ends for plot in self.plots for ends in plot.ranges()]

    def _moved(self, left: float, right: float) -> None:
        self._each(lambda plot: plot.show_x(left, right))

    def _pointed(self, x: float | None) -> None:
        self._each(lambda plot: plot.move_crosshair(x))

    def _dragged(self, first: float, second: float) -> None:
        self._each(lambda plot: plot.show_cursors((first, second)))

    def _look_for_checkpoint(self, x: float, name: str) -> None:
        run = self._run_called(name)
        if run is None:
            return  # a mean has none

        def offer(info: CheckpointInfo, words: str) -> None:
            told = words if len(self.shown_runs) == 1 else f"{run_title(run)}: {words}"
            action = Action("Watch it play", lambda: self._shell.open_player(run, info.id))
            self._shell.notify("info", told, action=action, about="nearest checkpoint")

        find_nearest(self._feed, name, self.controls.chosen_axis, x, offer)

    def _show_cursors(self) -> None:
        """Show the cursors in all plots, at the same places, or in none."""
        for plot in self.plots:
            left, right = self.plots[0].x_view()
            third = (right - left) / 3
            plot.show_cursors((left + third, right - third) if self.controls.cursors.isChecked() else None)

    def _each(self, act: Callable[["Plot"], object]) -> None:
        """Do something with all plots but the one that asked for it."""
        for plot in self.plots:
            if plot is not self.sender():
                act(plot)

    def _follow(self, follow: bool) -> None:
        for plot in self.plots:
            plot.set_follow(follow)

    def _fit(self) -> None:
        for plot in self.plots:
            plot.fit()

    def _show_along(self) -> None:
        self.controls.cursors.setChecked(False)
        self._mark.request()
        for cell in self.cells.values():
            cell.view.show_along(self.controls.chosen_axis)

    def _smooth(self, weight: float) -> None:
        for cell in self.cells.values():
            cell.view.smooth_with(weight)

    def _draw_all(self) -> None:
        # Together they show the same part of x: the rows of one move all.
        for plot in self.plots:
            plot.changed()

    def _learn(self) -> None:
        curves = [curve for cell in self.cells.values() for curve, _ in cell.curves]
        found = {metric for curve in curves for metric in curve.metrics}
        if not found <= self._known:
            self._known |= found
            self._offer_metrics()
        for curve in curves:
            self.moments.take_attempts(curve.series.run_id, curve.attempts)
        self._mark.request()
        clients = self._clients | {curve.series.run_id: curve.clients for curve in curves if curve.is_loaded}
        if clients != self._clients:
            self._clients = clients
            if self._layout.each_client:
                self._arrange()

    def _show_marks(self) -> None:
        runs = self.shown_runs[:_MOST_CURVES]
        for cell in self.cells.values():
            plot = cell.view.host.plot
            series = {curve.series.run_id: curve.series for curve, _ in cell.curves}
            marks: list[Mark] = []
            for run in (run for run in runs if run in series):
                placed = series[run].placed(self.moments.of(run))
                if len(runs) > 1:
                    placed = [replace(mark, text=f"{self._title(run)}: {mark.text}") for mark in placed]
                marks += placed
            if plot is not None:
                newest = sorted(marks, key=lambda mark: mark.time)[-_MOST_MARKS:]
                plot.show_marks(newest, "a moment of the run" if len(runs) == 1 else "moments of the runs")

    def _pin(self) -> None:
        run, pinned = self.runs.current, self._layout.pinned
        without = tuple(one for one in pinned if one != run)
        self._change(pinned=without if run in pinned else (*pinned, run))

    def _show_only(self) -> None:
        self._change(runs=tuple(dict.fromkeys([self.runs.current, *self._layout.pinned])))

    def _show_pin(self) -> None:
        self.pin.setChecked(self.runs.current in self._layout.pinned)
        for button in (self.pin, self.only):
            button.setEnabled(bool(self.runs.current))

    def _ask_name(self) -> None:
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("Save this layout")
        dialog.setLabelText("What it is to be called:")
        dialog.textValueSelected.connect(self.save_layout)
        dialog.open()

    def save_layout(self, name: str) -> None:
        """Save what is shown under a name; the one that had it is replaced."""
        shown = self._layout.model_copy(
            update={"axis": self.controls.chosen_axis, "smoothing": self.controls.smoothing.value()}
        )
        if name.strip():
            self._keep_named(named_layouts(self._shell.settings()) | {name.strip()[:_MOST_CHARACTERS]: shown})

    def _show_named(self, name: str) -> None:
        layout = named_layouts(self._shell.settings()).get(name)
        if layout is not None:
            self.controls.choose(layout.axis, layout.smoothing)
            self._change(**{field: getattr(layout, field) for field in PlotLayout.model_fields})

    def _remove_named(self, name: str) -> None:
        named = named_layouts(self._shell.settings())
        self._keep_named({one: layout for one, layout in named.items() if one != name})

    def _keep_named(self, layouts: dict[str, PlotLayout]) -> None:
        keep_layouts(self._shell.settings(), layouts)
        self.controls.show_layout(self._layout, layouts)

    def values_in_view(self) -> str:
        """Return the rows in view as a table."""
        left, right = self.plots[0].x_view() if self.plots else (0.0, 0.0)
        return as_csv((one for cell in self.cells.values() for one, _, _ in cell.drawn), left, right)

    def _place_cells(self) -> None:
        """Put the plots side by side where there is room for two."""
        width = _COLUMN_CHARACTERS * self.fontMetrics().averageCharWidth()
        across = 2 if len(self.cells) > 1 and self._area.width() >= 2 * width else 1
        for place, cell in enumerate(self.cells.values()):
            if self._grid.indexOf(cell) >= 0:
                self._grid.removeWidget(cell)
            last_alone = place == len(self.cells) - 1 and place % across == 0
            self._grid.addWidget(cell, place // across, place % across, 1, across if last_alone else 1)

    def _show_connection(self, *_: object) -> None:
        for cell in self.cells.values():
            cell.view.dim(not self._feed.connection.live)
            cell.say_empty()
        self._say_empty()

    def _say_empty(self) -> None:
        if self._library.known:
            self.empty.say("No run yet", "Start one, and its curves appear here.")
        else:
            self.empty.say(why_not(self._feed.connection) or "Reading the list of runs …", "")
        self.empty.button.setVisible(self._library.known)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use the new room."""
        super().resizeEvent(event)
        self._place_cells()

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the arrangement."""
        super().hideEvent(event)
        self._memory.keep(self._splitter, self._lists)
