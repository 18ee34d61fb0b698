"""Which log is looked at, and the questions that bring it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.log import written
from soulsgui.gui.states import service_title
from soulsgui.wire.control import HistoryLogsParams, LogLine, RunSummary, ServiceStatus

PAGE_LINES = 1000
"""Lines asked for at once."""

MOST_LINES = 5000
"""As many as are held, and as one question may ask for."""

# Logs that every server has, whatever run is looked at.
_ALWAYS = ("runner", "redis", "trainer", "telemetry")
_FIRST_CLIENT = "client"


@dataclass(frozen=True)
class LogPlace:
    """A log, and which of its lines are wanted.

    Attributes:
        service: Name of the service; empty for all of them.
        run: Id of an earlier run; empty for the present one.
        level: Least level.
        words: Text that the lines must contain.
    """

    service: str = ""
    run: str = ""
    level: str = "debug"
    words: str = ""

    def question(self, present_run: str, n: int = PAGE_LINES, before: int | None = None) -> dict[str, Any]:
        """Return the parameters of `history.logs`.

        Args:
            present_run: Id of the present run; empty when there is none.
            n: How many lines.
            before: Only lines with smaller numbers.
        """
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
    """Return the services whose logs can be chosen, in order.

    Args:
        running: The services of the server.
        seen: Names of services that lines were seen of.
    """
    names = {*(service.name for service in running), *seen} - set(_ALWAYS)
    return [*_ALWAYS, *sorted(names, key=_by_number)]


def _by_number(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-")
    return (head, int(number)) if number.isdecimal() else (name, -1)


def service_words(name: str) -> str:
    """Return what a service is called on screen."""
    if not name:
        return tr("All services")
    if name == "runner":
        return tr("Runner")
    kind = _FIRST_CLIENT if name.startswith(f"{_FIRST_CLIENT}-") else name
    return service_title(name, kind)


def run_words(run: RunSummary, now: float) -> str:
    """Return how an earlier run stands in the list: its name and when it began."""
    began = text.clock(run.created, now) if run.created else run.id
    return f"{run.name} · {began}" if run.name else began


def nothing_found(place: LogPlace, service: str, run: str) -> str:
    """Return what was searched without finding a line.

    Args:
        place: The log.
        service: What its services are called on screen.
        run: What its run is called on screen.
    """
    if place.words and place.level != "debug":
        what = tr("No line of this level or above contains “{words}”.").format(words=place.words)
    elif place.words:
        what = tr("No line contains “{words}”.").format(words=place.words)
    else:
        what = tr("There is no line of this level or above.")
    where = tr(
        "All that is kept of the log was searched: {service}, {run}. Other runs have logs of their own."
    )
    return f"{what}\n{where.format(service=service, run=run)}"


def first_since(lines: Sequence[LogLine], moment: float) -> LogLine | None:
    """Return the first line written at a moment or after it, the last line when there is none."""
    for line in lines:
        if line.time is not None and line.time >= moment:
            return line
    return lines[-1] if lines else None


def reaches_back_to(lines: Sequence[LogLine], moment: float) -> bool:
    """Whether a line was written before a moment."""
    return any(line.time is not None and line.time < moment for line in lines)


def as_file(lines: Iterable[LogLine]) -> str:
    """Return lines as the text of a file: as they stand in the window, each with its date."""
    return "".join(f"{_day(line)} {written(line)}".strip() + "\n" for line in lines)


def _day(line: LogLine) -> str:
    return "" if line.time is None else f"{datetime.fromtimestamp(line.time):%Y-%m-%d}"
