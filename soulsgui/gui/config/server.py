"""What may be changed about the server while it runs, and where alerts go."""

from functools import partial
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QFrame, QPushButton, QWidget

from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.rules import why_refused
from soulsgui.gui.shell import Shell, notify_problem
from soulsgui.gui.states import reach_look
from soulsgui.gui.theme import GAP_L, GAP_M
from soulsgui.gui.widgets.boxes import TAB_MARGINS, column, row
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.inputs import NumberBox
from soulsgui.gui.widgets.labels import Heading, StateLabel, caption, muted, set_tip, wrapped
from soulsgui.wire.control import AlertSent, InvitationList, Reach

_COMES_IN = (
    "Each has an invitation of its own, and everything is encrypted. What you change takes effect at once, "
    "and is written into config.yaml. Another port cuts the connections of clients, and ends their "
    "invitations."
)
_ALERTS = (
    "A webhook is told when a goal is reached, a run makes no progress, a client is lost, the disk is low, "
    "training diverges, or a service is given up: ntfy, Discord, Slack, or one of your own. A webhook "
    "is used as soon as it is saved."
)


class ServerTab(QWidget):
    """Lets other computers in or not, at once, and tries the alerts.

    Signals:
        changed: config.yaml was written.
        setting_wanted: The form is to show a setting; with its key.
    """

    changed = Signal()
    setting_wanted = Signal(str)

    def __init__(self, feed: Feed, shell: Shell, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._feed, self._shell = feed, shell
        self._known: InvitationList | None = None
        self.reach = StateLabel(self, wraps=True)
        self.lan = QCheckBox("At the private addresses of its co&mputer: home, office, VPN", self)
        self.public = QCheckBox("Also at its addresses that are not private, from the &Internet", self)
        self.port = NumberBox(1, 65_535, self)
        self.port.setGroupSeparatorShown(False)
        self.apply = CommandButton(Words("&Apply now", "Applying …", "Applied"), "check", self._apply, self)
        words = Words("Send a &test", "Sending …", "Sent")
        self.test = CommandButton(words, "bell", lambda: self._feed.call("alerts.test"), self)
        self.no_test = muted(wrapped("", self))
        column(self._others(), self._alerts(), None, on=self, margins=TAB_MARGINS, gap_px=GAP_M)
        for box in (self.lan, self.public):
            box.toggled.connect(self._allow)
        self.port.valueChanged.connect(self._allow)
        self.apply.finished.connect(self._applied)
        self.test.finished.connect(self._sent)
        for button in (self.apply, self.test):
            button.problem.connect(partial(notify_problem, shell))
        self._fetch = Fetch(self, partial(feed.ask, "clients.invite.list"), came=self._take)
        feed.connection_changed.connect(self.refresh)
        feed.allowed_changed.connect(self._allow)
        self.refresh()

    def _others(self) -> QFrame:
        card = QFrame(self)
        card.setProperty("part", "card")
        head = Heading("Other computers come in", 1, card), muted(wrapped(_COMES_IN, card))
        more = self._opener("Other settings of the server", "redis.host", card)
        place = row(caption("P&ort", self.port, card), self.port, None), row(self.apply, more, None)
        parts = *head, self.reach, self.lan, self.public, *place
        column(*parts, on=card, margins=(GAP_L, GAP_M, GAP_L, GAP_M))
        return card

    def _alerts(self) -> QFrame:
        card = QFrame(self)
        card.setProperty("part", "card")
        opener = self._opener("Settings of alerts", "alerts.webhook", card)
        head = Heading("Alerts", 1, card), muted(wrapped(_ALERTS, card))
        column(
            *head, row(self.test, opener, (self.no_test, 1)), on=card, margins=(GAP_L, GAP_M, GAP_L, GAP_M)
        )
        return card

    def _opener(self, words: str, key: str, parent: QWidget) -> QPushButton:
        button = QPushButton(words, parent)
        button.clicked.connect(lambda: self.setting_wanted.emit(key))
        return button

    def refresh(self, *_: object) -> None:
        """Ask how it stands."""
        self._fetch.request()
        self._allow()

    def _take(self, known: InvitationList) -> None:
        before, self._known = self._known, known
        self.reach.show_look(reach_look(known))
        if before is None or _place(before) != _place(known):
            self.lan.setChecked(known.lan)
            self.public.setChecked(known.public)
            self.port.setValue(known.port)
        self._allow()

    def _changes(self) -> dict[str, Any]:
        if self._known is None:
            return {}
        lan, public = self.lan.isChecked(), self.lan.isChecked() and self.public.isChecked()
        wanted = {"lan": lan, "public": public, "port": self.port.value() if self._known.port else 0}
        stands = dict(zip(wanted, _place(self._known), strict=True))
        changed = {name: value for name, value in wanted.items() if value != stands[name]}
        switched = {True: "on", False: "off"}
        return {name: value if name == "port" else switched[bool(value)] for name, value in changed.items()}

    def _allow(self, *_: object) -> None:
        connection, status = self._feed.connection, self._feed.status
        away = why_refused("server.set", connection, status)
        known = self._known if not away else None
        self.lan.setEnabled(known is not None)
        self.port.setEnabled(known is not None and bool(known.port))
        self.public.setEnabled(self.lan.isEnabled() and self.lan.isChecked())
        for box, needs in ((self.lan, ""), (self.public, "Only where its private addresses are open, too")):
            set_tip(box, "" if box.isEnabled() else away or (needs if known else "Asking the server …"))
        refusal = away or ("" if self._changes() else "Nothing has been changed yet.")
        self.apply.allow(refusal)
        refusal = why_refused("alerts.test", connection, status)
        self.test.allow(refusal, "Send one to the webhook that the server uses")
        self.no_test.setText(refusal if connection.live else "")

    def _apply(self) -> Call:
        return self._feed.call("server.set", self._changes())

    def _applied(self, told: Reach) -> None:
        again = ", ".join(told.reissue)
        detail = f"Invite these again: {again}. Their invitations name the old port." if again else ""
        self._shell.notify("success", "The server's network access was changed", detail)
        self.refresh()
        self.changed.emit()

    def _sent(self, told: AlertSent) -> None:
        self._shell.notify("success", f"The test reached {told.place}: HTTP status {told.status}.")


def _place(known: InvitationList) -> tuple[bool, bool, int]:
    return known.lan, known.public, known.port
