"""The toolbar: the commands of the run, and what belongs to the whole window."""

from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QSizePolicy, QToolBar, QToolButton, QWidget

from soulsgui.gui.bell import Bell
from soulsgui.gui.client_side import ClientSide
from soulsgui.gui.colours import Tone
from soulsgui.gui.connection_state import why_not
from soulsgui.gui.feed import Feed
from soulsgui.gui.fetch import Fetch
from soulsgui.gui.i18n import tr
from soulsgui.gui.icons import dress
from soulsgui.gui.preferences import Mode, Preferences
from soulsgui.gui.run_actions import Permission, may_pause, may_resume, may_save, may_start, may_stop
from soulsgui.gui.states import run_is_active
from soulsgui.gui.widgets.button_menu import give_menu
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_button import FittingButton
from soulsgui.gui.widgets.labels import Badge
from soulsgui.wire.control import RunSummary

_GAP_PX = 8
_ICON_ROOM_PX = 32


def other_side(mode: Mode, run_state: str, playing: bool) -> str:
    """Return what goes on at the side of the program that is not shown; empty for nothing.

    Args:
        mode: The side that is shown.
        run_state: State of the server's run; empty while it is not known.
        playing: Whether this computer plays for a server.
    """
    if mode is Mode.CLIENT:
        return tr("a run goes on") if run_is_active(run_state) else ""
    return tr("this computer plays") if playing else ""


class Toolbar(QToolBar):
    """Commands of the run on the left; configuration, events, mode and menu on the right.

    Signals:
        new_run_wanted: The dialog of a new run is wanted.
        configure_wanted: The editor of the configuration is wanted.
        mode_wanted: The other side of the program is wanted; with the `Mode`.
        problem: A command was refused; with the `ApiError`.
        saved: A checkpoint was saved; with the command's result.

    Args:
        feed: The runner.
        client: The other side of the program.
        preferences: Remembers what was seen.
        menu: The menu of the window.
        parent: The window.
    """

    new_run_wanted = Signal()
    configure_wanted = Signal()
    mode_wanted = Signal(object)
    problem = Signal(object)
    saved = Signal(dict)

    def __init__(
        self,
        feed: Feed,
        client: ClientSide,
        preferences: Preferences,
        menu: QMenu,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self.setObjectName("toolbar")
        self.setWindowTitle(self.tr("Toolbar"))
        self.setMovable(False)
        self.setFloatable(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.PreventContextMenu)
        self.resize_icons()
        self._feed = feed
        self._client = client
        self._newest: RunSummary | None = None
        self._mode = Mode.SERVER
        self._of_server: list[QAction] = []
        self._add_run_buttons()
        self._add_right_side(preferences, menu)
        self._runs = Fetch(self, self._ask_for_runs)
        self._runs.came.connect(self._runs_came)
        self._last_state = ""
        feed.connection_changed.connect(self._update)
        feed.run_changed.connect(self._run_changed)
        client.feed.services_changed.connect(self._update)
        client.feed.connection_changed.connect(self._update)
        feed.snapshot_taken.connect(self._snapshot_taken)
        self._update()

    # --- parts -------------------------------------------------------------------------------------

    def _add_run_buttons(self) -> None:
        self.new_run = self._push(tr("&New run…"), "add", "newRun")
        self.new_run.clicked.connect(self.new_run_wanted)
        self.resume = self._command(
            Words(tr("&Resume"), tr("Resuming …"), tr("Resumed")), "resume", "resume", "run.resume"
        )
        self.pause = self._command(_pause_words(), "pause", "pauseRun", "run.pause")
        self._offers_pause = True
        self.stop = self._command(
            Words(tr("S&top run"), tr("Stopping …"), tr("Stopped")), "stop", "stopRun", "run.stop"
        )
        self.quicksave = self._command(
            Words(tr("&Quicksave"), tr("Saving …"), tr("Saved")), "save", "quicksave", "checkpoint.save"
        )
        self.quicksave.finished.connect(self.saved)

    def _add_right_side(self, preferences: Preferences, menu: QMenu) -> None:
        spring = QWidget(self)
        spring.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.addWidget(spring)
        self.configure = self._push(tr("&Configure"), "configure", "configure")
        self.configure.clicked.connect(self.configure_wanted)
        self.bell = Bell(self._feed, preferences, self)
        self._of_server.append(self.addWidget(self.bell))
        self.addWidget(self._mode_switch())
        self.menu = QToolButton(self)
        self.menu.setObjectName("menu")
        self.menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        give_menu(self.menu, menu)
        self.menu.setToolTip(tr("Menu"))
        self.menu.setAccessibleName(tr("Menu"))
        dress(self.menu, "more")
        self.addWidget(self.menu)

    def _mode_switch(self) -> QWidget:
        box = QWidget(self)
        row = QHBoxLayout(box)
        row.setContentsMargins(0, 0, 0, 0)
        self.badge = Badge("", Tone.GOOD, box)
        self.mode = QToolButton(box)
        self.mode.setObjectName("mode")
        self.mode.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.mode.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        choices = QMenu(self.mode)
        group = QActionGroup(choices)
        self._choices: dict[Mode, QAction] = {}
        for mode, hint in (
            (Mode.SERVER, tr("Train here: runs, clients, curves")),
            (Mode.CLIENT, tr("Play for a server with this computer")),
        ):
            action = choices.addAction(f"{_mode_title(mode)}  —  {hint}")
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, mode=mode: self.mode_wanted.emit(mode))
            group.addAction(action)
            self._choices[mode] = action
        give_menu(self.mode, choices)
        row.addWidget(self.badge)
        row.addWidget(self.mode)
        return box

    def _push(self, words: str, icon: str, name: str) -> FittingButton:
        return self._placed(FittingButton(words, icon, self), name)

    def _command(self, words: Words, icon: str, name: str, command: str) -> CommandButton:
        button = CommandButton(words, icon, lambda: self._feed.call(command), self)
        button.problem.connect(self.problem)
        self._placed(button, name)
        return button

    def _placed(self, button: FittingButton, name: str) -> FittingButton:
        button.setObjectName(name)
        button.setProperty("role", "flat")
        self._of_server.append(self.addWidget(button))
        return button

    def resize_icons(self) -> None:
        """Take the icons' size from the font."""
        height = self.fontMetrics().height()
        self.setIconSize(QSize(height, height))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave words out where there is no room for them, so that the menu stays in reach."""
        super().resizeEvent(event)
        self._fit()

    def event(self, event: QEvent) -> bool:
        """Do the same when a button says something else."""
        if event.type() == QEvent.Type.LayoutRequest and hasattr(self, "menu"):
            self._fit()
        return super().event(event)

    def _fit(self) -> None:
        # The least important gives way first.
        given_up = (self.configure, self.quicksave, self.resume, self.pause, self.stop, self.new_run)
        shown = [button for button in given_up if self._mode is Mode.SERVER]
        others = [self.bell, self.badge, self.menu]
        taken = sum(part.sizeHint().width() for part in others if not part.isHidden()) + self._mode_width
        gaps = (len(shown) + len(others) + 3) * _GAP_PX
        room = self.width() - taken - gaps
        words = {button: button.full_width for button in shown}
        icons = {button: button.iconSize().width() + _ICON_ROOM_PX for button in shown}
        needed = sum(words.values())
        for button in shown:
            button.show_icon_only(needed > room)
            if needed > room:
                needed -= words[button] - icons[button]
        style = Qt.ToolButtonStyle
        self.mode.setToolButtonStyle(
            style.ToolButtonIconOnly if needed > room else style.ToolButtonTextBesideIcon
        )

    @property
    def _mode_width(self) -> int:
        words = self.mode.fontMetrics().horizontalAdvance(self.mode.text())
        return words + self.mode.iconSize().width() + _ICON_ROOM_PX

    # --- state -------------------------------------------------------------------------------------

    def show_mode(self, mode: Mode) -> None:
        """Show the commands of one side."""
        self._mode = mode
        for action in self._of_server:
            action.setVisible(mode is Mode.SERVER)
        self._choices[mode].setChecked(True)
        self.mode.setText(f"{_mode_title(mode)} ▾")
        dress(self.mode, "server" if mode is Mode.SERVER else "service-client")
        self.mode.setAccessibleName(tr("Mode: {mode}").format(mode=_mode_title(mode)))
        self.mode.setToolTip(tr("Switch between training here and playing for a server; this stops nothing"))
        self._update()

    def _offer_pause(self, pause: bool) -> None:
        """Let one button pause a run and let it go on."""
        if pause == self._offers_pause:
            return
        self._offers_pause = pause
        words = _pause_words() if pause else _continue_words()
        command = "run.pause" if pause else "run.continue"
        self.pause.set_words(words, "pause" if pause else "play", lambda: self._feed.call(command))

    def _snapshot_taken(self) -> None:
        self._runs.request()
        self._update()

    def _run_changed(self) -> None:
        state = self._feed.status.run.state
        if state != self._last_state:
            self._last_state = state
            self._runs.request()
        self._update()

    def _ask_for_runs(self) -> Any:
        return self._feed.call("runs.list") if self._feed.connection.live else None

    def _runs_came(self, result: dict[str, Any]) -> None:
        runs = result.get("runs", [])
        self._newest = RunSummary.model_validate(runs[0]) if runs else None
        self._update()

    def _update(self) -> None:
        connection, run = self._feed.connection, self._feed.status.run
        _permit(self.new_run, may_start(connection))
        _permit(self.resume, may_resume(connection, run, self._newest))
        self._offer_pause(not run.wished_pause)
        _permit(self.pause, may_pause(connection, run))
        _permit(self.stop, may_stop(connection, run))
        _permit(self.quicksave, may_save(connection, run))
        refusal = why_not(connection)
        can = Permission(not refusal, refusal or tr("Settings of the next run and the server"))
        if connection.config is not None:
            can = Permission(True, tr("Mend the mistakes for which no server can start"))
        _permit(self.configure, can)
        state = run.state if connection.live else ""
        elsewhere = other_side(self._mode, state, self._client.playing)
        self.badge.setText(elsewhere)
        self.badge.setVisible(bool(elsewhere))


def _pause_words() -> Words:
    return Words(tr("&Pause"), tr("Pausing …"), tr("Paused"))


def _continue_words() -> Words:
    return Words(tr("Contin&ue"), tr("Going on …"), tr("Goes on"))


def _mode_title(mode: Mode) -> str:
    return {Mode.SERVER: tr("Server mode"), Mode.CLIENT: tr("Client mode")}[mode]


def _permit(button: FittingButton, permission: Permission) -> None:
    if isinstance(button, CommandButton):
        button.allow(permission.allowed, permission.why)
    else:
        button.setEnabled(permission.allowed)
        button.explain(permission.why)
