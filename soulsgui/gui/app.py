"""The window as a process: set up, shown, kept alive, ended."""

import asyncio
import faulthandler
import logging
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path

import shiboken6
from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QMessageBox

from soulsgui import __version__
from soulsgui.config.paths import APP_NAME, Folders, default_data_dir
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.gui import loop
from soulsgui.gui.feed import Feed
from soulsgui.gui.icons import app_icon
from soulsgui.gui.loop import Collector
from soulsgui.gui.preferences import Mode, Preferences
from soulsgui.gui.shell import INVITATION, Action
from soulsgui.gui.shell.connector import Connector, connect_client_side
from soulsgui.gui.shell.instance import SingleInstance, take_opened
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme
from soulsgui.installing import can_train
from soulsgui.process import setup_logging, typed_command
from soulsgui.system import name_on_task_bar, stop_signals

logger = logging.getLogger(__name__)

_LOG_BYTES = 2**20
_SHOW_AFTER_MS = 2000
_RAISED, _IS_FIRST, _NOBODY_WAITS = range(3)


class WindowLog(RotatingFileHandler):
    """Loses lines without a word while the disk is full: standard error has them too."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Say what is wrong with a record, unless it is the disk."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


class UncaughtErrors(QObject):
    """Brings errors that nobody caught to the window; they may come from any thread.

    Signals:
        happened: A sentence for the user.
    """

    happened = Signal(str)

    def __call__(self, words: str, _error: BaseException) -> None:
        """Tell of an error."""
        self.happened.emit(words)


def run_window(folders: Folders, mode: Mode | None = None, opened: str = "") -> int:
    """Show the window until it is closed, or raise the one there is."""
    # Before any path is asked for: Qt makes them of these names.
    QCoreApplication.setOrganizationName(APP_NAME)
    QCoreApplication.setApplicationName(APP_NAME)
    QCoreApplication.setApplicationVersion(__version__)
    QGuiApplication.setDesktopFileName("soulsgui")
    name_on_task_bar(APP_NAME)
    app = QApplication(sys.argv[:1])
    # The end is decided by `WindowCloser`, not by the last window that is hidden.
    app.setQuitOnLastWindowClosed(False)
    instance = SingleInstance(folders)
    if not instance.claim() and not _become_first(app, instance, opened):
        return 0
    with _recorded(instance):
        code = _live(app, folders, instance, mode, opened)
    instance.release()
    return code


def _become_first(app: QApplication, instance: SingleInstance, opened: str) -> bool:
    """Bring the window there is to the front; while it is busy, say so on the screen.

    Returns:
        Whether it has ended meanwhile, so that this is the window now.
    """
    holder = instance.holder()
    words = "SoulsGUI is open already, but busy at the moment."
    box = QMessageBox(QMessageBox.Icon.Information, "SoulsGUI", words)
    box.setInformativeText(f"Its window (process {holder}) comes to the front as soon as it answers.")
    box.addButton("&Stop waiting", QMessageBox.ButtonRole.RejectRole)
    box.setWindowIcon(app_icon())
    box.finished.connect(lambda _: app.exit(_NOBODY_WAITS))
    delay = QTimer(singleShot=True, interval=_SHOW_AFTER_MS)
    delay.timeout.connect(box.show)
    delay.start()
    instance.first_raised.connect(lambda: app.exit(_RAISED))
    instance.claimed.connect(lambda: app.exit(_IS_FIRST))
    instance.raise_first(opened)
    outcome = app.exec()
    delay.stop()
    box.hide()
    if outcome == _NOBODY_WAITS:
        raise SoulsGuiError(
            f"A window (process {holder}) is open already, and does not answer.",
            "End that process, or use another --data-dir.",
        )
    return outcome == _IS_FIRST


@contextmanager
def _recorded(instance: SingleInstance) -> Iterator[None]:
    """Write the window's log, and what Python was doing when the process is struck down."""
    setup_logging()
    handler = WindowLog(instance.folder / "window.log", maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
    handler.setFormatter(logging.getLogger().handlers[0].formatter)
    logging.getLogger().addHandler(handler)
    try:
        with (instance.folder / "fault.log").open("w", encoding="utf-8") as faults:
            faulthandler.enable(faults)
            try:
                yield
            finally:
                # Before the file is closed: it would write into whatever has its number then.
                faulthandler.disable()
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


def _live(
    app: QApplication, folders: Folders, instance: SingleInstance, mode: Mode | None, opened: str = ""
) -> int:
    preferences = Preferences(folders)
    theme = Theme(app, preferences.theme)
    if preferences.font_percent != 100:
        theme.set_font_scale(preferences.font_percent)
    feed = Feed()
    window = MainWindow(feed, theme, preferences, Mode.CLIENT if opened else mode)
    errors = UncaughtErrors()
    what, calm = "Something went wrong in this window.", "Training is not affected."
    errors.happened.connect(lambda words: _tell(window, "error", what, f"{words}\n{calm}", instance.report))
    instance.raise_wanted.connect(window.come_forward)
    instance.open_wanted.connect(lambda word: _open(window, folders, word))
    if opened:
        window.first_shown.connect(lambda: _open(window, folders, opened))

    async def life() -> int:
        return await _life(window, feed, folders, preferences, instance, errors)

    with Collector():
        code = loop.run(app, life, errors)
    # Now: no event loop is left that would delete it later.
    shiboken6.delete(window)
    return code


async def _life(
    window: MainWindow,
    feed: Feed,
    folders: Folders,
    preferences: Preferences,
    instance: SingleInstance,
    errors: UncaughtErrors,
) -> int:
    """From the first show to the end of the last connection."""
    tasks = loop.Tasks(errors)
    # Who opens it to help needs no server here.
    may_start = can_train() and window.mode is Mode.SERVER
    connector = Connector(feed, folders, socket.gethostname(), tasks, may_start)
    connector.runner_started.connect(preferences.remember_runner)
    window.retry_wanted.connect(connector.try_now)
    window.start_wanted.connect(connector.start_runner)
    window.server_wanted.connect(connector.show_server)
    client = connect_client_side(window.client_side(), folders, tasks)
    # The window first: what a connection imports must not delay it.
    window.first_shown.connect(lambda: connector.open(preferences.server_to_show()))
    window.first_shown.connect(client.open)
    closed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def end(goes_on: bool) -> None:
        if not closed.done():
            closed.set_result(goes_on)

    window.closer.closed.connect(end)
    _obey_signals(window)
    window.show()
    if instance.crashed:
        what = "The window ended unexpectedly last time."
        _tell(window, "warning", what, "Training was not affected.", lambda: instance.crash_report)
    if trouble := preferences.keep():
        window.notify("warning", "This window can't remember its settings.", trouble)
    goes_on = await closed
    await tasks.cancel_all()
    if goes_on:
        command = status_command(folders)
        sys.stderr.write(f"Training continues. Open SoulsGUI again, or look at it with: {command}\n")
    return 0


def _open(window: MainWindow, folders: Folders, word: str) -> None:
    """Open an invitation in the window, which asks about it."""
    try:
        invitation = take_opened(word, folders)
    except SoulsGuiError as error:
        window.notify("error", error.message, error.remedy, about=INVITATION)
    else:
        window.open_invitation(invitation)


def status_command(folders: Folders) -> str:
    """Return what to type to see how the server of these folders does."""
    usual: Path | None = None
    with suppress(UsageError):  # who has no home has named the folders
        usual = default_data_dir()
    where = () if folders.data == usual else ("--data-dir", str(folders.data))
    return typed_command("status", *where)


def _obey_signals(window: MainWindow) -> None:
    """Close quietly when the system, or Ctrl-C in the terminal, says so."""
    running = asyncio.get_running_loop()

    def close() -> None:
        window.remember()
        window.closer.begin_quietly()

    for number in stop_signals():
        # Windows ends programs without a console by closing their windows.
        with suppress(NotImplementedError):
            running.add_signal_handler(number, close)


def _tell(window: MainWindow, level: str, what: str, detail: str, report: Callable[[], str]) -> None:
    copy = Action("Copy report", lambda: QGuiApplication.clipboard().setText(report()))
    window.notify(level, what, detail, copy)
