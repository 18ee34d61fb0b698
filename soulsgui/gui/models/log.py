"""Log lines: the last few thousand, which of them are wanted, and how one is written. Pure."""

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from soulsgui.gui.colours import Tone
from soulsgui.wire.control import LogLine

LEVELS = ("debug", "info", "warning", "error")
KEPT_LINES = 5000
_RANKS = {level: rank for rank, level in enumerate(LEVELS)} | {"warn": 2, "critical": 3, "fatal": 3}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def rank(level: str) -> int:
    """Return how important a level is, 0 to 3; a line without one counts as `info`."""
    return _RANKS.get(level.lower(), 1)


def tone(level: str) -> Tone:
    """Return the colour of a level's lines."""
    return (Tone.MUTED, Tone.TEXT, Tone.WARNING, Tone.BAD)[rank(level)]


@dataclass(frozen=True)
class LogFilter:
    """Which lines are wanted.

    Attributes:
        least: Least important level.
        words: Text that the line must contain, whatever its case.
        service: Only this service's lines; empty for all.
    """

    least: str = "debug"
    words: str = ""
    service: str = ""

    def passes(self, line: LogLine) -> bool:
        """Whether a line is wanted."""
        if rank(line.level) < rank(self.least) or (self.service and line.service != self.service):
            return False
        return not self.words or self.words.casefold() in line.text.casefold()


def written(line: LogLine, with_service: bool = True) -> str:
    """Return a line as it stands in the pane: `14:02:09  trainer    INFO     text`.

    Args:
        line: The line.
        with_service: Whether lines of several services stand together.
    """
    parts = []
    if line.time is not None:
        parts.append(f"{datetime.fromtimestamp(line.time):%H:%M:%S}")
    if with_service:
        parts.append(f"{line.service:<10}")
    if line.level:
        parts.append(f"{line.level.upper():<7}")
    parts.append(_CONTROL.sub("", line.text).rstrip())
    return "  ".join(parts)


class LogBuffer:
    """The newest lines, and those of them that wait to be shown.

    Args:
        limit: How many lines are kept.
    """

    def __init__(self, limit: int = KEPT_LINES) -> None:
        self._lines: deque[LogLine] = deque(maxlen=limit)
        self._fresh: deque[LogLine] = deque(maxlen=limit)
        self._last: dict[str, int] = {}
        self.filter = LogFilter()

    def add(self, lines: Iterable[LogLine]) -> None:
        """Take lines; those with a number already seen of their service are doubles and passed over."""
        for line in lines:
            if line.number > self._last.get(line.service, -1):
                self._last[line.service] = line.number
                self._lines.append(line)
                if self.filter.passes(line):
                    self._fresh.append(line)

    def take_fresh(self) -> list[LogLine]:
        """Return the wanted lines that came since the last call."""
        fresh = list(self._fresh)
        self._fresh.clear()
        return fresh

    def wanted(self) -> list[LogLine]:
        """Return all wanted lines, of which none is fresh any more."""
        self._fresh.clear()
        return [line for line in self._lines if self.filter.passes(line)]

    def narrow(self, least: str | None = None, words: str | None = None, service: str | None = None) -> None:
        """Change some parts of the filter."""
        changes = {"least": least, "words": words, "service": service}
        self.filter = replace(
            self.filter, **{name: value for name, value in changes.items() if value is not None}
        )

    def clear(self) -> None:
        """Forget everything but the filter."""
        self._lines.clear()
        self._fresh.clear()
        self._last.clear()

    def __len__(self) -> int:
        return len(self._lines)
