"""The last log lines of all services, on the overview."""

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.connection_state import Connection
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import LogLine

_LINES = 100


class LastLines(QWidget):
    """What the services wrote last, live.

    Signals:
        log_asked: The log of a service is to be shown, of all when it is empty.
        problem: The lines can't be had; with the `ApiError`.

    Args:
        feed: The runner.
        parent: The widget it stands in.
    """

    log_asked = Signal(str)
    problem = Signal(object)

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._waiting: list[LogLine] | None = None
        self.pane = LogPane(self, with_controls=False)
        self.pane.setObjectName("overviewLog")
        self.open_logs = FittingButton(self.tr("All logs"), "log", self)
        self.open_logs.clicked.connect(lambda: self.log_asked.emit(""))
        self.open_logs.show_icon_only(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self.pane, 1)
        row.addWidget(self.open_logs, 0, Qt.AlignmentFlag.AlignTop)
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(self._not_had)
        feed.log_arrived.connect(self._add)
        self.renew()

    def renew(self) -> None:
        """Ask for the newest lines."""
        self._waiting = []
        self.pane.show_empty_text(tr("Reading the last lines …"))
        self._fetch.forget()
        self._fetch.request()

    def show_connection(self, connection: Connection) -> None:
        """Ask for what could not be had before."""
        if connection.live and self._waiting is not None and not self._fetch.waiting:
            self._fetch.request()

    def _ask(self) -> Call | None:
        return self._feed.call("history.logs", {"n": _LINES}) if self._feed.connection.live else None

    def _take(self, result: dict[str, Any]) -> None:
        self.pane.replace([LogLine.model_validate(line) for line in result["lines"]])
        self._go_on()

    def _not_had(self, error: object) -> None:
        # Live lines show that it goes on; the older ones are asked for when the page is renewed.
        self.problem.emit(error)
        self._go_on()

    def _go_on(self) -> None:
        self.pane.show_empty_text(tr("What the services write appears here."))
        waiting, self._waiting = self._waiting, None
        self.pane.add(waiting or [])

    def _add(self, lines: list[LogLine]) -> None:
        if self._waiting is None:
            self.pane.add(lines)
        else:
            self._waiting = [*self._waiting, *lines][-_LINES:]
