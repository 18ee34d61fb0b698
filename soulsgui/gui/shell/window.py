"""The main window: toolbar, navigation, pages, banner, messages and status line put together.

Its dialogs are imported when they are first wanted, so that none delays it.
"""

import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QByteArray, QEvent, QSettings, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import QAbstractButton, QApplication, QMainWindow, QWidget

from soulsgui.gui import text
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.client_mode.state import client_words
from soulsgui.gui.colours import Tone
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import app_icon
from soulsgui.gui.models.connection import Connection, ConnectionState, RemoteServer, why_not
from soulsgui.gui.models.rules import run_title
from soulsgui.gui.preferences import Mode, Preferences
from soulsgui.gui.shell import Action, notify_problem
from soulsgui.gui.shell.end import EndStrip
from soulsgui.gui.shell.menu import WindowMenu
from soulsgui.gui.shell.notifier import Notifier
from soulsgui.gui.shell.pages import (
    CLIENT,
    LOGS,
    OVERVIEW,
    RUNS,
    WELCOME,
    Navigation,
    PageStack,
    page_entries,
)
from soulsgui.gui.shell.server_selector import AddServerDialog
from soulsgui.gui.shell.shutdown import ClientWindowCloser, WindowCloser
from soulsgui.gui.shell.toolbar import Toolbar
from soulsgui.gui.states import Look, clients_here, run_is_active, run_look
from soulsgui.gui.text import plural
from soulsgui.gui.theme import GAP_S, GAP_XS, Theme, underline_letters
from soulsgui.gui.throttle import Throttle
from soulsgui.gui.widgets.agree import run_dialog
from soulsgui.gui.widgets.boxes import NO_MARGINS, column, row
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.geometry import bring_onto_screen
from soulsgui.gui.widgets.inputs import FilterEdit
from soulsgui.gui.widgets.job_strip import JobStrip
from soulsgui.gui.widgets.labels import ElidedLabel, IconLabel, keep_place
from soulsgui.gui.widgets.message_bar import Banner, MessageBar, Notice
from soulsgui.installing import can_train
from soulsgui.wire.control import (
    COMMANDS,
    ApiError,
    CheckpointTold,
    Event,
    RunPlace,
    RunStatus,
    RunSummary,
    Status,
    SweepStatus,
)
from soulsgui.wire.invitation import Invitation

_SIZE = QSize(1280, 800)
_SMALLEST = QSize(860, 540)
_STATUS_EVERY_MS = 400


def status_words(status: Status, server: str, live: bool = True) -> str:
    """Return `my-server · lunar-2, running · 3 of 4 clients · checkpoint 2 min ago · 61 GB free`."""
    run = status.run
    parts = [server] if server else []
    word = run_look(run.state).word.lower()
    parts.append(f"{run.name or run.id}, {word}" if run.id else "no run")
    here, expected = clients_here(status.clients)
    if here != expected:
        parts.append(f"{here} of {expected} clients")
    elif status.clients:
        parts.append(plural(here, "{n} client", "{n} clients"))
    if live and run_is_active(run.state) and run.checkpoint_age_s is not None:
        parts.append(f"checkpoint {text.ago(run.checkpoint_age_s)}")
    elif run.checkpoint_env_steps is not None:
        steps = text.compact(run.checkpoint_env_steps)
        parts.append(f"checkpoint at {steps} steps")
    if status.server.disk_free_bytes:
        parts.append(f"{text.size(status.server.disk_free_bytes)} free")
    return " · ".join(parts)


class StatusLine(QWidget):
    """One shortened line with the run's icon before it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mark = IconLabel(0, self)
        self._words = ElidedLabel("", self)
        row(self._mark, (self._words, 1), on=self, margins=(GAP_S, GAP_XS, GAP_S, GAP_XS), gap_px=GAP_S)

    def show_status(self, status: Status, server: str) -> None:
        """Say how the run goes."""
        look = run_look(status.run.state)
        self._mark.show_icon(look.icon, look.tone)
        self._words.setText(status_words(status, server, self.isEnabled()))

    def show_look(self, look: Look, server: str = "") -> None:
        """Say what there is instead of a run, and of which server."""
        self._mark.show_icon(look.icon, look.tone)
        self._words.setText(" · ".join(part for part in (server, look.word) if part))


class MainWindow(QMainWindow):
    """The window of one runner. It is the `Shell` of its pages.

    Signals:
        retry_wanted: The connection is to be tried now.
        start_wanted: A runner is to be started.
        server_wanted: Another server is to be shown; with the `RemoteServer`, None for this computer.
        first_shown: The window is on the screen for the first time.
    """

    retry_wanted = Signal()
    start_wanted = Signal()
    server_wanted = Signal(object)
    first_shown = Signal()

    def __init__(self, feed: Feed, theme: Theme, preferences: Preferences, mode: Mode | None = None) -> None:
        super().__init__()
        self.setObjectName("mainWindow")
        self.setWindowIcon(app_icon())
        self._feed = feed
        self._theme = theme
        self._preferences = preferences
        self._entries = page_entries()
        # A computer that can't train is there to play, or to show a server elsewhere.
        serves = can_train() or preferences.server_to_show() is not None
        self.mode = mode or (preferences.mode if serves else Mode.CLIENT)
        self._user_chose = preferences.page not in ("", WELCOME)
        self._ended_unused = False  # its server, before it was used for anything
        self._first_show_began = self._was_shown = False
        self._last_error = ""  # that was told here
        self._client_side = ClientSide(self)
        self.notifier = Notifier(feed, preferences, self)
        self.closer = WindowCloser(feed, preferences, self)
        self.client_closer = ClientWindowCloser(
            self._client_side, feed, preferences, self._leave, self.come_forward, self
        )
        self._build()
        self._connect()
        self._add_shortcuts()
        self._restore()

    def _build(self) -> None:
        self.menu = WindowMenu(self._feed, self._preferences, self._theme, self)
        self.toolbar = Toolbar(self._feed, self._client_side, self._preferences, self.menu, self)
        self.addToolBar(self.toolbar)
        self.banner = Banner(self)
        self.messages = MessageBar(self)
        listed = [entry for entry in self._entries.values() if entry.listed and entry.mode is Mode.SERVER]
        self.navigation = Navigation(listed, self)
        self.pages = PageStack(self._entries, self._feed, self)
        self.end_strip = EndStrip(self._feed, self, self)
        # There is one place for messages: what came last is shown there.
        self.messages.filled.connect(self.end_strip.give_way)
        # What comes and goes stands below the page: nothing that is read or pointed at moves for it.
        beside = column(self.banner, (self.pages, 1), self.end_strip, self.messages, gap_px=0)
        inside = QWidget(self)
        # Beside the bars: its rows do not move under the mouse when one comes or goes.
        row(self.navigation, (beside, 1), on=inside, margins=NO_MARGINS, gap_px=0)
        self.setCentralWidget(inside)
        self.status_line = StatusLine(self)
        self.statusBar().addWidget(self.status_line, 1)
        self.jobs = JobStrip(self._feed, self)
        self.jobs.cancel.problem.connect(self.show_problem)
        self.statusBar().addPermanentWidget(self.jobs)
        self.statusBar().setSizeGripEnabled(False)
        self._status = Throttle(self, self._show_status, _STATUS_EVERY_MS)

    def _connect(self) -> None:
        feed = self._feed
        feed.connection_changed.connect(self._connection_changed)
        feed.snapshot_taken.connect(self._snapshot_taken)
        feed.forgotten.connect(self.pages.make_anew)
        feed.not_agreed.connect(self._ask_agreement)
        for listed in (feed.lists.runs, feed.lists.presets):
            listed.failed.connect(self.show_problem)
        client = self._client_side.feed
        for one in (feed, client):
            one.answered_late.connect(self.settle)
            for signal in (one.run_changed, one.server_changed, one.clients_changed, one.services_changed):
                signal.connect(self._status.request)
        client.connection_changed.connect(self._status.request)
        client.snapshot_taken.connect(self._status.request)
        self._theme.changed.connect(self._recolour)
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_changed)
        self.navigation.chosen.connect(self.show_page)
        self.banner.acted.connect(self._banner_acted)
        self.pages.no_server.start_wanted.connect(self.start_wanted)
        self.pages.no_server.mend_wanted.connect(self.open_config)
        self.toolbar.new_run.clicked.connect(lambda: self.open_new_run())
        self.toolbar.config.clicked.connect(self.open_config)
        self.toolbar.mode_wanted.connect(self.show_mode)
        self.toolbar.servers.wanted.connect(self.show_server)
        self.toolbar.servers.add_wanted.connect(self.open_add_server)
        self.toolbar.problem.connect(self.show_problem)
        self.toolbar.quicksave.finished.connect(self._saved)
        self.toolbar.resume.clicked.connect(lambda: self.show_page(OVERVIEW))
        self.toolbar.events.chosen.connect(self._event_chosen)
        self.notifier.opened.connect(self._notification_opened)
        self.menu.invite.triggered.connect(self.open_invite)
        self.menu.welcome.triggered.connect(lambda: self.show_page(WELCOME))
        self.menu.find_anything.triggered.connect(self._find)
        self.menu.manual.triggered.connect(lambda: self.open_manual())
        self.menu.about.triggered.connect(self._show_about)
        self.menu.quit.triggered.connect(self._quit)
        self.menu.problem.connect(self.show_problem)

    def _ask_agreement(self, command: str, params: dict[str, Any], error: ApiError) -> None:
        """Ask about what a run from elsewhere would execute; after a yes, send its command again."""
        asks = error.asks
        assert asks is not None
        if "trust" not in COMMANDS[command].params.model_fields or asks.too_long:
            return  # a server may say so of anything; who sent it tells of its refusal
        trusting = params | {"trust": asks.digest}
        send = self._feed.job if COMMANDS[command].job else self._feed.call
        dialog = run_dialog(asks, lambda: send(command, trusting), self)
        dialog.accepted.connect(partial(self.settle, error.message))
        dialog.open()

    def _add_shortcuts(self) -> None:
        for name, keys in self.navigation.keys.items():
            QShortcut(keys, self, partial(self.show_page, name))
        save = QShortcut("Ctrl+Shift+S", self, self._quicksave)
        save.setContext(Qt.ShortcutContext.ApplicationShortcut)

    def _restore(self) -> None:
        self.setMinimumSize(_SMALLEST)
        self.resize(_SIZE)
        geometry = self.settings().value("window/geometry")
        if isinstance(geometry, QByteArray):
            self.restoreGeometry(geometry)
        bring_onto_screen(self)
        self._set_mode(self.mode)
        self._connection_changed(self._feed.connection)
        # While nothing is connected the commands are off, and the keyboard would be at the events.
        self.navigation.setFocus()

    def notify(
        self, level: str, text: str, detail: str = "", action: Action | None = None, about: str = ""
    ) -> None:
        """Show a message in the bar below the pages."""
        if level == "error":
            self._last_error = f"{text} {detail}"
        words, act = action if action is not None else ("", None)
        self.messages.show_notice(Notice(level, text, detail, words, act, about))

    def settle(self, about: str) -> None:
        """Take away what was said about something: it holds no longer."""
        self.messages.settle(about)

    def show_page(self, name: str, **where: Any) -> None:
        """Bring a page to the front, after the one that is shown was asked for its unsaved changes."""
        self.go_to(name, lambda: None, **where)

    def go_to(self, name: str, then: Callable[[], object], **where: Any) -> None:
        """Show a page, as `show_page` does, and do something there."""
        if name == self.pages.shown:
            self.pages.show_page(name, **where)
            then()
            return

        def go_on(leave: bool) -> None:
            if leave:
                self._show_page(name, where)
                then()
            else:
                self.navigation.show_page(self.pages.shown)

        self.pages.ask("may_leave", go_on)

    def open_new_run(
        self, overrides: Mapping[str, Any] | None = None, preset: str = "", checkpoint: str = ""
    ) -> None:
        """Open the dialog that begins a run, after the page that is shown was asked for unsaved changes."""
        from soulsgui.gui.config.new_run import NewRunDialog

        def go_on(begin: bool) -> None:
            if begin:
                dialog = NewRunDialog(self._feed, overrides, preset, checkpoint, self)
                dialog.started.connect(self._begun)
                dialog.open()

        self.pages.ask("before_run", go_on)

    def _begun(self, begun: RunPlace | SweepStatus) -> None:
        """Show the run that was begun; one that waits, and a sweep, stand among the runs."""
        from soulsgui.gui.runs.models import queued_id

        if isinstance(begun, SweepStatus):
            self.show_page(RUNS, run=begun.id)
        elif begun.run_id or not begun.queued:
            self.show_page(OVERVIEW)
        else:
            self.show_page(RUNS, run=queued_id(begun.queued[0]))

    def open_player(self, run: RunStatus | RunSummary, checkpoint: str = "") -> None:
        """Open the window in which weights of a run are watched, in place of the one that is open."""
        from soulsgui.gui.watching.player import Player

        for player in self.findChildren(Player):
            player.close()
        Player(self._feed, self, run, checkpoint, self).show()

    def open_config(self) -> None:
        """Open the editor of the configuration as a dialog; where no server can start for it, mend that."""
        broken = self._feed.connection.config
        if broken is None:
            from soulsgui.gui.config.page import ConfigDialog

            ConfigDialog(self._feed, self, self).open()
            return
        from soulsgui.gui.config.mending import MendConfigDialog

        dialog = MendConfigDialog(broken, self)
        dialog.mended.connect(self.start_wanted)
        dialog.open()

    def open_invitation(self, invitation: Invitation) -> None:
        """Ask about an invitation, on the page of client mode."""
        self._client_side.open_invitation(invitation)
        self.show_page(CLIENT)

    def open_invite(self) -> None:
        """Open the dialog that invites other computers."""
        from soulsgui.gui.clients.invite import InviteDialog

        InviteDialog(self._feed, self).open()

    def open_add_server(self) -> None:
        """Open the dialog that shows a server of another computer here."""
        dialog = AddServerDialog(self)
        dialog.added.connect(self._add_server)
        dialog.open()

    def _add_server(self, server: RemoteServer) -> None:
        others = [one for one in self._preferences.servers if one.host != server.host]
        self._preferences.keep_servers([*others, server])
        self.show_server(server)

    def show_server(self, server: RemoteServer | None) -> None:
        """Show another server, after the page that is shown was asked for its unsaved changes."""

        def go_on(leave: bool) -> None:
            if leave:
                self._preferences.shown_server = server.host if server is not None else ""
                self.server_wanted.emit(server)
                self.show_mode(Mode.SERVER)
            self.toolbar.servers.show_chosen()

        self.pages.ask("may_leave", go_on)

    def client_side(self) -> ClientSide:
        """Return what the window knows of client mode."""
        return self._client_side

    def settings(self) -> QSettings:
        """Return where this window keeps what it remembers."""
        return self._preferences.settings

    def show_mode(self, mode: Mode) -> None:
        """Show the other side of the program; nothing is stopped by it."""
        if mode is Mode.CLIENT:
            self.show_page(CLIENT)
        elif self.mode is Mode.CLIENT:
            self.show_page(self._preferences.page or WELCOME)
        self.toolbar.show_mode(self.mode)

    def _show_page(self, name: str, where: Mapping[str, Any]) -> None:
        of_mode = self._entries[name].mode or Mode.SERVER
        if of_mode is not self.mode:
            self._set_mode(of_mode)
        if of_mode is Mode.SERVER:
            self._preferences.page = name
            self._user_chose = True
        self.navigation.show_page(name)
        if self._was_shown:
            self._bring_page(name, where)

    def _bring_page(self, name: str, where: Mapping[str, Any] | None = None) -> None:
        # The server comes while one reads there: the page must not move then.
        keep_place(self.banner, name == WELCOME)
        self.pages.show_page(name, **(where or {}))
        self.end_strip.page_chosen(name)

    def _set_mode(self, mode: Mode) -> None:
        if mode is Mode.CLIENT and self.mode is Mode.SERVER:
            self._end_unused_server()
        self.mode = mode
        self._status.request()
        self._preferences.mode = mode
        self.toolbar.show_mode(mode)
        self.navigation.setVisible(mode is Mode.SERVER)
        self._show_banner()
        state = self._feed.connection.state
        # As a window that is opened in this mode does.
        takes_over = state is ConnectionState.RUNNER_GONE and self._feed.hello is None
        wanted = state is ConnectionState.WELCOME or takes_over or self._ended_unused
        if mode is Mode.SERVER and wanted and can_train():
            self._ended_unused = False
            self.start_wanted.emit()

    def _end_unused_server(self) -> None:
        """End the server that this window has started before anybody could say that he comes to help."""
        hello = self._feed.hello
        used = self._feed.remote or self._feed.status.run.id or self._feed.status.clients
        unused = self.pages.shown == WELCOME and not used
        if unused and self._feed.connection.live and hello and self._preferences.started_by_window(hello):
            self._ended_unused = True
            self._feed.call("server.shutdown")

    def _show_banner(self) -> None:
        """Show what is wrong with the server, beside its own pages alone."""
        self.banner.show_connection(self._feed.connection)
        if self.mode is Mode.CLIENT:
            self.banner.hide()

    def showEvent(self, event: QShowEvent) -> None:
        """Make the page once the window is on the screen: what it imports must not delay that."""
        super().showEvent(event)
        self.client_closer.window_shown()
        if not self._first_show_began:
            self._first_show_began = True
            QTimer.singleShot(0, self, self._make_first_page)

    def _make_first_page(self) -> None:
        self._was_shown = True
        self.first_shown.emit()
        first = CLIENT if self.mode is Mode.CLIENT else self._preferences.page
        name = first if first in self._entries else WELCOME
        self._bring_page(name)
        self.navigation.show_page(name)

    def _connection_changed(self, connection: Connection) -> None:
        self._show_banner()
        self.status_line.setEnabled(connection.live)
        self._status.request()

    def _snapshot_taken(self) -> None:
        run = self._feed.status.run
        if run_is_active(run.state) and not self._user_chose and self.mode is Mode.SERVER:
            self.show_page(OVERVIEW)
        elif self.mode is Mode.SERVER:
            self.pages.make(OVERVIEW)  # it notes when the window was looked at, whatever page is shown
        self._status.request()

    def _show_status(self) -> None:
        run, line, connection = self._feed.status.run, self.status_line, self._feed.connection
        known = not self.pages.covered and bool(run.id)
        word = run_look(run.state).word.lower()
        self.setWindowTitle(f"{run_title(run)}, {word} — SoulsGUI" if known else "SoulsGUI")
        side = self._client_side.feed
        helped = side.status.server.name if side.connection.live else ""
        if self.mode is Mode.CLIENT and (helped or side.connection.coming):
            line.setEnabled(True)
            line.show_look(client_words(side.connection, side.status, time.time()).look, helped)
            return
        line.setEnabled(connection.live)
        if connection.coming:
            line.show_look(Look("state-busy", Tone.BUSY, why_not(connection)))
        elif self.pages.covered:
            line.show_look(Look("power", Tone.IDLE, "no server runs"), socket.gethostname())
        else:
            # To who plays for others, whose run it is must be plain: not the one that is played for.
            named = connection.server if self._feed.remote else ""
            own = "This computer's own server" if self.mode is Mode.CLIENT else named or socket.gethostname()
            line.show_status(self._feed.status, own)

    def _banner_acted(self, state: ConnectionState) -> None:
        if self._feed.connection.config is not None:
            self.open_config()
        elif state is ConnectionState.REDIS_DOWN:
            self.show_page(LOGS, service="redis")
        elif state is ConnectionState.TOO_OLD:
            from soulsgui.gui.shell.update import UpdateDialog, installation, update_steps

            if (steps := update_steps([], installation())) is not None:
                UpdateDialog("The server's runner is newer than this window.", steps, self).open()
        elif state is ConnectionState.TOO_NEW:
            there = "Update SoulsGUI there, then end" if self._feed.remote else "End"
            begin = "start it again there" if self._feed.remote else "let this window start a new one"
            self.notify(
                "info",
                f"The runner was started by an older SoulsGUI. {there} it, then {begin}.",
                "Type: soulsgui shutdown. It saves the run first; Resume continues it.",
            )
        elif state in (ConnectionState.RUNNER_GONE, ConnectionState.SHUT_DOWN, ConnectionState.START_FAILED):
            self.start_wanted.emit()
        else:
            self.retry_wanted.emit()

    def _show_about(self) -> None:
        from soulsgui.gui.shell.about import AboutDialog

        AboutDialog(self._feed, self._preferences, self._last_error, self).open()

    def _find(self) -> None:
        from soulsgui.gui.shell.command_palette import CommandPalette

        CommandPalette(self._feed, self).open()

    def open_manual(
        self, page: Path | None = None, heading: str = "", over: FittingDialog | None = None
    ) -> None:
        """Open a page of the manual at a heading, or what it says of a dialog or of the page in front."""
        from soulsgui.gui.shell.manual import ManualDialog

        # Below a dialog that is modal nothing can be used, its own dialogs alone.
        around = over or self
        known = around.findChild(ManualDialog, options=Qt.FindChildOption.FindDirectChildrenOnly)
        shown = self._entries[self.pages.shown].title if self.pages.shown and page is None else ""
        section = over.section if over is not None else heading
        (known or ManualDialog(around)).open_at(section or shown, page)

    def show_problem(self, error: ApiError) -> None:
        """Say why a command was refused, and what to do."""
        notify_problem(self, error)

    def _quicksave(self) -> None:
        button = self.toolbar.quicksave
        if button.isEnabled():
            button.send()
        elif button.toolTip():
            self.notify("info", "Nothing was saved.", button.toolTip())

    def _saved(self, told: CheckpointTold) -> None:
        info = told.checkpoint
        run = self._feed.status.run.id
        self.notify(
            "success",
            f"Saved at {info.env_steps:,} environment steps.",
            action=Action("Show it", lambda: self.show_page(RUNS, run=run, checkpoint=info.id)),
        )

    def _event_chosen(self, event: Event) -> None:
        self.show_page(LOGS, service=event.service, run=event.run_id, time=event.time)

    def _notification_opened(self, event: Event) -> None:
        self.come_forward()
        self._event_chosen(event)

    def _recolour(self) -> None:
        self.navigation.recolour()
        self.toolbar.resize_icons()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+F and F5 reach the page also when the keyboard is outside of it."""
        if event.matches(QKeySequence.StandardKey.Find):
            for edit in self.pages.findChildren(FilterEdit):
                if edit.isVisible():
                    edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
                    edit.selectAll()
                    break
        elif event.matches(QKeySequence.StandardKey.Refresh):
            if (refresh := getattr(self.pages.page, "refresh", None)) is not None:
                refresh()
        else:
            super().keyPressEvent(event)

    def _focus_changed(self, old: QWidget | None, now: QWidget | None) -> None:
        """Take the keyboard from a button that got it only because what had it went or was switched off."""
        went = old is not None and not (old.isVisible() and old.isEnabled())
        if went and isinstance(now, QAbstractButton) and now.window() is self:
            self.pages.focus_page()

    def event(self, event: QEvent) -> bool:
        """After a dialog the keyboard is not at the button that opened it."""
        handled = super().event(event)
        underline_letters(self, event)
        if event.type() == QEvent.Type.WindowUnblocked and isinstance(self.focusWidget(), QAbstractButton):
            self.pages.focus_page()
        return handled

    def closeEvent(self, event: QCloseEvent) -> None:
        """Stay in the tray, or go after the run and unsaved changes were asked about."""
        event.ignore()
        self.remember()
        self.client_closer.close_window()

    def _quit(self) -> None:
        self.remember()
        self.client_closer.quit()

    def _leave(self) -> None:
        def go_on(leave: bool) -> None:
            if leave:
                self.closer.begin()

        self.pages.ask("may_leave", go_on)

    def remember(self) -> None:
        """Write down where the window stands."""
        self.settings().setValue("window/geometry", self.saveGeometry())
        self.settings().sync()

    def come_forward(self) -> None:
        """Come to the front: the program was started again."""
        if self.isMinimized():
            self.showNormal()
        self.show()
        self.raise_()
        self.activateWindow()
