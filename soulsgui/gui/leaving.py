"""What closing the window does while this computer helps: ask, stay in the tray, or end."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from soulsgui.gui import tray as trays
from soulsgui.gui.client_side import ClientSide
from soulsgui.gui.dialogs.leaving import LeavingDialog
from soulsgui.gui.feed import Feed
from soulsgui.gui.models.tray import Leaving, leaving
from soulsgui.gui.preferences import AtLeaving, Preferences
from soulsgui.gui.tray import Tray


class Leaver(QObject):
    """Decides what becomes of a window that is closed.

    Args:
        side: What the window knows of client mode.
        server: The feed of the server's runner.
        preferences: What is remembered.
        end: Ends the program, after what it has to ask.
        come_back: Brings the window to the front.
        window: The window.
    """

    def __init__(
        self,
        side: ClientSide,
        server: Feed,
        preferences: Preferences,
        end: Callable[[], None],
        come_back: Callable[[], None],
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._side = side
        self._server = server
        self._preferences = preferences
        self._end = end
        self._come_back = come_back
        self._window = window
        self._dialog: LeavingDialog | None = None
        self._tray: Tray | None = None

    @property
    def dialog(self) -> LeavingDialog | None:
        """The open question; None while there is none."""
        return self._dialog

    @property
    def tray(self) -> Tray | None:
        """What stands for the window while it is away; None before the first time."""
        return self._tray

    def close_window(self) -> None:
        """Close the window as its owner wants: it ends, stays in the tray, or asks."""
        if self._dialog is not None:
            return
        how = leaving(self._side.playing, trays.has_tray(), self._preferences.at_leaving)
        if how is Leaving.ASK:
            self._ask()
        elif how is Leaving.TRAY:
            self._go_to_tray()
        else:
            self.quit()

    def quit(self) -> None:
        """End the program, whatever plays."""
        if self._tray is not None and self._tray.shown:
            # What is asked before the end needs a window to stand in.
            self._come_back()
        self._end()

    def window_shown(self) -> None:
        """The window is back."""
        if self._tray is not None:
            self._tray.hide()

    def _ask(self) -> None:
        self._dialog = dialog = LeavingDialog(self._ends_with_window, self._window)
        dialog.remembered.connect(self._remember)
        dialog.decided.connect(self._decided)
        dialog.finished.connect(self._forget_dialog)
        dialog.open()

    @property
    def _ends_with_window(self) -> bool:
        hello = self._side.feed.hello
        return hello is None or hello.ends_with_window

    def _remember(self, choice: AtLeaving) -> None:
        self._preferences.at_leaving = choice

    def _decided(self, choice: AtLeaving) -> None:
        if choice is AtLeaving.TRAY:
            self._go_to_tray()
        else:
            self.quit()

    def _forget_dialog(self, _result: int) -> None:
        self._dialog = None

    def _go_to_tray(self) -> None:
        if self._tray is None:
            self._tray = Tray(self._side, self._server, self._window)
            self._tray.show_wanted.connect(self._come_back)
            self._tray.quit_wanted.connect(self.quit)
        self._window.hide()
        self._tray.show()
