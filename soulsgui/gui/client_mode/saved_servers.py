"""The servers that invited this computer, and the one it plays for: where it is, a test, ways to it."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFormLayout, QLineEdit, QSizePolicy, QWidget

from soulsgui.errors import UsageError
from soulsgui.gui import text
from soulsgui.gui.client_mode.runner import START_TIMEOUT_S, ClientSide
from soulsgui.gui.client_mode.state import server_words, trial_words
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import Question
from soulsgui.gui.theme import GAP_S
from soulsgui.gui.widgets.ask import AskingButton
from soulsgui.gui.widgets.boxes import flow
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.dialog import FormDialog, ask_for_file
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.inputs import ChoiceBox
from soulsgui.gui.widgets.labels import ElidedLabel, StateLabel, caption, keep_place, muted, wrapped
from soulsgui.wire.control import (
    AddressChange,
    ApiError,
    ErrorCode,
    SavedServer,
    SavedServers,
    ServerTest,
    Status,
)
from soulsgui.wire.invitation import SUFFIX, Invitation, place_words

_CHARACTERS = 64
_LONGEST = 300


class ChangeAddressDialog(FormDialog):
    """Looks for a server at another address; takes one where it is not found only after a second click."""

    def __init__(self, feed: Feed, server: SavedServer, parent: QWidget | None = None) -> None:
        title = f"Address of {server.server_name}"
        super().__init__("changeAddressDialog", title, parent)
        self._feed = feed
        self._server = server
        self._refused = ""
        self._asked = ""
        self.place = QLineEdit(place_words(*server.addresses[0]), self)
        self.place.setMaxLength(_LONGEST)
        self.place.selectAll()
        self.place.textEdited.connect(self._edited)
        words = Words("&Use this address", "Looking for it …", "Found")
        self.use = self.make_main(words, lambda: self._send(confirmed=False))
        again = Words("Use it &all the same", "Writing …", "Taken")
        self.insist = CommandButton(again, "state-warning", lambda: self._send(confirmed=True), self)
        self.insist.problem.connect(self.show_problem)
        self.insist.hide()
        for button in (self.use, self.insist):
            button.finished.connect(self._answered)
        form = QFormLayout()
        form.addRow("A&ddress", self.place)
        hint = f"Where {server.server_name} is now, as its owner tells you. The invitation stays good."
        foot = self.foot(self.insist, main=[self.use], leave="&Cancel")
        self.arrange(form, muted(wrapped(hint, self)), foot=foot, characters=_CHARACTERS)

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
        return self._feed.call("servers.change_address", params, timeout_s=START_TIMEOUT_S)

    def _answered(self, change: AddressChange) -> None:
        if change.taken:
            self.accept()
            return
        self._refused = self._asked
        remedy = "Ask its owner for a new invitation." if change.final else ""
        self.say_wrong(f"{change.why}\n{remedy}".strip(), "bad" if change.final else "warning")
        self.insist.setVisible(not change.final)


_TEST_TIMEOUT_S = 80.0
_PLACE_CHARACTERS = 12


class ServerLine(QWidget):
    """The server with its address and round trip; a test; and, while it is not found, ways to it.

    Signals:
        told: A test came to an end; with level, what, and why (`Shell.notify`).
        problem: Something could not be done; with the `ApiError`.
    """

    told = Signal(str, str, str)
    problem = Signal(object)

    def __init__(
        self, feed: Feed, chosen: Callable[[], SavedServer | None], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._feed = feed
        self._chosen = chosen
        self._state = StateLabel(self)
        self.place = muted(ElidedLabel("", self))
        self.place.setMinimumWidth(self.fontMetrics().averageCharWidth() * _PLACE_CHARACTERS)
        words = Words("&Test", "Testing …", "Tested")
        test = partial(feed.call, "servers.test", timeout_s=_TEST_TIMEOUT_S)
        self.test = CommandButton(words, "search", test, self)
        self.test.finished.connect(self._tested)
        self.test.problem.connect(self.problem)
        self.change = FittingButton("&Change address…", "edit", self)
        self.change.explain("The server has another address now: its invitation stays good")
        self.change.clicked.connect(self._change)
        self.paste = FittingButton("Paste new in&vitation", "link", self)
        self.paste.explain("The invitation that you copied; whatever it says, you are asked first")
        flow(self._state, self.place, self.change, self.paste, self.test, gap_px=GAP_S, on=self)
        keep_place(self)

    def show_status(self, status: Status) -> None:
        """Say how the server is."""
        look, where = server_words(status)
        self._state.show_look(look)
        self.place.setText(where)
        why = why_not(self._feed.connection)
        self.test.allow(why, "Does it answer, let this computer in, and fit its version?")
        lost = bool(status.server.name) and not status.server.reachable
        for button in (self.change, self.paste):
            button.setVisible(lost)
            button.setEnabled(not why)

    def _tested(self, found: ServerTest) -> None:
        name = self._feed.status.server.name or "This computer's own server"
        self.told.emit(*trial_words(found, name))

    def _change(self) -> None:
        chosen = self._chosen()
        if chosen is not None:
            ChangeAddressDialog(self._feed, chosen, self).open()


_BOX_CHARACTERS = 22


class ServersRow(QWidget):
    """The server this computer plays for, chosen from those that invited it.

    Signals:
        problem: Something could not be done; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(self, side: ClientSide, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._side = side
        self._feed = side.feed
        self._saved = SavedServers(chosen="", servers=[])
        self._build()
        ask = partial(self._feed.ask, "servers.list")
        self._fetch = Fetch(self, ask, came=self._take, failed=self.problem)
        self._feed.connection_changed.connect(self._connection_changed)
        self._feed.server_changed.connect(self.refresh)
        self._feed.snapshot_taken.connect(self.refresh)
        self._fill()
        self._connection_changed()

    def _build(self) -> None:
        self.box = ChoiceBox("", self, characters=_BOX_CHARACTERS)
        self.box.setObjectName("playFor")
        self.box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.box.activated.connect(self._chosen)
        title = caption("Plays &for", self.box, self)
        words = Words("For&get…", "Forgetting …", "Forgotten")
        self.forget = AskingButton(words, "trash", self._forget, self._forget_question, self)
        self.forget.problem.connect(self.problem)
        self.forget.finished.connect(self.refresh)
        self.open = FittingButton("&Open invitation…", "folder", self)
        self.open.explain("The .soulsgui file that you were sent")
        self.open.clicked.connect(self._open_file)
        self.paste = FittingButton("Paste &link", "link", self)
        self.paste.explain("The invitation that you copied: a link, or the text of its file")
        self.paste.clicked.connect(self.paste_link)
        flow(title, self.box, self.open, self.paste, self.forget, gap_px=GAP_S, on=self)

    def refresh(self, *_: object) -> None:
        """Ask for the list again."""
        self._fetch.request()

    def _take(self, saved: SavedServers) -> None:
        self._saved = saved
        self._fill()
        self._allow()

    def _fill(self) -> None:
        servers = self._saved.servers
        known = [(text.plain(f"{one.server_name} (as {one.client})"), one.server_id) for one in servers]
        self.box.offer([("This computer's own server", ""), *known], self._saved.chosen)

    @property
    def chosen(self) -> SavedServer | None:
        """The server this computer plays for; None for its own."""
        return next((one for one in self._saved.servers if one.server_id == self._saved.chosen), None)

    def _connection_changed(self) -> None:
        self.box.setEnabled(self._feed.connection.live)
        if self._feed.connection.live:
            self.refresh()
        self._allow()

    def _allow(self) -> None:
        reason = why_not(self._feed.connection)
        if not reason and self.chosen is None:
            reason = "This computer's own server is always in the list."
        self.forget.allow(reason, "Delete the invitation of this server")

    def _chosen(self) -> None:
        server_id = str(self.box.currentData())
        if server_id == self._saved.chosen:
            return
        self.box.setEnabled(False)
        call = self._feed.call("servers.choose", {"server_id": server_id}, timeout_s=START_TIMEOUT_S)
        call.done.connect(self._went_over)
        call.tell_problem(self._not_chosen)

    def _went_over(self) -> None:
        self.box.setEnabled(self._feed.connection.live)
        self.refresh()

    def _not_chosen(self, error: ApiError) -> None:
        self.problem.emit(error)
        self._fill()
        self._went_over()

    def _forget_question(self) -> Question | None:
        if self.chosen is None:
            return None
        cost = "This computer stops playing for it. To help it again you need another invitation."
        return Question(f"Forget {self.chosen.server_name}?", cost, "Forget").of(self.chosen.server_id)

    def _forget(self) -> Call:
        return self._feed.call("servers.forget", {"server_id": self._saved.chosen}, timeout_s=START_TIMEOUT_S)

    def _open_file(self) -> None:
        kinds = f"Invitations (*{SUFFIX});;All files (*)"
        ask_for_file("Open an invitation", kinds, self.open_path, self)

    def open_path(self, path: str) -> None:
        """Ask about the invitation in a file."""
        try:
            invitation = Invitation.load(Path(path))
        except UsageError as error:
            self._tell(error)
        else:
            self._side.open_invitation(invitation)

    def paste_link(self) -> None:
        """Ask about the invitation on the clipboard."""
        text = QGuiApplication.clipboard().text()
        try:
            invitation = Invitation.parse(text)
        except UsageError as error:
            empty = UsageError("There is no invitation to paste.", "Copy the link first: all of it.")
            self._tell(error if text.strip() else empty)
        else:
            self._side.open_invitation(invitation)

    def _tell(self, error: UsageError) -> None:
        self.problem.emit(ApiError(code=ErrorCode.BAD_REQUEST, message=error.message, remedy=error.remedy))
