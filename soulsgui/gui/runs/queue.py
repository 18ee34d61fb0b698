"""A run that waits in the queue: what it is, moved and taken out; and the bin of the runs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Call, Feed, together
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import STOP_SWEEP, Question, algorithm_title, purge_question, run_title
from soulsgui.gui.runs.models import QueuedRow
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import TAB_MARGINS, column, flow
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.labels import Heading, muted, wrapped
from soulsgui.gui.widgets.table import Deed
from soulsgui.wire.control import RunSummary


class QueuePanel(QWidget):
    """The chosen run of the queue."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._row: QueuedRow | None = None
        self._title = Heading("", 1, self)
        self._facts = muted(wrapped("", self, selectable=True))
        words = (
            ("first", Words("Begin next", "Moving …", "Moved"), "arrow-up", lambda place: 1),
            ("earlier", Words("Earlier", "Moving …", "Moved"), "arrow-up", lambda place: place - 1),
            ("later", Words("Later", "Moving …", "Moved"), "arrow-down", lambda place: place + 1),
        )
        self.buttons: dict[str, CommandButton] = {
            name: CommandButton(said, icon, partial(self._move, to), self) for name, said, icon, to in words
        }
        taking = Words("Take out…", "Taking it out …", "Taken out")
        self.buttons["remove"] = AskingButton(taking, "remove", self._remove, self._question, self)
        taking = Words("Take its experiment out…", "Taking it out …", "Taken out")
        self.buttons["all"] = AskingButton(taking, "remove", self._remove_all, self._question_of_all, self)
        stopping, stop = Words("Stop its sweep…", "Stopping …", "Stopped"), partial(feed.call, "sweep.stop")
        self.buttons["sweep"] = AskingButton(stopping, "stop", stop, lambda: STOP_SWEEP, self)
        for button in self.buttons.values():
            button.problem.connect(partial(notify_problem, shell))
        line = flow(*self.buttons.values(), gap_px=GAP_S)
        column(self._title, self._facts, line, None, on=self, margins=TAB_MARGINS)

    def deeds(self) -> list[Deed]:
        """Return what the menu of the row repeats."""
        return list(self.buttons.values())

    def show_row(self, row: QueuedRow, last: int) -> None:
        """Show a run of the queue, in which so many wait."""
        self._row = row
        self._title.setText(row.name or f"Run {row.number} of the queue")
        facts = [f"place {row.place} of {last}", f"number {row.number}"]
        facts += [row.env_id, algorithm_title(row), f"seed {row.seed}"]
        facts += [f"experiment {row.experiment}"] if row.experiment else []
        facts += [f"trial of the sweep {row.sweep}"] if row.sweep else []
        begins = "It begins when those before it have ended, with the settings it was queued with"
        begins += f": {row.note}" if row.note else ""
        self._facts.setText(f"{' · '.join(fact for fact in facts if fact)}\n{begins}.")
        away, first, end = why_not(self._feed.connection), row.place == 1, row.place == last
        for name, refusal, hint in (
            ("first", "It begins next already." if first else "", "It begins before all others that wait"),
            ("earlier", "It begins next already." if first else "", "One place forward"),
            ("later", "It is the last one." if end else "", "One place back"),
            ("remove", "", "Its settings are discarded"),
            ("all", "", "All runs of its experiment that wait"),
            ("sweep", "", "End it, with this trial"),
        ):
            self.buttons[name].allow(away or refusal, hint)
        self.buttons["all"].setVisible(bool(row.experiment))
        self.buttons["sweep"].setVisible(bool(row.sweep))

    def _move(self, to: Any) -> Call | None:
        if self._row is None:
            return None
        params = {"number": self._row.number, "place": to(self._row.place)}
        return self._feed.call("run.queue.move", params)

    def _question(self) -> Question | None:
        sentence = "Its settings are discarded; no run is lost."
        return Question(f"Take {self._title.text()} out of the queue?", sentence, "Take out")

    def _remove(self) -> Call | None:
        row = self._row
        return self._feed.call("run.queue.remove", {"which": str(row.number)}) if row is not None else None

    def _question_of_all(self) -> Question | None:
        sentence = "The settings of those that wait are discarded; runs that have begun stay."
        name = self._row.experiment if self._row is not None else ""
        return Question(f"Take all waiting runs of {name} out of the queue?", sentence, "Take out")

    def _remove_all(self) -> Call | None:
        row = self._row
        return self._feed.call("run.queue.remove", {"which": row.experiment}) if row is not None else None


class BinPanel(QWidget):
    """The chosen runs of the bin.

    Signals:
        changed: Runs were put back or removed.
    """

    changed = Signal()

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._rows: Sequence[RunSummary] = ()
        self._title = Heading("", 1, self)
        self._facts = muted(wrapped("", self))
        words = Words("Put back", "Putting back …", "Put back")
        self.restore = CommandButton(words, "reset", self._restore, self)
        words = Words("Remove for good…", "Removing …", "Removed")
        self.purge = AskingButton(words, "remove", self._purge, self._question, self)
        for button in (self.restore, self.purge):
            button.problem.connect(partial(notify_problem, shell))
            button.finished.connect(self.changed)
        line = flow(self.restore, self.purge, gap_px=GAP_S)
        column(self._title, self._facts, line, None, on=self, margins=TAB_MARGINS)

    def deeds(self) -> list[Deed]:
        """Return what the menu of the rows repeats."""
        return [self.restore, self.purge]

    def show_rows(self, rows: Sequence[RunSummary]) -> None:
        """Show these runs of the bin."""
        self._rows = rows
        self._title.setText(self._what())
        which = "it is" if len(rows) == 1 else "they are"
        freed = f"{text.size(self._bytes)} become free when {which} removed for good."
        self._facts.setText(freed if rows else "")
        away = why_not(self._feed.connection)
        self.restore.allow(away, "Put them among the runs again")
        self.purge.allow(away, "Make room; they can't be put back then")

    @property
    def _bytes(self) -> int:
        return sum(row.size_bytes for row in self._rows)

    def _what(self) -> str:
        if len(self._rows) == 1:
            return run_title(self._rows[0])
        return f"{len(self._rows)} runs of the bin" if self._rows else "No run of the bin is selected"

    def _restore(self) -> Call:
        return together([self._feed.call("runs.restore", {"run": row.id}) for row in self._rows])

    def _question(self) -> Question | None:
        return purge_question(self._what(), self._bytes).of(*(row.id for row in self._rows))

    def _purge(self) -> Call:
        return together([self._feed.call("runs.purge", {"run": row.id}) for row in self._rows])
