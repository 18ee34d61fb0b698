"""The toolbar: the commands of the run, the events, and what belongs to the whole window."""

import time
from typing import TypeVar

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QCloseEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QSizePolicy,
    QToolBar,
    QToolButton,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import BESIDE, colours_of, dress, icon
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import run_title, why_refused
from soulsgui.gui.preferences import Mode, Preferences
from soulsgui.gui.shell.menu import WindowMenu
from soulsgui.gui.shell.server_selector import ServerSelector
from soulsgui.gui.states import level_look, run_is_active
from soulsgui.gui.text import plural
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words, give_menu
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.geometry import bring_onto_screen, room_for
from soulsgui.gui.widgets.labels import Badge, Heading, Label, muted, set_tip
from soulsgui.wire.control import Event

AnyButton = TypeVar("AnyButton", bound=FittingButton)

_TOGETHER_MS = 100  # events come in bursts
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
    return text.plain(f"{first}\n{reasons}" if reasons else first)


class EventsPopup(QFrame):
    """The list of events, newest first.

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
        self._none = muted(Label("Nothing has happened yet.", self))
        self.list = QListWidget(self)
        self.list.setProperty("part", "navigation")
        self.list.setWordWrap(True)
        self.list.setAccessibleName("Events, newest first")
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.itemActivated.connect(self._activated)
        self.list.itemClicked.connect(self._activated)
        head = row((Heading("Events", 0, self), 1), muted(Label("Click to see the log", self)))
        column(head, self._none, self.list, on=self)

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


class EventsButton(QToolButton):
    """Counts the warnings and errors that were not seen, and shows all events when clicked.

    Signals:
        chosen: The user wants to know more about this `Event`.
    """

    chosen = Signal(object)

    def __init__(self, feed: Feed, preferences: Preferences, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("events")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._feed = feed
        self._preferences = preferences
        self.popup: EventsPopup | None = None
        self.clicked.connect(self.open)
        feed.snapshot_taken.connect(self._count)
        self._arrived = Throttle(self, self._show_arrived, _TOGETHER_MS)
        feed.event_arrived.connect(self._arrived.request)
        self._count()

    def open(self) -> None:
        """Show the events; from now on they were seen."""
        if self.popup is not None:
            self.popup.close()
        self.popup = popup = EventsPopup(self)
        popup.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        popup.chosen.connect(self.chosen)
        popup.closed.connect(self._closed)
        popup.show_events(self._feed.events, self._seen())
        popup.move(self.mapToGlobal(QPoint(self.width() - popup.width(), self.height() + 2)))
        bring_onto_screen(popup)
        popup.show()
        (popup.list if self._feed.events else popup).setFocus()
        self._mark_seen()

    def _closed(self) -> None:
        self.popup = None

    def _show_arrived(self) -> None:
        if self.popup is None:
            self._count()
        else:
            self.popup.show_events(self._feed.events, self._seen())
            self._mark_seen()

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
        tone, words = Tone.TEXT, "Events"
        if waiting:
            tone = Tone.BAD if any(event.level == "error" for event in waiting) else Tone.WARNING
            words = plural(len(waiting), "{n} event you have not seen", "{n} events you have not seen")
        self.setText(str(len(waiting)) if waiting else "")
        dress(self, "bell", tone)
        set_tip(self, words)
        self.setAccessibleName(words)


# Words, icon, command and hint of the button that pauses a run and lets it go on.
_PAUSE = (
    Words("&Pause", "Pausing …", "Paused"),
    "pause",
    "run.pause",
    "Clients wait and nothing is learned; everything is kept",
)
_CONTINUE = (
    Words("Contin&ue", "Continuing …", "Continued"),
    "play",
    "run.continue",
    "Let the run continue where it is",
)
_TITLES = {Mode.SERVER: "Server mode", Mode.CLIENT: "Client mode"}
_HINTS = {
    Mode.SERVER: "Train here: runs, clients, curves",
    Mode.CLIENT: "Play for a server with this computer",
}
_ICON_ROOM_PX = 34


def other_side(mode: Mode, run_state: str, playing: bool) -> str:
    """Return what goes on at the side of the program that is not shown; empty for nothing."""
    if mode is Mode.CLIENT:
        return "a run is active" if run_is_active(run_state) else ""
    return "this computer plays" if playing else ""


class Toolbar(QToolBar):
    """Commands of the run on the left; configuration, events, mode and menu on the right.

    Signals:
        mode_wanted: The other side of the program is wanted; with the `Mode`.
        problem: A command was refused; with the `ApiError`.
    """

    mode_wanted = Signal(object)
    problem = Signal(object)

    def __init__(
        self,
        feed: Feed,
        client: ClientSide,
        preferences: Preferences,
        menu: WindowMenu,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("toolbar")
        self.setWindowTitle("Toolbar")
        self.setMovable(False)
        self.setFloatable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.resize_icons()
        self._feed = feed
        self._client = client
        self._mode = Mode.SERVER
        self._of_server: list[QAction] = []
        self._add_run_buttons()
        self._add_right_side(preferences, menu)
        feed.lists.runs.changed.connect(self._update)
        feed.lists.runs.want()
        feed.connection_changed.connect(self._update)
        feed.run_changed.connect(self._update)
        feed.allowed_changed.connect(self._update)
        client.feed.services_changed.connect(self._update)
        client.feed.connection_changed.connect(self._update)
        feed.snapshot_taken.connect(self._update)
        self._update()

    def _add_run_buttons(self) -> None:
        self.new_run = self._placed(FittingButton("&New run…", "add", self), "newRun")
        resume = Words("&Resume", "Resuming …", "Resumed")
        stop = Words("S&top run", "Stopping …", "Stopped")
        save = Words("&Quicksave", "Saving …", "Saved")
        self.resume = self._command(resume, "resume", "resume", "run.resume")
        self.pause = self._command(_PAUSE[0], "pause", "pauseRun", "run.pause")
        self.stop = self._command(stop, "stop", "stopRun", "run.stop")
        self.quicksave = self._command(save, "save", "quicksave", "checkpoint.save")

    def _add_right_side(self, preferences: Preferences, menu: WindowMenu) -> None:
        spring = QWidget(self)
        spring.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(spring)
        self.config = self._placed(FittingButton("&Config", "page-config", self), "config")
        self.events = EventsButton(self._feed, preferences, self)
        self._of_server.append(self.addWidget(self.events))
        self.servers = ServerSelector(preferences, self)
        self._of_server.append(self.addWidget(self.servers))
        self.addWidget(self._mode_switch())
        self.help = QToolButton(self)
        self.help.setObjectName("help")
        self.help.clicked.connect(menu.manual.trigger)
        set_tip(self.help, "Manual: what it says of this page (F1)")
        self.help.setAccessibleName(menu.manual.text().replace("&", ""))
        dress(self.help, "help")
        self.addWidget(self.help)
        self.menu = QToolButton(self)
        self.menu.setObjectName("menu")
        self.menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        give_menu(self.menu, menu)
        self.menu.setToolTip("Menu")
        self.menu.setAccessibleName("Menu")
        dress(self.menu, "more")
        self.addWidget(self.menu)

    def _mode_switch(self) -> QWidget:
        box = QWidget(self)
        self.badge = Badge("", Tone.GOOD, box)
        self.mode = QToolButton(box)
        self.mode.setObjectName("mode")
        self.mode.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.mode.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        choices = QMenu(self.mode)
        group = QActionGroup(choices)
        self._choices: dict[Mode, QAction] = {}
        for mode, title in _TITLES.items():
            action = choices.addAction(f"{title}  —  {_HINTS[mode]}")
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, mode=mode: self.mode_wanted.emit(mode))
            group.addAction(action)
            self._choices[mode] = action
        give_menu(self.mode, choices)
        row(self.badge, self.mode, on=box, margins=NO_MARGINS)
        return box

    def _command(self, words: Words, icon: str, name: str, command: str) -> CommandButton:
        button = CommandButton(words, icon, lambda: self._feed.call(command), self)
        button.problem.connect(self.problem)
        return self._placed(button, name)

    def _placed(self, button: AnyButton, name: str) -> AnyButton:
        button.setObjectName(name)
        button.setProperty("role", "flat")
        self._of_server.append(self.addWidget(button))
        return button

    def resize_icons(self) -> None:
        """Take the icons' size from the font."""
        height = self.fontMetrics().height()
        self.setIconSize(QSize(round(height * BESIDE), height))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave words out where there is no room for them, so that the menu stays in reach."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Do the same when a button says something else."""
        if event.type() == QEvent.Type.LayoutRequest and hasattr(self, "menu"):
            self._fit()
        return super().event(event)

    def _fit(self) -> None:
        # The least important gives way first.
        given_up = (self.config, self.quicksave, self.resume, self.pause, self.stop, self.new_run)
        shown = [button for button in given_up if self._mode is Mode.SERVER]
        others = [self.events, self.badge, self.help, self.menu]
        named = [self.mode, self.servers] if self._mode is Mode.SERVER else [self.mode]
        taken = sum(
            part.fontMetrics().horizontalAdvance(part.text()) + part.iconSize().width() + _ICON_ROOM_PX
            for part in named
        )
        taken += sum(part.sizeHint().width() for part in others if not part.isHidden())
        gaps = (len(shown) + len(others) + 4) * GAP_S
        room = self.width() - taken - gaps
        needed = sum(button.full_width for button in shown)
        for button in shown:
            narrow = needed > room
            button.show_icon_only(narrow)
            if narrow:
                needed -= button.full_width - button.iconSize().width() - _ICON_ROOM_PX
        style = Qt.ToolButtonStyle
        for part in named:
            part.setToolButtonStyle(
                style.ToolButtonIconOnly if needed > room else style.ToolButtonTextBesideIcon
            )

    def show_mode(self, mode: Mode) -> None:
        """Show the commands of one side."""
        self._mode = mode
        for action in self._of_server:
            action.setVisible(mode is Mode.SERVER)
        self._choices[mode].setChecked(True)
        self.mode.setText(_TITLES[mode])
        dress(self.mode, "server" if mode is Mode.SERVER else "service-client")
        self.mode.setAccessibleName(f"Mode: {_TITLES[mode]}")
        self.mode.setToolTip("Switch between training here and playing for a server; this stops nothing")
        self._update()

    def _update(self) -> None:
        connection, run = self._feed.connection, self._feed.status.run
        runs = self._feed.lists.runs.entries
        newest = f"“{run_title(runs[0])}”" if runs else "the newest run"
        # One button pauses a run and lets it go on.
        pausing, mark, command, tip = _CONTINUE if run.wished_pause else _PAUSE
        self.pause.set_words(pausing, mark, lambda: self._feed.call(command))
        for button, name, hint in (
            (self.new_run, "run.start", "Choose a preset or your settings, and begin a run"),
            (self.resume, "run.resume", f"Continue {newest} from its newest checkpoint"),
            (self.pause, command, tip),
            (self.stop, "run.stop", "Save and end the run; Redis and remote clients stay"),
            (self.quicksave, "checkpoint.save", "Save a checkpoint now (Ctrl+Shift+S)"),
        ):
            button.allow(why_refused(name, connection, self._feed.status), hint)
        if connection.config is not None:
            self.config.allow("", "Fix the mistakes that keep the server from starting")
        else:
            self.config.allow(why_not(connection), "Settings of the next run and the server")
        state = run.state if connection.live else ""
        elsewhere = other_side(self._mode, state, self._client.playing)
        self.badge.setText(elsewhere)
        self.badge.setVisible(bool(elsewhere))
