"""A new start of the server, for settings that take effect with it."""

from PySide6.QtCore import QObject, Signal

from soulsgui.gui.connection_state import Connection, ConnectionState
from soulsgui.gui.feed import Feed
from soulsgui.wire.control import ApiError


class Restarter(QObject):
    """Ends the server, its run saved, and has it started again once it is gone.

    Signals:
        start_wanted: It is gone: a runner is to be started.
        problem: It could not be ended; with the `ApiError`.

    Args:
        feed: The runner.
        parent: The window.
    """

    start_wanted = Signal()
    problem = Signal(object)

    def __init__(self, feed: Feed, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._feed = feed
        self._waits = False
        feed.connection_changed.connect(self._connection_changed)

    def begin(self) -> None:
        """End the server."""
        self._waits = True
        call = self._feed.call("server.shutdown")
        call.failed.connect(self._failed)
        call.silent.connect(self._failed)

    def _connection_changed(self, connection: Connection) -> None:
        if self._waits and connection.state is ConnectionState.SHUT_DOWN:
            self._waits = False
            self.start_wanted.emit()

    def _failed(self, error: ApiError) -> None:
        self._waits = False
        self.problem.emit(error)
