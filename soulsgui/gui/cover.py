"""What stands in place of a page while there is no server: nothing on it would be the present."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from soulsgui.gui.connection_state import Connection, ConnectionState, banner_words
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.widgets.empty_state import EmptyState

_ENDED = (ConnectionState.SHUT_DOWN, ConnectionState.WELCOME)
_COMES_BACK = (ConnectionState.STARTING, ConnectionState.CONNECTING, ConnectionState.START_FAILED)


def covers(state: ConnectionState, covered: bool) -> bool:
    """Return whether pages that live from the server are covered.

    Args:
        state: How the window stands with the server.
        covered: Whether they were until now. A server that comes back has nothing to show yet; a runner that
            is gone leaves services that go on.
    """
    return state in _ENDED or (covered and state in _COMES_BACK)


class Cover(QWidget):
    """Says that there is no server, and starts it, or has mended first what keeps it from starting.

    Signals:
        start_wanted: The server is to be started.
        mend_wanted: The file of settings is to be mended first.
    """

    start_wanted = Signal()
    mend_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.empty = EmptyState("power", "", "", tr("Start the server"), "play", self)
        self._mend = False
        self.empty.acted.connect(self._acted)
        column = QVBoxLayout(self)
        column.addWidget(self.empty)

    def show_connection(self, connection: Connection) -> None:
        """Say how the server stands."""
        words = banner_words(connection, 0.0)
        self._mend = connection.config is not None
        action = words.action if words is not None and self._mend else tr("Start the server")
        self.empty.button.setText(action)
        dress(self.empty.button, "edit" if self._mend else "play")
        if words is None:
            self.empty.say(tr("No server runs"), tr("Start it to train here and to see your runs."))
        else:
            self.empty.say(words.title, words.detail)
        self.empty.button.setVisible(words is None or bool(words.action))

    def _acted(self) -> None:
        (self.mend_wanted if self._mend else self.start_wanted).emit()

    @property
    def words(self) -> str:
        """What it says."""
        return self.empty.words
