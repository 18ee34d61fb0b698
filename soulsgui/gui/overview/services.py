"""The cards of the services: one for each kind, the local clients together, and below them one by one."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QObject, QSize, Qt, Signal
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.models.connection import Connection, why_not
from soulsgui.gui.models.rules import Question, stop_question, why_refused
from soulsgui.gui.states import Look, phase_word, service_look, service_title
from soulsgui.gui.theme import GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import (
    ElidedLabel,
    Heading,
    IconLabel,
    Label,
    keep_place,
    set_property,
    set_tip,
)
from soulsgui.wire.control import ServiceStatus, Status

_WAITS_TIP = "Part of the time in which the trainer waits for samples, or samples for the trainer"
# What is told of several clients is what is told of the one that needs attention most.
_WORST_FIRST = ("failed", "backoff", "starting", "stopping", "stopped", "running")

_WELL = (Tone.GOOD, Tone.BUSY, Tone.PAUSED)

_PHASE_LOOKS = {
    "waiting": Look("state-waiting", Tone.BUSY, "Running"),
    "paused": Look("state-paused", Tone.PAUSED, "Running"),
    "frozen": Look("state-frozen", Tone.WARNING, "Running"),
    "loading": Look("state-busy", Tone.BUSY, "Running"),
}


@dataclass(frozen=True)
class CardWords:
    """A card's texts; the speaker is the service that the log button leads to, empty for none."""

    title: str
    look: Look
    state: str = ""
    brief: str = ""  # what one line has room for in any case; a tick alone says that something runs
    facts: str = ""
    usage: str = ""
    sentence: str = ""
    tone: Tone = Tone.MUTED
    tip: str = ""
    speaker: str = ""
    well: bool = True  # one line says enough


def card_words(status: ServiceStatus, passed_s: float) -> CardWords:
    """Return what to say of a service."""
    look = service_look(status.state)
    failure = status.detail or "It could not be started." if status.state == "failed" else ""
    return CardWords(
        title=service_title(status.name, status.kind),
        # A running node that is paused, frozen or waiting shows that instead of a tick.
        look=_PHASE_LOOKS.get(status.phase, look) if status.state == "running" else look,
        state=_state(status, passed_s),
        brief=phase_word(status.phase) if status.state == "running" else look.word,
        facts=_facts(status, passed_s),
        usage=_usage([status]),
        sentence="" if status.state == "running" and not status.restarts else status.outcome or failure,
        tone=look.tone if status.state in ("failed", "backoff") else Tone.MUTED,
        tip=_WAITS_TIP if status.kind == "trainer" and "%" in status.detail else "",
        speaker=status.name,
        # One that ended in order and can't be started now is nothing to look into.
        well=look.tone in _WELL or (status.state == "stopped" and bool(status.allowed.get("service.start"))),
    )


def group_words(clients: Sequence[ServiceStatus], passed_s: float) -> CardWords:
    """Return what to say of the clients that run on the server, as one."""
    running = sum(client.state == "running" for client in clients)
    title = f"Local clients {running}/{len(clients)}"
    if not clients:
        none = "None plays on the server's own computer."
        return CardWords(title, service_look("stopped"), sentence=none)
    worst = min(clients, key=lambda client: _WORST_FIRST.index(client.state))
    look, words = service_look(worst.state), card_words(worst, passed_s)
    troubled = worst.state in ("failed", "backoff")
    same = sum(client.state == worst.state for client in clients)
    state = look.word if same == len(clients) else f"{same} of {len(clients)} {look.word.lower()}"
    return CardWords(
        title=title,
        look=look,
        state=words.state if troubled else state,
        usage=_usage(clients),
        sentence=f"{words.title}: {words.sentence}" if troubled and words.sentence else "",
        tone=words.tone,
        speaker=worst.name,
        well=look.tone in _WELL or worst.state == "stopped",
    )


def _state(status: ServiceStatus, passed_s: float) -> str:
    if status.state == "backoff" and status.restart_in_s is not None:
        left_s = max(0, round(status.restart_in_s - passed_s))
        return f"Restarting in {left_s} s ({status.failures}/{status.max_failures})"
    word = service_look(status.state).word
    if status.state == "failed" and status.restart_in_s is not None:
        return f"{word}, tried again in {max(0, round(status.restart_in_s - passed_s))} s"
    if status.state not in ("running", "starting"):
        return word
    doing = phase_word(status.phase) or word
    doing += f" on port {status.port}" if status.port is not None else ""
    return f"{doing}: {status.detail}" if status.detail else doing


def _facts(status: ServiceStatus, passed_s: float) -> str:
    parts = []
    if status.pid is not None:
        parts.append(f"pid {status.pid}")
    if status.uptime_s is not None:
        parts.append(text.uptime(status.uptime_s + passed_s))
    return " · ".join(parts)


def _usage(services: Sequence[ServiceStatus]) -> str:
    parts = []
    percents = [service.cpu_percent for service in services if service.cpu_percent is not None]
    sizes = [service.memory_bytes for service in services if service.memory_bytes is not None]
    if percents:
        parts.append(f"CPU {text.percent(sum(percents))}")
    if sizes:
        parts.append(text.size(sum(sizes)))
    if restarts := sum(service.restarts for service in services):
        parts.append(text.plural(restarts, "{n} restart", "{n} restarts"))
    return " · ".join(parts)


SendCommand = Callable[[str, dict[str, object]], Call]
"""Sends a command by name with its parameters."""

_ORDER = ("redis", "gateway", "exporter", "trainer", "telemetry", "evaluator", "inference", "sink")
_OPEN_CHARACTERS = 26
_SINGLE_CHARACTERS = 36
_MOST_CARDS, _MOST_SINGLE = 128, 32  # of services, and of clients among them
_NO_BREAK = "\N{NO-BREAK SPACE}"
_BETWEEN = " · "


class CardSignals(QObject):
    """What all cards of a row tell.

    Signals:
        log_asked: A service's log is to be shown; with its name.
        problem: A command failed; with the `ApiError`.
    """

    log_asked = Signal(str)
    problem = Signal(object)


class _BriefLabel(ElidedLabel):
    """Those of its parts, from the first on, that there is room for."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__("", parent)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._words: set[str] = set()

    def keep_room(self, words: str) -> None:
        """Keep room for these words from now on: what changes every second is to move nothing."""
        if words not in self._words:
            self._words.add(words)
            self.updateGeometry()

    def _shown(self) -> str:
        metrics, said = self.fontMetrics(), self.text()
        while metrics.horizontalAdvance(said) > self.contentsRect().width():
            said = said.rpartition(_BETWEEN)[0]
        return said

    def sizeHint(self) -> QSize:
        """Keep that room, as long as all cards have theirs."""
        room = max(map(self.fontMetrics().horizontalAdvance, self._words), default=0)
        return QSize(room + 1 if room else 0, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Say nothing in one line with many: the icon tells how it is."""
        return QSize(0, super().minimumSizeHint().height())


class _Card(QFrame):
    """State, numbers, how it ended, and buttons, whose words stand in their tooltips.

    One line while all is well; open when it is not, or when the user wants that.
    """

    def __init__(
        self, name: str, parent: QWidget | None, clock: Callable[[], float], signals: CardSignals
    ) -> None:
        super().__init__(parent)
        self.signals = signals
        self.setObjectName(f"service-{name}")
        self.setProperty("part", "card")
        self.connected = True
        self.why_not = ""
        self._clock = clock
        self._came = clock()
        self._speaker = name
        self._mark = IconLabel(0, self)
        self._title = Heading("", 0, self)
        self._labels = [Label(parent=self) for _ in range(4)]
        self._state, self._facts, self._usage, self._sentence = self._labels
        for label in self._labels:
            label.setWordWrap(True)
        for label in (self._facts, self._usage):
            label.setProperty("weight", "muted")
        self._brief = _BriefLabel(self)
        self.details = FittingButton("Details", "arrow-right", self)
        self.details.setProperty("role", "flat")
        self.details.setCheckable(True)
        self.details.show_icon_only(True)
        keep_place(self.details)  # titles stand in one line, whether it is there or not
        self.details.toggled.connect(self._fold)
        self._head = row(self._mark, self._title, (self._brief, 1), gap_px=GAP_XS)
        self._body = QWidget(self)
        self._row = row(margins=(0, GAP_XS, 0, 0), gap_px=GAP_S)
        column(*self._labels, None, self._row, on=self._body, margins=NO_MARGINS, gap_px=GAP_XS)
        margins = (GAP_M, GAP_XS, GAP_S, GAP_XS)
        self._column = column(self._head, self._body, on=self, margins=margins, gap_px=GAP_XS)
        self._well = False
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)

    def add_buttons(self, *buttons: FittingButton, always: Sequence[FittingButton] = ()) -> None:
        """Take the buttons, and add that of the log; some are always in sight."""
        for button in always:
            button.show_icon_only(True)
            button.setProperty("role", "flat")
            self._head.addWidget(button)
        self._head.addWidget(self.details)
        # Made last: the keyboard comes to it last.
        self.log = FittingButton("Log", "log", self)
        self.log.clicked.connect(lambda: self.signals.log_asked.emit(self._speaker))
        for button in (*buttons, self.log):
            button.show_icon_only(True)
            self._row.addWidget(button)
        for button in (*always, *buttons):
            if isinstance(button, CommandButton):
                button.problem.connect(self.signals.problem)
        self._row.addStretch(1)
        self._fold()

    def note_arrival(self) -> None:
        """Count from now on: a status has come."""
        self._came = self._clock()

    @property
    def passed_s(self) -> float:
        """Seconds since the status came; without a connection nothing goes on."""
        return self._clock() - self._came if self.connected else 0.0

    def connect_commands(self, connected: bool, why_not: str = "") -> None:
        """Grey what is no longer the present; allow commands, or not with a reason."""
        self.connected, self.why_not = connected, why_not
        for widget in (self._mark, self._title, self._brief, *self._labels):
            widget.setEnabled(connected)
        self.arrange_buttons()

    def arrange_buttons(self) -> None:
        """Allow what the service can do now."""
        raise NotImplementedError

    def show_words(self, words: CardWords) -> None:
        """Say how it is."""
        self._speaker = words.speaker
        self._mark.show_icon(words.look.icon, words.look.tone)
        self._title.setText(words.title)
        set_tip(self._state, words.tip)
        usage, facts = _kept_together(words.usage), _kept_together(words.facts)
        state = words.state.replace(" %", f"{_NO_BREAK}%")
        for label, said in zip(self._labels, (state, facts, usage, words.sentence), strict=True):
            label.setText(said)
            label.setVisible(bool(said))
        brief = state.replace(" on port", f"{_BETWEEN}port").replace(": ", _BETWEEN)
        self._brief.setText(_BETWEEN.join(said for said in (brief, words.usage) if said) or words.sentence)
        self._brief.keep_room(words.brief)
        set_property(self._state, "tone", words.look.tone)
        set_property(self._brief, "tone", Tone.MUTED if words.well else words.look.tone)
        if words.well is not self._well:
            self._well = words.well
            self._fold()
        set_property(self._sentence, "tone", words.tone)
        self.setAccessibleName(f"{words.title}: {words.state}. {words.sentence}")

    @property
    def is_open(self) -> bool:
        """Whether it shows more than one line."""
        return not self._well or self.details.isChecked()

    def _fold(self) -> None:
        """Show one line, or everything."""
        self.details.setVisible(self._well)
        self.details.say("Details", "arrow-down" if self.details.isChecked() else "arrow-right")
        self._brief.setVisible(not self.is_open)
        self._body.setVisible(self.is_open)

    def sizeHint(self) -> QSize:
        """Let one line be read whole, and more of them with few breaks."""
        return QSize(self._around(self._head.sizeHint()), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Let the name be read."""
        return QSize(self._around(self._head.minimumSize()), super().minimumSizeHint().height())

    def _around(self, head: QSize) -> int:
        margins = self.contentsMargins() + self._column.contentsMargins()
        needed = head.width() + margins.left() + margins.right()
        return max(needed, self.fontMetrics().averageCharWidth() * _OPEN_CHARACTERS * self.is_open)


class ServiceCard(_Card):
    """One service; stopping it asks what `ask` returns first, None when nothing is lost."""

    def __init__(
        self,
        name: str,
        send: SendCommand,
        parent: QWidget | None,
        clock: Callable[[], float],
        ask: Callable[[], Question | None],
        signals: CardSignals,
    ) -> None:
        super().__init__(name, parent, clock, signals)
        self._name = name
        self._send = send
        self._status: ServiceStatus | None = None
        start = Words("Start", "Starting …", "Started")
        stop = Words("Stop", "Stopping …", "Stopped")
        again = Words("Restart", "Restarting …", "Restarted")
        self.start = CommandButton(start, "play", lambda: self._call("service.start"), self)
        self.stop = AskingButton(stop, "stop", lambda: self._call("service.stop"), ask, self)
        self.restart = CommandButton(again, "restart", lambda: self._call("service.restart"), self)
        self.add_buttons(self.start, self.stop, self.restart)

    def _call(self, command: str) -> Call:
        return self._send(command, {"name": self._name})

    def show_status(self, status: ServiceStatus) -> None:
        """Show the service."""
        self._status = status
        self.note_arrival()
        self.arrange_buttons()
        self.tick()

    def tick(self) -> None:
        """Let uptime and countdown go on; the owner calls it once a second."""
        if self._status is not None:
            self.show_words(card_words(self._status, self.passed_s))

    def arrange_buttons(self) -> None:
        """Allow what can be done now."""
        state = self._status.state if self._status else "stopped"
        up = state in ("running", "starting", "stopping", "backoff")
        self.start.setVisible(state in ("stopped", "failed"))
        self.stop.setVisible(up)
        self.restart.setVisible(up)
        for name, button in (("start", self.start), ("stop", self.stop), ("restart", self.restart)):
            why = self.why_not or (self._status.allowed.get(f"service.{name}", "") if self._status else "")
            button.allow(why or ("It is about to stop." if state == "stopping" else ""))


class LocalClientsCard(_Card):
    """All clients that run on the server itself as one: how they are, one more, one less, each of them."""

    def __init__(
        self, send: SendCommand, parent: QWidget, clock: Callable[[], float], signals: CardSignals
    ) -> None:
        super().__init__("clients", parent, clock, signals)
        self._send = send
        self._clients: list[ServiceStatus] = []
        fewer = Words("One less", "Stopping …", "Stopped")
        more = Words("One more", "Starting …", "Started")
        self.fewer = CommandButton(fewer, "remove", lambda: self._set_count(-1), self)
        self.more = CommandButton(more, "add", lambda: self._set_count(+1), self)
        self.each = FittingButton("Each", "arrow-right", self)
        self.each.setCheckable(True)
        self.each.explain("Show the clients one by one")
        self.add_buttons(self.each, always=(self.fewer, self.more))

    def _set_count(self, change: int) -> Call:
        return self._send("service.local_clients", {"count": max(len(self._clients) + change, 0)})

    def show_clients(self, clients: Sequence[ServiceStatus]) -> None:
        """Show these services."""
        self._clients = list(clients)
        self.note_arrival()
        self.arrange_buttons()
        self.tick()

    def tick(self) -> None:
        """Let the countdown go on; the owner calls it once a second."""
        self.show_words(group_words(self._clients, self.passed_s))

    def arrange_buttons(self) -> None:
        """Allow what can be done now."""
        any_there = bool(self._clients)
        refusal = self.why_not if any_there else "There is none."
        self.fewer.allow(refusal, "One client fewer on the server itself")
        self.more.allow(self.why_not, "One client more on the server itself")
        self.each.setEnabled(any_there)
        self.log.setEnabled(any_there)


class _Cards(QWidget):
    """Cards side by side, as wide as each other so that their buttons are alike; services come and go."""

    def __init__(self, make: Callable[[str, QWidget], ServiceCard], parent: QWidget) -> None:
        super().__init__(parent)
        self._make = make
        self.cards: dict[str, ServiceCard] = {}
        self.row = FlowLayout(GAP_S, columns=True, parent=self)

    def show_services(self, services: Sequence[ServiceStatus]) -> None:
        for name in self.cards.keys() - {service.name for service in services}:
            card = self.cards.pop(name)
            card.hide()
            card.deleteLater()
        for place, service in enumerate(services):
            if service.name not in self.cards:
                self.cards[service.name] = self._make(service.name, self)
                self.row.insert_widget(place, self.cards[service.name])
                # One line stays one line beside a card that is open.
                self.row.setAlignment(self.cards[service.name], Qt.AlignmentFlag.AlignTop)
            self.cards[service.name].show_status(service)


class ServiceRow(QWidget):
    """Every service of the server; `signals` tell what any of its cards does."""

    def __init__(
        self, feed: Feed, parent: QWidget | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._feed = feed
        self.signals = CardSignals(self)
        self._clock = clock
        self._connection = feed.connection
        self._kinds = _Cards(self._new_card, self)
        self.clients = LocalClientsCard(feed.call, self._kinds, clock, self.signals)
        self._kinds.row.addWidget(self.clients)
        self._kinds.row.setAlignment(self.clients, Qt.AlignmentFlag.AlignTop)
        feed.allowed_changed.connect(self._connect_clients)
        self.clients.each.toggled.connect(self._expand)
        self._singles = _Cards(self._new_card, self)
        self._more = Label(parent=self._singles)
        self._more.setProperty("weight", "muted")
        self._singles.row.addWidget(self._more)
        self._singles.hide()
        column(self._kinds, self._singles, on=self, margins=NO_MARGINS, gap_px=GAP_S)

    def _new_card(self, name: str, parent: QWidget) -> ServiceCard:
        def ask() -> Question | None:
            status = self._feed.status
            service = next((one for one in status.services if one.name == name), None)
            return None if service is None else stop_question(service, status.run)

        card = ServiceCard(name, self._feed.call, parent, self._clock, ask, self.signals)
        card.connect_commands(self._connection.live, why_not(self._connection))
        return card

    def show_status(self, status: Status) -> None:
        """Show the services as the server tells of them."""
        kinds = sorted((one for one in status.services if one.kind != "client"), key=_rank)
        clients = [one for one in status.services if one.kind == "client"]
        self._kinds.show_services(kinds[:_MOST_CARDS])
        self.clients.show_clients(clients)
        self._connect_clients()
        self._show_singles(clients)

    def _show_singles(self, clients: Sequence[ServiceStatus]) -> None:
        if self._singles.isHidden():
            self._singles.show_services([])
            return
        if not clients:
            self.clients.each.setChecked(False)
            return
        self._singles.show_services(clients[:_MOST_SINGLE])
        for card in self._singles.cards.values():
            card.setMinimumWidth(_SINGLE_CHARACTERS * self.fontMetrics().averageCharWidth())
        left = len(clients) - _MOST_SINGLE
        self._more.setText(f"and {left:,} more")
        self._more.setVisible(left > 0)

    def show_connection(self, connection: Connection) -> None:
        """Grey everything while it is not the present."""
        self._connection = connection
        for card in self.cards.values():
            card.connect_commands(connection.live, why_not(connection))
        self._connect_clients()

    def _connect_clients(self) -> None:
        reason = why_refused("service.local_clients", self._connection, self._feed.status)
        self.clients.connect_commands(self._connection.live, reason)

    def tick(self) -> None:
        """Let uptimes and countdowns go on; the owner calls it once a second."""
        for card in self.cards.values():
            card.tick()
        self.clients.tick()

    def _expand(self, on: bool) -> None:
        self.clients.each.say("Each", "arrow-down" if on else "arrow-right")
        self._singles.setVisible(on)
        self.show_status(self._feed.status)

    @property
    def cards(self) -> dict[str, ServiceCard]:
        """The cards by the name of their service, single clients included while they are shown."""
        return {**self._kinds.cards, **self._singles.cards}


def _rank(service: ServiceStatus) -> tuple[int, str]:
    place = _ORDER.index(service.kind) if service.kind in _ORDER else len(_ORDER)
    return place, service.name


def _kept_together(facts: str) -> str:
    """Return facts so that a line breaks between two of them, never within one."""
    return facts.replace(" ", _NO_BREAK).replace(f"{_NO_BREAK}·{_NO_BREAK}", f"{_NO_BREAK}· ")
