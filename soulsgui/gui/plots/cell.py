"""One metric of several runs: a plot with its heading, whose curves come and go."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.plotting.controls import metric_title
from soulsgui.gui.plotting.live import LiveCurve
from soulsgui.gui.plotting.mean import Drawn, MeanSeries
from soulsgui.gui.plotting.series import Series
from soulsgui.gui.plotting.view import CurvesView
from soulsgui.gui.theme import GAP_XS
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.labels import Heading, WrappedLabel, muted
from soulsgui.wire.messages.metrics import EVALUATION_PREFIX

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

_LEAST_LINES = 13


class Shown(NamedTuple):
    """A curve that is to be drawn: of which run and client, what it is called, the number of its colour.

    One with members is the mean of those runs.
    """

    run: str
    client: str
    name: str
    colour: int
    members: tuple[str, ...] = ()

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs whose rows it is made of."""
        return self.members or (self.run,)


class PlotCell(QWidget):
    """The curves of one metric.

    Signals:
        learned: The history of one came, with the names of metrics and clients.
    """

    learned = Signal()

    def __init__(self, feed: Feed, metric: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self.shown_metric = metric
        self.title = metric_title(metric)
        self._shown: list[tuple[LiveCurve, Shown]] = []
        self._arranging = False
        self.of_episodes = Series("", metric).of_episodes
        self.view = CurvesView(feed, self, x_title=False)
        self._measured = self._loading = ""
        self._note = muted(WrappedLabel("", self))
        self._note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        head = row(Heading(self.title, 0, self), (self._note, 1), margins=(GAP_XS, 0, GAP_XS, 0))
        column(head, (self.view, 1), on=self, margins=NO_MARGINS, gap_px=GAP_XS)
        self.setMinimumHeight(_LEAST_LINES * self.fontMetrics().height())
        self.view.replaced.connect(self._draw)
        self.view.loaded.connect(self._loaded)
        self.view.noted.connect(self._take_note)
        self.view.host.when_ready(self._plot_ready)

    @property
    def curves(self) -> list[tuple[LiveCurve, Shown]]:
        """What is drawn, and of a mean what it is made of."""
        return self._shown

    @property
    def drawn(self) -> list[tuple[Drawn, str, int]]:
        """Each curve as it is drawn, with its name and the number of its colour."""
        made: dict[Shown, list[Series]] = {}
        for curve, one in self._shown:
            made.setdefault(one, []).append(curve.series)
        return [
            (MeanSeries(series, one.run) if one.members else series[0], one.name, one.colour)
            for one, series in made.items()
        ]

    def show_curves(self, shown: Sequence[Shown]) -> None:
        """Draw these. A curve that is drawn already stays as it is."""
        self._arranging = True
        known = {(curve.series.run_id, curve.series.client): curve for curve in self.view.curves}
        wanted = {(run, one.client) for one in shown for run in one.runs}
        free = [curve for place, curve in known.items() if place not in wanted and place[0]]
        free += [curve for curve in self.view.curves if not curve.series.run_id]
        self._shown = []
        for one, run in ((it, run) for it in shown for run in it.runs):
            curve = known.get((run, one.client)) or (free.pop() if free else self.view.add_curve())
            known[run, one.client] = curve
            curve.follow(run, self.shown_metric, one.client)
            self._shown.append((curve, one))
        for curve in free:
            curve.follow("", self.shown_metric)
        self._arranging = False
        self._draw()

    def say_empty(self) -> None:
        """Say why there is no curve."""
        if self.view.host.plot is None:
            return
        if not self._shown:
            words = "Tick a run."
        elif not self._feed.connection.live and not any(curve.is_loaded for curve, _ in self._shown):
            words = "The curves are read as soon as the connection is back."
        elif not all(curve.is_loaded for curve, _ in self._shown):
            words = "Loading …"
        elif self.shown_metric.startswith(EVALUATION_PREFIX):
            words = "No evaluation yet."
        else:
            words = "None of these runs has rows of this metric."
        self.view.host.plot.show_empty_text(words)

    def _plot_ready(self, plot: "Plot") -> None:
        plot.setAccessibleName(self.title)
        # It measures after each picture.
        plot.measured.connect(self._measure)
        self._draw()

    def _measure(self, words: str) -> None:
        self._measured = words
        self._say_note()

    def _draw(self) -> None:
        if not self._arranging:
            self.view.show_curves(self.drawn)
            self.say_empty()

    def _loaded(self) -> None:
        self.of_episodes |= any(curve.series.of_episodes for curve, _ in self._shown)
        self.say_empty()
        self.learned.emit()

    def _take_note(self, words: str) -> None:
        self._loading = words
        self._say_note()

    def _say_note(self) -> None:
        plot = self.view.host.plot
        hidden = plot is not None and plot.hides_all
        words = self._loading or ("Nothing is above 0: choose symlog" if hidden else self._measured)
        if words != self._note.text():
            self._note.setText(words)
