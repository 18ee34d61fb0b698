"""What is worth knowing tomorrow morning, numbered without gaps over restarts of the runner."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from soulsgui.errors import printable
from soulsgui.runner.journal import Journal
from soulsgui.wire.control import Event
from soulsgui.wire.control.states import Topic

Level = Literal["info", "warning", "error"]

EVENTS_FILE = "events.jsonl"  # name of the file in the folder of a runner

_LONGEST_CAUSE = 2000


class EventLog:
    """The events of a runner."""

    def __init__(
        self, path: Path, on_event: Callable[[Event], None], wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._on_event = on_event
        self._wall_clock = wall_clock
        self._journal = Journal(path, Event)
        self.tell_loss(self._journal.loss)

    def tell_loss(self, loss: str) -> None:
        """Warn of lines that are lost from a file of ours, if there are any."""
        if loss:
            self.add("warning", loss, "The file was changed or damaged, or there was no room for it.")

    @property
    def last_number(self) -> int:
        """Number of the newest event, 0 before the first."""
        return self._journal.last_number

    def add(
        self,
        level: Level,
        what: str,
        cause: str = "",
        remedy: str = "",
        service: str = "",
        run_id: str = "",
        topic: Topic = "",
    ) -> Event:
        """Note that something happened."""
        event = Event(
            number=0,
            time=self._wall_clock(),
            level=level,
            what=printable(what),
            cause=printable(cause, _LONGEST_CAUSE),
            remedy=printable(remedy),
            service=service,
            run_id=run_id,
            topic=topic,
        )
        return self.take(event)

    def take(self, event: Event) -> Event:
        """Note an event under the next number, which another runner may have noted under one of its own."""
        noted = event.model_copy(update={"number": self.last_number + 1})
        self._journal.write(noted)
        self._on_event(noted)
        return noted

    def since(self, number: int) -> list[Event]:
        """Return the remembered events with greater numbers, oldest first."""
        return self._journal.since(number)

    def newest(self, count: int) -> list[Event]:
        """Return the last events, oldest first."""
        return self._journal.since(0)[-count:]
