"""Closing the window: asks about the run and the help for a server; nothing unwanted is left running."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QLabel, QPushButton, QWidget

from soulsgui.gui import text
from soulsgui.gui.client_mode.runner import ClientSide
from soulsgui.gui.feed import Call, Feed
from soulsgui.gui.models.connection import Connection
from soulsgui.gui.models.rules import run_title
from soulsgui.gui.preferences import AtClosing, AtLeaving, Preferences
from soulsgui.gui.shell import tray as trays
from soulsgui.gui.states import run_is_active
from soulsgui.gui.widgets.command_button import CommandButton, Stage, Words
from soulsgui.gui.widgets.dialog import FittingDialog
from soulsgui.gui.widgets.labels import Heading, muted, wrapped
from soulsgui.wire.control import ApiError, RunStatus

_SHUTDOWN_TIMEOUT_S = 5.0
_COMING_LIMIT_MS = 10_000
_TITLE = "Close SoulsGUI"
_CHARACTERS = 62


@dataclass(frozen=True)
class Ending:
    """How the window is to end: asking about the run, or stopping it unasked; with its runner or without."""

    ask: bool = False
    stop_run: bool = False
    shut_down: bool = False


def ending(connection: Connection, run: RunStatus, ours: bool, remembered: AtClosing) -> Ending:
    """Return how the window is to end; the runner is `ours` where a window started it."""
    if not connection.live:
        return Ending()
    if not run_is_active(run.state) or remembered is AtClosing.KEEP:
        return Ending(shut_down=ours and not run_is_active(run.state))
    if remembered is AtClosing.STOP:
        return Ending(stop_run=True, shut_down=ours)
    return Ending(ask=True, shut_down=ours)


class Leaving(StrEnum):
    """What becomes of a window that is closed while this computer helps."""

    ASK = "ask"
    TRAY = "tray"
    CLOSE = "close"


def leaving(playing: bool, has_tray: bool, remembered: AtLeaving) -> Leaving:
    """Return what becomes of a window that is closed."""
    if not playing or remembered is AtLeaving.QUIT:
        return Leaving.CLOSE
    return Leaving.TRAY if has_tray and remembered is AtLeaving.TRAY else Leaving.ASK


class _LastQuestion(FittingDialog):
    """Asks what is to go on without the window.

    Signals:
        decided: With what is wanted, an `AtClosing` or `AtLeaving`.
    """

    decided = Signal(object)

    def ask(self, heading: str, words: tuple[QLabel, ...], end: QPushButton, main: QPushButton) -> None:
        """Show the question: `end` at the left, and `main`, which Enter presses."""
        foot = self.foot(end, main=[main], leave="&Cancel")
        self.remember = QCheckBox("&Remember this; Settings (Ctrl+,) changes it", self)
        self.arrange(Heading(heading, 1, self), *words, self.remember, foot=foot, characters=_CHARACTERS)
        main.setFocus()

    def decide(self, choice: AtClosing | AtLeaving) -> None:
        """Tell what is wanted, and go."""
        self.decided.emit(choice)
        self.accept()


class ClosingDialog(_LastQuestion):
    """Stop the run and quit, keep training, or stay; it goes when the run has ended meanwhile."""

    def __init__(self, feed: Feed, parent: QWidget | None = None) -> None:
        super().__init__("closingDialog", _TITLE, parent)
        self._feed = feed
        words = Words("&Stop run and quit", "Saving and ending the run …", "Stopped")
        self.stop = CommandButton(words, "stop", self._send, self)
        self.stop.finished.connect(lambda _: self.decide(AtClosing.STOP))
        self.stop.problem.connect(self._failed)
        self.keep = QPushButton("&Keep training", self)
        self.keep.clicked.connect(lambda: self.decide(AtClosing.KEEP))
        run = feed.status.run
        saved = "Stopping saves first."
        if run.checkpoint_age_s is not None:
            saved = f"Its last checkpoint is {text.about(run.checkpoint_age_s)} old; stopping saves first."
        told = [f"“{run_title(run)}” continues in the background if you let it. {saved}"]
        if waiting := len(feed.status.queue):
            which = text.plural(waiting, "The run in the queue follows", "The {n} runs in the queue follow")
            told.append(f"{which} then; if you stop it, at the next start of SoulsGUI.")
        cost = wrapped(" ".join(told), self)
        later = muted(wrapped("To come back, open SoulsGUI again.", self))
        self.ask("A run is active", (cost, later), self.stop, self.keep)
        self._run = run.id
        feed.run_changed.connect(self._look)
        feed.snapshot_taken.connect(self._look)

    def _look(self) -> None:
        run = self._feed.status.run
        asked = run.id == self._run and run_is_active(run.state)
        if not asked and self.stop.stage is not Stage.RUNNING:
            self.reject()

    def _send(self) -> Call:
        self.wrong.hide()
        self.keep.setEnabled(False)
        return self._feed.call("run.stop")

    def _failed(self, error: ApiError) -> None:
        self.keep.setEnabled(True)
        self.show_problem(error)
        self._look()


class LeavingDialog(_LastQuestion):
    """Stay in the tray and keep playing, quit after the episode, or keep the window.

    What was begun in a terminal does not end with the window. Where there is no tray, nothing is said of it.
    """

    def __init__(self, ends_with_window: bool = True, parent: QWidget | None = None) -> None:
        super().__init__("leavingDialog", _TITLE, parent)
        self.stay = QPushButton("&Stay in the tray", self)
        self.stay.clicked.connect(lambda: self.decide(AtLeaving.TRAY))
        self.quit = QPushButton("&Quit", self)
        self.quit.clicked.connect(lambda: self.decide(AtLeaving.QUIT))
        tray = wrapped(
            "In the tray it keeps playing. The icon there says how it is; a click on it brings the window "
            "back, and its menu pauses, stops and quits.",
            self,
        )
        quitting = wrapped(
            "If you quit, it ends its episode and stops helping: nothing plays unseen."
            if ends_with_window
            else "It was started in a terminal (soulsgui join): if you quit, it keeps playing there. "
            "There, or with `soulsgui join stop`, it ends.",
            self,
        )
        self.ask("This computer is helping to train", (tray, quitting), self.quit, self.stay)
        if not trays.has_tray():
            for part in (tray, self.stay, self.remember):
                part.hide()
            self.quit.setDefault(True)


class WindowCloser(QObject):
    """Ends the window, after a question about the run if there is one.

    Signals:
        closed: The window may go; True when training goes on without it.
    """

    closed = Signal(bool)

    def __init__(self, feed: Feed, preferences: Preferences, window: QWidget) -> None:
        super().__init__(window)
        self._feed = feed
        self._preferences = preferences
        self._window = window
        self.dialog: ClosingDialog | None = None
        self._shut_down = False
        self._ends = False
        self._limit_timer = QTimer(self, singleShot=True, interval=_COMING_LIMIT_MS)
        self._limit_timer.timeout.connect(lambda: self._end(shut_down=False, goes_on=False))
        feed.connection_changed.connect(self._connection_changed)

    def begin(self) -> None:
        """Close the window, after a question if there is one."""
        if self.dialog is None and self._connection_is_known():
            how = self._ending(self._preferences.at_closing)
            if not (how.ask or how.stop_run):
                self._end(how.shut_down, goes_on=self._run_is_active())
                return
            self.dialog = dialog = ClosingDialog(self._feed, self._window)
            self._shut_down = how.shut_down
            dialog.decided.connect(self._decided)
            dialog.destroyed.connect(self._forget_dialog)
            dialog.open()
            if how.stop_run:
                # As it was remembered, without a question.
                dialog.remember.hide()
                dialog.stop.send()

    def begin_quietly(self) -> None:
        """Close the window because the system says so: a run goes on, nobody is asked."""
        if self._connection_is_known():
            self._end(self._ending(AtClosing.KEEP).shut_down, goes_on=self._run_is_active())

    def _connection_is_known(self) -> bool:
        """Whether the end can begin; else a runner that just starts is waited for, not to be left behind."""
        if self._ends:
            return False
        on_the_way = not self._feed.remote and self._feed.connection.coming
        if on_the_way:
            self._window.hide()
            if not self._limit_timer.isActive():
                self._limit_timer.start()
        return not on_the_way

    def _connection_changed(self) -> None:
        if self._limit_timer.isActive() and not self._feed.connection.coming:
            self._limit_timer.stop()
            self.begin_quietly()

    def _run_is_active(self) -> bool:
        # One of another computer goes on unasked.
        return (
            self._feed.connection.live
            and not self._feed.remote
            and run_is_active(self._feed.status.run.state)
        )

    def _ending(self, remembered: AtClosing) -> Ending:
        if self._feed.remote:
            return Ending()
        hello = self._feed.hello
        ours = hello is not None and self._preferences.started_by_window(hello)
        return ending(self._feed.connection, self._feed.status.run, ours, remembered)

    def _decided(self, choice: AtClosing) -> None:
        if self.dialog is not None and self.dialog.remember.isChecked():
            self._preferences.at_closing = choice
        keep = choice is AtClosing.KEEP
        self._end(self._shut_down and not keep, goes_on=keep)

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _end(self, shut_down: bool, goes_on: bool) -> None:
        self._ends = True
        self._window.hide()
        if not shut_down:
            self.closed.emit(goes_on)
            return
        call = self._feed.call("server.shutdown", timeout_s=_SHUTDOWN_TIMEOUT_S)
        for signal in (call.done, call.failed, call.silent):
            signal.connect(self._shut)

    def _shut(self) -> None:
        self.closed.emit(False)


class ClientWindowCloser(QObject):
    """Decides what becomes of a window that is closed while this computer helps: it asks, stays, or ends."""

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
        self.dialog: LeavingDialog | None = None
        self.tray: trays.Tray | None = None

    def close_window(self) -> None:
        """Close the window as its owner wants: it ends, stays in the tray, or asks."""
        if self.dialog is not None:
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
        if self.tray is not None and self.tray.shown:
            # What is asked before the end needs a window to stand in.
            self._come_back()
        self._end()

    def window_shown(self) -> None:
        """The window is back."""
        if self.tray is not None:
            self.tray.hide()

    def _ask(self) -> None:
        hello = self._side.feed.hello
        self.dialog = dialog = LeavingDialog(hello is None or hello.ends_with_window, self._window)
        dialog.decided.connect(self._decided)
        dialog.finished.connect(self._forget_dialog)
        dialog.open()

    def _decided(self, choice: AtLeaving) -> None:
        if self.dialog is not None and self.dialog.remember.isChecked():
            self._preferences.at_leaving = choice
        if choice is AtLeaving.TRAY:
            self._go_to_tray()
        else:
            self.quit()

    def _forget_dialog(self, _result: int) -> None:
        self.dialog = None

    def _go_to_tray(self) -> None:
        if self.tray is None:
            self.tray = trays.Tray(self._side, self._server, self._window)
            self.tray.show_wanted.connect(self._come_back)
            self.tray.quit_wanted.connect(self.quit)
        self._window.hide()
        self.tray.show()
