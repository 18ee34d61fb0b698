"""The clients: their table, and what can be done with the chosen ones: on two pages."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QItemSelectionModel, QPoint, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QMenu, QStackedWidget, QVBoxLayout, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.connection_state import Connection, why_not
from soulsgui.gui.dialogs.asking_button import AskingButton
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.models.clients import RATES_ROLE, ClientsModel
from soulsgui.gui.pages.overview_client_rules import (
    ClientAction,
    client_actions,
    possible,
    question_before,
)
from soulsgui.gui.pages.overview_together import together
from soulsgui.gui.question import Question
from soulsgui.gui.states import clients_here
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.filter_edit import FilterEdit
from soulsgui.gui.widgets.fitting_button import fit
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.gui.widgets.labels import ElidedLabel, Heading
from soulsgui.gui.widgets.sparkline import Sparkline
from soulsgui.gui.widgets.table import Table
from soulsgui.wire.control import ClientStatus

_TICK_MS = 200
_GAP_PX = 6


class ClientsSection(QWidget):
    """Every client of the roster, with a toolbar for the chosen ones.

    Signals:
        problem: A command failed; with the `ApiError`.
        chosen_changed: Other clients are chosen, or something about them changed.

    Args:
        feed: The runner.
        parent: The widget it stands in.
        name: Name of its table, under which its columns are remembered.
        actions: What can be done with the chosen ones.
    """

    problem = Signal(object)
    chosen_changed = Signal()

    def __init__(
        self,
        feed: Feed,
        parent: QWidget | None = None,
        name: str = "overviewClients",
        actions: Sequence[ClientAction] | None = None,
    ) -> None:
        super().__init__(parent)
        self._actions = tuple(client_actions() if actions is None else actions)
        self._feed = feed
        self._connection = feed.connection
        self.model = ClientsModel(self)
        self.table = Table(name, self.tr("Clients"), self)
        self.buttons: dict[str, CommandButton] = {}
        self._build()
        self._throttle = Throttle(self, self._tick, _TICK_MS)

    # --- building ---

    def _build(self) -> None:
        self.table.setModel(self.model)
        self.table.setItemDelegateForColumn(
            self.model.column_number("rate"), Sparkline(RATES_ROLE, self.table)
        )
        self.table.sort_by(self.model.column_number("name"))
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.table.customContextMenuRequested.connect(self._open_menu)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._arrange_buttons())
        self.empty = self._make_empty()
        self._stack = QStackedWidget(self)
        self._stack.addWidget(self.table)
        self._stack.addWidget(self.empty)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        for row in self._rows():
            column.addLayout(row)
        column.addWidget(self._stack, 1)

    def _make_empty(self) -> QWidget:
        self._no_client = QLabel(self)
        self._no_client.setWordWrap(True)
        self._no_client.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._no_client.setProperty("weight", "muted")
        return self._no_client

    def _rows(self) -> list[FlowLayout]:
        """Return what stands over the table: here all in one row."""
        row = self._head()
        for button in self._make_buttons():
            row.addWidget(button)
        return [row]

    def _head(self) -> FlowLayout:
        self._heading = Heading(self.tr("Clients"), 0, self)
        self._count = ElidedLabel("", self)
        self._count.setProperty("weight", "muted")
        self.words = FilterEdit(self.tr("Filter by name, host, state, environment or error"), self)
        self.words.textChanged.connect(self._narrow)
        row = FlowLayout(_GAP_PX)
        for part in (self._heading, self._count, self.words):
            row.addWidget(part)
        return row

    def _make_buttons(self) -> list[CommandButton]:
        for action in self._actions:
            words = Words(action.title, action.doing, action.done)
            button = AskingButton(
                words, action.icon, partial(self._send, action), partial(self._question, action), self
            )
            button.problem.connect(self.problem)
            self.buttons[action.name] = button
        return list(self.buttons.values())

    # --- data in ---

    def replace(self, clients: list[ClientStatus]) -> None:
        """Show these clients and no others."""
        self.model.replace(clients)
        self._throttle.request()

    def apply(self, changed: list[ClientStatus], removed: list[str]) -> None:
        """Show what changed."""
        self.model.apply(changed, removed)
        self._throttle.request()

    def tick(self) -> None:
        """Let the ages of heartbeats go on; the owner calls it once a second while they are the present."""
        self._throttle.request()

    def show_connection(self, connection: Connection) -> None:
        """Grey the table while it is not the present."""
        self._connection = connection
        self.table.setEnabled(connection.live)
        self._show_count()
        self._arrange_buttons()

    def _narrow(self, words: str) -> None:
        self.model.set_filter(words)
        self._show_count()

    def _tick(self) -> None:
        self.model.tick()
        self._show_count()
        self._arrange_buttons()

    def _show_count(self) -> None:
        clients = self._feed.status.clients
        here, expected = clients_here(clients)
        words = tr("{here} of {all} connected").format(here=here, all=expected)
        self._count.setText(words if expected else "")
        if self._feed.last_data is not None or self._connection.live:
            self._say_empty(bool(clients))
        else:
            self._say_waiting(why_not(self._connection))
        self._stack.setCurrentIndex(0 if self.model.rowCount() else 1)

    def _say_waiting(self, words: str) -> None:
        self._no_client.setText(words)

    def _say_empty(self, filtered: bool) -> None:
        if filtered:
            self._no_client.setText(tr("No client fits the filter."))
        else:
            self._no_client.setText(
                tr("No clients yet. They appear when a run begins or one joins from elsewhere.")
            )

    # --- the chosen ones ---

    @property
    def chosen(self) -> list[ClientStatus]:
        """The selected clients, from top to bottom."""
        rows = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        found = [self.model.client_at(row) for row in rows]
        return [client for client in found if client is not None]

    def choose(self, *names: str) -> None:
        """Select these clients and no others."""
        selection = self.table.selectionModel()
        selection.clear()
        for name in names:
            row = self.model.row_of(name)
            if row is not None:
                flags = QItemSelectionModel.SelectionFlag.Select | QItemSelectionModel.SelectionFlag.Rows
                selection.select(self.model.index(row, 0), flags)

    def _send(self, action: ClientAction) -> Call | None:
        able, _ = possible(action.name, self.chosen, self._feed.status)
        if not able:  # it has just become impossible: the button says why from now on
            self._arrange_buttons()
            return None
        return together([self._feed.call(action.command, {"client": client.id}) for client in able])

    def _question(self, action: ClientAction) -> Question | None:
        able, _ = possible(action.name, self.chosen, self._feed.status)
        return question_before(action.name, able)

    def _arrange_buttons(self) -> None:
        chosen = self.chosen
        self.chosen_changed.emit()
        for action in self._actions:
            able, reason = possible(action.name, chosen, self._feed.status)
            reason = why_not(self._connection) or reason
            allowed = bool(able) and self._connection.commands_possible
            self.buttons[action.name].allow(allowed, action.tip if allowed else reason)

    def _open_menu(self, place: QPoint) -> None:
        menu = self.menu()
        menu.popup(self.table.viewport().mapToGlobal(place))

    def menu(self) -> QMenu:
        """Return a menu with the same actions as the toolbar."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.setToolTipsVisible(True)
        for action in self._actions:
            button = self.buttons[action.name]
            entry = menu.addAction(action.title)
            dress(entry, action.icon)
            entry.setEnabled(button.isEnabled())
            entry.setToolTip(button.toolTip())
            # The button stays; the menu is gone when the answer comes.
            entry.triggered.connect(button.click)
        return menu

    # --- room ---

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave the words of the buttons out where there is no room for them."""
        super().resizeEvent(event)
        room = self.width() - self._heading.sizeHint().width() - 34 * self.fontMetrics().averageCharWidth()
        fit(list(self.buttons.values()), room, _GAP_PX)
