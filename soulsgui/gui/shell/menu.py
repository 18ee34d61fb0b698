"""The menu at the right end of the toolbar: what is rarely needed, with the dialog of settings."""

from collections.abc import Callable, Mapping
from typing import Any

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QMenu,
    QWidget,
)

from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import dress
from soulsgui.gui.models.connection import why_not
from soulsgui.gui.models.rules import Question, run_title
from soulsgui.gui.preferences import FONT_PERCENTS, AtClosing, AtLeaving, Preferences
from soulsgui.gui.shell.notifier import why_no_notifications
from soulsgui.gui.shell.tray import why_no_tray
from soulsgui.gui.states import clients_here, run_is_active
from soulsgui.gui.text import plural
from soulsgui.gui.theme import GAP_M, Theme, ThemeChoice
from soulsgui.gui.widgets.ask import ask
from soulsgui.gui.widgets.command_button import ALSO, allow
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.inputs import ChoiceBox
from soulsgui.gui.widgets.labels import muted, wrapped
from soulsgui.process import own_command
from soulsgui.system import can_start_at_login, start_at_login, starts_at_login
from soulsgui.wire.control import Status

_THEMES = {ThemeChoice.AUTO: "As the desktop", ThemeChoice.LIGHT: "Light", ThemeChoice.DARK: "Dark"}
_CLOSING = {
    AtClosing.ASK: "Ask every time",
    AtClosing.STOP: "Save and stop the run",
    AtClosing.KEEP: "Keep training",
}
_LEAVING = {
    AtLeaving.ASK: "Ask every time",
    AtLeaving.TRAY: "Stay in the tray and keep playing",
    AtLeaving.QUIT: "End the episode, then quit",
}


class SettingsDialog(FittingDialog):
    """Theme, font size, what closing does, notifications, and whether it opens at login."""

    section = "Settings"

    def __init__(self, preferences: Preferences, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__("settingsDialog", "Settings", parent)
        self._preferences = preferences
        self._theme = theme
        sizes = {percent: f"{percent} %" for percent in FONT_PERCENTS}
        self.theme = self._box(_THEMES, "theme", theme.choose)
        self.font_size = self._box(sizes, "font_percent", self._change_font)
        self.closing = self._box(_CLOSING, "at_closing")
        self.leaving = self._box(_LEAVING, "at_leaving")
        self.notifies = QCheckBox("&Notify me of warnings while the window is not in front", self)
        self.notifies.setChecked(preferences.notifies)
        self.notifies.toggled.connect(self._choose_notifies)
        self.at_login = QCheckBox("&Open SoulsGUI when I log in", self)
        self.at_login.setVisible(can_start_at_login())
        self.at_login.setChecked(can_start_at_login() and starts_at_login())
        self.at_login.toggled.connect(self._choose_at_login)
        self._build()

    def _build(self) -> None:
        form = QFormLayout()
        form.setVerticalSpacing(GAP_M)
        form.addRow("&Theme", self.theme)
        form.addRow("&Font size", self.font_size)
        form.addRow("Closing the window during a &run", self.closing)
        form.addRow("Closing it while this computer &helps", self.leaving)
        no_tray = why_no_tray()
        self.leaving.setEnabled(not no_tray)
        self.why_no_tray = muted(wrapped(no_tray, self))
        if no_tray:
            form.addRow("", self.why_no_tray)
        else:
            self.why_no_tray.hide()
        allow(self.notifies, why_no_notifications())
        form.addRow(self.notifies)
        form.addRow(self.at_login)
        hint = "These belong to this window. What is trained, and how, is set under Config."
        self.arrange(form, muted(wrapped(hint, self)), foot=self.foot())

    def _box(
        self, choices: Mapping[Any, str], name: str, then: Callable[[Any], None] | None = None
    ) -> ChoiceBox:
        """Return a box that shows a preference and keeps the one that is chosen."""
        box, values = ChoiceBox("", self), list(choices)
        box.offer([(words, value) for value, words in choices.items()], getattr(self._preferences, name))

        def choose(place: int) -> None:
            setattr(self._preferences, name, values[place])
            self._say_trouble(self._preferences.keep())
            if then is not None:
                then(values[place])

        box.currentIndexChanged.connect(choose)
        return box

    def _choose_notifies(self, on: bool) -> None:
        self._preferences.notifies = on
        self._say_trouble(self._preferences.keep())

    def _choose_at_login(self, on: bool) -> None:
        folders = self._preferences.folders
        where = ("--config-dir", str(folders.config), "--data-dir", str(folders.data))
        try:
            start_at_login((*own_command("gui"), *where) if on else None)
        except OSError as error:
            with QSignalBlocker(self.at_login):
                self.at_login.setChecked(not on)
            self.say_wrong(f"The system refused it: {error}")

    def _say_trouble(self, trouble: str) -> None:
        self.say_wrong(f"This holds until the window is closed: {trouble}" if trouble else "")

    def _change_font(self, percent: int) -> None:
        self._theme.set_font_scale(percent)
        self.adjustSize()


def shutdown_question(status: Status) -> Question:
    """Return what is asked before everything on the server ends."""
    parts = []
    if run_is_active(status.run.state):
        parts.append(f"“{run_title(status.run)}” is saved and ended.")
    remote, _ = clients_here(client for client in status.clients if not client.local)
    if remote:
        waiting = plural(remote, "{n} other computer waits", "{n} other computers wait")
        parts.append(f"{waiting} until the server is back.")
    parts.append("Redis and the runner end, too.")
    return Question("Shut down the server?", " ".join(parts), "Shut down")


class WindowMenu(QMenu):
    """Find, welcome, invite, settings, manual, shut down, about, quit; most of it is done by the window.

    Signals:
        problem: A command was refused; with the `ApiError`.
    """

    problem = Signal(object)

    def __init__(self, feed: Feed, preferences: Preferences, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.setToolTipsVisible(True)
        self._feed = feed
        self._preferences = preferences
        self._theme = theme
        self._window = parent
        self.find_anything = self._add("&Find anything…", "search", "Ctrl+K")
        self.welcome = self._add("&Welcome", "star")
        self.invite = self._add("&Invite a computer…", "add")
        found_by = "theme dark light font size notifications login"
        self.settings = self._add("&Settings…", "configure", "Ctrl+,", found_by)
        self.settings.triggered.connect(self._open_settings)
        self.manual = self._add("&Manual", "help", "F1", "help documentation")
        self.addSeparator()
        self.shut_down = self._add("Shut &down the server…", "power")
        self.shut_down.triggered.connect(self._ask_shut_down)
        self.about = self._add("&About SoulsGUI", "state-info")
        self.addSeparator()
        self.quit = self._add("&Quit", "close", "Ctrl+Q")
        self.aboutToShow.connect(self._update)

    def _add(self, words: str, icon: str, keys: str = "", also: str = "") -> QAction:
        action = QAction(words, self)
        dress(action, icon)
        action.setProperty(ALSO, also)
        if keys:
            action.setShortcut(QKeySequence(keys))
            # The shortcut belongs to the window: the menu is closed when it is used.
            self._window.addAction(action)
        self.addAction(action)
        return action

    def _open_settings(self) -> None:
        SettingsDialog(self._preferences, self._theme, self._window).open()

    def _update(self) -> None:
        refusal = why_not(self._feed.connection)
        allow(self.invite, refusal, "Let another computer play for this server")
        allow(self.shut_down, refusal, "End the run, Redis and the runner")

    def _ask_shut_down(self) -> None:
        ask(self._window, shutdown_question(self._feed.status), self._shut_down)

    def _shut_down(self) -> None:
        call = self._feed.call("server.shutdown")
        call.tell_problem(self.problem)
