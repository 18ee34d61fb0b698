"""The server in the head of the page of client mode: where it is, whether it is well, and what mends it."""

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.connection_state import why_not
from soulsgui.gui.dialogs.change_address import ChangeAddressDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.client_server import server_words, trial_words
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.fitting_row import FittingRow
from soulsgui.gui.widgets.labels import ElidedLabel, StateLabel, keep_place
from soulsgui.wire.control import SavedServer, ServerTest, Status

_GAP_PX = 8
_TEST_PATIENCE_S = 80.0
_LEAST_CHARACTERS = 12


class ServerLine(FittingRow):
    """The server with its address and round trip; a test; and, while it is not found, ways to it.

    Signals:
        told: A test came to an end; with level, what, and why (`Shell.notify`).
        problem: Something could not be done; with the `ApiError`.
        paste_wanted: A new invitation is to be taken from the clipboard.

    Args:
        feed: The runner of client mode.
        chosen: Tells the server that is played for; None for the one of this computer.
        parent: The widget it stands in.
    """

    told = Signal(str, str, str)
    problem = Signal(object)
    paste_wanted = Signal()

    def __init__(
        self, feed: Feed, chosen: Callable[[], SavedServer | None], parent: QWidget | None = None
    ) -> None:
        super().__init__(_GAP_PX, parent)
        self._feed = feed
        self._chosen = chosen
        self._state = StateLabel(self)
        self._place = ElidedLabel("", self)
        self._place.setProperty("weight", "muted")
        self._place.setMinimumWidth(self.fontMetrics().averageCharWidth() * _LEAST_CHARACTERS)
        words = Words(tr("&Test"), tr("Testing …"), tr("Tested"))
        self.test = CommandButton(words, "search", self._test, self)
        self.test.finished.connect(self._tested)
        self.test.problem.connect(self.problem)
        self.change = FittingButton(tr("&Change address…"), "edit", self)
        self.change.explain(tr("The server has another address now: its invitation stays good"))
        self.change.clicked.connect(self._change)
        self.paste = FittingButton(tr("Paste new in&vitation"), "link", self)
        self.paste.explain(tr("The invitation that you copied; whatever it says, you are asked first"))
        self.paste.clicked.connect(self.paste_wanted)
        buttons = (self.change, self.paste, self.test)
        self.row.addWidget(self._state)
        self.row.addWidget(self._place, 1)
        for button in buttons:
            self.row.addWidget(button)
        self.let_give_way(buttons)
        keep_place(self)

    @property
    def place(self) -> str:
        """Where it says the server is."""
        return self._place.text()

    def show_status(self, status: Status) -> None:
        """Say how the server is."""
        look, where = server_words(status)
        self._state.show_look(look)
        self._place.setText(where)
        why = why_not(self._feed.connection)
        self.test.allow(not why, why or tr("Does it answer, let this computer in, and fit its version?"))
        lost = bool(status.server.name) and not status.server.reachable
        for button in (self.change, self.paste):
            button.setVisible(lost)
            button.setEnabled(not why)

    # --- what can be done ---

    def _test(self) -> Call:
        return self._feed.call("servers.test", patience_s=_TEST_PATIENCE_S)

    def _tested(self, result: dict[str, Any]) -> None:
        name = self._feed.status.server.name or tr("This computer's own server")
        self.told.emit(*trial_words(ServerTest.model_validate(result), name))

    def _change(self) -> None:
        chosen = self._chosen()
        if chosen is not None:
            ChangeAddressDialog(self._feed, chosen, self).open()

    @property
    def taken_px(self) -> int:
        """Room for the state and a little of the address."""
        return self._state.sizeHint().width() + self._place.minimumWidth() + 2 * _GAP_PX
