"""The bell: what happened since the user last looked, kept until it is seen."""

import time

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Feed
from soulsgui.gui.geometry import bring_onto_screen, room_for
from soulsgui.gui.icons import colours_of, dress, icon
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.states import level_look
from soulsgui.gui.text import plural
from soulsgui.gui.widgets.labels import Heading
from soulsgui.wire.control import Event

_SHOWN = 60
_CHARACTERS = 84
_LINES = 26
_AROUND_PX = 40


def unseen(events: list[Event], seen: int) -> list[Event]:
    """Return the warnings and errors after the event that was seen last."""
    return [event for event in events if event.number > seen and event.level != "info"]


def event_text(event: Event, now: float) -> str:
    """Return an event in a line or two: when, what, why and what to do."""
    reasons = " ".join(text.sentence(part) for part in (event.cause, event.remedy) if part)
    first = f"{text.clock(event.time, now)}  {event.what}"
    return f"{first}\n{reasons}" if reasons else first


class EventsPopup(QFrame):
    """The events under the bell, newest first.

    Signals:
        chosen: The user wants to know more about this `Event`.
        closed: It was closed.
    """

    chosen = Signal(object)
    closed = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("eventList")
        self.setProperty("part", "card")
        self._events: list[Event] = []
        self._none = QLabel("Nothing has happened yet.", self)
        self._none.setProperty("weight", "muted")
        self.list = QListWidget(self)
        self.list.setProperty("part", "navigation")
        self.list.setWordWrap(True)
        self.list.setAccessibleName("Events, newest first")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemActivated.connect(self._activated)
        self.list.itemClicked.connect(self._activated)
        head = QHBoxLayout()
        head.addWidget(Heading("Events", 0, self), 1)
        hint = QLabel("Click to see the log", self)
        hint.setProperty("weight", "muted")
        head.addWidget(hint)
        column = QVBoxLayout(self)
        column.addLayout(head)
        column.addWidget(self._none)
        column.addWidget(self.list)

    def show_events(self, events: list[Event], seen: int) -> None:
        """Fill the list; what was not seen yet is bold."""
        self._events = list(reversed(events[-_SHOWN:]))
        self.list.clear()
        now = time.time()
        for event in self._events:
            look = level_look(event.level)
            item = QListWidgetItem(icon(look.icon, colours_of(self), look.tone), event_text(event, now))
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{look.word}: {event.what} {event.cause}")
            font = self.list.font()
            font.setBold(event.number > seen)
            item.setFont(font)
            self.list.addItem(item)
        self._none.setVisible(not events)
        self.list.setVisible(bool(events))
        metrics = self.list.fontMetrics()
        self.list.setIconSize(QSize(metrics.height(), metrics.height()))
        room = room_for(self)
        self.list.setFixedWidth(min(metrics.averageCharWidth() * _CHARACTERS, room.width() - _AROUND_PX))
        self.list.ensurePolished()
        self.list.doItemsLayout()
        needed = sum(self.list.sizeHintForRow(row) for row in range(self.list.count()))
        most = min(metrics.lineSpacing() * _LINES, room.height() - _AROUND_PX - 2 * metrics.lineSpacing())
        self.list.setFixedHeight(min(needed + 3 * metrics.lineSpacing(), most))
        self.adjustSize()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Close with Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Tell of it."""
        super().closeEvent(event)
        self.closed.emit()

    def _activated(self, item: QListWidgetItem) -> None:
        if not self.isVisible():
            # On some desktops a click activates, too.
            return
        chosen = self._events[self.list.row(item)]
        self.close()
        self.chosen.emit(chosen)


class Bell(QToolButton):
    """Counts the warnings and errors that were not seen, and shows all events when clicked.

    Signals:
        chosen: The user wants to know more about this `Event`.

    Attributes:
        events: The open list of events; None while it is closed.
    """

    chosen = Signal(object)

    def __init__(self, feed: Feed, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("bell")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._feed = feed
        self._preferences = preferences
        self.events: EventsPopup | None = None
        self.clicked.connect(self.open)
        feed.snapshot_taken.connect(self._count)
        feed.event_arrived.connect(self._arrived)
        self._count()

    def open(self) -> None:
        """Show the events; from now on they were seen."""
        if self.events is not None:
            self.events.close()
        made = EventsPopup(self)
        made.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        made.chosen.connect(self.chosen)
        made.closed.connect(self._closed)
        self.events = made
        made.show_events(self._feed.events, self._seen())
        corner = self.mapToGlobal(QPoint(self.width() - made.width(), self.height() + 2))
        made.move(corner)
        bring_onto_screen(made)
        made.show()
        (made.list if self._feed.events else made).setFocus()
        self._mark_seen()

    def _closed(self) -> None:
        self.events = None

    def _arrived(self, event: Event) -> None:
        if self.events is not None:
            self.events.show_events(self._feed.events, self._seen())
            self._mark_seen()
        self._count()

    def _server(self) -> str:
        return self._feed.hello.server_id if self._feed.hello is not None else ""

    def _seen(self) -> int:
        return self._preferences.seen_event(self._server())

    def _mark_seen(self) -> None:
        if self._feed.events and self._server():
            self._preferences.set_seen_event(self._server(), self._feed.events[-1].number)
        self._count()

    def _count(self) -> None:
        waiting = unseen(self._feed.events, self._seen()) if self._server() else []
        worst = Tone.BAD if any(event.level == "error" for event in waiting) else Tone.WARNING
        dress(self, "bell", worst if waiting else Tone.TEXT)
        self.setText(str(len(waiting)) if waiting else "")
        words = (
            plural(len(waiting), "{n} event you have not seen", "{n} events you have not seen")
            if waiting
            else "Events"
        )
        self.setToolTip(words)
        self.setAccessibleName(words)
