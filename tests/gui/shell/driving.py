"""The window's asyncio in tests: it runs whenever Qt's event loop does, as under `qtbot.waitUntil`."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from PySide6.QtWidgets import QApplication

from soulsgui.config.paths import Folders
from soulsgui.gui.feed import Feed
from soulsgui.gui.loop import Tasks, close_loop, new_loop
from soulsgui.gui.models.connection import ConnectionState
from soulsgui.gui.preferences import Preferences
from soulsgui.gui.shell.connector import Connector, SleepWatch
from soulsgui.gui.shell.window import MainWindow
from soulsgui.gui.theme import Theme
from soulsgui.gui.widgets.message_bar import MessageBar
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import ControlFile
from tests.faults.waiting import LIMIT_S


def close_messages(bar: MessageBar) -> None:
    """Close all messages, whose timers would outlive the test."""
    for row in list(bar.rows):
        row.expire()


def fail_loudly(words: str, error: BaseException) -> None:
    raise AssertionError(words) from error


@contextmanager
def qt_asyncio(qapp: QApplication) -> Iterator[asyncio.AbstractEventLoop]:
    """Let coroutines run while Qt's event loop does; errors nobody caught fail the test at the end."""
    loop = new_loop(qapp)
    # As `run_forever` does; but here it is the test that runs Qt's loop, now and then.
    asyncio._set_running_loop(loop)
    errors: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    try:
        yield loop
    finally:
        asyncio._set_running_loop(None)
        close_loop(loop)
    assert not errors, errors


def control_of(folders: Folders) -> ControlFile:
    return ControlFile.load(folders.server / CONTROL_FILE)


def write_control(folders: Folders, control: ControlFile) -> None:
    """Put it there in one step, as a runner does."""
    folders.server.mkdir(parents=True, exist_ok=True)
    fresh = folders.server / "fresh"
    fresh.write_text(control.to_json())
    fresh.replace(folders.server / CONTROL_FILE)


def until(qapp: QApplication, done: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
    from PySide6.QtCore import QDeadlineTimer, QEventLoop

    deadline = QDeadlineTimer(round(limit_s * 1000))
    while not done():
        assert not deadline.hasExpired(), f"not within {limit_s:g} s: {what}"
        qapp.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents, 20)


@contextmanager
def connected_feed(qapp: QApplication, folders: Folders) -> Iterator[Feed]:
    """A feed that is connected to the running server of these folders; use it within `qt_asyncio`."""
    tasks = Tasks(fail_loudly)
    feed = Feed()
    connector = Connector(feed, folders, "this computer", tasks, may_start=False)
    connector.open()
    try:
        until(qapp, lambda: feed.connection.live, "the feed is connected")
        yield feed
    finally:
        finish(qapp, tasks)


def finish(qapp: QApplication, tasks: Tasks) -> None:
    """End all coroutines and what they hold open."""
    ending = asyncio.ensure_future(tasks.cancel_all())
    until(qapp, ending.done, "the coroutines end", LIMIT_S)


class OpenedWindow:
    """A window with its connection, as the program has it (`soulsgui.gui.app`)."""

    def __init__(
        self,
        qapp: QApplication,
        theme: Theme,
        folders: Folders,
        may_start: bool = False,
        sleep: SleepWatch | None = None,
    ) -> None:
        self.qapp, self.folders = qapp, folders
        self.tasks, self.feed = Tasks(fail_loudly), Feed()
        self.window = MainWindow(self.feed, theme, Preferences(folders))
        connector = Connector(self.feed, folders, "my-server", self.tasks, may_start, sleep)
        self.window.retry_wanted.connect(connector.try_now)
        self.window.start_wanted.connect(connector.start_runner)
        self.window.server_wanted.connect(connector.show_server)
        self.window.first_shown.connect(connector.open)
        self.window.show()

    def until(self, done: Callable[[], object], what: str) -> None:
        until(self.qapp, done, f"{what}; {self.feed.connection}")

    def until_state(self, state: ConnectionState) -> None:
        self.until(lambda: self.feed.connection.state is state, state)

    def until_live(self) -> None:
        self.until(lambda: self.feed.connection.live, "the window is connected")

    def close(self) -> None:
        finish(self.qapp, self.tasks)
        close_messages(self.window.messages)
        self.window.hide()
        self.window.deleteLater()
