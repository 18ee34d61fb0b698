"""The plots of the page: side by side where there is room, moving and pointing together."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.plots.cell import PlotCell, Shown
from soulsgui.gui.plots.drawable import MOST_CURVES
from soulsgui.gui.plots.layout import PlotLayout
from soulsgui.gui.plots.moments import Moments
from soulsgui.gui.plotting.controls import smoothing_weight
from soulsgui.gui.plotting.export import as_csv
from soulsgui.gui.plotting.rows import Axis, Mark
from soulsgui.gui.theme import GAP_M
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.boxes import NO_MARGINS

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

MOST_PLOTS = 12
"""Plots on the page, at most."""

_COLUMN_CHARACTERS = 70
_MOST_MARKS = 300
_TOGETHER_MS = 250


class PlotGrid(QScrollArea):
    """A plot for each metric.

    Attributes:
        cells: The plots by their metrics.
        drawn: The widget that has them all, for a picture.
        most_wanted: The curves that one plot would have if there was no limit.

    Signals:
        learned: The history of a curve came, with the names of metrics and clients.
        plot_ready: A plot is there, in which nothing is marked yet.
        follow_changed: The newest part of x is followed, or no longer.
        clicked: A curve was clicked; with x and its name.
        problem: A curve can't be had; with the `ApiError`.
    """

    learned = Signal()
    plot_ready = Signal()
    follow_changed = Signal(bool)
    clicked = Signal(float, str)
    problem = Signal(object)

    def __init__(self, feed: Feed, layout: PlotLayout, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._layout = layout
        self._follows, self._measures = True, False
        self.cells: dict[str, PlotCell] = {}
        self.most_wanted = 0
        self.drawn = QWidget(self)
        self._grid = QGridLayout(self.drawn)
        self._grid.setContentsMargins(*NO_MARGINS)
        self._grid.setSpacing(GAP_M)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(self.drawn)
        self._redraw = Throttle(self, self._draw_all, _TOGETHER_MS)

    @property
    def plots(self) -> list["Plot"]:
        """The plots that are made already."""
        return [cell.view.host.plot for cell in self.cells.values() if cell.view.host.plot is not None]

    def show_layout(self, layout: PlotLayout, curves: Callable[[bool], list[Shown]]) -> None:
        """Draw what a layout says; `curves` tells those of a metric, which is one of episodes or not."""
        old, self._layout = self._layout, layout
        metrics = layout.metrics[:MOST_PLOTS]
        for metric in self.cells.keys() - set(metrics):
            cell = self.cells.pop(metric)
            self._grid.removeWidget(cell)
            cell.hide()
            cell.deleteLater()
        if layout.axis is not old.axis:
            for cell in self.cells.values():
                cell.view.show_along(layout.axis)
        if layout.smoothing != old.smoothing:
            self.smooth_with(smoothing_weight(layout.smoothing))
        for metric in metrics:
            if metric not in self.cells:
                self.cells[metric] = self._make_cell(metric)
        self.cells = {metric: self.cells[metric] for metric in metrics}
        self.most_wanted = 0
        for cell in self.cells.values():
            wanted = curves(cell.of_episodes)
            self.most_wanted = max(self.most_wanted, len(wanted))
            cell.show_curves(wanted[:MOST_CURVES])
        for plot in self.plots:
            self._dress(plot)
        self._place_cells()

    def _make_cell(self, metric: str) -> PlotCell:
        cell = PlotCell(self._feed, metric, self)
        cell.view.show_along(self._layout.axis)
        cell.view.smooth_with(smoothing_weight(self._layout.smoothing))
        cell.view.dim(not self._feed.connection.live)
        cell.view.problem.connect(self.problem)
        cell.view.changed.connect(self._redraw.request)
        cell.learned.connect(self.learned)
        cell.view.host.when_ready(self._plot_ready)
        return cell

    def _plot_ready(self, plot: "Plot") -> None:
        plot.share_x(lambda: [ends for one in self.plots for ends in one.ranges()])
        plot.set_follow(self._follows)
        plot.follow_changed.connect(self.follow_changed)
        plot.moved.connect(lambda left, right: self._each_but(plot, lambda one: one.show_x(left, right)))
        plot.pointed.connect(lambda x: self._each_but(plot, lambda one: one.move_crosshair(x)))
        plot.dragged.connect(lambda a, b: self._each_but(plot, lambda one: one.show_cursors((a, b))))
        plot.clicked.connect(self.clicked)
        self._dress(plot)
        self.show_cursors(self._measures)
        self.plot_ready.emit()

    def _each_but(self, asking: "Plot", act: Callable[["Plot"], object]) -> None:
        for plot in self.plots:
            if plot is not asking:
                act(plot)

    def _dress(self, plot: "Plot") -> None:
        """Draw y and the newest part of x as the layout says."""
        plot.show_scale(self._layout.scale)
        if plot.last != self._layout.last:
            plot.show_last(self._layout.last)

    def _place_cells(self) -> None:
        """Put the plots side by side where there is room for two."""
        width = _COLUMN_CHARACTERS * self.fontMetrics().averageCharWidth()
        across = 2 if len(self.cells) > 1 and self.width() >= 2 * width else 1
        for place, cell in enumerate(self.cells.values()):
            if self._grid.indexOf(cell) >= 0:
                self._grid.removeWidget(cell)
            last_alone = place == len(self.cells) - 1 and place % across == 0
            self._grid.addWidget(cell, place // across, place % across, 1, across if last_alone else 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use the new room."""
        super().resizeEvent(event)
        self._place_cells()

    def smooth_with(self, weight: float) -> None:
        """Smooth all curves with another weight."""
        for cell in self.cells.values():
            cell.view.smooth_with(weight)

    def set_follow(self, follow: bool) -> None:
        """Keep the newest rows in view, or no longer."""
        self._follows = follow
        for plot in self.plots:
            plot.set_follow(follow)

    def fit(self) -> None:
        """Show the whole curves."""
        for plot in self.plots:
            plot.fit()

    def show_cursors(self, measures: bool) -> None:
        """Show the cursors in all plots, at the same places, or in none."""
        self._measures = measures
        for plot in self.plots:
            left, right = self.plots[0].x_view()
            third = (right - left) / 3
            plot.show_cursors((left + third, right - third) if measures else None)

    def take_keyboard(self) -> None:
        """Give the keyboard to the first plot: its keys move the cursors."""
        if self.plots:
            self.plots[0].setFocus()

    def show_marks(self, moments: Moments, titles: Mapping[str, str]) -> None:
        """Mark the moments of the runs that are drawn, which have these titles."""
        for cell in self.cells.values():
            series = {curve.series.run_id: curve.series for curve, _ in cell.curves}
            marks: list[Mark] = []
            for run in (run for run in titles if run in series):
                placed = series[run].placed(moments.of(run))
                if len(titles) > 1:
                    placed = [replace(mark, text=f"{titles[run]}: {mark.text}") for mark in placed]
                marks += placed
            if cell.view.host.plot is not None:
                newest = sorted(marks, key=lambda mark: mark.time)[-_MOST_MARKS:]
                whose = "a moment of the run" if len(titles) == 1 else "moments of the runs"
                cell.view.host.plot.show_marks(newest, whose)

    def show_connection(self) -> None:
        """Fade while what is drawn is not the present."""
        for cell in self.cells.values():
            cell.view.dim(not self._feed.connection.live)
            cell.say_empty()

    def renew(self) -> None:
        """Ask for all curves again."""
        for cell in self.cells.values():
            cell.view.renew()

    @property
    def axis(self) -> Axis:
        """What x means."""
        return self._layout.axis

    @property
    def named(self) -> list[tuple[str, int]]:
        """The names of all curves, each with the number of its colour."""
        return list(dict.fromkeys(one[1:] for cell in self.cells.values() for one in cell.drawn))

    def values_in_view(self, delimiter: str = ",") -> str:
        """Return the rows in view as a table."""
        left, right = self.plots[0].x_view() if self.plots else (0.0, 0.0)
        drawn = (one for cell in self.cells.values() for one, _, _ in cell.drawn)
        return as_csv(drawn, left, right, delimiter)

    def _draw_all(self) -> None:
        # Together they show the same part of x: the rows of one move all.
        for plot in self.plots:
            plot.changed()
