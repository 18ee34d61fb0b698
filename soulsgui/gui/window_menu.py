"""The menu at the right end of the toolbar: what is rarely needed."""

import sys

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMessageBox, QWidget

from soulsgui import __version__
from soulsgui.gui.connection_state import why_not
from soulsgui.gui.dialogs.ask import ask
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import plural, tr
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.question import Question
from soulsgui.gui.run_actions import run_title
from soulsgui.gui.states import clients_here, run_is_active
from soulsgui.gui.theme import Theme
from soulsgui.wire.control import Status


def shutdown_question(status: Status) -> Question:
    """Return what is asked before everything on the server ends."""
    parts = []
    if run_is_active(status.run.state):
        parts.append(tr("“{run}” is saved and ended.").format(run=run_title(status.run)))
    remote, _ = clients_here(client for client in status.clients if not client.local)
    if remote:
        waiting = plural(remote, "{n} other computer waits", "{n} other computers wait")
        parts.append(tr("{computers} until the server is back.").format(computers=waiting))
    parts.append(tr("Redis and the runner end, too."))
    return Question(tr("Shut down the server?"), " ".join(parts), tr("Shut down"))


class WindowMenu(QMenu):
    """Welcome, invite, settings, manual, shut down, about, quit.

    Signals:
        welcome_wanted: The first page is wanted.
        invite_wanted: Another computer is to be invited.
        manual_wanted: The manual is to be opened.
        quit_wanted: The window is to close.
        problem: A command was refused; with the `ApiError`.

    Args:
        feed: The runner.
        preferences: What the settings change.
        theme: What the settings change, too.
        parent: The window.
    """

    welcome_wanted = Signal()
    invite_wanted = Signal()
    manual_wanted = Signal()
    quit_wanted = Signal()
    problem = Signal(object)

    def __init__(self, feed: Feed, preferences: Preferences, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setToolTipsVisible(True)
        self._feed = feed
        self._preferences = preferences
        self._theme = theme
        self._window = parent
        self.welcome = self._add(tr("&Welcome"))
        self.welcome.triggered.connect(self.welcome_wanted)
        self.invite = self._add(tr("&Invite a computer…"))
        self.invite.triggered.connect(self.invite_wanted)
        self.settings = self._add(tr("&Settings…"), "Ctrl+,")
        self.settings.triggered.connect(self.open_settings)
        self.manual = self._add(tr("&Manual"), "F1")
        self.manual.triggered.connect(self.manual_wanted)
        self.addSeparator()
        self.shut_down = self._add(tr("Shut &down the server…"))
        self.shut_down.triggered.connect(self._ask_shut_down)
        self.about = self._add(tr("&About SoulsGUI"))
        self.about.triggered.connect(self._show_about)
        self.addSeparator()
        self.quit = self._add(tr("&Quit"), "Ctrl+Q")
        self.quit.triggered.connect(self.quit_wanted)
        self.aboutToShow.connect(self._update)

    def _add(self, words: str, keys: str = "") -> QAction:
        action = QAction(words, self)
        if keys:
            action.setShortcut(QKeySequence(keys))
            # The shortcut belongs to the window: the menu is closed when it is used.
            self._window.addAction(action)
        self.addAction(action)
        return action

    def open_settings(self) -> None:
        """Open the window's own preferences."""
        from soulsgui.gui.dialogs.settings import SettingsDialog

        SettingsDialog(self._preferences, self._theme, self._window).open()

    def _update(self) -> None:
        refusal = why_not(self._feed.connection)
        self.invite.setEnabled(not refusal)
        self.invite.setToolTip(refusal or tr("Let another computer play for this server"))
        self.shut_down.setEnabled(not refusal)
        self.shut_down.setToolTip(refusal or tr("End the run, Redis and the runner"))

    def _ask_shut_down(self) -> None:
        ask(self._window, shutdown_question(self._feed.status), self._shut_down)

    def _shut_down(self) -> None:
        call = self._feed.call("server.shutdown")
        call.failed.connect(self.problem)
        call.silent.connect(self.problem)

    def _show_about(self) -> None:
        hello = self._feed.hello
        lines = [tr("SoulsGUI {version}, Python {python}").format(version=__version__, python=_python())]
        if hello is not None:
            lines.append(
                tr("Server {id}, version {version}").format(id=hello.server_id, version=hello.version)
            )
            lines.append(tr("Data folder: {folder}").format(folder=hello.data_dir))
            lines.append(tr("Settings folder: {folder}").format(folder=hello.config_dir))
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setWindowTitle(tr("About SoulsGUI"))
        box.setText("\n".join(lines))
        box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        box.open()


def _python() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])
