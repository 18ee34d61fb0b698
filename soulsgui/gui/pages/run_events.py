"""What happened to the chosen run."""

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QStackedLayout, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.icons import dress
from soulsgui.gui.models.events import EventsModel
from soulsgui.gui.shell import notify_problem
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import Event, RunSummary

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell


class EventsTab(QWidget):
    """Lists the events of one run; each leads to the log of its service.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._shell = shell
        self._run = ""
        self.model = EventsModel(self)
        self.table = Table("runEventsTable", self.tr("Events of the run"), self)
        self._build()
        self._fetch = Fetch(self, self._ask)
        self._fetch.came.connect(self._take)
        self._fetch.failed.connect(lambda error: notify_problem(shell, error))
        feed.event_arrived.connect(self._arrived)

    def _build(self) -> None:
        self.table.setModel(self.model)
        self.table.setSelectionMode(Table.SelectionMode.SingleSelection)
        self.table.sort_by(self.model.column_number("time"), downwards=True)
        self.table.selectionModel().currentRowChanged.connect(self._show_chosen)
        self.table.row_opened.connect(lambda _: self._show_log())
        self._empty = EmptyState("bell", "", "", parent=self)
        self._stack = QStackedLayout()
        self._stack.addWidget(self.table)
        self._stack.addWidget(self._empty)
        self._words = QLabel(self)
        self._words.setWordWrap(True)
        self._words.setTextFormat(Qt.TextFormat.PlainText)
        self._words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._words.setProperty("weight", "muted")
        self.log = QPushButton(self.tr("Show the log"), self)
        dress(self.log, "log")
        self.log.clicked.connect(self._show_log)
        foot = QHBoxLayout()
        foot.addWidget(self._words, 1)
        foot.addWidget(self.log, 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 0)
        column.addLayout(self._stack, 1)
        column.addLayout(foot)
        self._show_chosen()

    def show_run(self, run: RunSummary | None) -> None:
        """Show the events of a run."""
        name = run.id if run is not None else ""
        if name != self._run:
            self._run = name
            self._fetch.forget()
            self._empty.say(self.tr("Reading the events …"), "")
            self._show(self._feed.events)
            self.refresh()

    def refresh(self) -> None:
        """Ask for the events again."""
        if self._run:
            self._fetch.request()

    def show_connection(self) -> None:
        """Grey what is no longer the present."""
        self.table.setEnabled(self._feed.connection.live)

    @property
    def chosen(self) -> Event | None:
        """The event in the current row."""
        return self.model.at(self.table.currentIndex().row())

    def _ask(self) -> Call | None:
        if not self._run or not self._feed.connection.commands_possible:
            return None
        return self._feed.call("history.events", {"since": 0})

    def _take(self, result: dict[str, Any]) -> None:
        self._empty.say(self.tr("Nothing happened yet"), self.tr("Starts, stops and crashes stand here."))
        self._show([Event.model_validate(one) for one in result["events"]])

    def _show(self, events: list[Event]) -> None:
        self.model.show_run(self._run, events)
        self._settle()

    def _arrived(self, event: Event) -> None:
        self.model.add(event)
        self._settle()

    def _settle(self) -> None:
        self._stack.setCurrentIndex(0 if self.model.rowCount() else 1)
        told = ["what"]
        for name in ("cause", "remedy"):
            # A column without a word would take room that the others lack.
            said = any(getattr(event, name) for event in self.model.records)
            self.table.setColumnHidden(self.model.column_number(name), not said)
            told += [name] if said else []
        self.table.share_room([self.model.column_number(name) for name in told])
        self._show_chosen()

    def _show_chosen(self, *_: object) -> None:
        event = self.chosen
        self.log.setEnabled(event is not None)
        words = [] if event is None else [event.what, event.cause, event.remedy]
        self._words.setText(". ".join(part.rstrip(".") for part in words if part))

    def _show_log(self) -> None:
        if self.chosen is not None:
            self._shell.show_page("logs", service=self.chosen.service or "trainer", run=self._run)
