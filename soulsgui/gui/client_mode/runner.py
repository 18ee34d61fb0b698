"""The other side of the program: the runner of client mode on this machine, with a feed of its own."""

from PySide6.QtCore import QObject, Signal

from soulsgui.gui.feed import Feed
from soulsgui.gui.models.connection import ConnectionState
from soulsgui.wire.control.states import CLIENT
from soulsgui.wire.invitation import Invitation

START_TIMEOUT_S = 40.0


class ClientSide(QObject):
    """What the window knows of client mode, and its way to start it.

    Signals:
        start_wanted: A runner of client mode is to be started; it plays when it is told to.
        invitation_opened: Somebody invites this computer; with the `Invitation`.
        problem: It could not be switched on; with the `ApiError`.
    """

    start_wanted = Signal()
    invitation_opened = Signal(object)
    problem = Signal(object)

    def __init__(self, parent: QObject | None = None, feed: Feed | None = None) -> None:
        super().__init__(parent)
        self.feed = feed or Feed(self)
        self.invitation: Invitation | None = None  # opened and not answered yet
        self.on_wanted = False
        self.feed.connection_changed.connect(self._connection_changed)

    @property
    def playing(self) -> bool:
        """Whether this computer helps at present."""
        services = self.feed.status.services if self.feed.connection.live else []
        return any(service.state in ("starting", "running", "backoff") for service in services)

    def be_ready(self) -> None:
        """Start the runner of client mode where there is none: it knows who invited."""
        if self.feed.connection.off:
            self.start_wanted.emit()

    def switch_on(self) -> None:
        """Let this computer help, by a runner that is started if there is none."""
        self.on_wanted = True
        self.start_wanted.emit()

    def stay_off(self) -> None:
        """Help no longer as soon as its runner is there."""
        self.on_wanted = False

    def open_invitation(self, invitation: Invitation) -> None:
        """Ask the owner of this computer about an invitation."""
        self.invitation = invitation
        self.invitation_opened.emit(invitation)

    def answered(self) -> None:
        """The invitation is accepted, or put aside."""
        self.invitation = None

    def _connection_changed(self) -> None:
        state = self.feed.connection.state
        if state in (ConnectionState.START_FAILED, ConnectionState.NOT_ALLOWED):
            self.on_wanted = False
        elif self.on_wanted and self.feed.connection.live:
            self.on_wanted = False
            call = self.feed.call("service.start", {"name": CLIENT}, timeout_s=START_TIMEOUT_S)
            call.tell_problem(self.problem)
