"""The page of the clients: everyone in the roster, what each does, and what can be done with it."""

import time
from functools import partial
from typing import Any

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QWidget,
)

from soulsgui.gui import text
from soulsgui.gui.clients.look import LookDialog
from soulsgui.gui.clients.model import state_words
from soulsgui.gui.clients.section import ClientsSection
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.icons import dress
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import RARE_ACTIONS, STEERING_ACTIONS, why_no_log, why_no_look
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.shell.pages import CLIENTS, LOGS
from soulsgui.gui.theme import GAP_L, GAP_M, GAP_S, GAP_XS
from soulsgui.gui.widgets.boxes import PAGE_MARGINS, column
from soulsgui.gui.widgets.command_button import IN_MENU, Words, allow
from soulsgui.gui.widgets.dialog import FittingDialog, NameDialog
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.geometry import Memory
from soulsgui.gui.widgets.labels import Label, muted, set_property, wrapped
from soulsgui.gui.widgets.log_pane import LogPane
from soulsgui.wire.control import ClientLog, ClientStatus, Status

_CHARACTERS = 150
_LINES = 26
_ASKED = 200
_TICK_MS = 1000


class ClientLogDialog(FittingDialog):
    """The last warnings and errors of a client on another computer."""

    def __init__(self, feed: Feed, client: ClientStatus, parent: QWidget | None = None) -> None:
        super().__init__("clientLogDialog", f"Log of {client.name}", parent)
        self._client = client
        told = f"Warnings and errors that {client.name} has reported; the whole log is on its own computer."
        self.pane = LogPane(self)
        self.pane.show_empty_text("Asking the server …")
        self.renew = QPushButton("&Ask again", self)
        dress(self.renew, "restart")
        self.arrange(muted(wrapped(told, self)), (self.pane, 1), foot=self.foot(self.renew))
        self.leave.setDefault(False)  # Enter in the filter closes nothing
        metrics = self.fontMetrics()
        self.resize(metrics.averageCharWidth() * _CHARACTERS, metrics.lineSpacing() * _LINES)
        question = {"client": client.id, "n": _ASKED}
        ask = partial(feed.ask, "clients.log", question)
        fetch = Fetch(self, ask, came=self._take, failed=self.show_problem)
        self.renew.clicked.connect(fetch.request)
        fetch.request()

    def _take(self, log: ClientLog) -> None:
        self.wrong.hide()
        self.pane.show_empty_text(f"{self._client.name} has reported no problems.")
        self.pane.replace(log.lines, with_service=False)


# Name, title, row, column and how many columns wide the value is.
_FACTS = (
    ("id", "Client", 0, 0, 1),
    ("state", "State", 1, 0, 1),
    ("version", "Version", 0, 2, 1),
    ("invited", "Invited", 1, 2, 1),
    ("rejected", "Rejected", 2, 0, 3),
    ("error", "Last error", 3, 0, 3),
)


class ClientDetails(QFrame):
    """The chosen client's id, state, rejections with their reasons, last error, version and invitation."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self.values: dict[str, QLabel] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(GAP_L, GAP_M, GAP_L, GAP_M)
        grid.setHorizontalSpacing(GAP_L)
        grid.setVerticalSpacing(GAP_XS)
        for name, title, row, place, span in _FACTS:
            self.values[name] = value = wrapped("", self, selectable=True)
            value.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
            value.setAccessibleName(title)
            grid.addWidget(muted(Label(title, self)), row, place, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(value, row, place + 1, 1, span)
        for place in (1, 3):
            grid.setColumnStretch(place, 1)
        self.show_client(None)

    def show_client(self, client: ClientStatus | None) -> None:
        """Show another client, or the same one anew; None for none."""
        self.setVisible(client is not None)
        if client is None:
            return
        invited = text.clock(client.invited, time.time()) if client.invited is not None else ""
        facts = {
            "id": client.id if client.name == client.id else f"{client.name} ({client.id})",
            "state": state_words(client, client.age_s),
            "rejected": text.reasons(client.rejected),
            "error": client.error or text.NOTHING,
            "version": client.version or text.NOTHING,
            "invited": invited or ("one of this server's own" if client.local else "no"),
        }
        for name, words in facts.items():
            self.values[name].setText(words)
        set_property(self.values["error"], "tone", "bad" if client.error else "")


class ClientsPage(QWidget):
    """Everyone who plays for this server, or may."""

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("clientsPage")
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), CLIENTS)
        self.empty = EmptyState("page-clients", "", "", "Invite a computer…", "add", self)
        self.empty.acted.connect(shell.open_invite)
        self.roster = roster = ClientsSection(
            feed, "clients", STEERING_ACTIONS, self.empty, RARE_ACTIONS, self
        )
        self.landing = roster.table
        self._make_buttons()
        self.details = ClientDetails(self)
        column((roster, 1), self.details, on=self, margins=PAGE_MARGINS, gap_px=GAP_S)
        self._timer = QTimer(self, interval=_TICK_MS)
        self._timer.timeout.connect(self._tick)
        feed.snapshot_taken.connect(self._take_snapshot)
        # Also while hidden: the small curves would have gaps.
        feed.clients_changed.connect(roster.apply)
        feed.connection_changed.connect(roster.show_connection)
        roster.problem.connect(lambda error: notify_problem(shell, error))
        roster.chosen_changed.connect(self._show_chosen)
        roster.emptied.connect(self._say_empty)
        roster.replace(feed.status.clients)
        roster.show_connection(feed.connection)
        self._memory.restore(roster.table)

    def _make_buttons(self) -> None:
        """Add what is not a command of the roster."""
        self.invite = QPushButton("&Invite a computer…", self)
        self.invite.setObjectName("invite")
        dress(self.invite, "add")
        self.invite.clicked.connect(self._shell.open_invite)
        self.roster.head.addWidget(self.invite)
        for button in (self.invite, self.empty.button):
            button.setProperty(IN_MENU, True)
        more = self.roster.more
        first = more.menu_of.insertSeparator(more.menu_of.actions()[0])
        self.log = more.add("Show log", "log", self._show_log)
        self.look = more.add("Look…", "watch", self._look)
        self.rename = more.add("Rename…", "edit", self._rename)
        for entry in (self.log, self.look, self.rename):
            more.menu_of.insertAction(first, entry)
        for action in RARE_ACTIONS:  # nobody sees what the button of an entry says
            done = self.roster.buttons[action.name].finished
            done.connect(lambda _, words=action.done: self._shell.notify("success", words))

    def _say_empty(self, away: str, filtered: bool) -> None:
        self.empty.button.setVisible(not away and not filtered)
        if away:
            self.empty.say(away, "")
        elif filtered:
            self.empty.say("No client matches the filter", "Clear the filter to see everyone.")
        else:
            hint = "A run brings clients of its own. Invite other computers to make it quicker."
            self.empty.say("Nobody plays for this server yet", hint)

    @property
    def only(self) -> ClientStatus | None:
        """The chosen client, where it is one alone."""
        chosen = self.roster.chosen
        return chosen[0] if len(chosen) == 1 else None

    def _show_chosen(self) -> None:
        """Show the one that is chosen alone, and allow what can be done with it."""
        one, away = self.only, why_not(self._feed.connection)
        self.details.show_client(one)
        for button in (self.invite, self.empty.button):
            allow(button, away, "Let another computer play for this server")
        reason = away or ("" if one is not None else "Choose one client first.")
        elsewhere = one is not None and not one.local
        log_tip = "What went wrong there" if elsewhere else "What it writes, on the page Logs"
        no_log = reason or (why_no_log(one) if one is not None else "")
        for action, why, tip in (
            (self.rename, reason, "Call it something else here; its id stays"),
            (self.log, no_log, log_tip),
            (self.look, reason or (why_no_look(one) if one is not None else ""), "See its game"),
        ):
            allow(action, why, tip)

    def _rename(self) -> None:
        if self.only is not None:
            client, feed = self.only, self._feed
            hint = f"Its id stays {client.id}: logs and invitations name that. "
            hint += "Left empty, it is called so again."

            def save(name: str) -> Call:
                return feed.call("clients.rename", {"client": client.id, "name": name})

            title, words = f"Rename {client.name}", Words("&Rename", "Renaming …", "Renamed")
            NameDialog(title, client.name, hint, words, save, client.id, self).open()

    def _look(self) -> None:
        if self.only is not None:
            LookDialog(self._feed, self.only, self).show()

    def _show_log(self) -> None:
        one = self.only
        if one is not None and one.local:
            self._shell.show_page(LOGS, service=one.id)
        elif one is not None:
            ClientLogDialog(self._feed, one, self).open()

    def show_where(self, client: str = "", **_: Any) -> None:
        """Choose the client of this id."""
        self.roster.words.clear()
        self.roster.model.tick()
        self.roster.choose(client)

    def _take_snapshot(self, status: Status) -> None:
        self.roster.replace(status.clients)

    def _tick(self) -> None:
        if self._feed.connection.live:
            self.roster.tick()

    def showEvent(self, event: QShowEvent) -> None:
        """Let the ages go on."""
        super().showEvent(event)
        self.roster.tick()
        self._timer.start()

    def hideEvent(self, event: QHideEvent) -> None:
        """Rest, and keep the arrangement."""
        super().hideEvent(event)
        self._timer.stop()
        self._memory.keep(self.roster.table)
