"""What the bell tells, as notifications of the desktop while nobody has the window in front."""

import shutil

from PySide6.QtCore import QObject, QProcess, QTimer, Signal
from PySide6.QtWidgets import QSystemTrayIcon, QWidget

from soulsgui.gui import text
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import app_icon
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell import tray as trays
from soulsgui.wire.control import Event

_TOGETHER_MS = 2_000
_SHOWN_MS = 15_000
_TOOL = "notify-send"  # desktops without a tray, such as GNOME, have it


def why_no_notifications() -> str:
    """Return why the desktop can't be told anything; empty when it can."""
    lacks = f"This desktop has neither a tray nor {_TOOL}, one of which notifications need."
    return "" if trays.has_tray() or shutil.which(_TOOL) else lacks


class Notifier(QObject):
    """Shows the newest warning or error, with how many came with it; its icon goes when that has been shown.

    Signals:
        opened: The notification of a tray was clicked; with the `Event`.
    """

    opened = Signal(object)

    def __init__(self, feed: Feed, preferences: Preferences, window: QWidget) -> None:
        super().__init__(window)
        self._preferences = preferences
        self._window = window
        self._event: Event | None = None
        self._count = 0
        self._icon: QSystemTrayIcon | None = None
        self._soon = QTimer(self, singleShot=True, interval=_TOGETHER_MS)
        self._soon.timeout.connect(self._tell)
        self._later = QTimer(self, singleShot=True, interval=_SHOWN_MS)
        self._later.timeout.connect(self._put_away)
        feed.event_arrived.connect(self._arrived)

    def _arrived(self, event: Event) -> None:
        if event.level == "info" or self._window.isActiveWindow() or not self._preferences.notifies:
            return
        self._event, self._count = event, self._count + 1
        if not self._soon.isActive():
            self._soon.start()

    def _tell(self) -> None:
        event, others = self._event, self._count - 1
        self._count = 0
        if event is None:
            return
        more = text.plural(others, "and 1 more", "and {n} more") if others else ""
        detail = text.unmarked("\n".join(part for part in (event.cause, event.remedy, more) if part))
        if trays.has_tray():
            self._show(event.level, text.unmarked(event.what), detail)
        elif (tool := shutil.which(_TOOL)) is not None:
            options = ["--app-name=SoulsGUI", f"--expire-time={_SHOWN_MS}", "--"]
            # Of the detail it follows escapes: `\\074` would be the `<` of markup.
            detail = detail.replace("\\", "\\\\")
            QProcess.startDetached(tool, [*options, text.unmarked(event.what), detail])

    def _show(self, level: str, what: str, detail: str) -> None:
        if self._icon is None:
            self._icon = QSystemTrayIcon(app_icon(), self)
            self._icon.messageClicked.connect(self._clicked)
        kinds = QSystemTrayIcon.MessageIcon
        self._icon.show()
        self._icon.showMessage(what, detail, kinds.Critical if level == "error" else kinds.Warning, _SHOWN_MS)
        self._later.start()

    def _put_away(self) -> None:
        if self._icon is not None:
            self._icon.hide()

    def _clicked(self) -> None:
        if self._event is not None:
            self.opened.emit(self._event)
