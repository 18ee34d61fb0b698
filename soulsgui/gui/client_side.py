"""The other side of the program: the runner of client mode on this machine, with a feed of its own."""

from PySide6.QtCore import QObject, Signal

from soulsgui.config.paths import Folders
from soulsgui.gui.connecting import Connector
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.loop import Tasks
from soulsgui.gui.runner_process import client_place


class ClientSide(QObject):
    """What the window knows of client mode, and its way to start it.

    Signals:
        start_wanted: A runner of client mode is to be started; it plays at once.

    Attributes:
        feed: The runner of client mode.

    Args:
        parent: The window.
    """

    start_wanted = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.feed = Feed(self)

    @property
    def playing(self) -> bool:
        """Whether this computer helps at present."""
        services = self.feed.status.services if self.feed.connection.live else []
        return any(service.state in ("starting", "running", "backoff") for service in services)

    def switch_on(self) -> None:
        """Start the runner of client mode if there is none."""
        self.start_wanted.emit()


def connect_client_side(side: ClientSide, folders: Folders, tasks: Tasks) -> Connector:
    """Return what keeps the client side connected; it starts a runner only when that is wanted.

    Args:
        side: The client side of the window.
        folders: The user's folders.
        tasks: Where coroutines run.
    """
    place = client_place(folders)
    connector = Connector(side.feed, folders, tr("this computer"), tasks, may_start=False, place=place)
    side.start_wanted.connect(connector.start_runner)
    return connector
