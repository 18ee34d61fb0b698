"""The place of a plot before pyqtgraph is loaded: the window appears first, the plot a moment later."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QPaintEvent
from PySide6.QtWidgets import QWidget

from soulsgui.gui.widgets.boxes import NO_MARGINS, column
from soulsgui.gui.widgets.labels import Label

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot


_LEAST_LINES = 8


class PlotHost(QWidget):
    """Makes its plot after it was painted for the first time.

    Signals:
        ready: The plot exists now; with the `Plot`.
    """

    ready = Signal(object)

    def __init__(self, parent: QWidget | None = None, x_title: bool = True) -> None:
        super().__init__(parent)
        self._x_title = x_title
        self.plot: Plot | None = None
        self._seen = False
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._load)
        self._loading = Label("Loading …", self)
        self._loading.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._loading.setProperty("weight", "muted")
        self._column = column(self._loading, on=self, margins=NO_MARGINS)

    def when_ready(self, work: Callable[["Plot"], None]) -> None:
        """Do something with the plot, now or as soon as it exists."""
        if self.plot is not None:
            work(self.plot)
        else:
            self.ready.connect(work)

    def minimumSizeHint(self) -> QSize:
        """Keep a place for the plot also before it is made: without one it never would be."""
        hint = super().minimumSizeHint()
        if self.plot is not None:
            return hint
        return QSize(hint.width(), _LEAST_LINES * self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        """Have the plot made as soon as this picture of its empty place is on the screen."""
        super().paintEvent(event)
        if not self._seen:
            self._seen = True
            self._soon.start()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Hand the keyboard on to the plot; as its focus proxy it would lead Tab round in a circle."""
        super().focusInEvent(event)
        if self.plot is not None:
            self.plot.setFocus(event.reason())

    def _load(self) -> None:
        # Not at the top: this import takes longer than the rest of the window. Nor in a thread, although the
        # window stands still meanwhile: the binding makes Qt's classes when they are first used, and two
        # threads that do so at once can end the process.
        from soulsgui.gui.plotting.plot import Plot

        self.plot = Plot(self, self._x_title)
        if self.hasFocus():
            self.plot.setFocus()
        self._loading.deleteLater()
        self._column.replaceWidget(self._loading, self.plot)
        self.ready.emit(self.plot)
