"""The page one lives on: services, the live curve, the clients, the last log lines."""

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from soulsgui.gui.clients.section import ClientsSection
from soulsgui.gui.feed import Feed
from soulsgui.gui.logs.reader import LogPlace, LogReader
from soulsgui.gui.models.connection import Connection, why_not
from soulsgui.gui.models.rules import CLIENT_ACTIONS
from soulsgui.gui.overview.bottleneck import Bottleneck
from soulsgui.gui.overview.curve import CurveSection
from soulsgui.gui.overview.figures import FiguresRow, round_words
from soulsgui.gui.overview.pace import seconds_left
from soulsgui.gui.overview.services import ServiceRow
from soulsgui.gui.overview.since import SinceStrip
from soulsgui.gui.plotting.nearest import nearest
from soulsgui.gui.shell import Action, Shell, notify_problem
from soulsgui.gui.shell.pages import LOGS, OVERVIEW, PLOTS
from soulsgui.gui.states import run_is_active
from soulsgui.gui.theme import GAP_S, GAP_XS
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.boxes import NO_MARGINS, PAGE_MARGINS, column, row, split
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.geometry import Memory
from soulsgui.gui.widgets.labels import ElidedLabel, muted, wrapped
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import NEWEST, ApiError, ClientStatus, Event, LogLine

_LINES = 100
_NO_LIMIT = 16_777_215  # of Qt, for the height of a widget

if TYPE_CHECKING:
    from soulsgui.gui.plotting.plot import Plot


class LastLines(QWidget):
    """What the services wrote last, live: the newest line, and the others when the user wants them.

    Its row shows where the time goes (`bottleneck`), too: the curve is a line higher for it.

    Signals:
        problem: The lines can't be had; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(
        self, feed: Feed, settings: QSettings, bottleneck: QWidget, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._settings = settings
        self.pane = LogPane(self, with_controls=False)
        self.pane.setObjectName("overviewLog")
        self.newest = muted(ElidedLabel("", self))
        self.unfold = FittingButton("Last log lines", "arrow-right", self)
        self.unfold.setCheckable(True)
        self.unfold.setProperty("role", "flat")
        self.unfold.show_icon_only(True)
        self.open_logs = FittingButton("All logs", "log", self)
        self.open_logs.setProperty("role", "flat")
        self.open_logs.show_icon_only(True)
        column(
            row(self.unfold, (self.newest, 1), bottleneck, self.open_logs, gap_px=GAP_S),
            (self.pane, 1),
            on=self,
            margins=NO_MARGINS,
            gap_px=GAP_XS,
        )
        self.unfold.toggled.connect(self._fold)
        self.unfold.setChecked(str(settings.value("overview/log")) == "open")
        self._fold()
        self._reader = LogReader(feed, self, of_run=False)
        self._reader.newest.connect(self._replace)
        self._reader.live.connect(self._add)
        self._reader.failed.connect(self._failed)
        self.renew()

    def _fold(self) -> None:
        """Show all of them, or the newest alone."""
        opened = self.unfold.isChecked()
        self._settings.setValue("overview/log", "open" if opened else "folded")
        self.unfold.say("Last log lines", "arrow-down" if opened else "arrow-right")
        self.pane.setVisible(opened)
        self.setMaximumHeight(_NO_LIMIT if opened else self.minimumSizeHint().height())

    def _say_empty(self, words: str) -> None:
        self.pane.show_empty_text(words)
        self.newest.setText(words)

    def _add(self, lines: list[LogLine]) -> None:
        self.pane.add(lines)
        self._show_newest(lines)

    def _show_newest(self, lines: list[LogLine]) -> None:
        if lines:
            newest = lines[-1]
            self.newest.setText(f"{newest.service}: {newest.text}" if newest.service else newest.text)

    def renew(self) -> None:
        """Ask for the newest lines."""
        self._say_empty("Reading the last lines …")
        self._reader.read(LogPlace(), _LINES)

    def show_connection(self, connection: Connection) -> None:
        """Ask for what could not be had before."""
        if connection.live:
            self._reader.go_on()

    def _replace(self, lines: list[LogLine]) -> None:
        self.pane.replace(lines)
        self._say_empty("What the services write appears here.")
        self._show_newest(lines)

    def _failed(self, error: ApiError) -> None:
        self.problem.emit(error)
        self._say_empty("What the services write appears here.")


_TICK_MS = 1000
# Of the height: curve, clients, log lines.
_SHARES = (10, 3, 2)


class OverviewPage(QWidget):
    """How everything stands, and the hand on the switches."""

    def __init__(
        self,
        feed: Feed,
        shell: Shell,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("overviewPage")
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), OVERVIEW)
        self.since = SinceStrip(feed, shell, self)
        self.services = ServiceRow(feed, self, clock)
        self.figures = FiguresRow(self)
        self.watch = FittingButton("Watch it play", "watch", self)
        self.plot = CurveSection(feed, shell.settings(), self)
        self.no_clients = muted(wrapped("", self))
        self.no_clients.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.clients = ClientsSection(feed, "overviewClients", CLIENT_ACTIONS, self.no_clients, parent=self)
        self.bottleneck = Bottleneck(self)
        self.log = LastLines(feed, shell.settings(), self.bottleneck, self)
        self.landing = self.plot.host
        self._build()
        self._timer = QTimer(self, interval=_TICK_MS)
        self._timer.timeout.connect(self._tick)
        self._note = Throttle(self, self._note_rounds, _TICK_MS)
        self._connect()
        self._memory.restore(self._splitter, self.clients.table)

    def _build(self) -> None:
        self.empty = EmptyState("page-plots", "", "", "New run…", "add", self)
        self.empty.acted.connect(lambda: self._shell.open_new_run())
        self._run_part = QWidget(self)
        figures = row((self.figures, 1), (self.watch, Qt.AlignmentFlag.AlignTop))
        column(figures, (self.plot, 1), on=self._run_part, margins=NO_MARGINS, gap_px=GAP_XS)
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self._run_part)
        self._stack.addWidget(self.empty)
        shared = self._stack, self.clients, self.log
        self._splitter = split("overviewSplitter", Qt.Orientation.Vertical, self, *shared)
        self._splitter.setSizes([100 * share for share in _SHARES])
        parts = self.since, self.services, (self._splitter, 1)
        column(*parts, on=self, margins=PAGE_MARGINS, gap_px=GAP_S)

    def _connect(self) -> None:
        feed = self._feed
        self.plot.host.when_ready(self._plot_ready)
        self.watch.clicked.connect(lambda: self._shell.open_player(feed.status.run, NEWEST))
        feed.snapshot_taken.connect(self._take_snapshot)
        feed.run_changed.connect(self._show_run)
        feed.services_changed.connect(self._show_services)
        feed.clients_changed.connect(self._clients_changed)
        feed.connection_changed.connect(self._show_connection)
        self.plot.all_asked.connect(lambda metric, run: self._shell.show_page(PLOTS, metric=metric, run=run))
        self.clients.emptied.connect(self._say_no_clients)
        for part in (self.services.signals, self.plot.view, self.clients, self.log):
            part.problem.connect(partial(notify_problem, self._shell))
        self.services.signals.log_asked.connect(self._open_log)
        self.since.chosen.connect(self._open_log_at)
        self.log.open_logs.clicked.connect(lambda: self._open_log(""))
        self._show_connection(feed.connection)

    # What is missed while hidden is made up for from the newest status when the page is shown.

    def _take_snapshot(self) -> None:
        # Whatever came live before may have gaps.
        self.refresh()
        self._show_all()

    def _clients_changed(self, changed: list[ClientStatus], removed: list[str]) -> None:
        if self.isVisible():
            self.clients.apply(changed, removed)
            self._note.request()

    def _note_rounds(self) -> None:
        status = self._feed.status
        self.bottleneck.show_run(status.run, status.clients)
        self.figures.show_left(seconds_left(status.run, self.plot.seconds_to_goal()))
        self.figures.show_note(round_words(status.run, status.clients))

    def _open_log(self, service: str) -> None:
        self._shell.show_page(LOGS, service=service)

    def _open_log_at(self, event: Event) -> None:
        self._shell.show_page(LOGS, service=event.service, run=event.run_id, time=event.time)

    def _plot_ready(self, plot: "Plot") -> None:
        plot.clicked.connect(self._look_for_checkpoint)

    def _look_for_checkpoint(self, x: float) -> None:
        found = nearest(self.plot.checkpoints, self.plot.controls.chosen_axis, x)
        if found is not None:
            info, words = found
            watch = partial(self._shell.open_player, self._feed.status.run, info.id)
            action = Action("Watch it play", watch)
            self._shell.notify("info", words, action=action, about="nearest checkpoint")

    def _show_all(self) -> None:
        if self.isVisible():
            self._show_services()
            self._show_run()
            self.clients.replace(self._feed.status.clients)

    def _show_services(self) -> None:
        if self.isVisible():
            self.services.show_status(self._feed.status)

    def _show_run(self) -> None:
        run = self._feed.status.run
        if not self.isVisible():
            return
        self.plot.show_run(run)
        self._note_rounds()
        self.figures.show_run(run)
        self.watch.setVisible(run_is_active(run.state))
        if run.id:
            self._stack.setCurrentWidget(self._run_part)
        else:
            self._say_why_empty()
            self._stack.setCurrentWidget(self.empty)

    def _say_why_empty(self) -> None:
        known = self._feed.last_data is not None or self._feed.connection.live
        starting = self._feed.starting
        if starting:
            self.empty.say("Starting …", "The curve appears here within seconds.")
        elif known:
            self.empty.say("No run yet", "Start one, and its curve appears here within seconds.")
        else:
            self.empty.say(why_not(self._feed.connection), "The server has sent nothing yet.")
        self.empty.button.setVisible(known and not starting)

    def _say_no_clients(self, away: str, filtered: bool) -> None:
        nobody = "No clients yet. They appear when a run begins or one joins from elsewhere."
        self.no_clients.setText(away or ("No client matches the filter." if filtered else nobody))
        for part in (self.clients.words, *self.clients.buttons.values()):
            part.setVisible(bool(self.clients.model.total))

    def _show_connection(self, connection: Connection) -> None:
        self.services.show_connection(connection)
        self.clients.show_connection(connection)
        self.figures.setEnabled(connection.live)
        self.watch.allow(why_not(connection), "See the weights play that are being trained right now")
        self.plot.dim(not connection.live)
        self.log.show_connection(connection)
        if self.isVisible():
            self._say_why_empty()

    def _tick(self) -> None:
        # Without a connection nothing goes on: what is shown is as of then.
        if self._feed.connection.live:
            self.services.tick()
            self.clients.tick()
            if self.empty.isVisible():
                self._say_why_empty()

    def refresh(self) -> None:
        """Ask for curve, checkpoints and log lines again."""
        self.plot.renew()
        self.log.renew()

    def showEvent(self, event: QShowEvent) -> None:
        """Show the present."""
        super().showEvent(event)
        self._show_connection(self._feed.connection)
        self._show_all()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Rest, and remember how the page is arranged."""
        super().hideEvent(event)
        self._timer.stop()
        self._memory.keep(self._splitter, self.clients.table)
