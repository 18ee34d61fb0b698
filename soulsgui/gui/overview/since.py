"""What happened on the server while nobody looked at the window."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QPushButton, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import dress
from soulsgui.gui.shell import Shell
from soulsgui.gui.states import level_look
from soulsgui.gui.theme import GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import row
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import Heading, set_tip
from soulsgui.wire.control import Event

_AWAY_S = 300.0
_LOOK_MS = 20_000
_MOST = 4
_CHARACTERS = 84


@dataclass(frozen=True)
class Happened:
    """Events of one kind: the newest of them, and what to say of all."""

    event: Event
    words: str


def happened(events: Sequence[Event], now: float) -> list[Happened]:
    """Return what of events is worth telling, summed up by kind, in the order of time.

    That are warnings, errors, and what alerts are sent of.
    """
    kinds: dict[str, list[Event]] = {}
    for event in events:
        if (event.level != "info" or event.topic) and event.topic != "test":
            kind = event.topic or re.sub(r"\d+", "", event.what)  # client-1 and client-2 are alike
            kinds.setdefault(kind, []).append(event)
    found = [Happened(same[-1], _words(same, events, now)) for same in kinds.values()]
    return sorted(found, key=lambda one: one.event.number)


def _words(same: Sequence[Event], events: Sequence[Event], now: float) -> str:
    newest, others = same[-1], len(same) - 1
    words = f"{text.clock(newest.time, now)} {newest.what.rstrip('.')}"
    if others and all(one.what == newest.what for one in same):
        words += f", {len(same):,} times"
    elif others:
        words += f", and {others:,} more"
    # Of a service that ended, how it went on.
    if newest.what.startswith(f"{newest.service} "):
        later = (one for one in events if one.number > newest.number and one.service == newest.service)
        after = [one.what for one in later if one.level == "info" and newest.service in one.what]
        words += f"; {after[-1]}" if after else ""
    return words


def _in_front() -> bool:
    return QGuiApplication.applicationState() is Qt.ApplicationState.ApplicationActive


class SinceStrip(QFrame):
    """Tells what happened since the window was last in front, when it comes back after some minutes.

    Signals:
        chosen: The user wants to know more about this `Event`.
    """

    chosen = Signal(object)

    def __init__(
        self,
        feed: Feed,
        shell: Shell,
        parent: QWidget | None = None,
        clock: Callable[[], float] = time.time,
        in_front: Callable[[], bool] = _in_front,
    ) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._feed, self._settings = feed, shell.settings()
        self._clock, self._in_front = clock, in_front
        self._since: tuple[float, int] | None = None  # when, and the newest event then
        self._head = Heading("", 0, self)
        self.dismiss = FittingButton("Dismiss", "close", self)
        self.dismiss.setProperty("role", "flat")
        self.dismiss.show_icon_only(True)
        self.dismiss.clicked.connect(self._put_away)
        self.links: list[QPushButton] = []
        self._parts = FlowLayout(GAP_S)
        self._parts.addWidget(self._head)
        row((self._parts, 1), self.dismiss, on=self, margins=(GAP_M, GAP_XS, GAP_S, GAP_XS), gap_px=GAP_S)
        self.hide()
        self._timer = QTimer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(self._look)
        self._timer.start()
        feed.connection_changed.connect(self._look)
        feed.snapshot_taken.connect(self._show)
        application = QGuiApplication.instance()
        assert isinstance(application, QGuiApplication)
        application.applicationStateChanged.connect(self._look)
        self._look()

    def _look(self) -> None:
        """Note that the window is looked at now, and tell what happened where it was not for a while."""
        hello = self._feed.hello
        if hello is None or not self._feed.connection.live or not self._in_front():
            return
        key, now = f"looked/{hello.server_id}", self._clock()
        if self.isHidden():
            self._since = None
        when, _, number = str(self._settings.value(key, "")).partition(" ")
        if when.isdecimal() and number.isdecimal() and now - int(when) > _AWAY_S:
            self._since = self._since or (float(when), int(number))
            self._show()
        newest = self._feed.events[-1].number if self._feed.events else 0
        self._settings.setValue(key, f"{now:.0f} {newest}")

    def _show(self) -> None:
        # After a sleep the events come a moment later, with the next snapshot.
        if self._since is None:
            return
        now, (when, number) = self._clock(), self._since
        found = happened([event for event in self._feed.events if event.number > number], now)
        for old in self.links:
            old.hide()
            old.deleteLater()
        self._head.setText(f"Since you last looked ({text.clock(when, now)}):")
        told = found[-_MOST:]
        if before := found[:-_MOST]:
            told.insert(0, Happened(before[-1].event, f"{len(before):,} before"))
        self.links = [self._link(one) for one in told]
        for link in self.links:
            self._parts.addWidget(link)
        self.setVisible(bool(found))

    def _link(self, one: Happened) -> QPushButton:
        words, event = text.plain(one.words), one.event
        shown = words if len(words) <= _CHARACTERS else f"{words[: _CHARACTERS - 1]}…"
        link = QPushButton(shown.replace("&", "&&"), self)
        link.setProperty("role", "link")
        look = level_look(event.level)
        dress(link, look.icon, look.tone)
        set_tip(link, "\n".join(said for said in (words, event.cause, event.remedy) if said))
        link.clicked.connect(lambda: self.chosen.emit(event))
        return link

    def _put_away(self) -> None:
        self._since = None
        self.hide()
