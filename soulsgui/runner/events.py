"""What is worth knowing tomorrow morning, numbered without gaps over restarts of the runner."""

import logging
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from soulsgui.errors import printable
from soulsgui.runner.status_text import count_words
from soulsgui.system import atomic_write
from soulsgui.wire.control import Event

logger = logging.getLogger(__name__)

Level = Literal["info", "warning", "error"]

EVENTS_FILE = "events.jsonl"  # name of the file in the folder of a runner
UNREADABLE_FILE = "events_unreadable.jsonl"
KEPT = 2000  # events that are remembered; the file holds at most twice as many


_LONGEST_CAUSE = 2000
_MOST_UNREADABLE_BYTES = 2**20
_MOST_READ_BYTES = 2**24


class EventLog:
    """The events of a runner, in memory and in a file of JSON lines."""

    def __init__(
        self, path: Path, on_event: Callable[[Event], None], wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._on_event = on_event
        self._wall_clock = wall_clock
        self._events = deque(read_events(path), maxlen=KEPT)
        self._lines = 0
        lost = self._keep_unreadable()
        self._compact()
        if lost:
            what = f"{count_words(lost, 'line')} of earlier events can't be read; kept in {UNREADABLE_FILE}."
            self.add("warning", what, "The file was changed or damaged, or there was no room for it.")

    @property
    def last_number(self) -> int:
        """Number of the newest event, 0 before the first."""
        return self._events[-1].number if self._events else 0

    def add(
        self,
        level: Level,
        what: str,
        cause: str = "",
        remedy: str = "",
        service: str = "",
        run_id: str = "",
    ) -> Event:
        """Note that something happened."""
        event = Event(
            number=self.last_number + 1,
            time=self._wall_clock(),
            level=level,
            what=printable(what),
            cause=printable(cause, _LONGEST_CAUSE),
            remedy=printable(remedy),
            service=service,
            run_id=run_id,
        )
        self._events.append(event)
        self._write(event)
        self._on_event(event)
        return event

    def since(self, number: int) -> list[Event]:
        """Return the remembered events with greater numbers, oldest first."""
        return [event for event in self._events if event.number > number]

    def newest(self, count: int) -> list[Event]:
        """Return the last events, oldest first."""
        return list(self._events)[-count:]

    def _write(self, event: Event) -> None:
        try:
            if self._lines >= 2 * KEPT:
                self._compact()
                return
            with self._path.open("a", encoding="utf-8") as file:
                file.write(event.to_json() + "\n")
            self._lines += 1
        except OSError as error:
            logger.error("an event can't be written to %s: %s", self._path.name, error)

    def _keep_unreadable(self) -> int:
        """Keep lines aside that are no events, the newest MB of them; return how many there were now.

        One torn by a crash, the last, is none.
        """
        lines = _lines(self._path)
        bad = [line for line in lines if line.endswith(b"\n") and Event.read(line) is None]
        if bad:
            aside = self._path.with_name(UNREADABLE_FILE)
            before = aside.read_bytes() if aside.is_file() else b""
            atomic_write(aside, (before + b"".join(bad))[-_MOST_UNREADABLE_BYTES:])
        return len(bad)

    def _compact(self) -> None:
        """Write the remembered events alone; this also takes a line torn by a crash away."""
        text = "".join(event.to_json() + "\n" for event in self._events)
        atomic_write(self._path, text.encode())
        self._lines = len(self._events)


def read_events(path: Path) -> list[Event]:
    """Return the newest events of a file, oldest first; lines that are none are left out."""
    found = (Event.read(line) for line in _lines(path)[-2 * KEPT :])
    return [event for event in found if event is not None]


def _lines(path: Path) -> list[bytes]:
    """Return the last lines of a file with their ends; none of what is no file, or is not there."""
    if not path.is_file():
        return []
    with path.open("rb") as file:
        skipped = max(path.stat().st_size - _MOST_READ_BYTES, 0)
        file.seek(skipped)
        lines = file.read(_MOST_READ_BYTES).splitlines(keepends=True)
    return lines[1:] if skipped else lines
