"""The dialog for what a client is called."""

from typing import Any

from PySide6.QtWidgets import QFormLayout, QLineEdit, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.dialogs.form import FormDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.widgets.command_button import Words
from soulsgui.wire.control import ClientStatus

_CHARACTERS = 64
_LONGEST = 64


class RenameDialog(FormDialog):
    """Calls a client something else; closes when the server has written it.

    Args:
        feed: The runner.
        client: The client.
        parent: The widget it is opened from.
    """

    def __init__(self, feed: Feed, client: ClientStatus, parent: QWidget | None = None) -> None:
        super().__init__("renameDialog", tr("Rename {client}").format(client=client.name), parent)
        self._feed = feed
        self._client = client.id
        self.name = QLineEdit(client.name, self)
        self.name.setMaxLength(_LONGEST)
        self.name.setPlaceholderText(client.id)
        self.name.selectAll()
        self.save = self.make_main(Words(tr("&Rename"), tr("Renaming …"), tr("Renamed")), self._send)
        self.save.finished.connect(self._saved)
        form = QFormLayout()
        form.addRow(tr("&Name"), self.name)
        hint = tr("Its id stays {id}: logs and invitations name that. Left empty, it is called so again.")
        self.arrange(form, self.save, _CHARACTERS, hint.format(id=self._client))

    def _send(self) -> Call:
        self.wrong.hide()
        return self._feed.call("clients.rename", {"client": self._client, "name": self.name.text().strip()})

    def _saved(self, _: dict[str, Any]) -> None:
        self.accept()
