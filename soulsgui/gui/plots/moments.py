"""The moments of the runs that are drawn: asked for one by one, kept up to date by live rows and events."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.plotting.marks import CHANGES, CHECKPOINTS, EVALUATIONS, RESUMES, TROUBLE, RunMarks
from soulsgui.gui.plotting.rows import Mark
from soulsgui.wire.control import CheckpointList, ConfigValues, Event, EventList, History
from soulsgui.wire.messages.metrics import EVALUATION_RETURN, AttemptStart, Row

_ASK_EVERY_MS = 20
_MOST_EVALUATIONS = 300


class _Question(NamedTuple):
    kind: str
    run: str


class Moments(QObject):
    """What happened in the runs that are drawn.

    Signals:
        changed: There are others.
    """

    changed = Signal()

    def __init__(self, feed: Feed, widget: QWidget) -> None:
        super().__init__(widget)
        self._feed = feed
        self._runs: dict[str, RunMarks] = {}
        self._kinds: frozenset[str] = frozenset()
        self._events: list[Event] = []
        self._questions: list[_Question] = []
        self._asked: _Question | None = None
        self._fetch = Fetch(widget, self._ask, _ASK_EVERY_MS, came=self._came, failed=self._failed)
        feed.rows_arrived.connect(self._take_rows)
        feed.event_arrived.connect(self._event_arrived)

    def show(self, runs: Iterable[str], kinds: Collection[str]) -> None:
        """Know these kinds of moments of these runs."""
        wanted, new = dict.fromkeys(runs), frozenset(kinds) - self._kinds
        added = [run for run in wanted if run not in self._runs]
        self._runs = {run: self._runs.get(run) or RunMarks() for run in wanted}
        self._kinds = frozenset(kinds)
        for run in wanted:
            self._want(run, self._kinds if run in added else new)

    def renew(self) -> None:
        """Ask for all of them again."""
        self._questions = []
        for run in self._runs:
            self._want(run, self._kinds)

    def of(self, run: str) -> list[Mark]:
        """Return the moments of a run, in the order of time."""
        return self._runs[run].of(self._kinds) if run in self._runs else []

    def take_attempts(self, run: str, attempts: Iterable[AttemptStart]) -> None:
        """Take the beginnings of attempts, as a history tells them."""
        if run in self._runs:
            self._runs[run].take_attempts(attempts)

    def _want(self, run: str, kinds: Iterable[str]) -> None:
        self._questions += [_Question(kind, run) for kind in sorted(kinds) if kind != RESUMES]
        if self._questions:
            self._fetch.request()

    def _ask(self) -> Call | None:
        if not self._feed.connection.live or not self._questions:
            return None
        self._asked = self._questions.pop(0)
        kind, run = self._asked
        if kind == CHECKPOINTS:
            return self._feed.call("checkpoint.list", {"run": run})
        if kind == CHANGES:
            return self._feed.call("config.get", {"run": run})
        if kind == TROUBLE:
            return self._feed.call("history.events", {"since": 0})
        assert kind == EVALUATIONS
        asked = {"run": run, "metric": EVALUATION_RETURN, "points": _MOST_EVALUATIONS, "missing_ok": True}
        return self._feed.call("history.query", asked)

    def _came(self, result: CheckpointList | ConfigValues | EventList | History) -> None:
        assert self._asked is not None
        marks = self._runs.get(self._asked.run)
        if isinstance(result, EventList):
            # They are told of all runs at once.
            self._events = result.events
            self._questions = [question for question in self._questions if question.kind != TROUBLE]
            self._share_events()
        elif marks is not None and isinstance(result, CheckpointList):
            marks.take_list(result.checkpoints)
        elif marks is not None and isinstance(result, ConfigValues):
            marks.take_changes(result.changes)
        elif marks is not None and isinstance(result, History):
            marks.take_evaluations(result)
        self.changed.emit()
        self._go_on()

    def _failed(self, _error: object) -> None:
        # A run without marks is still of use; its curve tells what is wrong with it.
        self._go_on()

    def _go_on(self) -> None:
        if self._questions:
            self._fetch.request()

    def _share_events(self) -> None:
        for run, marks in self._runs.items():
            marks.take_events(event for event in self._events if event.run_id == run)

    def _event_arrived(self, event: Event) -> None:
        if event.run_id in self._runs and TROUBLE in self._kinds:
            self._events.append(event)
            self._share_events()
            self.changed.emit()

    def _take_rows(self, rows: list[Row]) -> None:
        found = [marks.take_rows(rows, run) for run, marks in self._runs.items()]
        if any(found):
            self.changed.emit()
