"""Pausing the client of this computer: now, after its episode, for a time; and going on."""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from soulsgui.gui.calls import Call
from soulsgui.gui.feed import Feed
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.client_mode import (
    ClientWords,
    why_not_pause,
    why_not_pause_for,
    why_not_pause_later,
    why_not_resume,
)
from soulsgui.gui.widgets.button_menu import give_menu
from soulsgui.gui.widgets.command_button import CommandButton, Words
from soulsgui.gui.widgets.fitting_row import FittingRow

_GAP_PX = 8
_HALF_AN_HOUR_S = 1800.0
_AN_HOUR_S = 3600.0


class PauseForButton(CommandButton):
    """Opens a menu of times to pause for, and sends the chosen one.

    Args:
        send: Sends a pause of so many seconds.
        parent: The widget it stands in.
    """

    def __init__(self, send: Callable[[float], Call], parent: QWidget | None = None) -> None:
        self._send_pause = send
        self._chosen_s = _HALF_AN_HOUR_S
        words = Words(tr("Pa&use for"), tr("Pausing …"), tr("Paused"))
        super().__init__(words, "pause", lambda: self._send_pause(self._chosen_s), parent)
        menu = QMenu(self)
        for title, seconds in ((tr("30 &minutes"), _HALF_AN_HOUR_S), (tr("1 &hour"), _AN_HOUR_S)):
            menu.addAction(title).triggered.connect(partial(self._choose, seconds))
        give_menu(self, menu)

    @property
    def choices(self) -> Sequence[QAction]:
        """The times there are, the shortest first."""
        return self.menu().actions()

    def _choose(self, seconds: float) -> None:
        self._chosen_s = seconds
        self.send()


class PauseRow(FittingRow):
    """The buttons of the owner's pause.

    Signals:
        problem: Something could not be done; with the `ApiError`.

    Args:
        feed: The runner of client mode.
        client: Tells the client's id.
        parent: The widget it stands in.
    """

    problem = Signal(object)

    def __init__(self, feed: Feed, client: Callable[[], str], parent: QWidget | None = None) -> None:
        super().__init__(_GAP_PX, parent)
        self._feed = feed
        self._client = client
        now = Words(tr("&Pause now"), tr("Pausing …"), tr("Paused"))
        later = Words(tr("Pause &after this episode"), tr("Asking …"), tr("Pauses after this episode"))
        on = Words(tr("&Resume"), tr("Resuming …"), tr("Resumed"))
        self.now = CommandButton(now, "pause", self._pause, self)
        self.later = CommandButton(later, "state-draining", lambda: self._pause(after_episode=True), self)
        self.for_a_time = PauseForButton(lambda seconds: self._pause(for_s=seconds), self)
        self.resume = CommandButton(on, "play", self._resume, self)
        for button in (self.now, self.later, self.for_a_time, self.resume):
            button.problem.connect(self.problem)
            self.row.addWidget(button)
        self.row.setAlignment(Qt.AlignmentFlag.AlignRight)
        # What is done now, and what undoes it, keep their words longest.
        self.let_give_way((self.now, self.resume, self.for_a_time, self.later))

    def show_words(self, words: ClientWords) -> None:
        """Allow what makes sense in this state."""
        for button, why in (
            (self.now, why_not_pause(words)),
            (self.later, why_not_pause_later(words)),
            (self.for_a_time, why_not_pause_for(words)),
            (self.resume, why_not_resume(words)),
        ):
            button.allow(not why, why)

    def _pause(self, after_episode: bool = False, for_s: float | None = None) -> Call:
        params = {"client": self._client(), "after_episode": after_episode}
        return self._feed.call("clients.pause", params if for_s is None else params | {"for_s": for_s})

    def _resume(self) -> Call:
        return self._feed.call("clients.resume", {"client": self._client()})
