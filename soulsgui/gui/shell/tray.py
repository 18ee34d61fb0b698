"""The icon that stands for the window while it is away and this computer plays on."""

import time
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QIcon, QPainter
from PySide6.QtWidgets import QMenu, QSystemTrayIcon, QWidget

from soulsgui.gui.client_mode.runner import START_TIMEOUT_S, ClientSide
from soulsgui.gui.client_mode.state import ClientWords, client_words, pause_refusals, run_has_ended
from soulsgui.gui.colours import LIGHT, Colours
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import app_icon, dress, icon, palette_colours, pixmap, qcolor
from soulsgui.gui.models.connection import Connection, why_not
from soulsgui.gui.states import Look
from soulsgui.gui.text import tip, unmarked
from soulsgui.gui.widgets.command_button import allow
from soulsgui.wire.control import ApiError
from soulsgui.wire.control.states import CLIENT

_SHOW_MS = 500
_SIZES_PX = (16, 22, 24, 32, 48, 64)
_MARK_PART = 0.6


def has_tray() -> bool:
    """Whether the desktop has a tray at this moment."""
    return QSystemTrayIcon.isSystemTrayAvailable()


def why_no_tray() -> str:
    """Return why the window can't stay in the tray; empty when it can."""
    ends = "This desktop has no tray: once the window is closed, this computer stops helping."
    return "" if has_tray() else ends


def why_off(words: ClientWords, connection: Connection) -> tuple[str, str, str]:
    """Return why the help can't be paused, go on or be stopped from the tray; empty where it can."""
    off = "" if words.on else "This computer does not help at present."
    refusals = pause_refusals(words)
    cut = why_not(connection)
    return (cut, cut, cut) if cut else (refusals.now, refusals.resume, off)


def state_icon(look: Look, colours: Colours) -> QIcon:
    """Return the program's icon with the mark of a state in its lower right corner."""
    made = QIcon()
    base = app_icon()
    for size in _SIZES_PX:
        picture = base.pixmap(size, size)
        edge = round(size * _MARK_PART)
        corner = size - edge
        with QPainter(picture) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(qcolor(colours.card))
            painter.drawEllipse(corner, corner, edge, edge)
            inset = max(edge // 8, 1)
            mark = pixmap(look.icon, colours.tones[look.tone], edge - 2 * inset)
            painter.drawPixmap(corner + inset, corner + inset, mark)
        made.addPixmap(picture)
    return made


class Tray(QObject):
    """The icon in the tray with its menu: show, pause, resume, stop, quit.

    Signals:
        show_wanted: The window is to come back.
        quit_wanted: The program is to end.
    """

    show_wanted = Signal()
    quit_wanted = Signal()

    def __init__(self, side: ClientSide, server: Feed, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._side = side
        self._feed = side.feed
        self._server = server
        self._look: Look | None = None
        self.icon = QSystemTrayIcon(self)
        self.icon.activated.connect(self._activated)
        self.menu = QMenu(parent)
        self.menu.setToolTipsVisible(True)
        self._fill()
        self.icon.setContextMenu(self.menu)
        self._timer = QTimer(self, singleShot=True, interval=_SHOW_MS)
        self._timer.timeout.connect(self._update)
        feed = self._feed
        parts = (feed.run_changed, feed.services_changed, feed.server_changed, feed.clients_changed)
        for signal in (feed.connection_changed, feed.snapshot_taken, *parts):
            signal.connect(self._changed)

    def _fill(self) -> None:
        self.state = self._add("", "", self.show_wanted.emit)
        self.menu.addSeparator()
        self._add("&Show SoulsGUI", "", self.show_wanted.emit)
        self.pause = self._add("&Pause", "pause", self._pause)
        self.resume = self._add("&Resume", "resume", self._resume)
        self.stop = self._add("S&top helping", "stop", self._stop)
        self.menu.addSeparator()
        self.quit = self._add("&Quit", "", self.quit_wanted.emit)

    def _add(self, words: str, mark: str, act: Callable[[], None]) -> QAction:
        action = self.menu.addAction(words)
        if mark:
            dress(action, mark)
        action.triggered.connect(lambda: act())
        return action

    @property
    def shown(self) -> bool:
        """Whether the icon stands for the window now."""
        return self.icon.isVisible()

    def show(self) -> None:
        """Stand for the window, which is away."""
        self._update()
        self.icon.show()

    def hide(self) -> None:
        """Go: the window is back."""
        self._timer.stop()
        self.icon.hide()

    def _changed(self) -> None:
        if self.shown and not self._timer.isActive():
            self._timer.start()

    def _update(self) -> None:
        connection, status = self._feed.connection, self._feed.status
        ended = run_has_ended(self._server.connection, self._server.status.run, status.run.id)
        words = client_words(connection, status, time.time(), ended, self._side.on_wanted)
        self.state.setText(words.look.word)
        self.icon.setToolTip(tip(f"SoulsGUI: {words.look.word}"))
        actions = (self.pause, self.resume, self.stop)
        for action, why in zip(actions, why_off(words, connection), strict=True):
            allow(action, why)
        if words.look != self._look:
            self._look = words.look
            # A tray has colours of its own; the mark stands on a disc that it brings along.
            self.icon.setIcon(state_icon(words.look, LIGHT))
            colours = palette_colours(self.menu.palette())
            self.state.setIcon(icon(words.look.icon, colours, words.look.tone))

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        kinds = QSystemTrayIcon.ActivationReason
        if reason in (kinds.Trigger, kinds.DoubleClick, kinds.MiddleClick):
            self.show_wanted.emit()

    def _client(self) -> str:
        clients = self._feed.status.clients
        return clients[0].id if clients else ""

    def _pause(self) -> None:
        self._send("clients.pause", {"client": self._client(), "after_episode": False})

    def _resume(self) -> None:
        self._send("clients.resume", {"client": self._client()})

    def _stop(self) -> None:
        self._side.stay_off()
        self._send("service.stop", {"name": CLIENT}, START_TIMEOUT_S)

    def _send(self, command: str, params: dict[str, Any], timeout_s: float | None = None) -> None:
        self._feed.call(command, params, timeout_s).tell_problem(self._refused)

    def _refused(self, error: ApiError) -> None:
        kind = QSystemTrayIcon.MessageIcon.Warning
        self.icon.showMessage(unmarked(error.message), unmarked(error.remedy), kind)
