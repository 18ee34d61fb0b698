"""Which log is looked at, and the questions that bring its lines: newest, older ones, live."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.states import service_title
from soulsgui.gui.widgets.log_pane import written
from soulsgui.wire.control import ApiError, HistoryLogsParams, LogLine, LogLines, RunSummary, ServiceStatus

PAGE_LINES = 1000
"""Lines asked for at once."""

MOST_LINES = 5000
"""As many as are held, and as one question may ask for."""

# Logs that every server has, whatever run is looked at.
_ALWAYS = ("runner", "redis", "trainer", "telemetry")
_FIRST_CLIENT = "client"


@dataclass(frozen=True)
class LogPlace:
    """A log, and which of its lines are wanted."""

    service: str = ""  # name of the service; empty for all of them
    run: str = ""  # id of an earlier run; empty for the present one
    level: str = "debug"  # least level
    words: str = ""  # text that the lines must contain

    def question(self, present_run: str, n: int = PAGE_LINES, before: int | None = None) -> dict[str, Any]:
        """Return the parameters of `history.logs`."""
        asked: dict[str, Any] = {
            "service": self.service,
            "n": n,
            "before": before,
            "level": self.level,
            "filter": self.words,
        }
        if run := self.run or present_run:
            asked["run"] = run
        return HistoryLogsParams.model_validate(asked).model_dump(exclude_defaults=True)


def services_offered(running: Iterable[ServiceStatus], seen: Iterable[str]) -> list[str]:
    """Return the services whose logs can be chosen, in order."""
    names = {*(service.name for service in running), *seen} - set(_ALWAYS)
    return [*_ALWAYS, *sorted(names, key=_by_number)]


def _by_number(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-")
    return (head, int(number)) if number.isdecimal() else (name, -1)


def service_words(name: str) -> str:
    """Return what a service is called on screen."""
    if not name:
        return "All services"
    if name == "runner":
        return "Runner"
    kind = _FIRST_CLIENT if name.startswith(f"{_FIRST_CLIENT}-") else name
    return text.plain(service_title(name, kind))


def run_words(run: RunSummary, now: float) -> str:
    """Return how an earlier run stands in the list: its name and when it began."""
    began = text.clock(run.created, now) if run.created else run.id
    return text.plain(f"{run.name} · {began}" if run.name else began)


def nothing_found(place: LogPlace, service: str, run: str) -> str:
    """Return what was searched without finding a line."""
    if place.words and place.level != "debug":
        what = f"No line of this level or above contains “{place.words}”."
    elif place.words:
        what = f"No line contains “{place.words}”."
    else:
        what = "There are no lines of this level or above."
    where = f"All that is kept of the log was searched: {service}, {run}. Other runs have logs of their own."
    return f"{what}\n{where}"


def first_since(lines: Sequence[LogLine], moment: float) -> LogLine | None:
    """Return the first line written at a moment or after it, the last line when there is none."""
    for line in lines:
        if line.time is not None and line.time >= moment:
            return line
    return lines[-1] if lines else None


def reaches_back_to(lines: Sequence[LogLine], moment: float) -> bool:
    """Whether a line was written before a moment."""
    return any(line.time is not None and line.time < moment for line in lines)


def as_file(lines: Sequence[LogLine]) -> str:
    """Return lines as the text of a file: as they stand in the window, each with its date."""
    days = ("" if line.time is None else f"{datetime.fromtimestamp(line.time):%Y-%m-%d}" for line in lines)
    return "".join(f"{day} {written(line)}".strip() + "\n" for day, line in zip(days, lines, strict=True))


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
    """

    newest = Signal(object)
    earlier = Signal(object)
    live = Signal(object)
    failed = Signal(object)

    def __init__(self, feed: Feed, widget: QWidget, of_run: bool = True) -> None:
        super().__init__(widget)
        self._feed = feed
        self._of_run = of_run
        self.place = LogPlace()
        self.at_end = True
        self.refusal: ApiError | None = None
        self._count = PAGE_LINES
        self._before: int | None = None
        self.has_earlier = False  # whether there may be lines before those that are shown
        self._waiting: list[LogLine] | None = None
        self._newest = Fetch(widget, self._ask_newest, _ASK_EVERY_MS, self._take_newest, self._not_had)
        self._earlier = Fetch(widget, self._ask_earlier, _ASK_EVERY_MS, self._take_earlier, self.failed)
        feed.log_arrived.connect(self._take_live)

    def read(self, place: LogPlace, count: int = PAGE_LINES) -> None:
        """Read the newest lines of a log."""
        self.place = place
        self._count = count
        self.has_earlier, self.refusal = False, None
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
    def loading(self) -> bool:
        """Whether lines are on their way."""
        return self._waiting is not None or self._earlier.waiting

    @property
    def _present_run(self) -> str:
        """The run whose lines are wanted where none is chosen; empty for what is written now by anybody."""
        return self._feed.status.run.id if self._of_run else ""

    def _ask_newest(self) -> Call | None:
        return self._feed.ask("history.logs", self.place.question(self._present_run, self._count))

    def _ask_earlier(self) -> Call | None:
        if self._before is None:
            return None
        return self._feed.ask("history.logs", self.place.question(self._present_run, before=self._before))

    def _take_newest(self, read: LogLines) -> None:
        self.at_end = True
        if self.place.service:
            self._remember(read, self._count)
        else:
            self.has_earlier = len(read.lines) >= self._count < MOST_LINES
        waiting, self._waiting = self._waiting, None
        self.newest.emit(read.lines)
        self._take_live(waiting or [])

    def _take_earlier(self, read: LogLines) -> None:
        self._remember(read, PAGE_LINES)
        self.earlier.emit(read.lines)

    def _remember(self, read: LogLines, asked: int) -> None:
        """Note where to go on reading backwards."""
        if read.lines:
            self._before = read.lines[0].number
        before = self._before
        self.has_earlier = len(read.lines) >= asked and before is not None and before > read.first

    def _not_had(self, error: ApiError) -> None:
        waiting, self._waiting, self.refusal = self._waiting, None, error
        self.failed.emit(error)
        # Live lines show that it goes on.
        self._take_live(waiting or [])

    def _take_live(self, lines: list[LogLine]) -> None:
        if self.place.run:
            return
        if self._waiting is not None:
            self._waiting = [*self._waiting, *lines][-MOST_LINES:]
            return
        mine = [line for line in lines if self.place.service in ("", line.service)]
        if mine and self.at_end:
            self.live.emit(mine)
