"""Parts of the page of client mode that grow: the curve of this computer's own returns, and its log."""

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.pages.overview_curve import LiveCurve
from soulsgui.gui.plotting.host import PlotHost
from soulsgui.gui.plotting.rows import RETURN
from soulsgui.gui.widgets.labels import Heading
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import LogLine
from soulsgui.wire.messages.metrics import Row

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot

_LINES = 300
_LOG_ROWS = 11
_NARROW_MS = 250
# With fewer the name of its axis is cut off.
_PLOT_ROWS = 12
_SMOOTHING = 0.95


def _take_what_is_left(widget: QWidget) -> None:
    """Let a widget have the height that is left over, and not ask for more than its least one."""
    widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)


class OwnCurve(QWidget):
    """The returns of the episodes that were played here.

    Args:
        feed: The runner of client mode.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.host = PlotHost(self)
        self.host.setMinimumHeight(self.fontMetrics().height() * _PLOT_ROWS)
        _take_what_is_left(self.host)
        self.curve = LiveCurve(feed, self)
        self.curve.smooth_with(_SMOOTHING)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(Heading(tr("Returns of the episodes played here"), 0, self))
        column.addWidget(self.host, 1)
        self.curve.replaced.connect(self._show_series)
        self.curve.loaded.connect(self._show_empty_text)
        self.curve.changed.connect(self._draw)
        feed.rows_arrived.connect(self._take)
        self.host.when_ready(self._plot_ready)

    def show_run(self, run: str) -> None:
        """Draw the episodes of this run from now on; without one the last curve stays."""
        if run:
            self.curve.follow(run, RETURN)

    def renew(self) -> None:
        """What came live may have gaps: ask for the curve again."""
        self.curve.renew()

    def _take(self, rows: list[Row]) -> None:
        self.curve.take(rows)

    def _plot_ready(self, plot: "Plot") -> None:
        plot.setAccessibleName(tr("Returns of the episodes played here"))
        plot.drawn.connect(self.curve.look_at)
        self._show_series()

    def _show_series(self) -> None:
        if self.host.plot is not None:
            self.host.plot.show_series([(self.curve.series, tr("Return"), 0)])
            self._show_empty_text()

    def _show_empty_text(self) -> None:
        if self.host.plot is not None:
            waits = bool(self.curve.series.run_id) and not self.curve.is_loaded
            words = tr("Loading …") if waits else tr("The first finished episode appears here.")
            self.host.plot.show_empty_text(words)

    def _draw(self) -> None:
        if self.host.plot is not None:
            self.host.plot.changed()

    def showEvent(self, event: QShowEvent) -> None:
        """Draw what came meanwhile."""
        super().showEvent(event)
        self.curve.wake()
        self.curve.go_on()


class LogSection(QWidget):
    """What the client writes, behind a button.

    Signals:
        problem: The lines can't be had; with the `ApiError`.
        opened: The log was opened.

    Args:
        feed: The runner of client mode.
        parent: The widget it stands in.
    """

    problem = Signal(object)
    opened = Signal()

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._waiting: list[LogLine] | None = None
        self.button = QPushButton(self)
        self.button.setCheckable(True)
        self.button.setObjectName("clientLogButton")
        self.button.toggled.connect(self._toggled)
        self.pane = LogPane(self)
        self.pane.setObjectName("clientLog")
        self.pane.setMinimumHeight(self.fontMetrics().height() * _LOG_ROWS)
        _take_what_is_left(self.pane)
        # What it holds is the end of the log only.
        self._narrow_soon = QTimer(self, singleShot=True, interval=_NARROW_MS)
        self._narrow_soon.timeout.connect(self.renew)
        self.pane.narrowed.connect(lambda *_: self._narrow_soon.start())
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.button, 0, Qt.AlignmentFlag.AlignLeft)
        column.addWidget(self.pane)
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(self._not_had)
        feed.log_arrived.connect(self._add)
        self._toggled(False)

    def renew(self) -> None:
        """Ask for the newest lines, if anybody reads them."""
        if self.button.isChecked():
            self._waiting = []
            self.pane.show_empty_text(tr("Reading the log …"))
            self._fetch.forget()
            self._fetch.request()

    def _toggled(self, shown: bool) -> None:
        self.pane.setVisible(shown)
        self.button.setText(tr("Hide &log") if shown else tr("Show &log"))
        dress(self.button, "log")
        self.renew()
        if shown:
            self.opened.emit()

    def _ask(self) -> Call | None:
        if not self._feed.connection.live:
            return None
        wanted = {"n": _LINES, "level": self.pane.least, "filter": self.pane.words}
        return self._feed.call("history.logs", wanted)

    def _take(self, result: dict[str, Any]) -> None:
        none = (
            tr("No line that is kept of the log fits.")
            if self.pane.narrow
            else tr("Nothing was written yet.")
        )
        self.pane.show_empty_text(none)
        self.pane.replace([LogLine.model_validate(line) for line in result["lines"]])
        self._go_on()

    def _not_had(self, error: object) -> None:
        self.problem.emit(error)
        self._go_on()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, None
        self.pane.add(waiting or [])

    def _add(self, lines: list[LogLine]) -> None:
        if not self.button.isChecked():
            return
        if self._waiting is None:
            self.pane.add(lines)
        else:
            self._waiting = [*self._waiting, *lines][-_LINES:]
