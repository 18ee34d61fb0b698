"""One plot of live curves: rows reach them, what is in view is read finer, what went wrong is told once."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.plotting.live import LiveCurve
from soulsgui.gui.plotting.mean import Drawn
from soulsgui.gui.plotting.rows import Axis
from soulsgui.gui.widgets.boxes import NO_MARGINS, column
from soulsgui.wire.control import ApiError
from soulsgui.wire.messages.metrics import Row

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

_LOADING_AFTER_MS = 500
"""What comes sooner is not told of."""


class CurvesView(QWidget):
    """Live curves in one plot. Its owner says which ones, and what they are called.

    Signals:
        replaced: A curve follows something else: say again what is shown.
        loaded: The history of one came.
        changed: One has new rows.
        problem: One can't be had now; with the `ApiError`.
        noted: What is to be known of the picture, as that it is read finer; empty for nothing.
    """

    replaced = Signal()
    loaded = Signal()
    changed = Signal()
    problem = Signal(object)
    noted = Signal(str)

    def __init__(self, feed: Feed, parent: QWidget | None = None, x_title: bool = True) -> None:
        super().__init__(parent)
        self._feed = feed
        self._axis = Axis.EPISODE
        self._weight = 0.0
        self._told = ""
        self._dimmed = False
        self.curves: list[LiveCurve] = []
        self.host = PlotHost(self, x_title)
        self._loading_timer = QTimer(self, singleShot=True, interval=_LOADING_AFTER_MS)
        self._loading_timer.timeout.connect(self._say_loading)
        column(self.host, on=self, margins=NO_MARGINS)
        feed.rows_arrived.connect(self._take_rows)
        self.host.when_ready(self._plot_ready)

    def add_curve(self) -> LiveCurve:
        """Return one more curve, which follows nothing yet."""
        curve = LiveCurve(self._feed, self)
        curve.show_along(self._axis)
        curve.smooth_with(self._weight)
        curve.replaced.connect(self.replaced)
        curve.loaded.connect(self._loaded)
        curve.changed.connect(self.draw)
        curve.failed.connect(self._failed)
        self.curves.append(curve)
        return curve

    def show_curves(self, shown: Sequence[tuple[Drawn, str, int]]) -> None:
        """Draw these curves, each with its name and the number of its colour, as soon as there is a plot."""
        if self.host.plot is not None:
            self.host.plot.show_series(shown)

    def show_along(self, axis: Axis) -> None:
        """Give x another meaning."""
        self._axis = axis
        for curve in self.curves:
            curve.show_along(axis)
        if self.host.plot is not None:
            self.host.plot.show_along(axis)

    def smooth_with(self, weight: float) -> None:
        """Smooth with another weight."""
        self._weight = weight
        for curve in self.curves:
            curve.smooth_with(weight)
        self.draw()

    def dim(self, dimmed: bool) -> None:
        """Fade while what is drawn is not the present."""
        self._dimmed = dimmed
        if self.host.plot is not None:
            self.host.plot.dim(dimmed)
        if not dimmed:
            for curve in self.curves:
                curve.go_on()

    def renew(self) -> None:
        """What came live may have gaps: ask again."""
        for curve in self.curves:
            curve.renew()

    def draw(self) -> None:
        """Draw what has changed."""
        self._say_loading()
        self.changed.emit()
        if self.host.plot is not None:
            self.host.plot.changed()

    def _plot_ready(self, plot: "Plot") -> None:
        plot.drawn.connect(self._refine)
        plot.dim(self._dimmed)

    def _take_rows(self, rows: list[Row]) -> None:
        for curve in self.curves:
            curve.take(rows)

    def _loaded(self) -> None:
        self._told = ""
        self.loaded.emit()

    def _failed(self, error: ApiError) -> None:
        # It is asked for again and again; one message is enough.
        if error.message != self._told:
            self._told = error.message
            self.problem.emit(error)

    def _refine(self, left: float, right: float) -> None:
        finer = [curve.look_at(left, right) for curve in self.curves]
        if any(finer) and not self._loading_timer.isActive():
            self._loading_timer.start()

    def _say_loading(self) -> None:
        loading = any(curve.finer.waiting for curve in self.curves)
        self.noted.emit("Loading …" if loading else "")

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what came meanwhile."""
        super().showEvent(event)
        for curve in self.curves:
            curve.wake()
