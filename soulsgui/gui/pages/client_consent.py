"""The page that asks the owner of this computer about an invitation, before anything runs."""

from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from soulsgui.gui.calls import Call
from soulsgui.gui.client_side import START_PATIENCE_S, ClientSide
from soulsgui.gui.connection_state import ConnectionState, why_not
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import make_primary
from soulsgui.gui.models.consent import ConsentLine, consent_lines, consent_title
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words
from soulsgui.gui.widgets.labels import Heading, IconLabel, set_property
from soulsgui.wire.control import ApiError, OfferedServer
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.situation import CLIENT

_WIDEST_CHARACTERS = 110
_LOOK_PATIENCE_S = 60.0
_ON_THE_WAY = (ConnectionState.WELCOME, ConnectionState.STARTING, ConnectionState.CONNECTING)


class _Line(QWidget):
    """One thing to know: its title on the left, its words and state on the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.words = QLabel(self)
        self.words.setWordWrap(True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._mark = IconLabel(0, self)
        self.state = QLabel(self)
        self.state.setWordWrap(True)
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        for label in (self.words, self.state):
            label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self._below = QWidget(self)
        row = QHBoxLayout(self._below)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(self._mark, 0, Qt.AlignmentFlag.AlignTop)
        row.addWidget(self.state, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(3)
        column.addWidget(self.words)
        column.addWidget(self._below)

    def show_line(self, line: ConsentLine) -> None:
        """Show what there is to say."""
        self.words.setText(line.words)
        self._below.setVisible(line.look is not None)
        if line.look is not None:
            self._mark.show_icon(line.look.icon, line.look.tone)
            self.state.setText(line.look.word)
            set_property(self.state, "tone", line.look.tone)


class ConsentPanel(QWidget):
    """Who asks, what will run here, what is sent, what it costs, who decides; yes, or not now.

    Signals:
        answered: The invitation was accepted, or put aside.
        problem: It could not be accepted; with the `ApiError`.

    Args:
        side: The client side of the window.
        parent: The widget it stands in.
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
        self._lines: dict[str, _Line] = {}
        self._titles: dict[str, QLabel] = {}
        self._build()
        side.feed.connection_changed.connect(self._connection_changed)

    # --- building ---

    def _build(self) -> None:
        self.title = Heading("", 2, self)
        self.title.setWordWrap(True)
        card = QFrame(self)
        card.setProperty("part", "card")
        self._grid = QGridLayout(card)
        self._grid.setContentsMargins(20, 16, 20, 16)
        self._grid.setHorizontalSpacing(20)
        self._grid.setVerticalSpacing(14)
        self._grid.setColumnStretch(1, 1)
        self._column = QWidget(self)
        column = QVBoxLayout(self._column)
        column.setContentsMargins(16, 20, 16, 16)
        column.setSpacing(16)
        column.addWidget(self.title)
        column.addWidget(card)
        column.addLayout(self._make_foot())
        column.addStretch(1)
        self._column.setMaximumWidth(self.fontMetrics().averageCharWidth() * _WIDEST_CHARACTERS)
        middle = QWidget(self)
        row = QHBoxLayout(middle)
        row.setContentsMargins(0, 0, 0, 0)
        row.addStretch(1)
        row.addWidget(self._column, 100)
        row.addStretch(1)
        area = QScrollArea(self)
        area.setWidgetResizable(True)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(middle)
        self.setFocusProxy(area)
        around = QVBoxLayout(self)
        around.setContentsMargins(0, 0, 0, 0)
        around.addWidget(area)

    def _make_foot(self) -> QHBoxLayout:
        words = Words(tr("Help &train"), tr("Joining …"), tr("Joined"))
        self.accept = CommandButton(words, "check", self._send, self)
        self.accept.setObjectName("consentAccept")
        make_primary(self.accept)
        self.accept.finished.connect(self._accepted)
        self.accept.problem.connect(self._not_accepted)
        self.decline = QPushButton(tr("&Not now"), self)
        self.decline.setObjectName("consentDecline")
        self.decline.clicked.connect(self._declined)
        foot = QHBoxLayout()
        foot.addWidget(self.accept)
        foot.addWidget(self.decline)
        foot.addStretch(1)
        return foot

    # --- asking ---

    def ask(self, invitation: Invitation) -> None:
        """Ask about an invitation."""
        self._invitation = invitation
        self._offered, self._trouble = None, ""
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
        if connection.commands_possible and self._asked is None and self._offered is None:
            self._trouble = ""
            params = {"invitation": self._invitation.link}
            self._asked = call = self._side.feed.call("servers.look", params, patience_s=_LOOK_PATIENCE_S)
            call.done.connect(self._looked)
            call.failed.connect(self._not_looked)
            call.silent.connect(self._not_looked)
        self._show()

    def _looked(self, result: dict[str, Any]) -> None:
        self._asked = None
        self._offered = OfferedServer.model_validate(result)
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
        for name, widget in self._lines.items():
            widget.setVisible(name in shown)
            self._titles[name].setVisible(name in shown)
        connection = self._side.feed.connection
        reason = tr("Getting ready …") if connection.state in _ON_THE_WAY else why_not(connection)
        self.accept.allow(not reason, reason)
        # Between the yes and what becomes of it there is no no.
        self.decline.setEnabled(self.accept.stage is not Stage.RUNNING)

    def _plays_for(self) -> str:
        server = self._side.feed.status.server
        if not self._side.playing or self._invitation is None:
            return ""
        name = server.name or tr("this computer's own server")
        return "" if name == self._invitation.server_name else name

    def _line(self, line: ConsentLine) -> _Line:
        if line.name not in self._lines:
            row = len(self._lines)
            title = QLabel(line.title, self)
            title.setProperty("weight", "muted")
            self._titles[line.name] = title
            self._lines[line.name] = _Line(self)
            self._grid.addWidget(title, row, 0, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(self._lines[line.name], row, 1)
        return self._lines[line.name]

    def words_of(self, name: str) -> str:
        """Return what it says under `who`, `what`, `sent`, `cpu`, `you` or `instead`, with its state."""
        line = self._lines[name]
        return f"{line.words.text()}\n{line.state.text()}".strip()

    # --- the answer ---

    def _send(self) -> Call:
        assert self._invitation is not None
        self._accepting, self._undo = self._invitation, None
        self._show()
        params = {"invitation": self._invitation.link}
        return self._side.feed.call("servers.join", params, patience_s=START_PATIENCE_S)

    def _accepted(self, _: dict[str, Any]) -> None:
        accepted, self._accepting = self._accepting, None
        undo, self._undo = self._undo, None
        if undo is None and accepted == self._invitation:
            self._end()
            return
        # What is asked now, if anything, is another question.
        self._show()
        if undo is not None:
            undoing = self._side.feed.call(*undo)
            undoing.failed.connect(self.problem)
            undoing.silent.connect(self.problem)

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
