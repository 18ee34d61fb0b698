"""The window's end: asks about the run, and leaves nothing running that nobody wants."""

from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from soulsgui.gui.connection_state import Connection, ConnectionState
from soulsgui.gui.dialogs.closing import ClosingDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.preferences import AtClosing, Preferences
from soulsgui.gui.states import run_is_active
from soulsgui.wire.control import RunStatus

_SHUTDOWN_PATIENCE_S = 5.0
_ON_THE_WAY = (ConnectionState.STARTING, ConnectionState.CONNECTING)
_ON_THE_WAY_LIMIT_MS = 10_000


@dataclass(frozen=True)
class Ending:
    """How the window is to end.

    Attributes:
        ask: Whether the user is asked about the run.
        stop_run: Whether the run is stopped without asking.
        shut_down: Whether the runner is to end, too, once no run goes on.
    """

    ask: bool = False
    stop_run: bool = False
    shut_down: bool = False


def ending(connection: Connection, run: RunStatus, ours: bool, remembered: AtClosing) -> Ending:
    """Return how the window is to end.

    Args:
        connection: How the window stands with the runner.
        run: The active run, or the last one.
        ours: Whether a window started the runner.
        remembered: What the user wants with a run.
    """
    if not connection.live:
        return Ending()
    if not run_is_active(run.state) or remembered is AtClosing.KEEP:
        return Ending(shut_down=ours and not run_is_active(run.state))
    if remembered is AtClosing.STOP:
        return Ending(stop_run=True, shut_down=ours)
    return Ending(ask=True, shut_down=ours)


class Closer(QObject):
    """Carries the end out.

    Signals:
        closed: The window may go; True when training goes on without it.

    Args:
        feed: The runner.
        preferences: What is remembered.
        window: The window.
    """

    closed = Signal(bool)

    def __init__(self, feed: Feed, preferences: Preferences, window: QWidget) -> None:
        super().__init__(window)
        self._feed = feed
        self._preferences = preferences
        self._window = window
        self._dialog: ClosingDialog | None = None
        self._shut_down = False
        self._ends = False
        self._patience = QTimer(self, singleShot=True, interval=_ON_THE_WAY_LIMIT_MS)
        self._patience.timeout.connect(self._give_up)
        feed.connection_changed.connect(self._connection_changed)

    @property
    def dialog(self) -> ClosingDialog | None:
        """The open question; None while there is none."""
        return self._dialog

    def begin(self) -> None:
        """Close the window, after a question if there is one."""
        if self._dialog is not None or self._ends:
            return
        if self._feed.connection.state in _ON_THE_WAY:
            self._wait_for_connection()
            return
        how = self._ending(self._preferences.at_closing)
        if how.ask or how.stop_run:
            self._open_dialog(how)
        else:
            self._end(how.shut_down, goes_on=self._run_is_active())

    def begin_quietly(self) -> None:
        """Close the window because the system says so: a run goes on, nobody is asked."""
        if self._ends:
            return
        if self._feed.connection.state in _ON_THE_WAY:
            self._wait_for_connection()
            return
        self._end(self._ending(AtClosing.KEEP).shut_down, goes_on=self._run_is_active())

    def _wait_for_connection(self) -> None:
        """Find out first whether a runner is about to be left behind that was started a moment ago."""
        self._window.hide()
        if not self._patience.isActive():
            self._patience.start()

    def _connection_changed(self) -> None:
        if self._patience.isActive() and self._feed.connection.state not in _ON_THE_WAY:
            self._patience.stop()
            self.begin_quietly()

    def _give_up(self) -> None:
        self._end(shut_down=False, goes_on=False)

    def _run_is_active(self) -> bool:
        return self._feed.connection.live and run_is_active(self._feed.status.run.state)

    def _ending(self, remembered: AtClosing) -> Ending:
        hello = self._feed.hello
        ours = hello is not None and self._preferences.started_by_window(hello)
        return ending(self._feed.connection, self._feed.status.run, ours, remembered)

    def _open_dialog(self, how: Ending) -> None:
        dialog = ClosingDialog(self._feed, self._window)
        self._dialog = dialog
        self._shut_down = how.shut_down
        dialog.remembered.connect(self._remember)
        dialog.decided.connect(self._decided)
        dialog.destroyed.connect(self._forget_dialog)
        dialog.open()
        if how.stop_run:
            dialog.stop_now()

    def _decided(self, choice: AtClosing) -> None:
        keep = choice is AtClosing.KEEP
        self._end(self._shut_down and not keep, goes_on=keep)

    def _forget_dialog(self) -> None:
        self._dialog = None

    def _remember(self, choice: AtClosing) -> None:
        self._preferences.at_closing = choice

    def _end(self, shut_down: bool, goes_on: bool) -> None:
        self._ends = True
        self._window.hide()
        if not shut_down:
            self.closed.emit(goes_on)
            return
        call = self._feed.call("server.shutdown", patience_s=_SHUTDOWN_PATIENCE_S)
        for signal in (call.done, call.failed, call.silent):
            signal.connect(self._shut)

    def _shut(self) -> None:
        self.closed.emit(False)
