"""The cards of the services: one for each kind, the local clients together, and below them one by one."""

import time
from collections.abc import Callable, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from soulsgui.gui.connection_state import Connection, why_not
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import plural
from soulsgui.gui.pages.overview_local_clients import LocalClientsCard
from soulsgui.gui.pages.overview_service_card import ServiceCard
from soulsgui.gui.pages.overview_service_rules import forbidden, stop_question, why_no_run
from soulsgui.gui.question import Question
from soulsgui.gui.states import run_is_active
from soulsgui.gui.widgets.flow_layout import FlowLayout
from soulsgui.wire.control import RunStatus, ServiceStatus, Status

_CLIENT = "client"
_ORDER = ("redis", "trainer", "telemetry", "evaluator")
_GAP_PX = 10
_CARD_CHARACTERS = 36
_MOST_SINGLE = 32


class _Cards(QWidget):
    """Cards side by side; services come and go.

    Args:
        owner: Makes and follows the cards.
        parent: The widget it stands in.
    """

    def __init__(self, owner: "ServiceRow", parent: QWidget) -> None:
        super().__init__(parent)
        self._owner = owner
        self.cards: dict[str, ServiceCard] = {}
        # As wide as each other, so that their buttons are alike.
        self.row = FlowLayout(_GAP_PX, columns=True, parent=self)

    def show_services(self, services: Sequence[ServiceStatus], run: RunStatus) -> None:
        names = [service.name for service in services]
        for name in [name for name in self.cards if name not in names]:
            card = self.cards.pop(name)
            card.hide()
            card.deleteLater()
        for place, service in enumerate(services):
            if service.name not in self.cards:
                self.cards[service.name] = self._owner.new_card(service.name, self)
                self.row.insert_widget(place, self.cards[service.name])
            card = self.cards[service.name]
            card.forbid(forbidden(service, run))
            card.show_status(service)


class ServiceRow(QWidget):
    """Every service of the server.

    Signals:
        log_asked: A service's log is to be shown; with its name.
        problem: A command failed; with the `ApiError`.

    Args:
        feed: The runner.
        parent: The widget it stands in.
        clock: Monotonic time, seconds.
    """

    log_asked = Signal(str)
    problem = Signal(object)

    def __init__(
        self, feed: Feed, parent: QWidget | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(parent)
        self._feed = feed
        self._clock = clock
        self._connection = feed.connection
        self._kinds = _Cards(self, self)
        self.clients = LocalClientsCard(feed.call, self._kinds, clock)
        self._kinds.row.addWidget(self.clients)
        self.clients.log_asked.connect(self.log_asked)
        self.clients.problem.connect(self.problem)
        self.clients.expanded.connect(self._expand)
        self._singles = _Cards(self, self)
        self._more = QLabel(self._singles)
        self._more.setProperty("weight", "muted")
        self._singles.row.addWidget(self._more)
        self._singles.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(_GAP_PX)
        column.addWidget(self._kinds)
        column.addWidget(self._singles)

    def new_card(self, name: str, parent: _Cards) -> ServiceCard:
        """Return a card for a service."""
        card = ServiceCard(name, self._feed.call, parent, self._clock)
        card.log_asked.connect(self.log_asked)
        card.problem.connect(self.problem)
        card.ask_before_stop(self._stop_question)
        card.connect_commands(self._connection.commands_possible, why_not(self._connection))
        return card

    def _stop_question(self, name: str) -> Question | None:
        status = self._feed.status
        service = next((one for one in status.services if one.name == name), None)
        return None if service is None else stop_question(service, status.run)

    # --- what is shown ---

    def show_status(self, status: Status) -> None:
        """Show the services as the server tells of them."""
        kinds = sorted((one for one in status.services if one.kind != _CLIENT), key=_rank)
        clients = [one for one in status.services if one.kind == _CLIENT]
        self._kinds.show_services(kinds, status.run)
        self.clients.show_clients(clients)
        self._connect_clients(status.run)
        self._show_singles(clients, status.run)

    def _show_singles(self, clients: Sequence[ServiceStatus], run: RunStatus) -> None:
        if self._singles.isHidden():
            self._singles.show_services([], run)
            return
        if not clients:
            self.clients.each.setChecked(False)
            return
        self._singles.show_services(clients[:_MOST_SINGLE], run)
        for card in self._singles.cards.values():
            card.setMinimumWidth(_CARD_CHARACTERS * self.fontMetrics().averageCharWidth())
        left = len(clients) - _MOST_SINGLE
        self._more.setText(plural(left, "and {n} more", "and {n} more"))
        self._more.setVisible(left > 0)

    def show_connection(self, connection: Connection) -> None:
        """Grey everything while it is not the present."""
        self._connection = connection
        for cards in (self._kinds, self._singles):
            for card in cards.cards.values():
                card.connect_commands(connection.commands_possible, why_not(connection))
        self._connect_clients(self._feed.status.run)

    def _connect_clients(self, run: RunStatus) -> None:
        reason = why_not(self._connection) or ("" if run_is_active(run.state) else why_no_run())
        self.clients.connect_commands(self._connection.commands_possible, reason)

    def tick(self) -> None:
        """Let uptimes and countdowns go on; the owner calls it once a second."""
        for cards in (self._kinds, self._singles) if not self._singles.isHidden() else (self._kinds,):
            for card in cards.cards.values():
                card.tick()
        self.clients.tick()

    def _expand(self, on: bool) -> None:
        self._singles.setVisible(on)
        self.show_status(self._feed.status)

    @property
    def cards(self) -> dict[str, ServiceCard]:
        """The cards by the name of their service, single clients included while they are shown."""
        return {**self._kinds.cards, **self._singles.cards}


def _rank(service: ServiceStatus) -> tuple[int, str]:
    place = _ORDER.index(service.kind) if service.kind in _ORDER else len(_ORDER)
    return place, service.name
