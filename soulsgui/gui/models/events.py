"""Events of one run as their table shows them."""

import time
from collections.abc import Iterable

from PySide6.QtCore import QObject

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.records import Column, RecordsModel
from soulsgui.gui.states import level_look
from soulsgui.wire.control import Event

_RANKS = {"error": 0, "warning": 1, "info": 2}


def columns() -> tuple[Column[Event], ...]:
    """Return every column, from left to right."""
    return (
        Column(
            "time",
            tr("Time"),
            lambda event: text.clock(event.time, time.time()),
            lambda event: event.number,
            number=True,
            width=19,
        ),
        Column(
            "level",
            tr("Level"),
            lambda event: level_look(event.level).word,
            lambda event: _RANKS.get(event.level, 3),
            look=lambda event: level_look(event.level),
            width=16,
        ),
        Column("what", tr("What happened"), lambda event: event.what, width=54),
        Column("cause", tr("Why"), lambda event: event.cause, width=40),
        Column("remedy", tr("What to do"), lambda event: event.remedy, width=30),
    )


class EventsModel(RecordsModel[Event]):
    """What happened to one run."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(columns(), lambda event: str(event.number), parent=parent)
        self._run = ""

    def show_run(self, run: str, events: Iterable[Event]) -> None:
        """Show the events of a run and no others.

        Args:
            run: Its id; empty for none.
            events: Events of any run.
        """
        self._run = run
        self.replace(event for event in events if run and event.run_id == run)

    def add(self, event: Event) -> None:
        """Show a new event if it is of this run and not shown yet."""
        if self._run and event.run_id == self._run:
            self.replace([*self.records, event])
