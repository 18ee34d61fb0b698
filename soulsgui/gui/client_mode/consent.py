"""The page that asks the owner of this computer about an invitation, before anything runs."""

from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.client_mode.parts import MiddleColumn
from soulsgui.gui.client_mode.runner import START_TIMEOUT_S, ClientSide
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.icons import make_primary
from soulsgui.gui.models.connection import ConnectionState, why_not
from soulsgui.gui.states import Look
from soulsgui.gui.text import plural
from soulsgui.gui.theme import GAP_L, GAP_XL, GAP_XS
from soulsgui.gui.widgets.agree import AgreeDialog
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words
from soulsgui.gui.widgets.labels import Heading, Label, Prose, StateLabel, muted
from soulsgui.wire.control import ApiError, OfferedServer, SavedServer
from soulsgui.wire.control.states import CLIENT
from soulsgui.wire.invitation import Invitation, place_words
from soulsgui.wire.messages.owner import writing_words
from soulsgui.wire.messages.server_config import Execution

_MOST_PLACES = 3

_SENT = (
    "What the environment shows and what is done in it; this computer's name, and the versions, warnings and "
    "errors of what runs here. No files, and nothing else of this computer. All of it is encrypted."
)


@dataclass(frozen=True)
class ConsentLine:
    """One thing to know before one agrees."""

    name: str  # tells it from the others
    title: str  # what it is about
    words: str  # what there is to say
    look: Look | None = None  # a state below it


def consent_title(invitation: Invitation) -> str:
    """Return the question itself."""
    return f"Help {invitation.server_name} train?"


def consent_lines(
    invitation: Invitation, offered: OfferedServer | None, trouble: str = "", plays_for: str = ""
) -> list[ConsentLine]:
    """Return everything there is to know, in the order in which one asks."""
    lines = [
        ConsentLine("who", "Who asks", _who(invitation), _reached(offered, trouble)),
        ConsentLine("what", "What will run here", _what(offered)),
        ConsentLine("files", "What it may write", _files(offered)),
        ConsentLine("sent", "What is sent", _SENT),
        ConsentLine("cpu", "What it costs", _cost(offered)),
        ConsentLine("you", "Who decides", _DECIDES),
    ]
    if plays_for:
        words = f"This computer plays for {plays_for} at present; that ends. Both stay in the list."
        lines.append(ConsentLine("instead", "Instead of", words))
    return lines


def _who(invitation: Invitation) -> str:
    places = [place_words(host, port) for host, port in invitation.addresses]
    shown = ", ".join(places[:_MOST_PLACES])
    if len(places) > _MOST_PLACES:
        more = plural(len(places) - _MOST_PLACES, "{n} more address", "{n} more addresses")
        shown = f"{shown} and {more}"
    return f"{invitation.server_name}, at {shown}. It knows this computer as {invitation.client}."


def _reached(offered: OfferedServer | None, trouble: str) -> Look:
    if trouble:
        return Look("state-warning", Tone.WARNING, trouble)
    if offered is None:
        return Look("state-busy", Tone.BUSY, "Asking it …")
    if offered.address:
        trip = offered.round_trip_s or 0.0
        words = f"It answers at {offered.address}, in {text.count(max(round(1000 * trip), 1))} ms"
        return Look("state-good", Tone.GOOD, words)
    words = f"{text.sentence(offered.error)} You can agree anyway: this computer keeps trying."
    return Look("state-warning", Tone.WARNING, words)


def _what(offered: OfferedServer | None) -> str:
    if offered is None or offered.runs is None:
        return (
            "The environment that is trained there, several copies of it side by side, without a picture. "
            "You are asked about it before it runs."
        )
    lines = [f"{title.capitalize()}: {value}" for title, value in offered.runs.words().items()]
    return "\n".join([*lines, "You are asked again before anything else runs here."])


def _files(offered: OfferedServer | None) -> str:
    if offered is None:
        return "Not known yet."
    words = writing_words(offered.unconfined)
    return words if offered.unconfined else f"{words} It can read what you can read, and use the network."


def _cost(offered: OfferedServer | None) -> str:
    cores = offered.cores if offered is not None else 0
    runs = offered.runs if offered is not None else None
    if runs is not None and runs.workers:
        # No worker is without an environment, and there is none beyond the cores.
        workers = min(runs.workers, runs.num_envs, cores)
        beside = plural(workers, "one more for its environments", "{n} more for its environments")
        busy = plural(workers, "about one", "up to {n}")
        return (
            f"One process in the background, and {beside}: "
            f"while they play, {busy} of this computer's {cores} cores."
        )
    if cores > 1:
        return f"One process in the background: while it plays, about one of this computer's {cores} cores."
    return "One process in the background: while it plays, about one processor core."


_ALWAYS = "Run &whatever this server trains later, without asking again"
_DECIDES = (
    "You: pause it at any time, at once or after its episode, and switch it off. The server can only ask "
    "it to wait or to stop. When this window is closed it ends its episode and stops."
)
_WIDEST_CHARACTERS = 110
_LOOK_TIMEOUT_S = 60.0


class _ConsentRow(QWidget):
    """One thing to know: its title on the left, its words and state on the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = Prose("", self, whole=True)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.state = StateLabel(self, wraps=True)
        self.words.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        column(self.words, self.state, on=self, margins=NO_MARGINS, gap_px=GAP_XS)

    def show_line(self, line: ConsentLine) -> None:
        """Show what there is to say."""
        self.words.setText(line.words)
        self.state.setVisible(line.look is not None)
        if line.look is not None:
            self.state.show_look(line.look)


class ConsentPanel(QWidget):
    """Who asks, what will run here, what is sent, what it costs, who decides; yes, or not now.

    Signals:
        answered: The invitation was accepted, or put aside.
        problem: It could not be accepted; with the `ApiError`.
    """

    answered = Signal()
    problem = Signal(object)

    def __init__(self, side: ClientSide, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("consentPanel")
        self._side = side
        self._invitation: Invitation | None = None
        self._offered: OfferedServer | None = None
        self._trouble = ""
        self._accepting: Invitation | None = None
        self._undo: tuple[str, dict[str, Any]] | None = None
        self._asked: Call | None = None
        self.lines: dict[str, _ConsentRow] = {}
        self._titles: dict[str, QLabel] = {}
        self._build()
        side.feed.connection_changed.connect(self._connection_changed)

    def _build(self) -> None:
        self.title = Heading("", 2, self)
        self.title.setWordWrap(True)
        card = QFrame(self)
        card.setProperty("part", "card")
        self._grid = QGridLayout(card)
        self._grid.setContentsMargins(GAP_XL, GAP_L, GAP_XL, GAP_L)
        self._grid.setHorizontalSpacing(GAP_XL)
        self._grid.setVerticalSpacing(GAP_L)
        self._grid.setColumnStretch(1, 1)
        words = Words("Help &train", "Joining …", "Joined")
        self.accept = CommandButton(words, "check", self._send, self)
        self.accept.setObjectName("consentAccept")
        make_primary(self.accept)
        self.accept.finished.connect(self._accepted)
        self.accept.problem.connect(self._not_accepted)
        self.decline = QPushButton("&Not now", self)
        self.decline.setObjectName("consentDecline")
        self.decline.clicked.connect(self._declined)
        self.always = QCheckBox(_ALWAYS, self)
        self.always.setObjectName("consentAlways")
        foot = row(self.accept, self.decline, None)
        area = MiddleColumn(_WIDEST_CHARACTERS, self)
        area.setAccessibleName("Invitation")
        area.fill(
            self.title, card, self.always, foot, None, margins=(GAP_L, GAP_XL, GAP_L, GAP_L), gap_px=GAP_L
        )
        self.setFocusProxy(area)
        column(area, on=self, margins=NO_MARGINS)

    def ask(self, invitation: Invitation) -> None:
        """Ask about an invitation."""
        self._invitation = invitation
        self._offered, self._trouble = None, ""
        self.always.setChecked(False)
        self._forget_question()
        self._show()
        self._side.be_ready()
        self._connection_changed()
        # A yes or a no is given on purpose, not by a key that was meant for something else.
        self.setFocus()

    def _connection_changed(self) -> None:
        if self._invitation is None:
            return
        connection = self._side.feed.connection
        if connection.live and self._asked is None and self._offered is None:
            self._trouble = ""
            params = {"invitation": self._invitation.link}
            self._asked = call = self._side.feed.call("servers.look", params, timeout_s=_LOOK_TIMEOUT_S)
            call.done.connect(self._looked)
            call.tell_problem(self._not_looked)
        self._show()

    def _looked(self, offered: OfferedServer) -> None:
        self._asked, self._offered = None, offered
        self._show()

    def _not_looked(self, error: ApiError) -> None:
        self._forget_question()
        self._trouble = error.message
        self._show()

    def _forget_question(self) -> None:
        if self._asked is not None:
            self._asked.disconnect(self)
            self._asked = None

    def _show(self) -> None:
        if self._invitation is None:
            return
        self.title.setText(consent_title(self._invitation))
        lines = consent_lines(self._invitation, self._offered, self._trouble, self._plays_for())
        for line in lines:
            self._line(line).show_line(line)
        shown = {line.name for line in lines}
        for name, widget in self.lines.items():
            widget.setVisible(name in shown)
            self._titles[name].setVisible(name in shown)
        connection = self._side.feed.connection
        waits = connection.coming or connection.state is ConnectionState.WELCOME
        reason = "Getting ready …" if waits else why_not(connection)
        # A yes is to what is shown.
        reason = reason or ("Asking it what will run here …" if self._asked is not None else "")
        self.accept.allow(reason)
        # Between the yes and what becomes of it there is no no.
        self.decline.setEnabled(self.accept.stage is not Stage.RUNNING)

    def _plays_for(self) -> str:
        server = self._side.feed.status.server
        if not self._side.playing or self._invitation is None:
            return ""
        name = server.name or "this computer's own server"
        return "" if name == self._invitation.server_name else name

    def _line(self, line: ConsentLine) -> _ConsentRow:
        if line.name not in self.lines:
            place = len(self.lines)
            title = muted(Label(line.title, self))
            self._titles[line.name] = title
            self.lines[line.name] = _ConsentRow(self)
            self._grid.addWidget(title, place, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(self.lines[line.name], place, 1)
        return self.lines[line.name]

    def _send(self) -> Call:
        assert self._invitation is not None
        self._accepting, self._undo = self._invitation, None
        self._show()
        runs = self._offered.runs if self._offered is not None else None
        agreed = {"digest": runs.digest if runs is not None else "", "always": self.always.isChecked()}
        params = {"invitation": self._invitation.link, **agreed}
        return self._side.feed.call("servers.join", params, timeout_s=START_TIMEOUT_S)

    def _accepted(self) -> None:
        accepted, self._accepting = self._accepting, None
        undo, self._undo = self._undo, None
        if undo is None and accepted == self._invitation:
            self._end()
            return
        # What is asked now, if anything, is another question.
        self._show()
        if undo is not None:
            undoing = self._side.feed.call(*undo)
            undoing.tell_problem(self.problem)

    def _not_accepted(self, error: ApiError) -> None:
        self._show()
        self.problem.emit(error)

    def _declined(self) -> None:
        asked = self._invitation
        if asked is not None and asked == self._accepting and self.accept.stage is Stage.SILENT:
            # The yes may still be obeyed; the no came after it.
            known = self._offered is not None and self._offered.known
            stop, forget = {"name": CLIENT}, {"server_id": asked.server_id}
            self._undo = ("service.stop", stop) if known else ("servers.forget", forget)
        self._end()

    def _end(self) -> None:
        self._forget_question()
        self._invitation = None
        self._side.answered()
        self.answered.emit()


def agree_dialog(
    feed: Feed, server: SavedServer, asks: Execution, parent: QWidget | None = None
) -> AgreeDialog:
    """Return the question about something new that the server this computer plays for wants to run here."""

    def send(always: bool) -> Call:
        agreed = {"digest": asks.digest, "always": always}
        return feed.call("servers.agree", {"server_id": server.server_id, **agreed})

    title = f"{server.server_name} wants to run something new"
    return AgreeDialog(title, asks, send, "Until you agree this computer plays nothing.", _ALWAYS, parent)
