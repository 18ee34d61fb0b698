"""The other side of the program: the runner of client mode on this machine, with a feed of its own."""

from PySide6.QtCore import QObject, Signal

from soulsgui.gui.feed import Feed


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
