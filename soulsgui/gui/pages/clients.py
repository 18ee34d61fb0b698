"""The page of the clients: everyone in the roster, what each does, and what can be done with it."""

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from soulsgui.gui.connection_state import Connection, why_not
from soulsgui.gui.dialogs.client_log import ClientLogDialog
from soulsgui.gui.dialogs.rename import RenameDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.memory import Memory
from soulsgui.gui.pages.client_details import ClientDetails
from soulsgui.gui.pages.overview_client_rules import roster_actions, why_no_log
from soulsgui.gui.pages.overview_clients import ClientsSection
from soulsgui.gui.pages.table import CLIENTS
from soulsgui.gui.shell import notify_problem
from soulsgui.gui.widgets.empty_state import EmptyState
from soulsgui.gui.widgets.fitting_button import FittingButton, fit
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import set_tip
from soulsgui.wire.control import ApiError, ClientStatus, Status

if TYPE_CHECKING:
    from soulsgui.gui.shell import Shell

_TICK_MS = 1000
_GAP_PX = 6


class Roster(ClientsSection):
    """The table of the clients with everything that can be done with them.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        self._shell = shell
        super().__init__(feed, parent, "clients", roster_actions())

    # --- building ---

    def _make_empty(self) -> QWidget:
        made = EmptyState("page-clients", "", "", tr("Invite…"), "add", self)
        made.acted.connect(self._shell.open_invite)
        self._no_one = made
        return made

    def _rows(self) -> list[FlowLayout]:
        head = self._head()
        self.invite = QPushButton(tr("&Invite…"), self)
        self.invite.setObjectName("invite")
        dress(self.invite, "add")
        self.invite.clicked.connect(self._shell.open_invite)
        head.addWidget(self.invite)
        actions = FlowLayout(_GAP_PX)
        self.rename = FittingButton(tr("Rename…"), "edit", self)
        self.rename.clicked.connect(self._rename)
        self.log = FittingButton(tr("Show log"), "log", self)
        self.log.clicked.connect(self._show_log)
        made: list[FittingButton] = [*self._make_buttons()]
        self._in_row = [*made, self.rename, self.log]
        for button in self._in_row:
            actions.addWidget(button)
        return [head, actions]

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave the words of the buttons out where there is no room for them."""
        super().resizeEvent(event)
        fit(self._in_row, self.width(), _GAP_PX)

    def _say_waiting(self, words: str) -> None:
        self._no_one.button.hide()
        self._no_one.say(words, "")

    def _say_empty(self, filtered: bool) -> None:
        self._no_one.button.setVisible(not filtered)
        if filtered:
            self._no_one.say(tr("No client fits the filter"), tr("Empty the filter to see everyone."))
        else:
            self._no_one.say(
                tr("Nobody plays for this server yet"),
                tr("A run brings clients of its own. Invite other computers to make it quicker."),
            )

    # --- the chosen one ---

    @property
    def only(self) -> ClientStatus | None:
        """The chosen client, where it is one alone."""
        chosen = self.chosen
        return chosen[0] if len(chosen) == 1 else None

    def _arrange_buttons(self) -> None:
        super()._arrange_buttons()
        away = why_not(self._connection)
        self.invite.setEnabled(not away)
        self._no_one.button.setEnabled(not away)
        for button in (self.invite, self._no_one.button):
            set_tip(button, away or tr("Let another computer play for this server"))
        one = self.only
        alone = "" if one is not None else tr("Choose one client first.")
        _allow(self.rename, away or alone, tr("Call it something else here; its id stays"))
        no_log = alone or (why_no_log(one) if one is not None else "")
        elsewhere = one is not None and not one.local
        tip = tr("What went wrong there") if elsewhere else tr("What it writes, on the page Logs")
        _allow(self.log, away or no_log, tip)

    def _rename(self) -> None:
        one = self.only
        if one is not None:
            RenameDialog(self._feed, one, self).open()

    def _show_log(self) -> None:
        one = self.only
        if one is None:
            return
        if one.local:
            self._shell.show_page("logs", service=one.id)
        else:
            ClientLogDialog(self._feed, one, self).open()


def _allow(button: FittingButton, why_not_now: str, tip: str) -> None:
    button.setEnabled(not why_not_now)
    button.explain(why_not_now or tip)


class ClientsPage(QWidget):
    """Everyone who plays for this server, or may.

    Args:
        feed: The runner.
        shell: The window.
        parent: The widget it stands in.
    """

    def __init__(self, feed: Feed, shell: "Shell", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("clientsPage")
        self._feed = feed
        self._shell = shell
        self._memory = Memory(shell.settings(), CLIENTS)
        self.roster = Roster(feed, shell, self)
        self.landing = self.roster.table
        self.details = ClientDetails(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 8)
        column.setSpacing(8)
        column.addWidget(self.roster, 1)
        column.addWidget(self.details)
        self._timer = QTimer(self, interval=_TICK_MS)
        self._timer.timeout.connect(self._tick)
        self._connect()
        self._memory.restore(self.roster.table)

    def _connect(self) -> None:
        feed = self._feed
        feed.snapshot_taken.connect(self._take_snapshot)
        # Also while hidden: the small curves would have gaps.
        feed.clients_changed.connect(self.roster.apply)
        feed.connection_changed.connect(self._show_connection)
        self.roster.problem.connect(self._tell)
        self.roster.chosen_changed.connect(self._show_details)
        self.roster.replace(feed.status.clients)
        self._show_connection(feed.connection)

    def show_where(self, client: str = "", **_: Any) -> None:
        """Choose a client.

        Args:
            client: Its id.
        """
        self.roster.words.clear()
        self.roster.model.tick()
        self.roster.choose(client)

    def _take_snapshot(self, status: Status) -> None:
        self.roster.replace(status.clients)

    def _show_connection(self, connection: Connection) -> None:
        self.roster.show_connection(connection)

    def _show_details(self) -> None:
        self.details.show_client(self.roster.only)

    def _tick(self) -> None:
        if self._feed.connection.live:
            self.roster.tick()

    def _tell(self, error: ApiError) -> None:
        notify_problem(self._shell, error)

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
