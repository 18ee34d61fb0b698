"""The live curve of a run: its history and the rows that come after it, without gap or double.

Rows of episodes have numbers without gaps and are stored before they are sent: a missing number shows, and
asking again always mends it. Rows of updates are sent and stored side by side: the history may end before the
first live row, and is then asked for again until it reaches it.

The history of a long run comes in buckets. What is in view is asked for again where that makes it finer.
"""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.plotting.rows import RETURN, STORED, Axis
from soulsgui.gui.plotting.series import Series
from soulsgui.wire.control import History, HistoryQueryParams
from soulsgui.wire.messages.metrics import (
    RESOURCE_PREFIX,
    AttemptRow,
    AttemptStart,
    EpisodeRows,
    ResourceRow,
    Row,
    UpdateRow,
)

_ASK_EVERY_MS = 400
_FIRST_RETRY_MS = 500
_LONGEST_RETRY_MS = 10_000
_MOST_ASIDE = 20_000
# More are asked for again, in buckets.
_MOST_LIVE = 10_000

Update = tuple[int, int]
"""An update's name: attempt and number."""


def leaves_gap(stored: Update, first_live: UpdateRow) -> bool:
    """Whether updates may be missing between the last stored one and the first live one."""
    follows = (first_live.attempt, first_live.previous) == stored
    return (first_live.attempt, first_live.update) > stored and not follows


class LiveCurve(QObject):
    """One metric of one run, kept up to date while its widget is seen.

    Signals:
        replaced: There is another series to draw.
        loaded: The history came, with the names of the metrics and the beginnings of attempts.
        changed: Rows came.
        failed: The history can't be had now; with the `ApiError`. It is asked for again.
    """

    replaced = Signal()
    loaded = Signal()
    changed = Signal()
    failed = Signal(object)

    def __init__(self, feed: Feed, widget: QWidget) -> None:
        super().__init__(widget)
        self._feed = feed
        self._widget = widget
        self._axis = Axis.EPISODE
        self._weight = 0.95
        self._view = self._part = (0.0, 0.0)
        self.metrics: list[str] = []
        self.clients: list[str] = []
        self.attempts: list[AttemptStart] = []
        self.series = Series("", RETURN)
        whole = partial(self._query, None, None)
        self._fetch = Fetch(widget, whole, _ASK_EVERY_MS, came=self._take_history, failed=self._not_had)
        self.finer = Fetch(widget, self._ask_finer, came=self._take_finer, failed=self.failed)
        self._retry = QTimer(self, singleShot=True)
        self._retry.timeout.connect(self._fetch.request)
        self._aside: list[Row] = []
        self._attempts: dict[int, Row] = {}
        self._newest: dict[str, Update] = {}
        self._begin("", RETURN)

    def follow(self, run: str, metric: str, client: str = "") -> None:
        """Draw a metric of a run, or of one client in it; nothing happens when it is drawn already."""
        if (run, metric, client) != (self.series.run_id, self.series.metric, self.series.client):
            if run != self.series.run_id:
                self.metrics, self._attempts, self._newest = [], {}, {}
            self._begin(run, metric, client)

    def renew(self) -> None:
        """Ask for the history again: what came live may have gaps."""
        self._begin_tail()
        self._ask_now()

    def show_along(self, axis: Axis) -> None:
        """Give x another meaning, now and for later series."""
        self._axis = axis
        self.series.show_along(axis)
        self.finer.forget()
        needs_updates = axis is Axis.UPDATE and self.series.of_episodes
        if self.series.in_buckets or not self.is_loaded or needs_updates:
            # Buckets that are drawn, or on their way, are of equal width along the other axis.
            self.renew()

    def smooth_with(self, weight: float) -> None:
        """Smooth with another weight, now and for later series."""
        self._weight = weight
        self.series.smooth_with(weight)

    def look_at(self, left: float, right: float) -> bool:
        """A part of x is in view: ask for it where it can be drawn finer, and return whether it can."""
        self._view = left, right
        finer = self.is_loaded and self.series.to_refine(left, right) is not None
        if finer:
            self.finer.request()
        return finer

    @property
    def is_loaded(self) -> bool:
        """Whether the history came."""
        return self._stored is not None

    def _begin(self, run: str, metric: str, client: str = "") -> None:
        self.series = Series(run, metric, axis=self._axis, weight=self._weight, client=client)
        self.attempts = []
        self._stored: Update | None = None
        self.finer.forget()
        self._begin_tail()
        self.replaced.emit()
        self._ask_now()

    def _begin_tail(self) -> None:
        """From here on live rows are collected: the history is to meet the first of them."""
        self._fetch.forget()
        self._retry.stop()
        self._retry_ms = _FIRST_RETRY_MS
        self._tail: list[Row] = []
        self._aside = []
        self.complete = False  # whether history and live rows have met
        self._renewing = True

    def _ask_now(self) -> None:
        if self.series.run_id:
            self._fetch.request()

    def _query(self, start: float | None, end: float | None) -> Call | None:
        if not self._feed.connection.live:
            return None
        series = self.series
        asked = HistoryQueryParams(
            run=series.run_id,
            metric=series.metric,
            client=series.client,
            x=STORED[series.axis],
            start=start,
            end=end,
            missing_ok=True,  # the choice may be one that was made for another run
        )
        return self._feed.call("history.query", asked.model_dump(exclude_defaults=True))

    def _ask_finer(self) -> Call | None:
        part = self.series.to_refine(*self._view)
        if part is None:
            return None
        self._part = part
        return self._query(*self.series.stored_range(*part))

    def _take_finer(self, history: History) -> None:
        self.series.refine(history, *self._part)
        self.changed.emit()

    def _take_history(self, history: History) -> None:
        if (history.run_id, history.metric) != (self.series.run_id, self.series.metric):
            return
        self.series.load(history)
        # An attempt may have been told of before it was stored.
        self.series.append([*self._attempts.values(), *self._tail])
        self._stored = history.last_update
        self._renewing = False
        self.metrics = sorted({*self.metrics, *history.metrics})
        self.attempts = history.attempts
        self.clients = history.clients
        self._look_for_gap()
        self.loaded.emit()
        self.changed.emit()

    def _not_had(self, error: object) -> None:
        self.failed.emit(error)
        self._ask_later()

    def _ask_later(self) -> None:
        self._retry.start(self._retry_ms)
        self._retry_ms = min(2 * self._retry_ms, _LONGEST_RETRY_MS)

    def take(self, rows: Sequence[Row]) -> None:
        """Take rows as the feed brings them; they wait while nobody looks."""
        mine = [row for row in rows if self._concerns(row)]
        if not self._widget.isVisible():
            self._aside += mine
            if len(self._aside) > _MOST_ASIDE:
                self.renew()
        elif mine:
            self._append(mine)

    def wake(self) -> None:
        """Somebody looks again: draw what waited."""
        waited, self._aside = self._aside, []
        if waited:
            self._append(waited)

    def go_on(self) -> None:
        """The connection is back: ask for what could not be had."""
        if not self.complete:
            self._ask_now()

    def _concerns(self, row: Row) -> bool:
        if row.run_id != self.series.run_id:
            return False
        if isinstance(row, UpdateRow):
            self._newest |= dict.fromkeys(row.values, (row.attempt, row.update))
            self._learn_metrics(row)
            if self.series.of_episodes:
                return self.series.axis is Axis.UPDATE
            return self.series.metric in row.values
        if isinstance(row, ResourceRow):
            return self.series.metric in row.values
        if isinstance(row, AttemptRow):
            self._attempts[row.attempt] = row
            return True
        return isinstance(row, EpisodeRows) and self.series.of_episodes

    def _learn_metrics(self, row: UpdateRow) -> None:
        """A run that has just begun has no history yet that could name them."""
        if self._stored is not None and not row.values.keys() <= set(self.metrics):
            self.metrics = sorted({*self.metrics, *row.values})
            self.loaded.emit()

    def _append(self, rows: list[Row]) -> None:
        if not self.complete:
            self._tail += rows
            if len(self._tail) > _MOST_ASIDE:
                self.renew()
        if not self._renewing:
            self.series.append(rows)
            self._look_for_gap()
            self.changed.emit()
            if self.series.live_rows > _MOST_LIVE:
                self.renew()

    def _look_for_gap(self) -> None:
        if self.series.metric.startswith(RESOURCE_PREFIX):
            self.complete = True
        elif self.series.of_episodes:
            self.complete = not self.series.missed_rows
            if not self.complete:
                # Stored before they were sent: whatever is missing is in the next answer.
                self.renew()
        elif not self.complete:
            assert self._stored is not None
            first = next((row for row in self._tail if isinstance(row, UpdateRow)), None)
            if first is None:
                # The newest may have been sent before this metric was chosen, and stored after the question.
                missed = self._newest.get(self.series.metric, (0, 0)) > self._stored
            else:
                missed = leaves_gap(self._stored, first)
                self.complete = not missed
            if missed and not self._retry.isActive() and not self._fetch.waiting:
                self._ask_later()
        if self.complete:
            self._tail = []
