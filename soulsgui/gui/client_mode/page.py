"""The page of client mode: one switch, what this computer does, and what it has given."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QPushButton, QSizePolicy, QStackedWidget, QWidget

from soulsgui.gui.client_mode.consent import ConsentPanel, agree_dialog
from soulsgui.gui.client_mode.owner_rules import RulesRow
from soulsgui.gui.client_mode.parts import ChecksRow, GivenRow, HelpSwitch, MiddleColumn, PauseRow, StateHead
from soulsgui.gui.client_mode.runner import START_TIMEOUT_S, ClientSide
from soulsgui.gui.client_mode.saved_servers import ServerLine, ServersRow
from soulsgui.gui.client_mode.state import client_words, lack_words, run_has_ended
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.icons import dress
from soulsgui.gui.logs.reader import LogPlace, LogReader
from soulsgui.gui.plotting.rows import RETURN
from soulsgui.gui.plotting.view import CurvesView
from soulsgui.gui.shell import INVITATION, notify_problem
from soulsgui.gui.shell.update import UpdateDialog, installation, update_steps
from soulsgui.gui.theme import GAP_L, GAP_M, GAP_S
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.agree import AgreeDialog
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.labels import Heading
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import ClientStatus, LogLine, Status
from soulsgui.wire.control.states import CLIENT
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.server_config import Execution

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot
    from soulsgui.gui.shell import Shell


_LINES = 300
_LOG_ROWS = 11
_NARROW_MS = 250
# With fewer the name of its axis is cut off.
_PLOT_ROWS = 12
_SMOOTHING = 0.95
_CURVE = "Returns of the episodes played here"


def _take_what_is_left(widget: QWidget) -> None:
    """Let a widget have the height that is left over, and not ask for more than its least one."""
    widget.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)


class OwnCurve(QWidget):
    """The returns of the episodes that were played here."""

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.view = CurvesView(feed, self)
        self.view.setMinimumHeight(self.fontMetrics().height() * _PLOT_ROWS)
        _take_what_is_left(self.view)
        self.curve = self.view.add_curve()
        self.view.smooth_with(_SMOOTHING)
        column(Heading(_CURVE, 0, self), (self.view, 1), on=self, margins=NO_MARGINS, gap_px=GAP_S)
        self.view.replaced.connect(self._show_series)
        self.view.loaded.connect(self._show_empty_text)
        self.view.host.when_ready(self._plot_ready)

    def show_run(self, run: str) -> None:
        """Draw the episodes of this run from now on; without one the last curve stays."""
        if run:
            self.curve.follow(run, RETURN)

    def _plot_ready(self, plot: "Plot") -> None:
        plot.setAccessibleName(_CURVE)
        self._show_series()

    def _show_series(self) -> None:
        self.view.show_curves([(self.curve.series, "Return", 0)])
        self._show_empty_text()

    def _show_empty_text(self) -> None:
        if self.view.host.plot is not None:
            waits = bool(self.curve.series.run_id) and not self.curve.is_loaded
            words = "Loading …" if waits else "The first finished episode appears here."
            self.view.host.plot.show_empty_text(words)


class LogSection(QWidget):
    """What the client writes, behind a button.

    Signals:
        problem: The lines can't be had; with the `ApiError`.
        opened: The log was opened.
    """

    problem = Signal(object)
    opened = Signal()

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
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
        self.pane.narrowed.connect(self._narrow_soon.start)
        column(
            (self.button, Qt.AlignmentFlag.AlignLeft), self.pane, on=self, margins=NO_MARGINS, gap_px=GAP_S
        )
        self._reader = LogReader(feed, self, of_run=False)
        self._reader.newest.connect(self._take)
        self._reader.live.connect(self._add)
        self._reader.failed.connect(self.problem)
        self._toggled(False)

    def renew(self) -> None:
        """Ask for the newest lines, if anybody reads them."""
        if self.button.isChecked():
            self.pane.show_empty_text("Reading the log …")
            self._reader.read(LogPlace(level=self.pane.least, words=self.pane.words), _LINES)

    def _toggled(self, shown: bool) -> None:
        self.pane.setVisible(shown)
        self.button.setText("Hide &log" if shown else "Show &log")
        dress(self.button, "log")
        self.renew()
        if shown:
            self.opened.emit()

    def _take(self, lines: list[LogLine]) -> None:
        none = "No line kept of the log matches." if self.pane.narrow else "Nothing has been written yet."
        self.pane.show_empty_text(none)
        self.pane.replace(lines)

    def _add(self, lines: list[LogLine]) -> None:
        if self.button.isChecked():
            self.pane.add(lines)


_SHOW_MS = 100
_WIDEST_CHARACTERS = 140


class ClientPage(QWidget):
    """What the owner of this computer sees of its help, and can do about it."""

    def __init__(
        self,
        server: Feed,
        shell: "Shell",
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("clientPage")
        self._server = server
        self._shell = shell
        self._side: ClientSide = shell.client_side()
        self._feed = self._side.feed
        self._clock = clock
        self._question: AgreeDialog | None = None
        self._build()
        self._throttle = Throttle(self, self._show, _SHOW_MS)
        self._connect()

    def _build(self) -> None:
        self.servers = ServersRow(self._side, self)
        self.server = ServerLine(self._feed, lambda: self.servers.chosen, self)
        self.state = StateHead(self.server, self)
        self.switch = HelpSwitch(self._ask_switch, self)
        self.pausing = PauseRow(self._feed, self._client_id, self)
        self.rules = RulesRow(self._feed, self)
        self.checks = ChecksRow(self)
        self.given = GivenRow(self)
        self.curve = OwnCurve(self._feed, self)
        self.log = LogSection(self._feed, self)
        self._area = MiddleColumn(_WIDEST_CHARACTERS, self)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        controls = row(self.switch, (self.pausing, 1), gap_px=GAP_S)
        upper = self.state, controls, self.servers, self.rules, self.checks, self.given
        self._area.fill(*upper, (self.curve, 1), self.log, margins=(GAP_L, GAP_L, GAP_L, GAP_M), gap_px=GAP_M)
        self.consent = ConsentPanel(self._side, self)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self._area)
        self._stack.addWidget(self.consent)
        column(self._stack, on=self, margins=NO_MARGINS)

    def _connect(self) -> None:
        feed = self._feed
        feed.snapshot_taken.connect(self._take_snapshot)
        for signal in (
            feed.connection_changed,
            feed.run_changed,
            feed.services_changed,
            feed.server_changed,
            feed.clients_changed,
            self._server.run_changed,
        ):
            signal.connect(self._throttle.request)
        for problem in (
            self.switch.problem,
            self.pausing.problem,
            self.log.problem,
            self.curve.view.problem,
            self.rules.problem,
            self.server.problem,
            self._side.problem,
        ):
            problem.connect(partial(notify_problem, self._shell))
        for problem in (self.servers.problem, self.consent.problem):
            problem.connect(partial(notify_problem, self._shell, about=INVITATION))
        self.server.told.connect(self._shell.notify)
        self.server.paste.clicked.connect(self.servers.paste_link)
        self._side.invitation_opened.connect(self._ask_consent)
        self.consent.answered.connect(self._consent_answered)
        if self._side.invitation is not None:
            self._ask_consent(self._side.invitation)
        self.log.opened.connect(self._show_log)
        self.state.update_button.clicked.connect(self._show_update)
        self.state.question_button.clicked.connect(self._show_question)
        self._show()

    def _take_snapshot(self, _: Status) -> None:
        self.curve.view.renew()
        self.log.renew()
        self._throttle.request()

    @property
    def landing(self) -> QWidget:
        """What gets the keyboard when the page opens: the curve, or the question that is asked."""
        return self.curve.view.host if self._stack.currentWidget() is self._area else self.consent

    @property
    def _client(self) -> ClientStatus | None:
        clients = self._feed.status.clients
        return clients[0] if clients else None

    @property
    def _asks(self) -> Execution | None:
        return self._client.asks if self._client is not None else None

    def _show(self) -> None:
        if self._question is not None and self._question.asks != self._asks:
            self._question.reject()  # nobody asks that any more
        connection, status = self._feed.connection, self._feed.status
        run_ended = run_has_ended(self._server.connection, self._server.status.run, status.run.id)
        words = client_words(connection, status, self._clock(), run_ended, self._side.on_wanted)
        self.state.show_words(words)
        self.server.setVisible(connection.live)
        self.server.show_status(status)
        self.switch.show_on(words.on)
        self.pausing.show_words(words)
        client = self._client
        self.checks.show_client(client if words.on else None)
        self.given.show_client(client)
        self.curve.show_run(status.run.id)
        for part in (self.checks, self.given, self.curve):
            part.setEnabled(connection.live)

    def _ask_consent(self, invitation: Invitation) -> None:
        # What was wrong with an earlier one would stand over this one's question.
        self._shell.settle(INVITATION)
        self.consent.ask(invitation)
        self._stack.setCurrentWidget(self.consent)

    def _consent_answered(self) -> None:
        self._stack.setCurrentWidget(self._area)
        self.landing.setFocus()
        self.servers.refresh()

    def _show_log(self) -> None:
        # Once it has its place.
        QTimer.singleShot(0, self, lambda: self._area.ensureWidgetVisible(self.log))

    def _show_update(self) -> None:
        lacks = self._client.lacks if self._client is not None else []
        steps = update_steps(lacks, installation())
        if steps is not None:
            UpdateDialog(lack_words(lacks), steps, self).open()

    def _show_question(self) -> None:
        asks, server = self._asks, self.servers.chosen
        if asks is not None and server is not None:
            self._question = agree_dialog(self._feed, server, asks, self)
            self._question.finished.connect(self._forget_question)
            self._question.open()

    def _forget_question(self) -> None:
        self._question = None

    def _ask_switch(self, on: bool) -> Call | None:
        if on and not self._feed.connection.live:
            self._side.switch_on()
            return None
        if not on:
            self._side.stay_off()
        return self._feed.call(
            "service.start" if on else "service.stop", {"name": CLIENT}, timeout_s=START_TIMEOUT_S
        )

    def _client_id(self) -> str:
        return self._client.id if self._client is not None else ""

    def hideEvent(self, event: QHideEvent) -> None:
        """What was wrong with an invitation is not told on other pages."""
        super().hideEvent(event)
        if not event.spontaneous():
            self._shell.settle(INVITATION)

    def showEvent(self, event: QShowEvent) -> None:
        """Show what came meanwhile, and have somebody there who knows who invited."""
        super().showEvent(event)
        self._side.be_ready()
        self._show()
