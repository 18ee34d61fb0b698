"""What else there is to know of one client: below the table of the clients."""

import time

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QSizePolicy, QWidget

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.client_columns import state_words
from soulsgui.gui.widgets.labels import set_property
from soulsgui.wire.control import ClientStatus


def facts(client: ClientStatus, now: float) -> dict[str, str]:
    """Return what is told of a client, by name.

    Args:
        client: The client.
        now: Seconds since the epoch.
    """
    invited = text.clock(client.invited, now) if client.invited is not None else ""
    return {
        "id": client.id if client.name == client.id else f"{client.name} ({client.id})",
        "state": state_words(client, client.age_s),
        "rejected": text.reasons(client.rejected),
        "error": client.error or text.NOTHING,
        "version": client.version or text.NOTHING,
        "invited": invited or (tr("one of this server's own") if client.local else tr("no")),
    }


class ClientDetails(QFrame):
    """The chosen client's id, state, rejections with their reasons, last error, version and invitation."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("part", "card")
        self._values: dict[str, QLabel] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(16, 10, 16, 10)
        grid.setHorizontalSpacing(14)
        grid.setVerticalSpacing(4)
        for place, (name, title) in enumerate(
            (
                ("id", tr("Client")),
                ("state", tr("State")),
                ("version", tr("Version")),
                ("invited", tr("Invited")),
                ("rejected", tr("Rejected")),
                ("error", tr("Last error")),
            )
        ):
            row, column = (place % 2, 2 * (place // 2)) if place < 4 else (place - 2, 0)
            self._add(grid, name, title, row, column, 3 if place >= 4 else 1)
        for column in (1, 3):
            grid.setColumnStretch(column, 1)
        self.show_client(None)

    def _add(self, grid: QGridLayout, name: str, title: str, row: int, column: int, span: int) -> None:
        caption = QLabel(title, self)
        caption.setProperty("weight", "muted")
        value = QLabel(self)
        value.setWordWrap(True)
        value.setTextFormat(Qt.TextFormat.PlainText)
        value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        value.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        value.setAccessibleName(title)
        grid.addWidget(caption, row, column, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(value, row, column + 1, 1, span)
        self._values[name] = value

    def show_client(self, client: ClientStatus | None) -> None:
        """Show another client, or the same one anew; None for none."""
        self.setVisible(client is not None)
        if client is None:
            return
        for name, words in facts(client, time.time()).items():
            self._values[name].setText(words)
        set_property(self._values["error"], "tone", "bad" if client.error else "")

    def value(self, name: str) -> str:
        """Return what it says of `id`, `state`, `rejected`, `error`, `version` or `invited`."""
        return self._values[name].text()
