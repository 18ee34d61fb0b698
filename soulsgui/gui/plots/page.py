"""The page of plots: the runs and the metrics to choose from, and a plot for each metric."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import run_title
from soulsgui.gui.plots.choices import Choice, Choices
from soulsgui.gui.plots.comparison import ComparisonWarning
from soulsgui.gui.plots.drawable import EXPERIMENT, MOST_CURVES, Drawable
from soulsgui.gui.plots.grid import MOST_PLOTS, PlotGrid
from soulsgui.gui.plots.layout import Layouts, PlotLayout
from soulsgui.gui.plots.moments import Moments
from soulsgui.gui.plots.saving import Saving
from soulsgui.gui.plots.view_options import ViewOptions
from soulsgui.gui.plotting.controls import metric_order, metric_title
from soulsgui.gui.plotting.nearest import nearest
from soulsgui.gui.shell import Action, Shell, notify_problem
from soulsgui.gui.shell.pages import PLOTS
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.boxes import NO_MARGINS, PAGE_MARGINS, column, flow, split, stack
from soulsgui.gui.widgets.command_button import Words
from soulsgui.gui.widgets.dialog import NameDialog
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.geometry import Memory
from soulsgui.wire.control import CheckpointList

_CHOICES_CHARACTERS = 36
_TOGETHER_MS = 250


class PlotsPage(QWidget):
    """Any metrics of any runs and experiments: the runs over each other, the metrics side by side."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("plotsPage")
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), PLOTS)
        self.layouts = Layouts(shell.settings())
        self.drawable = Drawable(feed, self.layouts)
        self._known: set[str] = set()  # metrics that there are rows of
        self._build()
        self.moments = Moments(feed, self)
        self.saving = Saving(shell, self.grid)
        self._mark = Throttle(self, self._show_marks, _TOGETHER_MS)
        self._list = Throttle(self, self._take_runs, 0)
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
        self.only = FittingButton("Only this", "filter", self)
        self.runs.column.addLayout(flow(self.pin, self.only, gap_px=GAP_S))
        # Tab goes by what was made first.
        self.metrics = Choices("Metrics", "Search metrics", self)
        self.controls = ViewOptions(self)
        character = self.fontMetrics().averageCharWidth()
        self._lists = split("plotsLists", Qt.Orientation.Vertical, self, self.runs, self.metrics)
        self._lists.setMinimumWidth(_CHOICES_CHARACTERS * character // 2)
        self.warning = ComparisonWarning(self._feed, self)
        self.grid = PlotGrid(self._feed, self.layouts.shown, self)
        drawn = QWidget(self)
        self.no_metric = EmptyState("page-plots", "No metric", "Tick one on the left.", parent=self)
        self._plots = stack(self.grid, self.no_metric)
        column(self.controls, self.warning, (self._plots, 1), on=drawn, margins=NO_MARGINS, gap_px=GAP_S)
        self._splitter = split("plotsSplitter", Qt.Orientation.Horizontal, self, self._lists, drawn)
        self._splitter.setStretchFactor(1, 1)
        self._splitter.setSizes([_CHOICES_CHARACTERS * character, 1000])
        self.empty = EmptyState("page-plots", "", "", "New run…", "add", self)
        self.empty.acted.connect(lambda: self._shell.open_new_run())
        self._stack = stack(self._splitter, self.empty)
        column((self._stack, 1), on=self, margins=PAGE_MARGINS)

    def _connect(self) -> None:
        feed, controls, grid = self._feed, self.controls, self.grid
        for part in (self.moments, grid):
            feed.snapshot_taken.connect(part.renew)
        feed.lists.runs.changed.connect(self._list.request)
        feed.connection_changed.connect(self._show_connection)
        self.runs.changed.connect(lambda: self._change(runs=self.runs.ticked))
        self.metrics.changed.connect(lambda: self._change(metrics=self.metrics.ticked))
        controls.changed.connect(lambda what: self._change(**what))
        # At once, so that whatever is drawn meanwhile does not move the slider back.
        controls.smoothing.valueChanged.connect(lambda at: self.layouts.show(smoothing=at))
        controls.smoothed.connect(grid.smooth_with)
        controls.follow.toggled.connect(grid.set_follow)
        controls.fit.clicked.connect(grid.fit)
        controls.cursors.toggled.connect(grid.show_cursors)
        controls.cursors.clicked.connect(grid.take_keyboard)
        controls.export_wanted.connect(self.saving.save)
        controls.save_wanted.connect(self._ask_name)
        controls.layout_wanted.connect(self._show_named)
        controls.remove_wanted.connect(self._remove_named)
        grid.follow_changed.connect(controls.follow.setChecked)
        grid.problem.connect(partial(notify_problem, self._shell))
        grid.learned.connect(self._learn)
        grid.plot_ready.connect(self._mark.request)
        grid.clicked.connect(self._look_for_checkpoint)
        self.moments.changed.connect(self._mark.request)
        self.runs.list.currentRowChanged.connect(self._show_pin)
        self.pin.clicked.connect(self._pin)
        self.only.clicked.connect(self._show_only)

    def show_where(
        self,
        metric: str = "",
        run: str = "",
        runs: Sequence[str] = (),
        experiments: Sequence[str] = (),
        **_: Any,
    ) -> None:
        """Draw a metric of a run, beside what is drawn already, or these runs and experiments alone."""
        shown = self.layouts.shown
        metrics = shown.metrics if not metric or metric in shown.metrics else (metric, *shown.metrics)
        alone = [*runs, *(EXPERIMENT + name for name in experiments)]
        beside = dict.fromkeys([*shown.runs, run]) if shown.runs and run else shown.runs
        self._change(metrics=metrics, runs=tuple(alone or beside))

    def refresh(self) -> None:
        """Ask for the list of runs and for what is drawn again."""
        self._feed.lists.runs.renew()
        self.moments.renew()
        self.grid.renew()

    def _change(self, **what: Any) -> None:
        """Draw something else, and remember it."""
        if what.get("axis", self.layouts.shown.axis) is not self.layouts.shown.axis:
            self.controls.cursors.setChecked(False)
        self.layouts.show(**what)
        self._arrange()

    def _take_runs(self) -> None:
        self.drawable.take()
        self._arrange()

    def _arrange(self) -> None:
        """Draw what the layout says."""
        drawable, layout, shown = self.drawable, self.layouts.shown, self.drawable.shown
        known = drawable.runs or (shown and not drawable.listed)
        self._stack.setCurrentIndex(0 if known else 1)
        self._say_empty()
        self.layouts.give_colours(shown[:MOST_CURVES])
        self.controls.show_layout(layout, self.layouts.named)
        self.runs.show_choices(drawable.choices())
        self.runs.tick(shown)
        self._offer_metrics()
        self.grid.show_layout(layout, drawable.curves)
        self._plots.setCurrentIndex(0 if layout.metrics else 1)
        self._say_limits()
        self.warning.show_runs(drawable.compared)
        single = [run for run in shown[:MOST_CURVES] if not run.startswith(EXPERIMENT)]
        self.moments.show(single, layout.marks)
        self._mark.request()
        self._show_pin()

    def _say_limits(self) -> None:
        said, metrics = [], len(self.layouts.shown.metrics)
        if self.grid.most_wanted > MOST_CURVES:
            said.append(f"{MOST_CURVES} of {self.grid.most_wanted:,} curves")
        if metrics > MOST_PLOTS:
            said.append(f"{MOST_PLOTS} of {metrics} metrics")
        self.controls.note(f"Drawn: {' and '.join(said)}" if said else "")

    def _offer_metrics(self) -> None:
        chosen = self.layouts.shown.metrics
        offered = metric_order([*self._known, *chosen])
        self.metrics.show_choices([Choice(metric, metric_title(metric), metric) for metric in offered])
        self.metrics.tick(chosen)

    def _look_for_checkpoint(self, x: float, name: str) -> None:
        run = self.drawable.find(name)
        if run is None:
            return  # a mean has none

        axis = self.layouts.shown.axis

        def offer(listed: CheckpointList) -> None:
            if (found := nearest(listed.checkpoints, axis, x)) is None:
                return
            info, words = found
            told = words if len(self.drawable.shown) == 1 else f"{run_title(run)}: {words}"
            action = Action("Watch it play", lambda: self._shell.open_player(run, info.id))
            self._shell.notify("info", told, action=action, about="nearest checkpoint")

        call = self._feed.ask("checkpoint.list", {"run": name})
        if call is not None:
            call.done.connect(offer)

    def _learn(self) -> None:
        """Take what the histories tell of beside their rows: metrics, clients, attempts."""
        curves = [curve for cell in self.grid.cells.values() for curve, _ in cell.curves]
        found = {metric for curve in curves for metric in curve.metrics}
        if not found <= self._known:
            self._known |= found
            self._offer_metrics()
        for curve in curves:
            self.moments.take_attempts(curve.series.run_id, curve.attempts)
        self._mark.request()
        clients = {curve.series.run_id: curve.clients for curve in curves if curve.is_loaded}
        if self.drawable.clients != (known := {**self.drawable.clients, **clients}):
            self.drawable.clients = known
            if self.layouts.shown.each_client:
                self._arrange()

    def _show_marks(self) -> None:
        titles = {run: self.drawable.title(run) for run in self.drawable.shown[:MOST_CURVES]}
        self.grid.show_marks(self.moments, titles)

    def _pin(self) -> None:
        run, pinned = self.runs.current, self.layouts.shown.pinned
        without = tuple(one for one in pinned if one != run)
        self._change(pinned=without if run in pinned else (*pinned, run))

    def _show_only(self) -> None:
        self._change(runs=tuple(dict.fromkeys([self.runs.current, *self.layouts.shown.pinned])))

    def _show_pin(self) -> None:
        self.pin.setChecked(self.runs.current in self.layouts.shown.pinned)
        none = "" if self.runs.current else "Choose a run in the list first."
        self.pin.allow(none, "Keep the run at the top of the list; “Only this” draws it, too")
        self.only.allow(none, "Draw no other run but this one and the pinned ones")

    def _ask_name(self) -> None:
        words, hint = Words("&Save", "Saving …", "Saved"), "A layout that has this name already is replaced."
        NameDialog("Save this layout", "", hint, words, self._save_layout, parent=self).open()

    def _save_layout(self, name: str) -> None:
        self.layouts.save(name)
        self.controls.show_layout(self.layouts.shown, self.layouts.named)

    def _show_named(self, name: str) -> None:
        layout = self.layouts.named.get(name)
        if layout is not None:
            self._change(**{field: getattr(layout, field) for field in PlotLayout.model_fields})

    def _remove_named(self, name: str) -> None:
        self.layouts.forget(name)
        self.controls.show_layout(self.layouts.shown, self.layouts.named)

    def _show_connection(self, *_: object) -> None:
        self.grid.show_connection()
        self._say_empty()

    def _say_empty(self) -> None:
        listed = self.drawable.listed
        if listed:
            self.empty.say("No run yet", "Start one, and its curves appear here.")
        else:
            self.empty.say(why_not(self._feed.connection) or "Reading the list of runs …", "")
        self.empty.button.setVisible(listed)

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the arrangement."""
        super().hideEvent(event)
        self._memory.keep(self._splitter, self._lists)
