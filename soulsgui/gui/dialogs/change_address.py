"""The dialog for a server that has another address than its invitation says."""

from typing import Any

from PySide6.QtWidgets import QFormLayout, QLineEdit, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.client_side import START_PATIENCE_S
from soulsgui.gui.dialogs.form import FormDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.wire.control import AddressChange, SavedServer
from soulsgui.wire.invitation import place_words

_CHARACTERS = 64
_LONGEST = 300


class ChangeAddressDialog(FormDialog):
    """Looks for a server at another address; takes one where it is not found only after a second click.

    Args:
        feed: The runner of client mode.
        server: The server.
        parent: The widget it is opened from.
    """

    def __init__(self, feed: Feed, server: SavedServer, parent: QWidget | None = None) -> None:
        title = tr("Address of {server}").format(server=server.server_name)
        super().__init__("changeAddressDialog", title, parent)
        self._feed = feed
        self._server = server
        self._refused = ""
        self._asked = ""
        self.place = QLineEdit(place_words(*server.addresses[0]), self)
        self.place.setMaxLength(_LONGEST)
        self.place.selectAll()
        self.place.textEdited.connect(self._edited)
        words = Words(tr("&Use this address"), tr("Looking for it …"), tr("Found"))
        self.use = self.make_main(words, lambda: self._send(confirmed=False))
        again = Words(tr("Use it &all the same"), tr("Writing …"), tr("Taken"))
        self.insist = CommandButton(again, "state-warning", lambda: self._send(confirmed=True), self)
        self.insist.setAutoDefault(False)
        self.insist.problem.connect(self.show_problem)
        self.insist.hide()
        for button in (self.use, self.insist):
            button.finished.connect(self._answered)
        form = QFormLayout()
        form.addRow(tr("A&ddress"), self.place)
        hint = tr("Where {server} is now, as its owner tells you. The invitation stays good.")
        self.arrange(form, self.use, _CHARACTERS, hint.format(server=server.server_name), [self.insist])

    def _edited(self) -> None:
        # What was said was said of another address.
        self.insist.hide()
        self.wrong.hide()

    def _send(self, confirmed: bool) -> Call:
        self.wrong.hide()
        # Only what was asked about can be confirmed.
        place = self._refused if confirmed else self.place.text().strip()
        self._asked = place
        params = {"server_id": self._server.server_id, "place": place, "confirmed": confirmed}
        return self._feed.call("servers.change_address", params, patience_s=START_PATIENCE_S)

    def _answered(self, result: dict[str, Any]) -> None:
        change = AddressChange.model_validate(result)
        if change.taken:
            self.accept()
            return
        self._refused = self._asked
        remedy = tr("Ask its owner for a new invitation.") if change.final else ""
        self.say_wrong(f"{change.why}\n{remedy}".strip(), "bad" if change.final else "warning")
        self.insist.setVisible(not change.final)
