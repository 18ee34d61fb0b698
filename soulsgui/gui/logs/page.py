"""The page of the logs: of each service or of all, of this run or an earlier one; and of commands."""

import time
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QTabWidget, QWidget

from soulsgui.gui.feed import Feed
from soulsgui.gui.logs.audit import AuditTab
from soulsgui.gui.logs.reader import (
    MOST_LINES,
    PAGE_LINES,
    LogPlace,
    LogReader,
    as_file,
    first_since,
    nothing_found,
    reaches_back_to,
    run_words,
    service_words,
    services_offered,
)
from soulsgui.gui.models.connection import Connection, why_not
from soulsgui.gui.shell import notify_problem, write_file
from soulsgui.gui.shell.pages import LOGS
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.boxes import PAGE_MARGINS, TAB_MARGINS, column, flow
from soulsgui.gui.widgets.dialog import ask_where_to_save
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.geometry import Memory
from soulsgui.gui.widgets.inputs import ChoiceBox
from soulsgui.gui.widgets.labels import Label, caption, muted
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import ApiError, ErrorCode, LogLine, RunStatus

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


_NARROW_MS = 250
_MOST_PAGES_BACK = 12


class LogsPage(QWidget):
    """What the services wrote, and write."""

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("logsPage")
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), LOGS)
        self._present_run = feed.status.run.id
        self._seen: set[str] = set()
        self._moment: float | None = None
        self._pages_back = 0
        self._keep: LogLine | None = None
        self.pane = LogPane(self)
        self._build()
        self._reader = LogReader(feed, self)
        self._narrow_soon = QTimer(self, singleShot=True, interval=_NARROW_MS)
        self._connect()
        self._offer_services()
        self._offer_runs()
        self._read()

    def _build(self) -> None:
        self.service, self.run = ChoiceBox("", self), ChoiceBox("", self)
        parts: list[QWidget] = []
        for words, box in (("&Service", self.service), ("&Run", self.run)):
            box.setSizeAdjustPolicy(ChoiceBox.SizeAdjustPolicy.AdjustToContents)
            parts += [caption(words, box, self), box]
        self._note = muted(Label(parent=self))
        self._note.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.earlier = FittingButton("Load &earlier", "arrow-up", self)
        self.save = FittingButton("Save &as…", "export", self)
        self.save.explain("Save the lines shown as a text file")
        head = flow(*parts, self._note, self.earlier, self.save, gap_px=GAP_S)
        logs = QWidget(self)
        column(head, (self.pane, 1), on=logs, margins=TAB_MARGINS, gap_px=GAP_S)
        self.tabs = QTabWidget(self)
        self.tabs.setObjectName("logsTabs")
        self.tabs.setDocumentMode(True)
        self.tabs.addTab(logs, "Lo&gs")
        self.audit = AuditTab(self._feed, self._shell, self)
        self.tabs.addTab(self.audit, "A&udit")
        self._memory.restore(self.tabs)
        column((self.tabs, 1), on=self, margins=PAGE_MARGINS)

    def _connect(self) -> None:
        self.service.activated.connect(lambda _: self._read())
        self.run.activated.connect(lambda _: self._read())
        self.earlier.clicked.connect(self._read_earlier)
        self.save.clicked.connect(self._ask_where_to_save)
        self.pane.top_reached.connect(self._read_earlier)
        self.pane.narrowed.connect(self._narrowed)
        self.pane.follow_changed.connect(self._follow_changed)
        self._narrow_soon.timeout.connect(self._read)
        self._reader.newest.connect(self._take_newest)
        self._reader.earlier.connect(self._take_earlier)
        self._reader.live.connect(self._take_live)
        self._reader.failed.connect(self._failed)
        self._feed.snapshot_taken.connect(self.refresh)
        self._feed.run_changed.connect(self._run_changed)
        self._feed.lists.runs.changed.connect(self._offer_runs)
        self._feed.services_changed.connect(self._offer_services)
        self._feed.connection_changed.connect(self._show_connection)

    @property
    def landing(self) -> QWidget:
        """What gets the keyboard when the page opens: what is in the tab in front."""
        return self.audit.table if self.tabs.currentWidget() is self.audit else self.pane

    @property
    def place(self) -> LogPlace:
        """The log that is chosen, and which of its lines are wanted."""
        return LogPlace(
            service=str(self.service.currentData() or ""),
            run=str(self.run.currentData() or ""),
            level=self.pane.least,
            words=self.pane.words,
        )

    def show_where(self, service: str = "", time: float | None = None, run: str = "", **_: Any) -> None:
        """Show a service's log."""
        self.tabs.setCurrentIndex(0)
        self._seen.add(service or "runner")
        self._offer_services()
        self.service.setCurrentIndex(max(self.service.findData(service), 0))
        if run and self.run.findData(run) < 0:
            self.run.addItem(run, run)
        self.run.setCurrentIndex(max(self.run.findData(run if run != self._present_run else ""), 0))
        self.pane.show_everything()
        self._narrow_soon.stop()
        self._moment, self._pages_back = time, 0
        self.pane.set_follow(time is None)
        self._reader.read(self.place, MOST_LINES if time is not None else PAGE_LINES)

    def _read(self) -> None:
        self._moment = self._keep = None
        self._reader.read(self.place)
        self._say_state()

    def _narrowed(self) -> None:
        self._narrow_soon.start()
        self._say_state()

    def _read_earlier(self) -> None:
        if not self.place.service:
            # All logs come anew: what is in view now is brought into view again.
            self._keep = next(iter(self.pane.shown), None)
        self._reader.read_earlier()

    def refresh(self) -> None:
        """Read the newest lines again: what came live before may have gaps."""
        self._present_run = self._feed.status.run.id
        self._offer_services()
        self._offer_runs()
        self._read()

    def _run_changed(self, run: RunStatus) -> None:
        if run.id != self._present_run:
            self._present_run = run.id
            self._offer_runs()
            if not self.place.run:
                self._read()

    def _offer_services(self) -> None:
        names = ["", *services_offered(self._feed.status.services, self._seen)]
        self.service.offer([(service_words(name), name) for name in names], self.service.currentData())

    def _offer_runs(self) -> None:
        others = (run for run in self._feed.lists.runs.entries if run.id != self._present_run)
        named = [(run_words(run, time.time()), run.id) for run in others]
        self.run.offer([("This run", ""), *named], self.run.currentData())

    def _take_newest(self, lines: list[LogLine]) -> None:
        self._learn(lines)
        self.pane.replace(lines, with_service=not self.place.service)
        keep, self._keep = self._keep, None
        if self._moment is not None:
            self._look_for_moment()
        elif keep is not None:
            self.pane.show_line(keep)
        else:
            self.pane.set_follow(True)
        self._say_state()

    def _take_earlier(self, lines: list[LogLine]) -> None:
        if lines and self.pane.prepend(lines):
            self._reader.at_end = False
        if self._moment is not None:
            self._look_for_moment()
        self._say_state()

    def _take_live(self, lines: list[LogLine]) -> None:
        self._learn(lines)
        self.pane.add(lines)

    def _learn(self, lines: list[LogLine]) -> None:
        new = {line.service for line in lines} - self._seen
        if new:
            self._seen |= new
            self._offer_services()

    def _look_for_moment(self) -> None:
        """Page back until the lines reach to the moment that is wanted, then show it."""
        assert self._moment is not None
        lines = self.pane.lines
        back = not reaches_back_to(lines, self._moment) and self._reader.has_earlier and self.place.service
        if back and self._pages_back < _MOST_PAGES_BACK:
            self._pages_back += 1
            self._reader.read_earlier()
            return
        found = first_since(lines, self._moment)
        self._moment = None
        if found is not None:
            self.pane.show_line(found)

    def _follow_changed(self, follow: bool) -> None:
        if follow and not self._reader.at_end:
            self._read()

    def _failed(self, error: ApiError) -> None:
        if error.code is ErrorCode.NOT_FOUND:
            self.pane.replace([])
        else:
            notify_problem(self._shell, error)
        self._say_state()

    def _say_state(self) -> None:
        connection = self._feed.connection
        more = self._reader.has_earlier
        reason = why_not(connection) or ("" if more else "These are all there are.")
        self.earlier.allow(reason, "Read older lines; scrolling to the top does the same")
        words = "" if self._reader.at_end else "Newer lines are not shown: Follow brings them back"
        self._note.setText(words)
        self.pane.show_empty_text(self._empty_words())

    def _empty_words(self) -> str:
        if not self._feed.connection.live:
            return why_not(self._feed.connection)
        narrowed = self.pane.narrow
        if self._reader.loading or self._reader.place != self.place:
            return "Searching the whole log …" if narrowed else "Reading …"
        if (refusal := self._reader.refusal) is not None:
            return refusal.words()
        if narrowed:
            return nothing_found(self.place, self.service.currentText(), self.run.currentText())
        return "Nothing has been written yet."

    def _show_connection(self, connection: Connection) -> None:
        if connection.live:
            self._reader.go_on()
        self._say_state()

    def _ask_where_to_save(self) -> None:
        name = f"{self.place.service or 'soulsgui'}.log"
        kinds = "Log files (*.log *.txt);;All files (*)"
        ask_where_to_save("Save the lines shown", name, kinds, self.save_to, self)

    def save_to(self, path: str) -> None:
        """Write the lines shown into a file, and tell what became of it."""
        words = as_file(self.pane.shown)
        write_file(self._shell, path, words.encode)

    def showEvent(self, event: QShowEvent) -> None:
        """Show the present."""
        super().showEvent(event)
        self._feed.lists.runs.want()
        self._offer_services()
        self._say_state()

    def hideEvent(self, event: QHideEvent) -> None:
        """Keep the arrangement."""
        super().hideEvent(event)
        self._memory.keep(self.tabs)
