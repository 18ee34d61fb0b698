"""Log lines: the last few thousand, which of them are wanted, and how one is written. Pure."""

import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """

    least: str = "debug"
    words: str = ""

    def passes(self, line: LogLine, level: str = "") -> bool:
        """Whether a line is wanted.

        Args:
            line: The line.
            level: Level of the line it goes on with, such as a traceback's; for a line without its own.
        """
        if rank(line.level or level) < rank(self.least):
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


class Levels:
    """The level of each line: a line without one (of a traceback) goes on with the line before it."""

    def __init__(self) -> None:
        self._last: dict[str, str] = {}

    def of(self, line: LogLine) -> str:
        """Return the level of the next line; empty when there was none before it."""
        if line.level:
            self._last[line.service] = line.level
        return self._last.get(line.service, "")


class LogBuffer:
    """The newest lines, and those of them that wait to be shown.

    Args:
        limit: How many lines are kept.
    """

    def __init__(self, limit: int = KEPT_LINES) -> None:
        self._lines: deque[tuple[LogLine, str]] = deque(maxlen=limit)
        self._fresh: deque[LogLine] = deque(maxlen=limit)
        self._last: dict[str, int] = {}
        self._levels = Levels()
        self.filter = LogFilter()

    def add(self, lines: Iterable[LogLine]) -> None:
        """Take lines; those with a number already seen of their service are doubles and passed over."""
        for line in lines:
            if line.number > self._last.get(line.service, -1):
                self._last[line.service] = line.number
                level = self._levels.of(line)
                self._lines.append((line, level))
                if self.filter.passes(line, level):
                    self._fresh.append(line)

    def prepend(self, lines: Sequence[LogLine]) -> bool:
        """Put older lines before those that are here.

        Args:
            lines: The lines, oldest first.

        Returns:
            Whether the newest ones had to make room.
        """
        levels = Levels()
        older = [(line, levels.of(line)) for line in lines]
        before = len(self._lines)
        self._lines.extendleft(reversed(older))
        return len(self._lines) < before + len(older)

    def place_of(self, service: str, number: int) -> int | None:
        """Return the place among the wanted lines of one line, None when it is not among them."""
        for place, line in enumerate(self.wanted()):
            if line.service == service and line.number == number:
                return place
        return None

    def take_fresh(self) -> list[LogLine]:
        """Return the wanted lines that came since the last call."""
        fresh = list(self._fresh)
        self._fresh.clear()
        return fresh

    def wanted(self) -> list[LogLine]:
        """Return all wanted lines, of which none is fresh any more."""
        self._fresh.clear()
        return [line for line, level in self._lines if self.filter.passes(line, level)]

    @property
    def lines(self) -> list[LogLine]:
        """All lines, wanted or not, oldest first."""
        return [line for line, _ in self._lines]

    def clear(self) -> None:
        """Forget everything but the filter."""
        self._lines.clear()
        self._fresh.clear()
        self._last.clear()
        self._levels = Levels()

    def __len__(self) -> int:
        return len(self._lines)
