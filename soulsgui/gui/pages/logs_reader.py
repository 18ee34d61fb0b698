"""Brings log lines: the newest ones, older ones page by page, and those that are written now."""

from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.pages.logs_where import MOST_LINES, PAGE_LINES, LogPlace
from soulsgui.wire.control import ApiError, LogLine

_ASK_EVERY_MS = 150


class LogReader(QObject):
    """Reads one log, or all of them together.

    Lines are numbered per service: the live ones join the newest that were read by their numbers. All logs
    together can't be paged back; there, earlier lines come by asking for more of the newest.

    Signals:
        newest: The newest lines are there, `list[LogLine]`: instead of what is shown.
        earlier: Lines before those that are shown, `list[LogLine]`; empty when there are none.
        live: Lines that were written just now, `list[LogLine]`.
        failed: Lines can't be had; with the `ApiError`.

    Attributes:
        place: What is read.
        at_end: Whether what is shown reaches to the present: live lines join it.
        refusal: Why the newest lines could not be had; None when they could.

    Args:
        feed: The runner.
        widget: What the lines are shown in.
    """

    newest = Signal(object)
    earlier = Signal(object)
    live = Signal(object)
    failed = Signal(object)

    def __init__(self, feed: Feed, widget: QWidget) -> None:
        super().__init__(widget)
        self._feed = feed
        self.place = LogPlace()
        self.at_end = True
        self.refusal: ApiError | None = None
        self._count = PAGE_LINES
        self._before: int | None = None
        self._more = False
        self._waiting: list[LogLine] | None = None
        self._newest = Fetch(widget, self._ask_newest, _ASK_EVERY_MS)
        self._newest.came.connect(self._take_newest)
        self._newest.failed.connect(self._not_had)
        self._earlier = Fetch(widget, self._ask_earlier, _ASK_EVERY_MS)
        self._earlier.came.connect(self._take_earlier)
        self._earlier.failed.connect(self.failed)
        feed.log_arrived.connect(self._take_live)

    # --- what is wanted ---

    def read(self, place: LogPlace, count: int = PAGE_LINES) -> None:
        """Read the newest lines of a log.

        Args:
            place: The log.
            count: How many lines.
        """
        self.place = place
        self._count = count
        self._more, self.refusal = False, None
        self._earlier.forget()
        self._newest.forget()
        self._waiting = []
        self._newest.request()

    def read_earlier(self) -> None:
        """Read the lines before those that are shown."""
        if self.has_earlier and not self.loading:
            if self.place.service:
                self._earlier.request()
            else:
                self.read(self.place, MOST_LINES)

    def go_on(self) -> None:
        """The connection is back: ask for what could not be had."""
        if self._waiting is not None and not self._newest.waiting:
            self._newest.request()

    @property
    def has_earlier(self) -> bool:
        """Whether there may be lines before those that are shown."""
        return self._more

    @property
    def loading(self) -> bool:
        """Whether lines are on their way."""
        return self._waiting is not None or self._earlier.waiting

    # --- questions ---

    @property
    def _present_run(self) -> str:
        return self._feed.status.run.id

    def _ask_newest(self) -> Call | None:
        if not self._feed.connection.live:
            return None
        return self._feed.call("history.logs", self.place.question(self._present_run, self._count))

    def _ask_earlier(self) -> Call | None:
        if not self._feed.connection.live or self._before is None:
            return None
        question = self.place.question(self._present_run, before=self._before)
        return self._feed.call("history.logs", question)

    # --- answers ---

    def _take_newest(self, result: dict[str, Any]) -> None:
        lines = [LogLine.model_validate(line) for line in result["lines"]]
        self.at_end = True
        if self.place.service:
            self._remember(lines, int(result["first"]), self._count)
        else:
            self._more = len(lines) >= self._count < MOST_LINES
        waiting, self._waiting = self._waiting, None
        self.newest.emit(lines)
        self._take_live(waiting or [])

    def _take_earlier(self, result: dict[str, Any]) -> None:
        lines = [LogLine.model_validate(line) for line in result["lines"]]
        self._remember(lines, int(result["first"]), PAGE_LINES)
        self.earlier.emit(lines)

    def _remember(self, lines: list[LogLine], first: int, asked: int) -> None:
        """Note where to go on reading backwards."""
        if lines:
            self._before = lines[0].number
        self._more = len(lines) >= asked and self._before is not None and self._before > first

    def _not_had(self, error: ApiError) -> None:
        self._waiting, self.refusal = None, error
        self.failed.emit(error)

    def _take_live(self, lines: list[LogLine]) -> None:
        if self.place.run:
            return
        if self._waiting is not None:
            self._waiting = [*self._waiting, *lines][-MOST_LINES:]
            return
        mine = [line for line in lines if self.place.service in ("", line.service)]
        if mine and self.at_end:
            self.live.emit(mine)
